"""Stable-Baselines3: the policy that acts obeys, the critic notices nothing."""

from __future__ import annotations

import base64
import copy
import csv
import itertools
import json
import pickle
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from sb3_contrib import TRPO, MaskablePPO, RecurrentPPO
from stable_baselines3 import A2C, DQN, PPO, SAC
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback, CallbackList, EveryNTimesteps
from stable_baselines3.common.distributions import (
    CategoricalDistribution,
    SquashedDiagGaussianDistribution,
)
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import configure
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import MlpExtractor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from torch import Tensor, nn

import handrail as hr
from handrail._types import Array
from handrail.constraints.expansion import expand
from handrail.constraints.violations import measure_fresh
from handrail.enforcement.targets import Targets
from handrail.sb3.callback import Handrail
from handrail.sb3.file import load
from handrail.sb3.policy import policy_of
from handrail.sb3.pressure import shortfall_gradient
from tests.conftest import small_policy
from tests.support.sb3_models import (
    CARTPOLE,
    CARTPOLE_STATES,
    Masked,
    Numbers,
    Pictures,
    Two,
    at_least,
    ppo,
    probabilities,
    values,
)

REQUIRED = 1e-4  # of any policy that acts
TILTED = hr.Box([-0.5, -0.5, 0.1, 0.3], [0.5, 0.5, 0.2, 0.6])


def parameters(model: BaseAlgorithm) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.policy.named_parameters()}


def changed(model: BaseAlgorithm, before: dict[str, Tensor]) -> set[str]:
    return {name for name, p in model.policy.named_parameters() if not torch.equal(p, before[name])}


class Watch(BaseCallback):
    """What the policy would do at some states, at every step it acts."""

    def __init__(self, states: Array) -> None:
        super().__init__()
        self.states = states
        self.seen: list[Array] = []

    def _on_step(self) -> bool:
        self.seen.append(probabilities(self.model, self.states))
        return True


class WatchStart(BaseCallback):
    """What the policy would do at some states, when something starts."""

    def __init__(self, states: Array) -> None:
        super().__init__()
        self.states = states
        self.seen: list[Array] = []

    def _on_training_start(self) -> None:
        self.seen.append(probabilities(self.model, self.states))

    def _on_rollout_start(self) -> None:
        self.seen.append(probabilities(self.model, self.states))

    def _on_step(self) -> bool:
        return True


_IMPORTS = """
import handrail, sys
assert not any("stable_baselines3" in name for name in sys.modules)
sys.modules["stable_baselines3"] = None  # as if it were not installed
import handrail.sb3
"""


def test_handrail_works_without_it_and_says_how_to_get_it() -> None:
    run = subprocess.run(
        [sys.executable, "-c", _IMPORTS], capture_output=True, text=True, check=False
    )
    last = run.stderr.splitlines()[-1]
    assert last.endswith('handrail.sb3 needs Stable-Baselines3: pip install "handrail[sb3]"')


