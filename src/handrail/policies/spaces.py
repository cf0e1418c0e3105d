"""What an environment observes and does, refused where no policy of ours can act."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from handrail._types import Array
from handrail.errors import InvalidArgument, InvalidPolicy, ShapeMismatch
from handrail.policies.policy import Policy

Discrete = tuple[gym.spaces.Box, gym.spaces.Discrete[Any]]

Continuous = tuple[gym.spaces.Box, gym.spaces.Box]

Branches = gym.spaces.MultiDiscrete | gym.spaces.MultiBinary

Branched = tuple[gym.spaces.Box, Branches]

Spaces = Discrete | Continuous | Branched


def spaces_of(env_or_spaces: Any) -> Spaces:
    """The spaces of one environment (of a vector of them), or of a pair of spaces."""
    given, actions = _pair(env_or_spaces)
    observations = flat_space(given)
    if isinstance(actions, gym.spaces.Discrete):
        _check_discrete(actions)
        return observations, actions
    if isinstance(actions, gym.spaces.Box):
        _check_continuous(actions)
        return observations, actions
    if isinstance(actions, gym.spaces.MultiDiscrete | gym.spaces.MultiBinary):
        _check_branches(actions)
        return observations, actions
    raise InvalidPolicy(
        f"Actions must be Discrete, MultiDiscrete, MultiBinary or a Box, but this environment acts "
        f"in {actions}."
    )


def discrete_spaces(env_or_spaces: Any) -> Discrete:
    """Refused if no categorical policy can act in them."""
    observations, actions = spaces_of(env_or_spaces)
    if not isinstance(actions, gym.spaces.Discrete):
        raise InvalidPolicy(
            f"Actions must be Discrete for a categorical policy, but this environment acts in "
            f"{actions}. Use {policy_for(actions)}."
        )
    return observations, actions


def branched_spaces(env_or_spaces: Any) -> Branched:
    """Refused if no policy of several branches can act in them."""
    observations, actions = spaces_of(env_or_spaces)
    if not isinstance(actions, gym.spaces.MultiDiscrete | gym.spaces.MultiBinary):
        raise InvalidPolicy(
            f"Actions must be MultiDiscrete or MultiBinary for a policy of several branches, but "
            f"this environment acts in {actions}. Use {policy_for(actions)}."
        )
    return observations, actions


def continuous_spaces(env_or_spaces: Any) -> Continuous:
    """Refused if no Gaussian policy can act in them."""
    observations, actions = spaces_of(env_or_spaces)
    if not isinstance(actions, gym.spaces.Box):
        raise InvalidPolicy(
            f"Actions must be a Box for a Gaussian policy, but this environment acts in "
            f"{actions}. Use {policy_for(actions)}."
        )
    return observations, actions


def policy_for(actions: gym.Space[Any]) -> str:
    """The class that acts in such a space."""
    if isinstance(actions, gym.spaces.Box):
        return "GaussianPolicy"
    return "CategoricalPolicy" if isinstance(actions, gym.spaces.Discrete) else "BranchedPolicy"


def branches_of(actions: Branches) -> tuple[int, ...]:
    """How many actions each branch has."""
    if isinstance(actions, gym.spaces.MultiBinary):
        return (2,) * int(np.prod(actions.shape))
    return tuple(int(one) for one in actions.nvec.ravel())


def flat_space(observations: gym.Space[Any]) -> gym.spaces.Box:
    """What policies see: a Box as it is, observations of any other kind as a list of numbers.

    That is `gymnasium.spaces.flatten`: the parts of a Dict or Tuple one behind the other, in the
    order of the space; of a discrete part a number for each of its values, 1 for the one it has.
    """
    if isinstance(observations, gym.spaces.Box):
        return observations
    if not _is_of_numbers(observations):
        raise InvalidPolicy(
            f"Observations must be numbers: a Box, discrete values, or a Dict or Tuple of such. "
            f"This environment observes {observations}. Wrap it with "
            "gymnasium.wrappers.TransformObservation."
        )
    flat = gym.spaces.flatten_space(observations)
    assert isinstance(flat, gym.spaces.Box)  # as that of all these is
    return flat


def _is_of_numbers(space: gym.Space[Any]) -> bool:
    if isinstance(space, gym.spaces.Dict | gym.spaces.Tuple):
        parts = space.values() if isinstance(space, gym.spaces.Dict) else space
        return all(map(_is_of_numbers, parts))
    known = gym.spaces.Box, gym.spaces.Discrete, gym.spaces.MultiBinary, gym.spaces.MultiDiscrete
    return isinstance(space, known)


def space_of(policy: Policy) -> gym.Space[Any] | None:
    """What a policy is shown, where a part of its network says so: of images, also their axes."""
    for part in policy.module.modules():
        space = getattr(part, "observation_space", None)
        if isinstance(space, gym.Space):
            return space
    return None


def flat_observation(observation: Any, space: gym.Space[Any]) -> Any:
    """An observation as policies see it; arrays, which are so already, as they are."""
    if isinstance(space, gym.spaces.Box) or isinstance(observation, np.ndarray):
        return observation
    return gym.spaces.flatten(space, observation)


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
    if actions.n < 2:
        raise InvalidPolicy(f"A policy needs at least two actions to choose from, not {actions}.")


def _check_branches(actions: Branches) -> None:
    if len(actions.shape) != 1 or min(branches_of(actions), default=0) < 2:
        raise InvalidPolicy(
            f"Branches must be a list, each with at least two actions to choose from, but this "
            f"environment acts in {actions}. Wrap it with gymnasium.wrappers.TransformAction."
        )


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


def limits_of(actions: gym.spaces.Box) -> tuple[Array, Array]:
    """The lowest and highest action (n_actions,)."""
    return actions.low.ravel().astype(np.float64), actions.high.ravel().astype(np.float64)


def action_limits(limits: Any, n_actions: int) -> tuple[Array, Array]:
    """(low, high) as callers say it, each a number or (n_actions,)."""
    try:
        low, high = (np.asarray(end, dtype=np.float64) for end in limits)
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"limits are the lowest and the highest action, such as (-2.0, 2.0), not {limits!r}."
        ) from None
    for end in (low, high):
        if end.shape not in ((), (n_actions,)):
            raise ShapeMismatch(
                f"The actions have {n_actions} dimensions, but limits have the shape "
                f"{end.shape}: expected two numbers, or two of shape ({n_actions},)."
            )
    if not (low <= high).all():  # nor if one is not a number
        raise InvalidArgument(
            f"limits are (low, high) with low up to high, such as (-2.0, 2.0), not {limits!r}."
        )
    return low, high


def fitting(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """The environment as policies see it, given actions as they draw them."""
    space = env.action_space
    if not takes_as_drawn(space):
        env = gym.wrappers.TransformAction(env, lambda action: fitted(action, space), space)
    return flattening(env)


def flattening(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """The environment as policies see it."""
    if isinstance(env.observation_space, gym.spaces.Box):
        return env
    return gym.wrappers.FlattenObservation(env)


def takes_as_drawn(space: gym.Space[Any]) -> bool:
    """Whether actions need no fitting."""
    return isinstance(space, gym.spaces.Discrete) and int(space.start) == 0


def fitted(actions: Any, space: gym.Space[Any]) -> Any:
    """Actions as the space takes them.

    Continuous ones (…, n_actions) are drawn beyond its range, too, and are clipped to it, in the
    precision that it declares; discrete ones are drawn from 0 on, and numbered from its start.
    """
    if isinstance(space, gym.spaces.Box):
        return np.clip(actions, space.low, space.high).astype(space.dtype)
    if isinstance(space, gym.spaces.Discrete):
        return actions + space.start
    if isinstance(space, gym.spaces.MultiDiscrete):
        return (actions + space.start).astype(space.dtype)
    return actions.astype(space.dtype)


def check_fit(policy: Policy, spaces: Spaces) -> None:
    """A policy for another environment is refused before it plays."""
    observations, actions = spaces
    continuous = isinstance(actions, gym.spaces.Box)
    sizes: tuple[int, ...] | None = getattr(policy.quantity, "sizes", None)
    branched = isinstance(actions, gym.spaces.MultiDiscrete | gym.spaces.MultiBinary)
    if continuous != policy.quantity.is_continuous or branched != (sizes is not None):
        raise InvalidPolicy(
            f"The environment acts in {actions}, but the policy is a {type(policy).__name__}. Use "
            f"a {policy_for(actions)}."
        )
    n_outputs = policy.outputs(np.zeros((1, *observations.shape))).shape[1]
    n_actions = policy.quantity.n_actions(n_outputs)
    if isinstance(actions, gym.spaces.Box):
        if n_actions != actions.shape[0]:
            raise InvalidPolicy(
                f"The policy has {n_actions} mean actions, but the environment takes "
                f"{actions.shape[0]}."
            )
    elif isinstance(actions, gym.spaces.Discrete):
        if n_actions != actions.n:
            raise InvalidPolicy(
                f"The policy chooses among {n_actions} actions, but the environment has "
                f"{actions.n}."
            )
    elif sizes != branches_of(actions):
        raise InvalidPolicy(
            f"The policy has branches of {sizes} actions, but the environment has "
            f"{branches_of(actions)}."
        )
