"""The price, its critic and what they make of advantages."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from stable_baselines3.common.buffers import RolloutBuffer

from benchmarks.influence.lagrangian import CostCritic, ascended, generalised_advantages, priced
from handrail._types import Array
from tests.conftest import spaces


def test_the_multiplier_rises_above_the_limit_and_falls_below_it_but_not_under_zero() -> None:
    assert ascended(1.0, cost=30.0, inside=100.0, limit=0.05, rate=2.0) == pytest.approx(1.5)
    assert ascended(1.0, cost=0.0, inside=100.0, limit=0.05, rate=2.0) == pytest.approx(0.9)
    assert ascended(0.01, cost=0.0, inside=100.0, limit=0.05, rate=2.0) == 0.0
    assert ascended(1.0, cost=0.0, inside=0.0, limit=0.05, rate=2.0) == 1.0


def test_advantages_of_costs_are_those_of_stable_baselines3() -> None:
    rng = np.random.default_rng(0)
    costs, values = rng.uniform(size=(2, 7, 3))
    ends, last = rng.uniform(size=(7, 3)) < 0.3, rng.uniform(size=3)
    buffer = RolloutBuffer(7, *spaces(2, 2), "cpu", gae_lambda=0.9, gamma=0.97, n_envs=3)
    buffer.reset()
    starts = np.vstack([np.zeros(3, dtype=bool), ends[:-1]])
    buffer.rewards, buffer.values = costs.astype(np.float32), values.astype(np.float32)
    buffer.episode_starts = starts.astype(np.float32)
    buffer.compute_returns_and_advantage(torch.as_tensor(last, dtype=torch.float32), ends[-1])
    found = generalised_advantages(costs, values, last, ends, 0.97, 0.9)
    assert found == pytest.approx(buffer.advantages, abs=1e-5)


def test_at_no_price_only_rewards_count_and_at_a_high_one_only_costs() -> None:
    rewards, costs = np.random.default_rng(0).normal(size=(2, 5, 4))

    def alike(some: Array, others: Array) -> float:
        return float(np.corrcoef(some.ravel(), others.ravel())[0, 1])

    assert alike(priced(rewards, costs, 0.0), rewards) == pytest.approx(1.0)
    assert alike(priced(rewards, costs, 1e6), -costs) == pytest.approx(1.0)


def test_the_critic_learns_what_a_state_costs() -> None:
    torch.manual_seed(0)
    critic = CostCritic(1)
    states = np.random.default_rng(0).uniform(-1.0, 1.0, (256, 2, 1))
    for _ in range(40):
        critic.fit(states, np.where(states[..., 0] > 0.0, 1.0, 0.0))
    assert critic.values(np.array([[[-0.6]], [[0.6]]])).ravel() == pytest.approx([0, 1], abs=0.1)