class TestLearning:
    def test_no_policy_that_acts_violates(self) -> None:
        callback, watch = Handrail(CARTPOLE), Watch(CARTPOLE_STATES)
        model = ppo(n_epochs=10, learning_rate=3e-3)
        model.learn(192, callback=[callback, watch])
        acting = np.stack(watch.seen)
        assert acting.shape == (192, 2, 2)
        assert acting[:, [0, 1], [0, 1]].min() >= 0.95 - REQUIRED
        assert [one.timesteps for one in callback.history] == [0, 64, 128, 192]
        assert callback.history[0].violation_before > 0.4
        assert max(one.violation_before for one in callback.history[1:]) > REQUIRED
        assert callback.worst_violation == max(one.violation_after for one in callback.history)
        assert callback.worst_violation <= 1e-5
        assert callback.seconds == sum(one.seconds for one in callback.history)
        first = callback.history[0]
        assert first.iterations >= 1
        assert first.active == 2
        assert first.parameter_change > 0.0
        # The model that the user gets, by SB3's own numbers.
        assert probabilities(model, CARTPOLE_STATES)[[0, 1], [0, 1]].min() >= 0.95 - REQUIRED

    def test_a_bundled_file_by_its_file_name(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        callback = Handrail("lunar_lander.yaml")
        model = ppo("LunarLander-v3")
        model.learn(64, callback=callback)
        rulebook = hr.load_rulebook("lunar_lander")
        assert hr.measure(policy_of(model), rulebook.constraints).worst_violation <= 1e-5
        assert callback.worst_violation <= 1e-5

    def test_constraints_that_hold_anyway_change_nothing(self) -> None:
        alone = ppo().learn(128)
        held = ppo().learn(128, callback=Handrail(at_least(CARTPOLE_STATES, 0.01)))
        assert not changed(held, parameters(alone))

    def test_learning_on_goes_on(self) -> None:
        model, callback = ppo(), Handrail(CARTPOLE)
        model.learn(64, callback=callback)
        model.learn(64, callback=callback, reset_num_timesteps=False)
        assert [one.timesteps for one in callback.history] == [0, 64, 64, 128]
        assert callback.history[2].iterations == 0  # it obeyed when the first training ended
        ppo().learn(64, callback=callback)
        assert len(callback.history) == 2  # another model, another history

    def test_several_environments_and_other_callbacks(self) -> None:
        envs = make_vec_env("CartPole-v1", n_envs=4, seed=0)
        callback, watch = Handrail(CARTPOLE), Watch(CARTPOLE_STATES)
        ppo(envs, n_steps=16).learn(128, callback=CallbackList([watch, callback]))
        assert [one.timesteps for one in callback.history] == [0, 64, 128]
        assert np.stack(watch.seen)[:, [0, 1], [0, 1]].min() >= 0.95 - REQUIRED

    def test_callbacks_behind_it_see_a_policy_that_obeys_from_the_start(self) -> None:
        callback, watch = Handrail(CARTPOLE), WatchStart(CARTPOLE_STATES)
        ppo().learn(128, callback=[callback, watch])
        assert [one.shape for one in watch.seen] == [(2, 2)] * 3  # training, rollout, rollout
        assert np.stack(watch.seen)[:, [0, 1], [0, 1]].min() >= 0.95 - REQUIRED
        assert [one.timesteps for one in callback.history] == [0, 64, 128]

    def test_what_they_change_at_the_start_is_held_as_well(self) -> None:
        class Spoil(BaseCallback):
            def _on_training_start(self) -> None:
                policy: Any = self.model.policy
                policy.action_net.bias.data += torch.tensor([0.0, 9.0])

            def _on_step(self) -> bool:
                return True

        callback, watch = Handrail(CARTPOLE), Watch(CARTPOLE_STATES)
        ppo().learn(64, callback=[callback, Spoil(), watch])
        assert np.stack(watch.seen)[:, [0, 1], [0, 1]].min() >= 0.95 - REQUIRED
        assert [one.timesteps for one in callback.history] == [0, 0, 64]

    def test_a_training_that_is_stopped_ends_obeying(self) -> None:
        class Stop(BaseCallback):
            def _on_step(self) -> bool:
                return self.num_timesteps < 80

        model, callback = ppo(), Handrail(CARTPOLE)
        model.learn(640, callback=[callback, Stop()])
        assert [one.timesteps for one in callback.history] == [0, 64, 80]

    def test_rewards_may_be_normalised(self) -> None:
        envs = VecNormalize(DummyVecEnv([lambda: gym.make("CartPole-v1")]), norm_obs=False)
        callback = Handrail(CARTPOLE)
        ppo(envs).learn(64, callback=callback)
        assert callback.worst_violation <= 1e-5

    @pytest.mark.parametrize("algorithm", [A2C, TRPO])
    def test_other_algorithms(self, algorithm: type[BaseAlgorithm]) -> None:
        settings: dict[str, Any] = {"batch_size": 32} if algorithm is TRPO else {}
        make: Any = algorithm
        model = make("MlpPolicy", "CartPole-v1", n_steps=32, seed=0, device="cpu", **settings)
        callback, watch = Handrail(CARTPOLE), Watch(CARTPOLE_STATES)
        model.learn(128, callback=[callback, watch])
        assert np.stack(watch.seen)[:, [0, 1], [0, 1]].min() >= 0.95 - REQUIRED
        assert len(callback.history) == 5

    def test_masks_come_after_the_constraints(self) -> None:
        states = np.array([[0.5, 0.0, 0.0, 0.0], [-0.5, 0.0, 0.0, 0.0]])
        model = MaskablePPO("MlpPolicy", Masked(), n_steps=32, batch_size=32, seed=0, device="cpu")
        callback = Handrail(at_least(states))
        model.learn(64, callback=callback)
        assert callback.worst_violation <= 1e-5
        assert probabilities(model, states)[[0, 1], [0, 1]].min() >= 0.9 - REQUIRED


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
    "own pictures": (Pictures, "CnnPolicy", {"share_features_extractor": False}),
}


@pytest.mark.parametrize("name", MODELS)
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


class TestOptimiser:
    def test_moments_are_left_alone_and_training_goes_on(self) -> None:
        model, callback = ppo(), Handrail(CARTPOLE)
        model.learn(64)
        before = copy.deepcopy(model.policy.optimizer.state_dict())
        weights = parameters(model)
        callback.init_callback(model)
        callback.on_rollout_start()
        assert callback.history[0].parameter_change > 0.0
        assert changed(model, weights)
        after = model.policy.optimizer.state_dict()
        assert after["param_groups"] == before["param_groups"]
        assert after["state"].keys() == before["state"].keys()
        for number, moments in before["state"].items():
            for key, value in moments.items():
                assert torch.equal(after["state"][number][key], value)
        held = {id(p) for group in model.policy.optimizer.param_groups for p in group["params"]}
        assert held == {id(p) for p in model.policy.parameters()}
        weights = parameters(model)
        model.learn(64, callback=callback, reset_num_timesteps=False)
        assert changed(model, weights) == set(weights)
        steps = [
            float(one["step"]) for one in model.policy.optimizer.state_dict()["state"].values()
        ]
        assert set(steps) == {8.0}  # two updates of two epochs of two minibatches


class TestRegions:
    rule = hr.AtLeast(0.9, 1, TILTED, name="tilted")

    def test_every_state_of_a_region(self) -> None:
        model, callback = ppo(n_epochs=5, learning_rate=2e-3), Handrail([self.rule, *CARTPOLE])
        model.learn(192, callback=callback)
        assert callback.worst_violation <= 1e-5
        assert measure_fresh(policy_of(model), [self.rule], 4000, seed=0).violated == 0

    def test_with_a_proof(self) -> None:
        model, callback = ppo(), Handrail([self.rule], prove=True)
        model.learn(64, callback=callback)
        assert [one.status for one in callback.certificates] == ["certified"]
        assert hr.certify(policy_of(model), self.rule).certified

    def test_chosen_states(self) -> None:
        model = ppo()
        callback = Handrail([self.rule], selection=hr.MaximumDeviation(points=30), pressure=0.1)
        model.learn(128, callback=callback)
        assert callback.worst_violation <= 1e-5


