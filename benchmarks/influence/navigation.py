"""Going round a disk to a goal: two coordinates, four directions, and something to stay out of."""

from __future__ import annotations

from typing import Any, final

import gymnasium as gym
import numpy as np

from handrail._types import Array

ID = "benchmarks.influence.navigation:Navigation-v0"
DISK = 0.35  # radius, around the origin
LEFT, RIGHT, DOWN, UP = range(4)

_GOAL, _NEAR = np.array([0.8, 0.0]), 0.2
_START, _SPREAD = np.array([-0.8, 0.0]), 0.1
_STEP, _NOISE = 0.1, 0.02
_DIRECTIONS = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, -1.0], [0.0, 1.0]])
_ARRIVED, _CRASHED, _PER_STEP = 10.0, -10.0, -0.1


@final
class Navigation(gym.Env[Array, np.int64]):
    """A point in a square that wants to get to the other side of a disk.

    A step goes 0.1 to the left, right, down or up, with a little noise. It earns what it comes
    nearer, less 0.1; the goal earns 10, the disk costs 10, and both end the episode.
    """

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float64)
        self.action_space = gym.spaces.Discrete(4)
        self._position = _START

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Somewhere around the left end."""
        super().reset(seed=seed, options=options)
        self._position = _START + self.np_random.uniform(-_SPREAD, _SPREAD, 2)
        return self._position.copy(), {}

    def step(self, action: np.int64) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """One step in a direction; the walls of the square stop it."""
        moved = _STEP * _DIRECTIONS[action] + self.np_random.normal(0.0, _NOISE, 2)
        before = self._position
        self._position = np.clip(before + moved, -1.0, 1.0)
        nearer = float(np.linalg.norm(before - _GOAL) - np.linalg.norm(self._position - _GOAL))
        arrived = bool(np.linalg.norm(self._position - _GOAL) < _NEAR)
        crashed = bool(np.linalg.norm(self._position) < DISK)
        reward = nearer + _PER_STEP + _ARRIVED * arrived + _CRASHED * crashed
        return self._position.copy(), reward, arrived or crashed, False, {}


gym.register("Navigation-v0", entry_point=f"{__name__}:Navigation", max_episode_steps=100)
