"""A model's actor as a policy: only its own parameters, and nothing that acts otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.torch_layers import MlpExtractor
from torch import Tensor, nn

import handrail as hr
from handrail._types import Array
from handrail.policies import Layers, Residual, Scaler
from handrail.sb3.callback import Handrail
from handrail.sb3.policy import policy_of
from tests.support.sb3_models import (
    CARTPOLE,
    CARTPOLE_STATES,
    REFUSED,
    REQUIRED,
    TILTED,
    Glance,
    Numbers,
    Pictures,
    Two,
    Watch,
    at_least,
    changed,
    parameters,
    ppo,
    probabilities,
    values,
    with_extractor,
)

MODELS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "tanh": (Numbers, "MlpPolicy", {}),
    "relu": (
        Numbers,
        "MlpPolicy",
        {"activation_fn": nn.ReLU, "net_arch": {"pi": [48], "vf": [8, 24]}},
    ),
    "not orthogonal": (Numbers, "MlpPolicy", {"ortho_init": False, "activation_fn": nn.ELU}),
    "linear": (Numbers, "MlpPolicy", {"net_arch": []}),
    "two axes": (lambda: Numbers((3, 2)), "MlpPolicy", {}),
    "flat picture": (Pictures, "MlpPolicy", {}),
    "shared extractor": (Numbers, "MlpPolicy", {"features_extractor_class": Two}),
    "own extractor": (
        Numbers,
        "MlpPolicy",
        {"features_extractor_class": Two, "share_features_extractor": False},
    ),
    "shared pictures": (Pictures, "CnnPolicy", {}),
    "own pictures": (
        Pictures,
        "CnnPolicy",
        {"features_extractor_class": Glance, "share_features_extractor": False},
    ),
    "own large pictures": (Pictures, "CnnPolicy", {"share_features_extractor": False}),
}
LONG = "own large pictures"  # a minute


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=pytest.mark.slow if one == LONG else ()) for one in MODELS]
)
class TestOnlyTheActor:
    def make(self, name: str) -> tuple[PPO, Array]:
        env, policy, settings = MODELS[name]
        model = ppo(env(), policy, policy_kwargs=settings)
        shape = model.observation_space.shape or ()
        rng = np.random.default_rng(0)
        picture = len(shape) == 3
        states = rng.integers(0, 256, (2, *shape)) if picture else rng.normal(size=(2, *shape))
        return model, states.astype(np.float64)

    def test_enforcement(self, name: str) -> None:
        model, states = self.make(name)
        elsewhere = np.random.default_rng(1).normal(size=(32, *states.shape[1:])) * 100.0
        says, before = values(model, elsewhere), parameters(model)
        objects = list(model.policy.parameters())
        hr.enforce(policy_of(model), at_least(states), tolerance=1e-5).raise_if_unsatisfied()
        acts = probabilities(model, states)
        assert acts[[0, 1], [0, 1]].min() >= 0.9 - REQUIRED
        assert torch.equal(values(model, elsewhere), says)
        moved = changed(model, before)
        own: tuple[str, ...] = ("mlp_extractor.policy_net", "action_net")
        if name.startswith("own"):
            own += ("pi_features_extractor", "features_extractor")
        assert moved
        assert all(one.startswith(own) for one in moved)
        same = zip(model.policy.parameters(), objects, strict=True)
        assert all(one is other for one, other in same)

    def test_it_is_the_policy_of_the_model(self, name: str) -> None:
        model, states = self.make(name)
        policy = policy_of(model)
        expected = probabilities(model, states)
        np.testing.assert_allclose(policy.outputs(states), expected, atol=1e-6)
        copied = policy.in_float64(states)
        assert copied.dtype == torch.float64
        np.testing.assert_allclose(copied.outputs(states), expected, atol=1e-5)

    def test_learning(self, name: str) -> None:
        model, states = self.make(name)
        callback, watch = Handrail(at_least(states)), Watch(states)
        model.learn(128, callback=[callback, watch])
        assert np.stack(watch.seen)[:, [0, 1], [0, 1]].min() >= 0.9 - REQUIRED
        assert probabilities(model, states)[[0, 1], [0, 1]].min() >= 0.9 - REQUIRED


def test_plain_networks_stay_plain() -> None:
    assert type(policy_of(ppo()).module) is nn.Sequential
    certificate = hr.certify(policy_of(ppo()), hr.AtLeast(0.1, 1, TILTED))
    assert certificate.certified


def test_scalings_and_ranges_in_the_networks_of_a_model_are_inside_proofs() -> None:
    """Means that stay within ±2 of a pendulum's torque, of scaled observations."""
    model = PPO("MlpPolicy", "Pendulum-v1", seed=0, device="cpu", policy_kwargs={"net_arch": [16]})
    network = model.policy.mlp_extractor.policy_net
    model.policy.mlp_extractor.policy_net = nn.Sequential(
        Scaler([1.0, 1.0, 0.125], [0.0, 0.0, 0.0]), *network
    )
    last = model.policy.action_net
    model.policy.action_net = nn.Sequential(last, nn.Tanh(), Scaler([2.0], [0.0]))
    policy = policy_of(model)
    assert isinstance(Layers.of(policy.module), Layers)
    box = hr.Box([0.9, -0.4, -1.0], [1.0, 0.4, 1.0])
    assert hr.certify(policy, hr.AtMost(2.0, hr.Mean(0), box)).certified
    gentle = hr.Between(0.5, 1.5, hr.Mean(0), box, name="push")
    assert hr.enforce(policy, [gentle], prove=True).raise_if_unsatisfied().proven
    states = box.sample(1000, np.random.default_rng(0)).astype(np.float32)
    acts = model.predict(states, deterministic=True)[0]
    assert acts.min() >= 0.5 - REQUIRED
    assert acts.max() <= 1.5 + REQUIRED


