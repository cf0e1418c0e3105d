"""Constraints kept on a model: as finely as its precision allows, or not at all and in words."""

from __future__ import annotations

import itertools
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from torch import nn

import handrail as hr
from handrail.learning import Terms
from handrail.sb3.callback import Handrail
from handrail.sb3.keeper import ModelKeeper
from handrail.sb3.policy import policy_of
from tests.support.sb3_models import (
    CARTPOLE,
    CARTPOLE_STATES,
    REQUIRED,
    Numbers,
    changed,
    parameters,
    ppo,
    probabilities,
)


def test_holding_once() -> None:
    model = ppo()
    keeper = ModelKeeper(model, Terms.of(CARTPOLE))
    before = parameters(model)
    holding, enforcement = keeper.hold()
    assert enforcement.satisfied
    assert holding.timesteps == 0
    assert holding.violation_before > 0.4
    assert holding.violation_after <= 1e-5
    moved = [p.detach() - before[name] for name, p in model.policy.named_parameters()]
    size = torch.sqrt(sum((one.double().square().sum() for one in moved), torch.tensor(0.0)))
    assert holding.parameter_change == pytest.approx(float(size), rel=1e-3)
    assert probabilities(model, CARTPOLE_STATES)[[0, 1], [0, 1]].min() >= 0.95 - REQUIRED
    again, _ = keeper.hold()
    assert (again.iterations, again.parameter_change) == (0, 0.0)
    assert keeper.keeps(model)
    assert not keeper.keeps(ppo())


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


class TestNoLongerTheSameNetwork:
    def kept(self) -> tuple[PPO, ModelKeeper]:
        model = ppo()
        keeper = ModelKeeper(model, Terms.of(CARTPOLE))
        keeper.hold()
        return model, keeper

    def test_a_layer_that_was_replaced(self) -> None:
        model, keeper = self.kept()
        network: Any = model.policy
        network.action_net = nn.Linear(64, 2)
        with pytest.raises(hr.errors.InvalidPolicy, match="its outputs differ by up to"):
            keeper.hold()

    def test_a_hook_that_was_added(self) -> None:
        model, keeper = self.kept()
        network: Any = model.policy
        network.mlp_extractor.policy_net.register_forward_hook(lambda _, __, outputs: 0 * outputs)
        with pytest.raises(hr.errors.InvalidPolicy, match="policy_net has a forward hook"):
            keeper.hold()

    def test_a_method_that_was_replaced(self, monkeypatch: pytest.MonkeyPatch) -> None:
        model, keeper = self.kept()
        monkeypatch.setattr(model.policy, "predict", lambda *_, **__: (np.array([0]), None))
        with pytest.raises(hr.errors.InvalidPolicy, match="it has a `predict` of its own instead"):
            keeper.hold()


def test_ranges_of_drawn_actions_follow_the_noise() -> None:
    """Whatever log_std becomes, what acts draws from the range as often as was asked."""
    place = hr.Box([0.9, -0.3, -1.0], [1.0, 0.3, 1.0])
    rule = hr.LikelyWithin(0.95, 0, place, low=-0.5, high=4.0)
    model = PPO(
        *("MlpPolicy", "Pendulum-v1"),
        n_steps=64,
        n_epochs=20,
        learning_rate=0.02,
        seed=0,
        device="cpu",
        policy_kwargs={"ortho_init": False, "log_std_init": -0.5},
    )
    states = np.concatenate([place.corners, place.sample(500, np.random.default_rng(0))])
    seen: list[tuple[float, float]] = []

    class Witness(BaseCallback):
        """Asks Stable-Baselines3 itself for the distribution that it draws from."""

        def _on_step(self) -> bool:
            policy: Any = self.model.policy
            with torch.no_grad():
                drawn = policy.get_distribution(
                    torch.as_tensor(states, dtype=torch.float32)
                ).distribution
            ends = [drawn.cdf(torch.full((len(states), 1), end)).double() for end in (-0.5, 4.0)]
            seen.append((float((ends[1] - ends[0]).min()), float(drawn.stddev[0, 0])))
            return True

    rail = Handrail([rule])
    model.learn(320, callback=[rail, Witness()])
    chances, deviations = zip(*seen, strict=True)
    assert len(set(deviations)) == 5  # another one in every rollout
    assert max(deviations) / min(deviations) > 1.1
    assert min(chances) >= 0.95 - 1e-6  # rounding of float32
    assert rail.worst_violation <= 0.0
    policy = policy_of(model)
    assert hr.measure(policy, [rule]).satisfied
    with torch.no_grad():
        model.policy.log_std.fill_(0.12)
    assert policy.std.tolist() == pytest.approx([np.exp(0.12)])  # type: ignore[attr-defined]
    assert not hr.measure(policy, [rule]).satisfied