class TestFailure:
    def test_training_stops_and_the_policy_is_as_it_was(self) -> None:
        model = ppo()
        before = parameters(model)
        both = [*CARTPOLE, hr.AtMost(0.5, 0, hr.Points(CARTPOLE_STATES[:1]), name="no")]
        with pytest.raises(
            hr.errors.UnsatisfiedConstraints,
            match=r"After 0 timesteps .*as PPO left it.*Relax one of them\.$",
        ):
            model.learn(64, callback=Handrail(both))
        assert not changed(model, before)


class Forward(ActorCriticPolicy):
    """Has an opinion of its own besides its layers."""

    def _get_action_dist_from_latent(self, latent_pi: Tensor) -> Any:
        return self.action_dist.proba_distribution(
            action_logits=5.0 + self.action_net(latent_pi).cos()
        )


class Bold(ActorCriticPolicy):
    """A temperature: what it says of the zero logits of a fresh network is right."""

    def _get_action_dist_from_latent(self, latent_pi: Tensor) -> Any:
        return self.action_dist.proba_distribution(action_logits=2.0 * self.action_net(latent_pi))


class Bounded(ActorCriticPolicy):
    """Means through tanh, which changes none of a fresh network."""

    def _get_action_dist_from_latent(self, latent_pi: Tensor) -> Any:
        means = self.action_net(latent_pi).tanh()
        return self.action_dist.proba_distribution(means, self.log_std)


class Wilful(ActorCriticPolicy):
    """Its distribution is that of its layers, but rollouts get another action."""

    def forward(self, obs: Tensor, deterministic: bool = False) -> Any:
        actions, says, likelihood = super().forward(obs, deterministic)
        return 1 - actions, says, likelihood


class Deaf(ActorCriticPolicy):
    """Acts by its layers only while it learns."""

    def predict(self, *args: Any, **settings: Any) -> Any:
        actions, memory = super().predict(*args, **settings)
        return 0 * actions, memory


def own_forward() -> PPO:
    """Not of a class, but of one model."""
    model = ppo()
    policy: Any = model.policy
    policy.forward = partial(policy.forward, deterministic=True)
    return model


class Louder(MlpExtractor):
    """A hundredth more than its layers say, in rollouts only."""

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        return 1.01 * self.forward_actor(features), self.forward_critic(features)


class Quieter(MlpExtractor):
    """A hundredth less, always."""

    def forward_actor(self, features: Tensor) -> Tensor:
        return 0.99 * super().forward_actor(features)


def with_extractor(kind: type[MlpExtractor]) -> type[ActorCriticPolicy]:
    class Custom(ActorCriticPolicy):
        def _build_mlp_extractor(self) -> None:
            self.mlp_extractor = kind(self.features_dim, self.net_arch, self.activation_fn)

    return Custom


def with_distribution(distribution: Any) -> type[ActorCriticPolicy]:
    class Custom(ActorCriticPolicy):
        def _build(self, lr_schedule: Any) -> None:
            self.action_dist = distribution
            super()._build(lr_schedule)

    return Custom


class Heated(CategoricalDistribution):
    """Draws otherwise than its probabilities say."""

    def sample(self) -> Tensor:
        return 0 * super().sample()


class Lookalike:
    """Has all that an actor-critic policy has."""

    def __init__(self, policy: Any) -> None:
        self._policy = policy

    def __getattr__(self, name: str) -> Any:
        if name == "lstm_actor":
            raise AttributeError(name)
        return getattr(self._policy, name)


def lookalike() -> PPO:
    model = ppo()
    model.policy = Lookalike(model.policy)  # type: ignore[assignment]
    return model


class OneBody(ActorCriticPolicy):
    """The critic reads the actor's layers."""

    def _build_mlp_extractor(self) -> None:
        super()._build_mlp_extractor()
        self.mlp_extractor.value_net = self.mlp_extractor.policy_net


class Nameless(ActorCriticPolicy):
    """A network of its own making."""

    def _build_mlp_extractor(self) -> None:
        super()._build_mlp_extractor()
        self.mlp_extractor.actor = self.mlp_extractor.policy_net
        del self.mlp_extractor.policy_net


def spaces(**given: Any) -> PPO:
    policy = "MultiInputPolicy" if "observations" in given else "MlpPolicy"
    return ppo(Numbers(**given), policy)


