"""A policy at work: in a window, or as an animated GIF."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import RenderCollection
from PIL import Image

from handrail._storage import write_atomically
from handrail.errors import EnvironmentFailure, InvalidArgument
from handrail.learning import Episode, Start, drawing, greedy, play
from handrail.policies import Policy, fitting
from handrail.runs import Run

_SCREEN = "SDL_VIDEODRIVER"

_STREAM = 3  # of chance: neither learning nor evaluation

_MOST_FRAMES = 300  # of one film; longer ones show every k-th


def watch(run: Run, episodes: int = 1, deterministic: bool = False) -> list[Episode]:
    """Play episodes of a run's newest policy in a window."""
    env = _stage(run, "human")
    try:
        return play_episodes(env, run.agent().policy, run.seed, episodes, deterministic)
    finally:
        env.close()


def write_film(
    run: Run, path: str | Path, episodes: int = 1, deterministic: bool = False
) -> list[Episode]:
    """Play episodes of a run's newest policy and write what was seen as an animated GIF."""
    content, played = filmed(
        _stage(run, "rgb_array"), run.agent().policy, run.seed, episodes, deterministic
    )
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, content)
    return played


def filmed(
    stage: gym.Env[Any, Any],
    policy: Policy,
    seed: int,
    episodes: int = 1,
    deterministic: bool = False,
) -> tuple[bytes, list[Episode]]:
    """An animated GIF of a policy at work, and the episodes that it shows.

    Args:
        stage: an environment that renders "rgb_array"; closed in the end.
        policy: that plays.
        seed: the same one plays the same.
        episodes: how many.
        deterministic: always take the most likely action.
    """
    env = RenderCollection(stage, pop_frames=False, reset_clean=False)
    try:
        with _no_screen():
            played = play_episodes(env, policy, seed, episodes, deterministic)
        return _gif(_frames(env), float(env.metadata.get("render_fps", 30))), played
    finally:
        env.close()


@contextmanager
def _no_screen() -> Iterator[None]:
    """SDL draws for many environments; it looks for a screen, and complains if there is none."""
    before = os.environ.get(_SCREEN)
    os.environ[_SCREEN] = "dummy"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SCREEN]
        else:
            os.environ[_SCREEN] = before


def play_episodes(
    env: gym.Env[Any, Any], policy: Policy, seed: int, episodes: int, deterministic: bool
) -> list[Episode]:
    """Play in an environment that shows itself; the same seed plays the same."""
    played = []
    for number in range(episodes):
        start = Start.of(seed, number, _STREAM)
        act = greedy(policy) if deterministic else drawing(policy, start.rng)
        played.append(play(fitting(env), act, start.environment))
    return played


def _stage(run: Run, mode: str) -> gym.Env[Any, Any]:
    """An environment that cannot show itself is told so before it plays."""
    env = run.make_environment()
    modes = env.metadata.get("render_modes", [])
    env.close()
    if mode not in modes:
        raise InvalidArgument(
            f"This environment cannot render {mode!r}; it offers {', '.join(modes) or 'nothing'}."
        )
    return run.make_environment(mode)


def _frames(env: RenderCollection[Any, Any]) -> list[np.ndarray[Any, np.dtype[np.uint8]]]:
    frames = env.render()
    for frame in frames:
        if not isinstance(frame, np.ndarray):
            raise EnvironmentFailure(
                f"The environment rendered {type(frame).__name__}, not a picture, so there is "
                "nothing to film."
            )
    return [np.asarray(frame, dtype=np.uint8) for frame in frames]


def _gif(frames: list[np.ndarray[Any, np.dtype[np.uint8]]], per_second: float) -> bytes:
    every = -(-len(frames) // _MOST_FRAMES)
    pictures = [Image.fromarray(frame).quantize(64) for frame in frames[::every]]
    content = BytesIO()
    pictures[0].save(
        content,
        format="GIF",
        save_all=True,
        append_images=pictures[1:],
        duration=max(20, round(1000.0 * every / per_second)),
        loop=0,
        optimize=True,
    )
    return content.getvalue()
