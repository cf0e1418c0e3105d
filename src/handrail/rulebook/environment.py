"""The environment that a file names: making it, and comparing it with the file's names."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import gymnasium as gym
import numpy as np

from handrail.rulebook.requirement import Actions
from handrail.rulebook.source import Source, Spot

Environment: TypeAlias = gym.Env[Any, Any]


@final
@dataclass(frozen=True)
class EnvironmentSpec:
    """A Gymnasium environment and how to make it.

    Attributes:
        id: the name it is registered under.
        max_episode_steps: when episodes are cut off; None for the environment's own limit.
        options: what else gymnasium.make is told.
    """

    id: str
    max_episode_steps: int | None
    options: Mapping[str, bool | int | float | str]


def make(
    spec: EnvironmentSpec,
    source: Source,
    n_observations: int,
    actions: Actions,
    render_mode: str | None = None,
) -> Environment:
    """The environment, with flat observations, after checking that the file fits it."""
    env = _make(spec, source.spot(("environment",)), render_mode)
    try:
        _check_observations(env, spec, source, n_observations)
        _check_actions(env, spec, source, actions)
    except Exception:
        env.close()
        raise
    if len(env.observation_space.shape or ()) != 1:
        return gym.wrappers.FlattenObservation(env)
    return env


def _make(spec: EnvironmentSpec, spot: Spot, render_mode: str | None) -> Environment:
    if not _is_registered(spec.id):
        close = difflib.get_close_matches(spec.id, list(gym.registry), n=3)
        meant = f" Close to it: {', '.join(close)}." if close else ""
        raise spot.error(
            f"Gymnasium knows no environment {spec.id!r}.{meant} If a module of its own registers "
            "it, import that module first (on the command line: --import)."
        )
    options: dict[str, Any] = {"max_episode_steps": spec.max_episode_steps, **spec.options}
    if render_mode is not None:  # not every environment knows the word
        options["render_mode"] = render_mode
    try:
        return gym.make(spec.id, **options)
    except (gym.error.Error, TypeError, ValueError, AssertionError, ImportError) as error:
        raise spot.error(f"Gymnasium cannot make {spec.id!r}. Its own words: {error}") from error


def reward_threshold(environment: str) -> float | None:
    """What Gymnasium calls solved, if it knows the environment and has an opinion."""
    spec = gym.registry.get(environment)
    return None if spec is None else spec.reward_threshold


def _is_registered(environment: str) -> bool:
    try:
        gym.spec(environment)
    except gym.error.Error:
        return False
    return True


def _check_observations(
    env: Environment, spec: EnvironmentSpec, source: Source, n_observations: int
) -> None:
    space = env.observation_space
    if not isinstance(space, gym.spaces.Box):
        raise source.spot(("environment",)).error(
            f"{spec.id} observes {space}, but constraints need a Box of numbers."
        )
    size = int(np.prod(space.shape))
    if size != n_observations:
        raise source.spot(("observations",)).error(
            f"this file names {n_observations}, but {spec.id} observes {size} numbers. Name each "
            "of them, in the order of the environment."
        )


def _check_actions(
    env: Environment, spec: EnvironmentSpec, source: Source, actions: Actions
) -> None:
    space = env.action_space
    if isinstance(space, gym.spaces.Discrete):
        _check_discrete(space, spec, source, actions)
    elif isinstance(space, gym.spaces.Box) and len(space.shape) == 1:
        _check_continuous(space, spec, source, actions)
    else:
        raise source.spot(("environment",)).error(
            f"{spec.id} acts in {space}, but constraints need Discrete actions or a list of "
            "numbers (a Box of one axis)."
        )


def _check_discrete(
    space: gym.spaces.Discrete[Any], spec: EnvironmentSpec, source: Source, actions: Actions
) -> None:
    if int(space.start) != 0:
        raise source.spot(("environment",)).error(
            f"the actions of {spec.id} are numbered from {space.start}, not from 0."
        )
    if actions.ranges is not None:
        raise source.spot(("actions",)).error(
            f"this file gives ranges of continuous actions, but {spec.id} has {space.n} discrete "
            "ones. Name each of them in a list."
        )
    if int(space.n) != len(actions):
        raise source.spot(("actions",)).error(
            f"this file names {len(actions)}, but {spec.id} has {space.n} actions. Name each of "
            "them, in the order of the environment."
        )


def _check_continuous(
    space: gym.spaces.Box, spec: EnvironmentSpec, source: Source, actions: Actions
) -> None:
    low, high = space.low.tolist(), space.high.tolist()
    ranges = ", ".join(f"[{a:g}, {b:g}]" for a, b in zip(low, high, strict=True))
    if actions.ranges is None:
        raise source.spot(("actions",)).error(
            f"this file names discrete actions, but those of {spec.id} are continuous. Give each "
            f"a name and its range, in the order of the environment: {ranges}."
        )
    if len(actions) != len(low):
        raise source.spot(("actions",)).error(
            f"this file names {len(actions)}, but {spec.id} takes {len(low)} continuous actions, "
            f"with the ranges {ranges}. Name each of them."
        )
    if not np.allclose(actions.ranges, np.stack([space.low, space.high], axis=1), rtol=1e-6):
        raise source.spot(("actions",)).error(
            f"the ranges of this file are not those of {spec.id}: {ranges}."
        )
