"""Rewards that tell a learner where it is going, where the task's own tell it only at the end.

A car that never arrived in 200 steps has learned nothing from -200, and with the settings that PPO
usually has it never does. So all arms of that comparison also earn what the car's energy grows by:
a potential, which leaves it as it is which policies are best (Ng, Harada and Russell, 1999). Scores
stay those of the task.
"""

from __future__ import annotations

from functools import partial
from typing import Any, SupportsFloat, final

import gymnasium as gym
import numpy as np

from benchmarks.influence.setting import MOUNTAIN_CAR_PPO, Setting
from handrail._types import Array

_PRICE = 5e4  # of energy, in rewards
_GRAVITY = 0.0025  # of MountainCar-v0
_DISCOUNT = 0.99  # of its learner


@final
class EnergyShaped(gym.Wrapper[Array, Any, Array, Any]):
    """Earns what the energy of MountainCar's car grows by. Outside of a `Monitor`.

    Args:
        env: that observes position and velocity.
        price: of energy.
    """

    def __init__(self, env: gym.Env[Array, Any], price: float = _PRICE) -> None:
        super().__init__(env)
        self._price, self._potential = price, 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """As the environment does."""
        state, info = self.env.reset(seed=seed, options=options)
        self._potential = self._potential_of(state)
        return state, info

    def step(self, action: Any) -> tuple[Array, SupportsFloat, bool, bool, dict[str, Any]]:
        """As the environment does, and what the potential grew by."""
        state, reward, terminated, truncated, info = self.env.step(action)
        before, self._potential = self._potential, self._potential_of(state)
        earned = float(reward) + _DISCOUNT * self._potential - before
        return state, earned, terminated, truncated, info

    def _potential_of(self, state: Array) -> float:
        position, velocity = (float(one) for one in state)
        height = np.sin(3.0 * position) / 3.0
        return float(self._price * (0.5 * velocity**2 + _GRAVITY * height))


def shaping_of(setting: Setting) -> partial[EnergyShaped] | None:
    """What all arms of a setting learn from besides the task's rewards; None if nothing."""
    if (setting.environment, setting.learner) != (
        MOUNTAIN_CAR_PPO.environment,
        MOUNTAIN_CAR_PPO.learner,
    ):
        return None
    return partial(EnergyShaped, price=_PRICE)
