"""An environment as CartPole, which raises, dies or hangs in its fourth step, as it is told."""

from __future__ import annotations

import os
import time
from typing import Any

import gymnasium as gym
from gymnasium.envs.classic_control import CartPoleEnv


class OddEnvironment(CartPoleEnv):
    """Misbehaves in a manner."""

    def __init__(self, manner: str, render_mode: str | None = None) -> None:
        super().__init__(render_mode=render_mode)
        self.manner = manner
        self.count = 0

    def step(self, action: Any) -> Any:
        self.count += 1
        if self.count == 4 and self.manner == "raises":
            raise RuntimeError("odd")
        if self.count == 4 and self.manner == "dies":
            os._exit(7)
        while self.count == 4 and self.manner == "hangs":
            time.sleep(1.0)
        return super().step(action)  # type: ignore[no-untyped-call]


gym.register(
    "Odd-v0", entry_point="tests.support.odd_environment:OddEnvironment", max_episode_steps=20
)