DICT = gym.spaces.Dict({"near": gym.spaces.Box(0.0, 1.0, (2,)), "far": gym.spaces.Box(0.0, 1.0)})
REFUSED: dict[str, tuple[Any, str]] = {
    "DQN": (
        lambda: DQN("MlpPolicy", "CartPole-v1", device="cpu", buffer_size=10),
        r"DQN has no actor-critic policy \(its policy is DQNPolicy\).*PPO, A2C, TRPO and Maskable",
    ),
    "SAC": (
        lambda: SAC("MlpPolicy", "Pendulum-v1", device="cpu", buffer_size=10),
        "SAC has no actor-critic policy",
    ),
    "recurrent": (
        lambda: RecurrentPPO("MlpLstmPolicy", "CartPole-v1", n_steps=8, device="cpu"),
        "RecurrentPPO remembers",
    ),
    "Dict": (lambda: spaces(observations=DICT), r"observes a Dict \(MultiInput\) of .*near"),
    "Discrete observations": (
        lambda: ppo(Numbers(observations=gym.spaces.Discrete(3))),
        r"observes Discrete\(3\)\. Wrap the environment with gymnasium.wrappers.Flatten",
    ),
    "MultiDiscrete": (
        lambda: spaces(actions=gym.spaces.MultiDiscrete([2, 2])),
        "acts in MultiDiscrete.*Make one Discrete action",
    ),
    "MultiBinary": (
        lambda: spaces(actions=gym.spaces.MultiBinary(2)),
        "acts in MultiBinary.* through BernoulliDistribution",
    ),
    "state-dependent noise": (
        lambda: ppo("Pendulum-v1", use_sde=True),
        "StateDependentNoiseDistribution.*Leave use_sde at False",
    ),
    "squashed": (
        lambda: ppo("Pendulum-v1", use_sde=True, policy_kwargs={"squash_output": True}),
        "squash_output=True sends mean actions through tanh.*Leave it at False",
    ),
    "VecNormalize": (
        lambda: ppo(VecNormalize(DummyVecEnv([lambda: gym.make("CartPole-v1")]))),
        r"VecNormalize\(norm_obs=True\) shows the policy other numbers.*norm_obs=False",
    ),
    "NormalizeObservation": (
        lambda: ppo(gym.wrappers.NormalizeObservation(gym.make("CartPole-v1"))),
        "NormalizeObservation shows the policy other numbers",
    ),
    "forward": (lambda: ppo(policy=Forward), "Forward does not act by its layers alone"),
    "temperature": (lambda: ppo(policy=Bold), "a `_get_action_dist_from_latent` of its own"),
    "tanh means": (
        lambda: ppo("Pendulum-v1", Bounded),
        "a `_get_action_dist_from_latent` of its own instead of that of ActorCriticPolicy",
    ),
    "own forward": (lambda: ppo(policy=Wilful), "Wilful .*has a `forward` of its own"),
    "own predict": (lambda: ppo(policy=Deaf), "Deaf .*has a `predict` of its own"),
    "one model's forward": (own_forward, "has a `forward` of its own"),
    "louder": (lambda: ppo(policy=with_extractor(Louder)), "its outputs differ by up to"),
    "quieter": (lambda: ppo(policy=with_extractor(Quieter)), "its outputs differ by up to"),
    "quieter means": (
        lambda: ppo("Pendulum-v1", with_extractor(Quieter)),
        "its outputs differ by up to",
    ),
    "squashed distribution": (
        lambda: ppo("Pendulum-v1", with_distribution(SquashedDiagGaussianDistribution(1))),
        "through SquashedDiagGaussianDistribution.*action_dist as Stable-Baselines3 makes it",
    ),
    "own distribution": (
        lambda: ppo(policy=with_distribution(Heated(2))),
        "through Heated.*action_dist as Stable-Baselines3 makes it",
    ),
    "lookalike": (lookalike, "Lookalike is no ActorCriticPolicy or Maskable.*PPO, A2C, TRPO"),
    "one body": (lambda: ppo(policy=OneBody), "actor of this OneBody shares layers with its crit"),
    "nameless": (lambda: ppo(policy=Nameless), "MlpExtractor has no `policy_net`"),
    "policy": (small_policy, "such as PPO.* but got CategoricalPolicy"),
}


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


def test_scaling_by_fixed_numbers_as_the_refusal_recommends() -> None:
    """CartPole's velocities are unbounded, which RescaleObservation refuses."""
    sizes = np.array([2.4, 2.0, 0.2, 2.0], dtype=np.float32)
    env = gym.wrappers.TransformObservation(
        gym.make("CartPole-v1"), lambda seen: seen / sizes, gym.spaces.Box(-np.inf, np.inf, (4,))
    )
    rail = Handrail(at_least(CARTPOLE_STATES / sizes, 0.95))
    ppo(env).learn(64, callback=rail)
    assert rail.worst_violation <= 1e-5
    with pytest.raises(
        hr.errors.InvalidPolicy, match=r"TransformObservation\(env, lambda seen: seen / s"
    ):
        policy_of(REFUSED["VecNormalize"][0]())


