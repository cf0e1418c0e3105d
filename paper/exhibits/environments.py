"""Figure 3: what the environments look like."""

from __future__ import annotations

import os
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from paper.drawing.measurements import environments_figure
from paper.exhibit import Content, Drawing, Exhibit
from paper.results import Results


def _environments(_: Results) -> Content:
    frames = [
        (title, _frame(name, steps))
        for title, name, steps in (
            ("Cartpole", "CartPole-v1", 8),
            ("Lunar Lander", "LunarLander-v3", 35),
        )
    ]
    return Content(
        drawings=(
            Drawing(
                "environments",
                environments_figure(frames),
                "The environments, as Gymnasium renders them.",
            ),
        )
    )


def _frame(name: str, steps: int) -> NDArray[np.uint8]:
    """What an environment looks like after some steps of doing the same."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # there may be no screen, and none is needed
    env: gym.Env[Any, Any] = gym.make(name, render_mode="rgb_array")
    try:
        env.reset(seed=0)
        for _ in range(steps):
            env.step(0)
        return np.asarray(env.render(), dtype=np.uint8)
    finally:
        env.close()


ENVIRONMENTS = Exhibit("environments", "Figure 3", "The environments", _environments)
