"""What an environment observes and does, refused if no categorical policy can act in it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from handrail.errors import InvalidPolicy


def sizes_of(env_or_spaces: Any) -> tuple[tuple[int, ...], int]:
    """(observation shape, number of actions) of an environment or a pair of spaces."""
    observations, actions = spaces_of(env_or_spaces)
    return tuple(observations.shape), int(actions.n)


def spaces_of(env_or_spaces: Any) -> tuple[gym.spaces.Box, gym.spaces.Discrete[Any]]:
    """The spaces of one environment, refused if no categorical policy can act in them."""
    if isinstance(env_or_spaces, tuple):
        if len(env_or_spaces) != 2:
            raise InvalidPolicy(
                f"Expected a pair (observation_space, action_space), but got "
                f"{len(env_or_spaces)} items."
            )
        observations, actions = env_or_spaces
    elif isinstance(env_or_spaces, gym.vector.VectorEnv):
        observations = env_or_spaces.single_observation_space
        actions = env_or_spaces.single_action_space
    elif isinstance(env_or_spaces, gym.Env):
        observations, actions = env_or_spaces.observation_space, env_or_spaces.action_space
    else:
        raise InvalidPolicy(
            f"Expected a Gymnasium environment or a pair of spaces, but got "
            f"{type(env_or_spaces).__name__}. Try CategoricalPolicy.mlp(gym.make('CartPole-v1'))."
        )
    if not isinstance(observations, gym.spaces.Box):
        raise InvalidPolicy(
            f"Observations must be a Box of numbers, but this environment observes {observations}. "
            "Wrap it with gymnasium.wrappers.FlattenObservation."
        )
    if not isinstance(actions, gym.spaces.Discrete):
        raise InvalidPolicy(
            f"Actions must be Discrete for a categorical policy, but this environment acts in "
            f"{actions}."
        )
    if actions.start != 0:
        raise InvalidPolicy(
            f"Actions must be numbered from 0, but {actions} starts at {actions.start}. "
            "Wrap it with gymnasium.wrappers.TransformAction."
        )
    if actions.n < 2:
        raise InvalidPolicy(f"A policy needs at least two actions to choose from, not {actions}.")
    return observations, actions