class TestRefusedBeforeTraining:
    def test_by_the_callback(self) -> None:
        model = DQN("MlpPolicy", "CartPole-v1", device="cpu", buffer_size=10)
        with pytest.raises(hr.errors.InvalidPolicy, match="DQN has no actor-critic policy"):
            model.learn(10, callback=Handrail(CARTPOLE))
        assert model.num_timesteps == 0

    def test_normalisation_that_comes_later(self) -> None:
        model, callback = ppo(), Handrail(CARTPOLE)
        model.learn(64, callback=callback)
        model.set_env(VecNormalize(DummyVecEnv([lambda: gym.make("CartPole-v1")])))
        with pytest.raises(hr.errors.InvalidPolicy, match="VecNormalize"):
            model.learn(64, callback=callback, reset_num_timesteps=False)

    @pytest.mark.parametrize(
        ("file", "message"),
        [
            ("lunar_lander", "names 8 observations .x, y.*, but the policy observes 4 numbers"),
            ("mountain_car", r"names 2 observations .*another environment \(MountainCar-v0\)"),
        ],
    )
    def test_a_file_about_another_environment(self, file: str, message: str) -> None:
        model = ppo()
        with pytest.raises(hr.errors.InvalidRulebook, match=message):
            model.learn(64, callback=Handrail(file))
        assert model.num_timesteps == 0

    def test_a_file_with_other_actions(self) -> None:
        with pytest.raises(hr.errors.InvalidRulebook, match=r"names 2 actions .*the policy has 3"):
            ppo(Numbers()).learn(64, callback=Handrail(hr.load_rulebook("cartpole")))

    def test_a_file_with_other_ranges_of_actions(self) -> None:
        env = gym.wrappers.RescaleAction(gym.make("Pendulum-v1"), np.float32(-1), np.float32(1))
        message = r"the ranges \[-2, 2\], but the policy acts in \[-1, 1\].*\(RescaleAction\)"
        with pytest.raises(hr.errors.InvalidRulebook, match=message):
            ppo(env).learn(64, callback=Handrail("pendulum"))

    @pytest.mark.parametrize(
        ("shape", "message"),
        [
            ((36, 36, 1), r"shape \(36, 36, 1\), .*\(1, 36, 36\). Images come with their channels"),
            ((1296,), "Give the states the shape of the observations"),
            ((1, 2, 3), r"shape \(1, 2, 3\), but the policy observes \(1, 36, 36\)\.$"),
        ],
    )
    def test_states_of_another_shape(self, shape: tuple[int, ...], message: str) -> None:
        states = np.zeros((2, *shape))
        with pytest.raises(hr.errors.ShapeMismatch, match=message):
            ppo(Pictures(), "CnnPolicy").learn(64, callback=Handrail(at_least(states)))

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"tolerance": 0.0}, "tolerance must be positive and finite, not 0.0"),
            ({"pressure": -1.0}, "pressure must be 0 .none. or positive and finite, not -1.0"),
            ({"prove": True, "selection": hr.Everywhere()}, "Say how regions are held once"),
            ({"prove": "yes"}, "prove must be True or False, not 'yes'"),
            ({"selection": "maximum"}, "selection='maximum': expected Everywhere.* 'maximum_re"),
            ({"selection": 3}, "selection=3: expected Everywhere"),
        ],
    )
    def test_settings(self, settings: dict[str, Any], message: str) -> None:
        with pytest.raises(hr.errors.InvalidArgument, match=message):
            Handrail(CARTPOLE, **settings)

    @pytest.mark.parametrize("wrapped", [False, True])
    def test_two_rails_on_one_model(self, wrapped: bool) -> None:
        """Each would undo what the other holds, and report that it held."""
        model, second = ppo(), Handrail(CARTPOLE)
        before = parameters(model)
        inner = EveryNTimesteps(8, second) if wrapped else second
        with pytest.raises(hr.errors.InvalidArgument, match="There are 2 Handrails on one model"):
            model.learn(64, callback=[Handrail(CARTPOLE), CallbackList([inner])])
        assert not changed(model, before)
        model.learn(64, callback=second)  # alone, it works
        assert second.worst_violation <= 1e-5

    def test_inside_a_callback_that_does_not_pass_rollouts_on(self) -> None:
        with pytest.raises(
            hr.errors.InvalidArgument, match="Nobody told Handrail that a rollout starts"
        ):
            ppo().learn(64, callback=EveryNTimesteps(8, Handrail(CARTPOLE)))

    def test_inside_such_a_callback_after_a_training_that_was_held(self) -> None:
        model, callback = ppo(), Handrail(CARTPOLE)
        model.learn(64, callback=callback)
        with pytest.raises(
            hr.errors.InvalidArgument, match="Nobody told Handrail that a rollout starts"
        ):
            model.learn(64, callback=EveryNTimesteps(8, callback), reset_num_timesteps=False)

    @pytest.mark.parametrize("given", [None, 5])
    def test_what_states_no_constraint(self, given: Any) -> None:
        with pytest.raises(
            hr.errors.InvalidConstraint, match="or the path or bundled name of a constr"
        ):
            Handrail(given)

    def test_one_constraint_is_no_list(self) -> None:
        with pytest.raises(hr.errors.InvalidConstraint, match=r"Write \[constraint\]"):
            ppo().learn(64, callback=Handrail(CARTPOLE[0]))  # type: ignore[arg-type]