def test_a_residual_in_the_network_of_a_model_is_held_but_not_looked_into() -> None:
    """Its sum is not the last thing before the action: a proof says so, a search holds it."""
    model = ppo(policy_kwargs={"net_arch": [4], "ortho_init": False})
    extractor: Any = model.policy.mlp_extractor
    extractor.policy_net = Residual(extractor.policy_net, np.eye(4), np.zeros(4))
    policy = policy_of(model)
    rule = hr.AtLeast(0.7, 1, TILTED, name="right")
    with pytest.raises(hr.errors.InvalidPolicy, match="a Residual does not end with the last Lin"):
        hr.certify(policy, rule)
    hr.enforce(policy, [rule]).raise_if_unsatisfied()
    states = TILTED.sample(500, np.random.default_rng(0))
    assert probabilities(model, states)[:, 1].min() >= 0.7 - REQUIRED


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    make, message = REFUSED[name]
    model = make()
    with pytest.raises(hr.errors.InvalidPolicy, match=message):
        policy_of(model)


def test_a_network_of_ones_own_that_acts_by_its_layers_is_none_of_these() -> None:
    model = ppo(policy=with_extractor(MlpExtractor))
    hr.enforce(policy_of(model), CARTPOLE, tolerance=1e-5).raise_if_unsatisfied()
    assert probabilities(model, CARTPOLE_STATES)[[0, 1], [0, 1]].min() >= 0.95 - REQUIRED


def test_the_noise_is_that_of_the_model() -> None:
    model = ppo("Pendulum-v1")
    policy = policy_of(model)
    other = policy.with_module(policy.module)
    assert isinstance(policy, hr.GaussianPolicy)
    assert isinstance(other, hr.GaussianPolicy)
    assert policy.std.tolist() == [1.0]
    network: Any = model.policy
    network.log_std.data += 1.0
    for one in (policy, other, policy_of(model)):
        assert isinstance(one, hr.GaussianPolicy)
        np.testing.assert_allclose(one.std, np.e, rtol=1e-6)


class TestHooks:
    """What acts must be what is measured: PyTorch runs hooks of whatever is called."""

    @staticmethod
    def spoil(module: nn.Module, inputs: Any, outputs: Any) -> Any:
        return outputs * 0.0 if isinstance(outputs, Tensor) else outputs

    @pytest.mark.parametrize("where", ["mlp_extractor", "mlp_extractor.policy_net", ""])
    def test_around_the_layers(self, where: str) -> None:
        model = ppo()
        container = model.policy.get_submodule(where)
        container.register_forward_hook(self.spoil)
        name = where.rpartition(".")[2] or "ActorCriticPolicy"
        with pytest.raises(hr.errors.InvalidPolicy, match=f"{name} has a forward hook, so the mod"):
            policy_of(model)

    def test_of_a_layer(self) -> None:
        """It belongs to the layer, and so to the policy."""
        model = ppo()
        states = np.random.default_rng(0).normal(size=(5, 4))
        network: Any = model.policy
        network.action_net.register_forward_hook(lambda _, __, outputs: outputs + outputs**2)
        found = policy_of(model).outputs(states)
        np.testing.assert_allclose(found, probabilities(model, states), atol=1e-6)


def test_a_hook_set_later_is_seen() -> None:
    """The model refuses to be read again; the policy that was read answers by what acts."""
    model = ppo()
    policy = policy_of(model)
    states = np.random.default_rng(0).normal(size=(5, 4))
    before = policy.outputs(states)
    model.policy.mlp_extractor.policy_net.register_forward_hook(lambda _, __, output: 3.0 * output)
    assert np.abs(policy.outputs(states) - before).max() > 1e-3
    assert policy.layers() is None
    with pytest.raises(hr.errors.InvalidPolicy, match=r"layer '0', Sequential, has a hook"):
        hr.certify(policy, hr.AtLeast(0.1, 1, TILTED))
    with pytest.raises(hr.errors.InvalidPolicy, match="policy_net has a forward hook"):
        policy_of(model)
