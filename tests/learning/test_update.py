"""Updates: noise that is learned, its gradient, its range, files, and constraints on draws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from scipy.stats import norm

import handrail as hr
from handrail._types import Array
from handrail.errors import InvalidConstraint, InvalidPolicy, InvalidRun
from handrail.learning.update import learning_noise, noise_gradient
from handrail.tangent.batch import Batch
from tests.policies.test_gaussian import gaussian


class Target(gym.Env[Any, Any]):
    """Twenty actions, each worth minus its squared distance from `far` on either side of 0."""

    def __init__(self, far: float = 0.0) -> None:
        self.far = far
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (1,))
        self.action_space = gym.spaces.Box(-4.0, 4.0, (1,))
        self._left = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self._left = 20
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self._left -= 1
        reward = -((abs(float(action[0])) - self.far) ** 2)
        return self._observe(), reward, self._left == 0, False, {}

    def _observe(self) -> Array:
        return np.ones(1, dtype=np.float32)


def quiet_mean(std: float) -> hr.GaussianPolicy:
    """Around a mean of 0."""
    policy = hr.GaussianPolicy.mlp(Target(), hidden=[4], seed=0)
    with torch.no_grad():
        for one in policy.module.parameters():
            one.zero_()
    return hr.GaussianPolicy(policy.module, [std])


def batch_of(policy: hr.GaussianPolicy, n: int = 40) -> Batch:
    rng = np.random.default_rng(0)
    states = rng.uniform(-1.0, 1.0, (n, 3))
    actions = policy.outputs(states) + policy.std * rng.standard_normal((n, 2))
    return Batch(states, actions, rng.standard_normal(n))


def test_the_gradient_is_that_of_the_likelihood() -> None:
    policy = hr.GaussianPolicy(gaussian().module, [0.5, 2.0])
    batch = batch_of(policy)
    states, actions, returns = map(np.asarray, (batch.states, batch.actions, batch.returns))

    def value(log_std: Array) -> float:
        other = hr.GaussianPolicy(policy.module, np.exp(log_std).tolist())
        return float(returns @ other.likelihood(other.outputs(states), actions)[0])

    at, small = np.log(policy.std), 1e-6
    by_differences = [
        (value(at + small * unit) - value(at - small * unit)) / (2 * small) for unit in np.eye(2)
    ]
    np.testing.assert_allclose(noise_gradient(policy, batch), by_differences, rtol=1e-6)


def test_it_takes_its_step_when_the_update_succeeds() -> None:
    policy = hr.GaussianPolicy(gaussian().module, [0.5, 2.0]).learning_std(0.5, 2.0)
    batch = batch_of(policy)
    expected = policy.std * np.exp(1e-3 * noise_gradient(policy, batch))
    with learning_noise(policy, batch, 1e-3):
        assert policy.std.tolist() == [0.5, 2.0]
    np.testing.assert_allclose(policy.std, expected, rtol=1e-12)
    before = policy.std
    with pytest.raises(KeyError), learning_noise(policy, batch, 1e-3):
        raise KeyError
    assert policy.std is before
    with learning_noise(policy, batch, 1e3):
        pass
    assert all(std in ends for std, ends in zip(policy.std, [(0.25, 1.0), (1.0, 4.0)], strict=True))
    fixed = hr.GaussianPolicy(gaussian().module, [0.5, 2.0])
    with learning_noise(fixed, batch, 1e-3):
        pass
    assert fixed.std.tolist() == [0.5, 2.0]


@pytest.mark.parametrize(("far", "best"), [(0.0, 0.1), (2.0, 2.0 * np.sqrt(2.0 / np.pi))])
def test_it_goes_to_where_draws_pay(far: float, best: float) -> None:
    """With a mean of 0, E (|a| - far)² = σ² - 2 far σ √(2/π) + far² is least at far √(2/π)."""
    policy = quiet_mean(0.5).learning_std(0.2, 8.0)
    rule = hr.Between(-0.05, 0.05, hr.Mean(0), hr.Points([[1.0]]))
    agent = hr.Reinforce(Target(far), policy, [rule], step_size=3e-3, discount=0.01, seed=0)
    agent.learn(episodes=60, progress_bar=False)
    assert float(policy.std[0]) == pytest.approx(best, rel=0.25)


def test_a_saved_learner_goes_on_exactly(tmp_path: Path) -> None:
    policy = hr.GaussianPolicy.mlp(Target(), hidden=[8], seed=0).learning_std()
    agent = hr.Reinforce(Target(), policy, step_size=3e-3, seed=0)
    agent.learn(episodes=5, progress_bar=False)
    assert policy.std[0] != 1.2
    path = tmp_path / "agent.safetensors"
    agent.save(path)
    again = hr.Reinforce.load(path, env=Target())
    assert isinstance(again.policy, hr.GaussianPolicy)
    assert again.policy.std.tolist() == policy.std.tolist()
    first, second = (one.learn(episodes=3, progress_bar=False) for one in (agent, again))
    assert first == second
    assert again.policy.std.tolist() == policy.std.tolist()
    other = hr.GaussianPolicy.mlp(Target(), hidden=[8], seed=0)
    with pytest.raises(InvalidRun, match=r"learns its standard deviation from \[0.12.*\] to \[1.2"):
        hr.Reinforce.load(path, env=Target(), policy=other)


def test_constraints_on_draws_hold_for_all_noise_that_there_may_be() -> None:
    place = hr.Box([-1.0], [1.0])
    policy = quiet_mean(0.5).learning_std(0.2, 2.0)
    rule = hr.LikelyWithin(0.9, 0, place, low=-0.5, name="hardly ever back")
    made = rule.for_policy(policy)
    assert isinstance(made, hr.AtLeast)
    assert made.bound == pytest.approx(-0.5 + norm.ppf(0.9) * 1.0)
    agent = hr.Reinforce(Target(2.0), policy, [rule], step_size=1e-2, seed=0)
    deviations = []
    for _ in range(6):
        agent.learn(episodes=1, progress_bar=False)
        deviations.append(float(policy.std[0]))
        chance = norm.sf(-0.5, policy.mean(np.linspace(-1, 1, 50)[:, None]), policy.std)
        assert chance.min() >= 0.9
    assert len(set(deviations)) == 6
    unlikely = hr.LikelyWithin(0.2, 0, place, low=-0.5)
    bound = unlikely.for_policy(policy).bounds[0]  # type: ignore[attr-defined]
    assert bound == pytest.approx(-0.5 + norm.ppf(0.2) * 0.1)  # less noise is the harder case
    with pytest.raises(InvalidConstraint, match="asks for less than one half, which more noise"):
        hr.LikelyWithin(0.2, 0, place, -0.5, 0.5).for_policy(policy)


def test_ranges_that_make_no_sense() -> None:
    policy = quiet_mean(0.5)
    for least, most in ((0.0, 1.0), (1.0, 1.0), (0.5, 0.9), (0.1, np.inf)):
        with pytest.raises(InvalidPolicy, match="A learned standard deviation needs room"):
            policy.learning_std(least, most)
    following = hr.GaussianPolicy.following(policy.module, torch.zeros(1))
    with pytest.raises(InvalidPolicy, match="belongs to whoever trains it"):
        following.learning_std()
    with pytest.raises(InvalidPolicy, match="does not lie in its range, from"):
        policy.learning_std().recall_std([0.7])