def test_a_range_that_the_noise_outgrows_is_refused() -> None:
    rule = hr.LikelyWithin(0.99, 0, hr.Points([[1.0, 0.0, 0.0]]), -0.5, 0.5, "gently")
    model = PPO("MlpPolicy", "Pendulum-v1", n_steps=64, seed=0, device="cpu")
    with pytest.raises(
        hr.errors.InvalidConstraint, match="'gently' cannot hold with a standard deviation of 1:"
    ):
        model.learn(64, callback=Handrail([rule]))


def test_a_bound_on_noise_that_is_the_same_everywhere_is_kept_by_moving_it() -> None:
    place = hr.Points([[1.0, 0.0, 0.0]])
    quiet = hr.AtMost(0.3, hr.Std(0), place, name="quiet")
    push = hr.AtLeast(0.5, hr.Mean(0), place, name="push")
    model = PPO("MlpPolicy", "Pendulum-v1", n_steps=64, learning_rate=0.02, seed=0, device="cpu")
    seen: list[float] = []

    class Witness(BaseCallback):
        def _on_step(self) -> bool:
            policy: Any = self.model.policy
            distribution = policy.get_distribution(torch.tensor(place.states).float())
            seen.append(float(distribution.distribution.stddev[0, 0].detach()))
            return True

    model.learn(192, callback=[Handrail([quiet, push]), Witness()])
    assert max(seen) <= 0.3
    assert float(policy_of(model).std[0]) <= 0.3  # type: ignore[attr-defined]
    assert hr.certify(policy_of(model), quiet).certified
    with pytest.raises(hr.errors.InvalidConstraint, match=r"of at least 0\.5 and of at most 0\.3"):
        model.learn(64, callback=Handrail([push, quiet, hr.AtLeast(0.5, hr.Std(0), place)]))
    with torch.no_grad():
        model.policy.log_std.fill_(0.0)
    never = hr.AtMost(0.4, hr.Mean(0), place, name="never")
    with pytest.raises(hr.errors.UnsatisfiedConstraints):
        model.learn(64, callback=Handrail([quiet, push, never]))
    assert model.policy.log_std.tolist() == [0.0]  # as PPO left it


def test_a_bound_on_one_noise_for_all_states_is_not_kept_alone() -> None:
    """The message says so; it does not say that the bound is kept, which it would not be."""
    model = PPO("MlpPolicy", "Pendulum-v1", n_steps=8, batch_size=8, seed=0, device="cpu")
    quiet = hr.AtMost(0.1, hr.Std(0), hr.Points([1.0, 0.0, 0.0]), name="quiet")
    message = (
        r"'quiet' is about the standard deviation, which is the same at every state of this model "
        r"\(its log_std\): .*alone it is not, and may leave them\. Add a constraint on a mean"
    )
    with pytest.raises(hr.errors.InvalidConstraint, match=message):
        model.learn(8, callback=Handrail([quiet]))
    assert model.policy.log_std.tolist() == [0.0]  # as it was
    wide = hr.Between(-50.0, 50.0, hr.Mean(0), hr.Points([1.0, 0.0, 0.0]), name="anything")
    model.learn(8, callback=Handrail([quiet, wide]))
    assert model.policy.log_std.exp().item() <= 0.1