class TestPressure:
    def test_the_gradient(self) -> None:
        """Against autograd on what the docs say; bounds count a tenth of the tolerance inside."""
        states = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
        rising, falling, holds, left, right = states
        constraints = [
            hr.AtLeast(0.95, 0, hr.Points(rising), name="must rise"),
            hr.AtMost(0.3, 1, hr.Points(falling), name="must fall"),
            hr.AtLeast(0.01, 1, hr.Points(holds), name="holds"),
            hr.Linear([hr.Term(left, 1), hr.Term(right, 1, -1.0)], lower=0.5, name="no log-odds"),
        ]
        model = ppo(policy_kwargs={"ortho_init": False})
        policy = policy_of(model)
        rows = expand(constraints, policy).fixed
        assert rows is not None
        found = shortfall_gradient(policy, rows, Targets(rows, 1e-5))
        assert found is not None
        network: Any = model.policy
        acts = network.get_distribution(torch.tensor(states)).distribution.probs
        short = [
            torch.logit(torch.tensor(0.95 + 1e-6)) - torch.logit(acts[0, 0]),
            torch.logit(acts[1, 1]) - torch.logit(torch.tensor(0.3 - 1e-6)),
            0.5 + 1e-6 - (acts[3, 1] - acts[4, 1]),
        ]
        assert all(one > 0.1 for one in short)
        energy = 0.5 * torch.stack(short).square().sum()
        expected = torch.autograd.grad(energy, policy.parameters)
        for ours, theirs in zip(found.parts, expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)

    def test_none_where_everything_holds(self) -> None:
        policy = policy_of(ppo())
        rows = expand(at_least(CARTPOLE_STATES, 0.01), policy).fixed
        assert rows is not None
        assert shortfall_gradient(policy, rows, Targets(rows, 1e-5)) is None

    def test_it_is_added_before_the_step_and_taken_off_afterwards(self) -> None:
        """SGD with rate 1 on no gradient: what moves is the pressure."""
        optimiser = {"optimizer_class": torch.optim.SGD, "optimizer_kwargs": {}}
        model = ppo(policy_kwargs=optimiser, learning_rate=1.0)
        model.set_logger(configure(None, []))
        callback = Handrail(CARTPOLE, pressure=0.25)
        callback.init_callback(model)
        callback.on_rollout_end()
        for p in model.policy.parameters():
            p.grad = torch.zeros_like(p)
        before = parameters(model)
        policy = policy_of(model)
        rows = expand(CARTPOLE, policy).fixed
        assert rows is not None
        pull = shortfall_gradient(policy, rows, Targets(rows, 1e-5))
        assert pull is not None
        model.policy.set_training_mode(True)
        model.policy.optimizer.step()
        assert model.policy.training
        names = {id(p): name for name, p in model.policy.named_parameters()}
        for p, part in zip(policy.parameters, pull.parts, strict=True):
            expected = before[names[id(p)]] - 0.25 * part
            torch.testing.assert_close(p.detach(), expected)
        assert changed(model, before) <= {names[id(p)] for p in policy.parameters}
        callback.on_rollout_start()
        assert not model.policy.optimizer._optimizer_step_pre_hooks

    def test_updates_leave_less_to_correct(self) -> None:
        def violations(pressure: float) -> list[float]:
            model = ppo(n_epochs=10, learning_rate=3e-3)
            callback = Handrail(CARTPOLE, pressure=pressure)
            model.learn(192, callback=callback)
            assert callback.worst_violation <= 1e-5
            assert not model.policy.optimizer._optimizer_step_pre_hooks
            return [one.violation_before for one in callback.history[1:]]

        assert max(violations(10.0)) < max(violations(0.0))

    def test_an_actor_that_learns_otherwise(self) -> None:
        model = TRPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=32, device="cpu")
        with pytest.raises(hr.errors.InvalidArgument, match=r"TRPO, for one.*Leave pressure at 0"):
            model.learn(32, callback=Handrail(CARTPOLE, pressure=1.0))

    def test_what_an_interruption_leaves_is_taken_off(self) -> None:
        model, callback = ppo(), Handrail(CARTPOLE, pressure=1.0)
        callback.init_callback(model)
        callback.on_rollout_end()
        assert model.policy.optimizer._optimizer_step_pre_hooks
        callback.init_callback(model)
        assert not model.policy.optimizer._optimizer_step_pre_hooks

    def interrupted(self, monkeypatch: pytest.MonkeyPatch) -> PPO:
        """By Ctrl-C in the middle of an update."""
        model = ppo()
        with monkeypatch.context() as patch:
            patch.setattr(model, "train", interrupt)
            with pytest.raises(KeyboardInterrupt):
                model.learn(64, callback=Handrail(CARTPOLE, pressure=1.0))
        assert len(model.policy.optimizer._optimizer_step_pre_hooks) == 1
        return model

    @pytest.mark.parametrize("pressure", [0.0, 1.0])
    def test_another_rail_takes_it_off(
        self, monkeypatch: pytest.MonkeyPatch, pressure: float
    ) -> None:
        model = self.interrupted(monkeypatch)
        callback = Handrail(CARTPOLE, pressure=pressure)
        callback.init_callback(model)
        assert not model.policy.optimizer._optimizer_step_pre_hooks
        callback.on_rollout_end()
        assert len(model.policy.optimizer._optimizer_step_pre_hooks) == (pressure > 0.0)

    def test_two_rails_on_one_optimiser_are_one_pressure(self) -> None:
        model = ppo()
        for _ in range(2):
            callback = Handrail(CARTPOLE, pressure=1.0)
            callback.init_callback(model)
            callback.on_rollout_end()
        assert len(model.policy.optimizer._optimizer_step_pre_hooks) == 1

    def test_it_does_not_pull_at_a_training_without_a_rail(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model = self.interrupted(monkeypatch)
        pulls: list[object] = []
        monkeypatch.setattr("handrail.sb3.pressure.shortfall_gradient", lambda *_: pulls.append(_))
        model.learn(64)
        assert not pulls

    def test_the_mode_is_restored_after_an_interruption(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model, callback = ppo(), Handrail(CARTPOLE, pressure=1.0)
        callback.init_callback(model)
        callback.on_rollout_end()
        model.policy.set_training_mode(True)
        for p in model.policy.parameters():
            p.grad = torch.zeros_like(p)
        monkeypatch.setattr("handrail.sb3.pressure.shortfall_gradient", interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.policy.optimizer.step()
        assert model.policy.training


def interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def test_the_log(tmp_path: Path) -> None:
    model, callback = ppo(), Handrail(CARTPOLE)
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(192, callback=callback)
    model.logger.close()
    with (tmp_path / "progress.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 3
    for line, one in zip(lines, callback.history, strict=False):
        assert float(line["handrail/violation_before"]) == pytest.approx(one.violation_before)
        assert float(line["handrail/violation_after"]) == pytest.approx(one.violation_after)
        assert int(line["handrail/iterations"]) == one.iterations
        assert int(line["handrail/active"]) == one.active
        assert float(line["handrail/seconds"]) == pytest.approx(one.seconds)


class TestFiles:
    def test_a_saved_model_obeys(self, tmp_path: Path) -> None:
        model = ppo()
        model.learn(64, callback=Handrail(CARTPOLE))
        model.save(tmp_path / "model")
        loaded = load(tmp_path / "model")
        assert isinstance(loaded, PPO)
        assert hr.measure(policy_of(loaded), CARTPOLE).worst_violation <= 1e-5
        with zipfile.ZipFile(tmp_path / "model.zip") as archive:
            assert b"handrail" not in archive.read("data").lower()

    def test_an_edited_model_is_saved_edited(self, tmp_path: Path) -> None:
        ppo().save(tmp_path / "model.zip")
        model = load(str(tmp_path / "model.zip"))
        hr.enforce(policy_of(model), CARTPOLE, tolerance=1e-5).raise_if_unsatisfied()
        model.save(tmp_path / "edited.zip")
        edited = PPO.load(tmp_path / "edited.zip", device="cpu")
        assert probabilities(edited, CARTPOLE_STATES)[[0, 1], [0, 1]].min() >= 0.95 - REQUIRED

    @pytest.mark.parametrize("algorithm", [PPO, A2C, TRPO, MaskablePPO])
    def test_the_algorithm_is_found_out(
        self, tmp_path: Path, algorithm: type[BaseAlgorithm]
    ) -> None:
        make: Any = algorithm
        make("MlpPolicy", "CartPole-v1", device="cpu").save(tmp_path / "model")
        assert type(load(tmp_path / "model")) is algorithm
        assert type(load(tmp_path / "model.zip", algorithm)) is algorithm

    @pytest.mark.parametrize("kind", ["DQN", "recurrent"])
    def test_other_algorithms(self, tmp_path: Path, kind: str) -> None:
        REFUSED[kind][0]().save(tmp_path / "model")
        with pytest.raises(
            hr.errors.InvalidRun, match="another algorithm, by the names of its settings"
        ):
            load(tmp_path / "model")

    def test_what_is_no_model(self, tmp_path: Path) -> None:
        with pytest.raises(hr.errors.InvalidRun, match=r"no model at .*gone\.zip\.$"):
            load(tmp_path / "gone.zip")
        with pytest.raises(hr.errors.InvalidRun, match=r"no model at .*gone, nor at .*gone\.zip"):
            load(tmp_path / "gone")
        (tmp_path / "text.zip").write_text("hello")
        with pytest.raises(
            hr.errors.InvalidRun, match="is not a model of Stable-Baselines3: File is not"
        ):
            load(tmp_path / "text.zip")
        with zipfile.ZipFile(tmp_path / "list.zip", "w") as archive:
            archive.writestr("data", "[1]")
        with pytest.raises(hr.errors.InvalidRun, match="its data is no mapping"):
            load(tmp_path / "list.zip")
        ppo().save(tmp_path / "model")
        damage(tmp_path / "model.zip", tmp_path / "other.zip", observation_space={})
        with pytest.raises(hr.errors.InvalidRun, match=r"cannot load .* as TRPO\. Its own words"):
            load(tmp_path / "other.zip", TRPO)

    def test_tensors_alone_run_no_program(self, tmp_path: Path) -> None:
        ppo().save(tmp_path / "model")
        trap = {":type:": "trap", ":serialized:": Trap.in_a_pickle(tmp_path / "sprung")}
        damage(tmp_path / "model.zip", tmp_path / "theirs.zip", lr_schedule=trap)
        model = ppo(learning_rate=1e-4)
        model.set_parameters(str(tmp_path / "theirs.zip"))
        assert not (tmp_path / "sprung").exists()
        assert not changed(model, parameters(load(tmp_path / "model")))
        load(tmp_path / "theirs.zip")  # what the docs warn of
        assert (tmp_path / "sprung").exists()


class Trap:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)

    @classmethod
    def in_a_pickle(cls, path: Path) -> str:
        return base64.b64encode(pickle.dumps(cls(path))).decode()


def damage(source: Path, target: Path, **entries: Any) -> None:
    """A copy of a model with other entries in its JSON."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "data":
                content = json.dumps(json.loads(content) | entries).encode()
            new.writestr(name, content)


def test_the_noise_is_a_copy() -> None:
    model = ppo("Pendulum-v1")
    policy = policy_of(model)
    assert isinstance(policy, hr.GaussianPolicy)
    network: Any = model.policy
    network.log_std.data += 1.0
    assert policy.std.tolist() == [1.0]
    again = policy_of(model)
    assert isinstance(again, hr.GaussianPolicy)
    np.testing.assert_allclose(again.std, np.e, rtol=1e-6)


class TestEvaluate:
    def test_their_own_evaluation_works_as_always(self) -> None:
        model = ppo()
        model.learn(64, callback=Handrail(CARTPOLE))
        env = gym.wrappers.RecordEpisodeStatistics(gym.make("CartPole-v1"))
        scores, lengths = evaluate_policy(
            model, env, n_eval_episodes=3, warn=False, return_episode_rewards=True
        )
        assert scores == lengths  # CartPole pays 1 per step

    def test_all_agents_the_same_way(self) -> None:
        model = ppo()
        rules = at_least(CARTPOLE_STATES, 0.55)  # so little that episodes end
        agent = hr.Reinforce("CartPole-v1", policy_of(model), rules, tolerance=1e-5)
        env = gym.make("CartPole-v1")
        agents = (model, agent, agent.policy)
        first = [hr.evaluate(one, env, rules, episodes=3) for one in agents]
        again = [hr.evaluate(one, env, rules, episodes=3) for one in agents]
        for found, repeated in zip(first, again, strict=True):
            assert found.lengths == tuple(map(int, found.scores))  # CartPole pays 1 per step
            assert found.satisfied
            assert len(found.scores) == 3
            assert repeated.scores == found.scores
        assert first[1].scores == first[2].scores
        by_model, by_agent = (
            hr.evaluate(one, env, episodes=2, deterministic=True) for one in (model, agent)
        )
        assert by_model.scores == by_agent.scores
        assert by_model.violations is None
        assert hr.evaluate(model, env, episodes=3, seed=1).scores != first[0].scores

    def test_violations_are_told(self) -> None:
        found = hr.evaluate(ppo(), "CartPole-v1", "cartpole", episodes=1)
        assert not found.satisfied
        assert found.violations is not None
        assert "constraint rows violated" in str(found)

    def test_chance_is_left_alone(self) -> None:
        model = ppo()
        before = torch.get_rng_state()
        hr.evaluate(model, "CartPole-v1", episodes=1)
        assert torch.equal(torch.get_rng_state(), before)

    def test_pictures_and_masks(self) -> None:
        pictures = hr.evaluate(ppo(Pictures(), "CnnPolicy"), Pictures(), episodes=1)
        assert pictures.lengths == (20,)
        masked = MaskablePPO("MlpPolicy", Masked(), n_steps=32, batch_size=32, seed=0, device="cpu")
        assert hr.evaluate(masked, Masked(), episodes=3).lengths == (20, 20, 20)

    @pytest.mark.parametrize(
        ("agent", "env", "message"),
        [
            (lambda: nn.Linear(4, 2), "CartPole-v1", "a Reinforce or a policy, but got Linear"),
            (
                lambda: small_policy(4, 3),
                "CartPole-v1",
                "among 3 actions, but the environment has 2",
            ),
            (
                lambda: small_policy(4, 2),
                5,
                "Expected a Gymnasium id or an environment, but got int",
            ),
            (lambda: small_policy(4, 2), "Nowhere-v0", "Gymnasium cannot make 'Nowhere-v0'"),
            (
                lambda: small_policy(4, 2),
                gym.make_vec("CartPole-v1"),
                "but got CartPoleVectorEnv. Vector envi",
            ),
            (ppo, Numbers(), r"acts in Discrete\(2\), but the environment has .*Discrete\(3\)"),
            (ppo, Numbers((5,), gym.spaces.Discrete(2)), "The model observes Box.*has Box"),
        ],
    )
    def test_what_is_refused(self, agent: Any, env: Any, message: str) -> None:
        with pytest.raises(hr.HandrailError, match=message):
            hr.evaluate(agent(), env)

    def test_settings_that_make_no_sense(self) -> None:
        with pytest.raises(
            hr.errors.InvalidArgument, match="episodes must be a positive whole number"
        ):
            hr.evaluate(small_policy(4, 2), "CartPole-v1", episodes=0)
        with pytest.raises(hr.errors.InvalidArgument, match="tolerance must be 0 or more"):
            hr.evaluate(small_policy(4, 2), "CartPole-v1", tolerance=-1.0)
        with pytest.raises(hr.errors.InvalidRulebook, match="names 8 observations"):
            hr.evaluate(small_policy(4, 2), "CartPole-v1", "lunar_lander")
        normalised = REFUSED["VecNormalize"][0]()
        with pytest.raises(hr.errors.InvalidPolicy, match="VecNormalize"):
            hr.evaluate(normalised, "CartPole-v1")


def test_large_mean_actions_are_held_as_finely_as_float32_tells_them_apart() -> None:
    """Next to 750, numbers are 6e-5 apart, and this bound is in the middle of two of them."""
    bound = 750.0 + 0.5 * float(np.spacing(np.float32(750.0)))
    model = ppo(Numbers(actions=gym.spaces.Box(-1000.0, 1000.0, (1,))))
    rail = Handrail([hr.Equal(bound, hr.Mean(0), hr.Points([[0.3, -0.2, 0.1, 0.5]]))])
    model.learn(64, callback=rail)
    assert 1e-5 < rail.worst_violation <= 4.0 * np.finfo(np.float32).eps * bound


def steep(scale: float, seed: int, **settings: Any) -> PPO:
    """All weights times a number."""
    settings["ortho_init"] = False
    model = PPO("MlpPolicy", "CartPole-v1", seed=seed, device="cpu", policy_kwargs=settings)
    with torch.no_grad():
        for parameter in model.policy.parameters():
            parameter.mul_(scale)
    return model


def test_a_finer_tolerance_than_the_default_is_too_fine_for_float32() -> None:
    """Logits near 200 are 1.5e-5 apart; the bound asks for half of that between two of them."""
    half = 0.5 * float(np.spacing(np.float32(200.0)))
    rule = hr.Equal(1.0 / (1.0 + np.exp(-half)), 0, hr.Points(np.zeros((1, 4))))
    for tolerance, possible in ((1e-5, True), (1e-6, False)):
        model = steep(0.0, 0, net_arch=[])
        network: Any = model.policy
        network.action_net.bias.data[:] = torch.tensor([200.0, 201.0])
        assert hr.enforce(policy_of(model), [rule], tolerance).satisfied is possible


@pytest.mark.slow
def test_the_default_tolerance_is_not_too_fine_for_float32() -> None:
    """Steep networks: all weights times 8."""
    makes: list[Any] = [hr.AtLeast, hr.Equal]
    for seed, width, activation, kind in itertools.product(
        range(6), (64, 256), (nn.Tanh, nn.ReLU), makes
    ):
        rng = np.random.default_rng(seed)
        chosen = zip(
            rng.normal(size=(8, 4)),
            rng.integers(0, 2, 8).tolist(),
            rng.uniform(0.02, 0.98, 8).tolist(),
            strict=True,
        )
        constraints = [
            kind(bound, action, hr.Points(state), name=f"s{number}")
            for number, (state, action, bound) in enumerate(chosen)
        ]
        model = steep(8.0, seed, activation_fn=activation, net_arch=[width, width])
        hr.enforce(policy_of(model), constraints, 1e-5).raise_if_unsatisfied()
