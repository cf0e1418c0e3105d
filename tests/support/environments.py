"""Small environments with known answers."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from time import sleep
from typing import Any

import gymnasium as gym
import numpy as np


class Corridor(gym.Env[Any, Any]):
    """Walk a corridor; every step costs `cost`, the right end pays 1 and ends the episode.

    Observes (position / length, 1). Truncation is left to a TimeLimit.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, length: int = 5, cost: float = 0.1, render_mode: str | None = None) -> None:
        self.length, self.cost, self.render_mode = length, cost, render_mode
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (2,))
        self.action_space = gym.spaces.Discrete(2)
        self.position = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.position = int(self.np_random.integers(0, 2))
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.position = max(0, self.position + (1 if action == 1 else -1))
        arrived = self.position >= self.length
        return self._observe(), (1.0 if arrived else -self.cost), arrived, False, {}

    def render(self) -> Any:
        picture = np.zeros((20, 20 * (self.length + 1), 3), dtype=np.uint8)
        picture[:, 20 * self.position : 20 * self.position + 20] = 200
        return picture

    def _observe(self) -> Any:
        return np.array([self.position / self.length, 1.0], dtype=np.float32)


class Numbered(Corridor):
    """The corridor with actions 3 (left) and 4 (right); others are refused."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = gym.spaces.Discrete(2, start=3)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        return super().step(action - 3)


class OneNumber(Corridor):
    """The corridor without the constant."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (1,))

    def _observe(self) -> Any:
        return super()._observe()[:1]


class Failing(gym.Wrapper[Any, Any, Any, Any]):
    """Breaks in a chosen way at a chosen step of a chosen episode."""

    def __init__(
        self, env: gym.Env[Any, Any], how: str, step: int, episode: int = 0, value: Any = None
    ) -> None:
        super().__init__(env)
        self.how, self.at_step, self.at_episode, self.value = how, step, episode, value
        self.episode, self.count = -1, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self.episode += 1
        self.count = 0
        observation, info = self.env.reset(seed=seed, options=options)
        if self.episode == self.at_episode and self.at_step < 0:
            observation = self._break(observation)[0]
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self.episode == self.at_episode and self.count == self.at_step:
            if self.how == "terminated":
                terminated = self.value
            elif self.how in FLAGS:
                terminated, truncated = FLAGS[self.how]
            else:
                observation, reward = self._break(observation, reward)
        self.count += 1
        return observation, reward, terminated, truncated, info

    def _break(self, observation: Any, reward: Any = 0.0) -> tuple[Any, Any]:
        if self.how == "raise":
            raise RuntimeError("the simulator crashed")
        if self.how == "exit":
            raise SystemExit(3)
        if self.how == "interrupt":
            raise KeyboardInterrupt
        if self.how == "hang":
            Path(f"hangs-{os.getpid()}").touch()  # for whoever waits for it
            sleep(3600)
        if self.how in REWARDS:
            return observation, REWARDS[self.how]
        return OBSERVATIONS[self.how](observation), reward


FLAGS: dict[str, tuple[Any, Any]] = {
    "terminated nan": (float("nan"), False),
    "terminated none": (None, False),
    "terminated text": ("no", False),
    "truncated two": (False, 2),
}
REWARDS: dict[str, Any] = {
    "nan reward": float("nan"),
    "text reward": "much",
    "number as a text": "1",
    "array reward": np.array([1.0]),
    "no reward": None,
    "huge reward": 10**400,
    "complex reward": 1j,
}
OBSERVATIONS: dict[str, Callable[[Any], Any]] = {
    "nan observation": lambda seen: np.full_like(seen, np.nan),
    "infinite observation": lambda seen: np.full_like(seen, np.inf),
    "ragged observation": lambda _: [[1.0], [2.0, 3.0]],
    "longer observation": lambda seen: [*seen, 0.0],
    "nested observation": lambda seen: [seen],
    "no observation": lambda _: None,
    "texts as an observation": lambda seen: [str(one) for one in seen],
    "complex observation": lambda seen: seen + 1j,
}


def corridor(steps: int = 20, **options: Any) -> gym.Env[Any, Any]:
    return gym.wrappers.TimeLimit(Corridor(**options), steps)


class Pixels(gym.Env[Any, Any]):
    """Observes a little picture; one step an episode, which pays 1 for action 2."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(0, 255, (3, 4, 2), dtype=np.uint8)
        self.action_space = gym.spaces.Discrete(3)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self._observe(), float(action == 2), True, False, {}

    def _observe(self) -> Any:
        return self.np_random.integers(0, 256, (3, 4, 2)).astype(np.uint8)


class Board(gym.Env[Any, Any]):
    """A piece on a board of 5 × 5, which observes the board; a step pays 1 for moving right."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(0.0, 1.0, (5, 5))
        self.action_space = gym.spaces.Discrete(2)
        self.steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self._observe(), float(action == 1), self.steps >= 8, False, {}

    def _observe(self) -> Any:
        return piece(*self.np_random.integers(0, 5, 2)).astype(np.float32)


def piece(row: int, column: int) -> Any:
    """The board (5, 5) with a piece there."""
    board = np.zeros((5, 5))
    board[row, column] = 1.0
    return board


BOARD = "Handrail/Board-v0"
gym.register(BOARD, entry_point="tests.support.environments:Board")


class Tank(gym.Env[Any, Any]):
    """A tank that observes a pressure (Pa), a temperature (K) and a level (m); nothing happens."""

    def __init__(self) -> None:
        low, high = np.array([1.5e5, 280.0, 0.0]), np.array([2.5e5, 320.0, 2.0])
        self.observation_space = gym.spaces.Box(low, high, dtype=np.float64)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.array([2e5, 300.0, 1.0]), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.array([2e5, 300.0, 1.0]), 0.0, False, True, {}


class Car(gym.Env[Any, Any]):
    """A car that sees a gap and its speed, and chooses a gear and whether to brake; braking pays.

    Args:
        binary: whether the gear is either of two.
    """

    def __init__(self, binary: bool = False) -> None:
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        gears: Any = gym.spaces.MultiDiscrete([3, 2])
        self.action_space = gym.spaces.MultiBinary(2) if binary else gears
        self.steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self.steps += 1
        return self._observe(), float(action[1] == 1), self.steps >= 8, False, {}

    def _observe(self) -> Any:
        return self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32)


CAR = "Handrail/Car-v0"
gym.register(CAR, entry_point="tests.support.environments:Car")
