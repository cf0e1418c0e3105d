"""Whether a policy sees the numbers that constraints speak of, or normalised ones.

Constraints are about what the policy sees. Where a wrapper normalises that, a constraint at an
angle of 0.2 would be measured at some other angle, and at another one after every episode: "0
violated" would be true of nothing. Wrappers that change observations in a fixed, known way are the
user's own choice of units.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorWrapper

from handrail.errors import InvalidPolicy

_STATISTICS = "obs_rms"  # what normalising wrappers keep


def refuse_normalised(env: gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any]) -> None:
    """Refuse an environment with a wrapper that normalises observations, however deep inside."""
    for moving in _normalised(env):
        raise InvalidPolicy(
            f"{normalised_in_words('NormalizeObservation', moving)} Remove it, or scale by fixed "
            f"numbers instead, {FIXED}"
        )


def normalised_in_words(name: str, moving: bool) -> str:
    """Why observations that were normalised so cannot be constrained.

    Args:
        name: of what normalises.
        moving: whether its averages are known to change still.
    """
    how = "on a scale that moves with every step" if moving else "by averages of its own"
    return (
        f"{name} shows the policy other numbers than those that constraints speak of, {how}: they "
        "would be held and measured at the wrong states."
    )


FIXED = (
    "for example with gymnasium.wrappers.TransformObservation(env, lambda seen: (seen - means) / "
    "sizes, new_space), and write the constraints in these."
)


def _normalised(env: Any) -> Iterator[bool]:
    """For each wrapper that normalises observations, whether its averages are known to change."""
    if isinstance(
        env, gym.wrappers.NormalizeObservation | gym.wrappers.vector.NormalizeObservation
    ):
        yield bool(env.update_running_mean)
    if isinstance(env, gym.Wrapper | VectorWrapper):
        yield from _normalised(env.env)
    elif isinstance(env, SyncVectorEnv):
        for one in env.envs:
            yield from _normalised(one)
    elif isinstance(env, AsyncVectorEnv):  # in processes of their own, where wrappers can be asked
        yield from (False for found in env.call("has_wrapper_attr", _STATISTICS) if found)
