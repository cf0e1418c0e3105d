"""Rewards that tell a learner where it is going leave it as it is which policies are best."""

from __future__ import annotations

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

from benchmarks.influence.setting import MOUNTAIN_CAR_PPO, SETTINGS
from benchmarks.influence.shaped_reward import EnergyShaped, shaping_of
from handrail._types import Array

DISCOUNT, PRICE = 0.99, 300.0


def potential(state: Array) -> float:
    """Kinetic energy, and that of the hill's height."""
    return PRICE * float(0.5 * state[1] ** 2 + 0.0025 * np.sin(3.0 * state[0]) / 3.0)


def test_discounted_it_adds_only_what_the_ends_of_an_episode_are_worth() -> None:
    env, plain = EnergyShaped(gym.make("MountainCar-v0"), PRICE), gym.make("MountainCar-v0")
    for seed in (0, 1):  # the second episode begins anew
        (first, _), (same, _) = env.reset(seed=seed), plain.reset(seed=seed)
        assert first.tolist() == same.tolist()
        added, factor, over = 0.0, 1.0, False
        chance = np.random.default_rng(seed)
        while not over:
            action = int(chance.integers(3))
            state, earned, terminated, truncated, _ = env.step(action)
            other, reward, *_ = plain.step(action)
            assert state.tolist() == other.tolist()
            added += factor * (float(earned) - float(reward))
            factor, over = factor * DISCOUNT, terminated or truncated
        worth = factor * potential(state) - potential(first)
        assert added == pytest.approx(worth, rel=1e-6)


def test_only_one_learner_in_one_environment_is_told() -> None:
    shaped = [one for one in SETTINGS if shaping_of(one) is not None]
    assert shaped == [MOUNTAIN_CAR_PPO]
    assert shaping_of(replace(MOUNTAIN_CAR_PPO, budget=4096)) is not None
