"""Playing a policy to be watched: in a window, or as an animated GIF."""

from __future__ import annotations

from pathlib import Path
from typing import Any, final

import gymnasium as gym
import numpy as np
from PIL import Image

from handrail.errors import EnvironmentFailure, InvalidArgument
from handrail.learning import Episode, Start, drawing, greedy, play
from handrail.policies import Policy, clipping

_STREAM = 3  # of chance: neither learning nor evaluation


_MOST_FRAMES = 300  # of one film; longer ones show every k-th


def refuse_unrenderable(env: gym.Env[Any, Any], mode: str) -> None:
    """An environment that cannot show itself is told so before it plays."""
    modes = env.metadata.get("render_modes", [])
    env.close()
    if mode not in modes:
        raise InvalidArgument(
            f"This environment cannot render {mode!r}; it offers {', '.join(modes) or 'nothing'}."
        )


def watch(
    env: gym.Env[Any, Any], policy: Policy, seed: int, episodes: int, deterministic: bool
) -> list[Episode]:
    """Play episodes in an environment that shows itself."""
    played = []
    for number in range(episodes):
        start = Start.of(seed, number, _STREAM)
        act = greedy(policy) if deterministic else drawing(policy, start.rng)
        played.append(play(clipping(env), act, start.environment))
    return played


def film(
    env: gym.Env[Any, Any],
    policy: Policy,
    seed: int,
    episodes: int,
    deterministic: bool,
    path: Path,
) -> list[Episode]:
    """Play episodes and write what was seen as an animated GIF."""
    camera = _Camera(env)
    played = watch(camera, policy, seed, episodes, deterministic)
    every = -(-len(camera.frames) // _MOST_FRAMES)
    pictures = [Image.fromarray(frame).quantize(64) for frame in camera.frames[::every]]
    per_second = float(env.metadata.get("render_fps", 30))
    path.parent.mkdir(parents=True, exist_ok=True)
    pictures[0].save(
        path,
        save_all=True,
        append_images=pictures[1:],
        duration=max(20, round(1000.0 * every / per_second)),
        loop=0,
        optimize=True,
    )
    return played


@final
class _Camera(gym.Wrapper[Any, Any, Any, Any]):
    """Keeps a picture of every step."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.frames: list[np.ndarray[Any, np.dtype[np.uint8]]] = []

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        result = self.env.reset(**arguments)
        self._take()
        return result

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        result = self.env.step(action)
        self._take()
        return result

    def _take(self) -> None:
        frame = self.env.render()
        if not isinstance(frame, np.ndarray):
            raise EnvironmentFailure(
                f"The environment rendered {type(frame).__name__}, not a picture, so there is "
                "nothing to film."
            )
        self.frames.append(frame.astype(np.uint8))
