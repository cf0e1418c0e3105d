"""What an environment observes and does, refused where no policy of ours can act."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from handrail.errors import InvalidPolicy

Discrete = tuple[gym.spaces.Box, gym.spaces.Discrete[Any]]
Continuous = tuple[gym.spaces.Box, gym.spaces.Box]
Spaces = Discrete | Continuous


def spaces_of(env_or_spaces: Any) -> Spaces:
    """The spaces of one environment (of a vector of them), or of a pair of spaces."""
    observations, actions = _pair(env_or_spaces)
    if not isinstance(observations, gym.spaces.Box):
        raise InvalidPolicy(
            f"Observations must be a Box of numbers, but this environment observes {observations}. "
            "Wrap it with gymnasium.wrappers.FlattenObservation."
        )
    if isinstance(actions, gym.spaces.Discrete):
        _check_discrete(actions)
        return observations, actions
    if isinstance(actions, gym.spaces.Box):
        _check_continuous(actions)
        return observations, actions
    raise InvalidPolicy(
        f"Actions must be Discrete or a Box, but this environment acts in {actions}."
    )


def discrete_spaces(env_or_spaces: Any) -> Discrete:
    """Refused if no categorical policy can act in them."""
    observations, actions = spaces_of(env_or_spaces)
    if isinstance(actions, gym.spaces.Box):
        raise InvalidPolicy(
            f"Actions must be Discrete for a categorical policy, but this environment acts in "
            f"{actions}. Use GaussianPolicy."
        )
    return observations, actions


def continuous_spaces(env_or_spaces: Any) -> Continuous:
    """Refused if no Gaussian policy can act in them."""
    observations, actions = spaces_of(env_or_spaces)
    if isinstance(actions, gym.spaces.Discrete):
        raise InvalidPolicy(
            f"Actions must be a Box for a Gaussian policy, but this environment acts in "
            f"{actions}. Use CategoricalPolicy."
        )
    return observations, actions


def _pair(env_or_spaces: Any) -> tuple[Any, Any]:
    if isinstance(env_or_spaces, tuple):
        if len(env_or_spaces) != 2:
            raise InvalidPolicy(
                f"Expected a pair (observation_space, action_space), but got "
                f"{len(env_or_spaces)} items."
            )
        return env_or_spaces
    if isinstance(env_or_spaces, gym.vector.VectorEnv):
        return env_or_spaces.single_observation_space, env_or_spaces.single_action_space
    if isinstance(env_or_spaces, gym.Env):
        return env_or_spaces.observation_space, env_or_spaces.action_space
    raise InvalidPolicy(
        f"Expected a Gymnasium environment or a pair of spaces, but got "
        f"{type(env_or_spaces).__name__}. Of an id, give gymnasium.make(id)."
    )


def _check_discrete(actions: gym.spaces.Discrete[Any]) -> None:
    if actions.start != 0:
        raise InvalidPolicy(
            f"Actions must be numbered from 0, but {actions} starts at {actions.start}. "
            "Wrap it with gymnasium.wrappers.TransformAction."
        )
    if actions.n < 2:
        raise InvalidPolicy(f"A policy needs at least two actions to choose from, not {actions}.")


def _check_continuous(actions: gym.spaces.Box) -> None:
    if not np.issubdtype(actions.dtype, np.floating):
        raise InvalidPolicy(
            f"Continuous actions must be a Box of floats, but this environment acts in {actions}."
        )
    if len(actions.shape) != 1:
        raise InvalidPolicy(
            f"Continuous actions must be a list of numbers, but {actions} has shape "
            f"{actions.shape}. Wrap the environment with gymnasium.wrappers.TransformAction."
        )
    if not (np.isfinite(actions.low) & np.isfinite(actions.high)).all():
        raise InvalidPolicy(
            f"Continuous actions need a finite range, but this environment acts in {actions}. "
            "Wrap it with gymnasium.wrappers.TransformAction, with a finite Box."
        )
