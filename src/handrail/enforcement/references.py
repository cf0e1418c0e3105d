"""The states at which an edited policy should stay as it was, and where they came from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike

from handrail._types import Array, Mask
from handrail.constraints import Constraint, PlacedConstraint, counted
from handrail.errors import InvalidArgument

_SAMPLED = 4000

# Gymnasium's way to say "unbounded" is inf, or the largest float32.
_UNBOUNDED = 1e30


@final
@dataclass(frozen=True, repr=False)
class References:
    """States of which no constraint speaks: there, every change is a side effect.

    Attributes:
        states: (n, *observation_shape).
        origin: where they came from, in words.
    """

    states: Array
    origin: str

    def __len__(self) -> int:
        return len(self.states)

    def __repr__(self) -> str:
        return f"<References: {counted(len(self), 'state')}, {self.origin}>"


def given_references(
    states: ArrayLike, constraints: Sequence[Constraint], origin: str = "given"
) -> References:
    """States that somebody knows about, such as visited ones.

    Args:
        states: (n, *observation_shape); where constraints speak of flat states, they become so.
        constraints: whose states are left out.
        origin: where the states came from, in words.
    """
    try:
        array = np.asarray(states, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(
            f"Reference states are an array of numbers (n, *observation_shape): {error}."
        ) from error
    shape = constraints[0].states.shape[1:]
    if array.ndim > 2 and shape == (math.prod(array.shape[1:]),):
        array = array.reshape(len(array), *shape)
    if array.ndim < 2 or not len(array) or array.shape[1:] != shape:
        raise InvalidArgument(
            f"Reference states must have the shape (n, {', '.join(map(str, shape))}) with n > 0, "
            f"as the constraints' states have, but got {array.shape}."
        )
    bad = np.flatnonzero(~np.isfinite(array.reshape(len(array), -1)).all(axis=1))
    if len(bad):
        raise InvalidArgument(f"Reference state {bad[0]} is not finite: remove it.")
    return _unconstrained(array, constraints, origin)


def read_references(path: Path, constraints: Sequence[Constraint]) -> References:
    """Given states that `numpy.save` wrote."""
    try:
        with path.open("rb") as file:  # which numpy would leave open where it holds several arrays
            found = np.load(file, allow_pickle=False)
    except FileNotFoundError:
        raise InvalidArgument(f"Reference states {path}: there is no such file.") from None
    except (OSError, ValueError, EOFError):
        found = None
    if not isinstance(found, np.ndarray):  # of several arrays, numpy.savez
        raise InvalidArgument(
            f"Reference states {path}: expected an array (n, n_observations) that "
            "numpy.save('states.npy', array) wrote."
        )
    return given_references(found, constraints, f"of {path.name}")


def references_around(constraints: Sequence[Constraint]) -> References:
    """Random states of a box around the constrained ones, for whoever knows nothing better.

    Three times as wide as the smallest box around all of them.
    """
    low, high = _extent(constraints)
    width = high - low
    width = np.where(width > 0.0, width, np.where(high != 0.0, np.abs(high), 1.0))
    return _sampled(low - width, high + width, constraints, "random, around the constrained states")


def references_of_space(
    space: gym.spaces.Box, constraints: Sequence[Constraint], sizes: Sequence[float]
) -> References:
    """Random states of an observation space; where it has no bounds, around the constraints.

    Args:
        space: of the environment.
        constraints: whose states are left out.
        sizes: the typical size of each observation: at least so far around the constrained states
            where the space has no bounds.
    """
    low, high = (np.asarray(end, dtype=np.float64).reshape(-1) for end in (space.low, space.high))
    lowest, highest = _extent(constraints)
    width = np.maximum(highest - lowest, sizes)
    below, above = low > -_UNBOUNDED, high < _UNBOUNDED
    origin = "random, of the observation space"
    if not (below & above).all():
        origin += " and, where that has no bounds, around the constrained states"
    return _sampled(
        np.where(below, low, lowest - width),
        np.where(above, high, highest + width),
        constraints,
        origin,
    )


def _extent(constraints: Sequence[Constraint]) -> tuple[Array, Array]:
    """The smallest box (lowest, highest) around every constrained state and region."""
    blocks = [one.states.reshape(len(one.states), -1) for one in constraints]
    for one in constraints:
        if isinstance(one, PlacedConstraint) and one.region is not None:
            blocks.append(np.stack(one.region.bounds))
    corners = np.concatenate(blocks)
    return corners.min(axis=0), corners.max(axis=0)


def _sampled(low: Array, high: Array, constraints: Sequence[Constraint], origin: str) -> References:
    states = np.random.default_rng(0).uniform(low, high, (_SAMPLED, len(low)))
    shape = constraints[0].states.shape[1:]
    return _unconstrained(states.reshape(_SAMPLED, *shape), constraints, origin)


def _unconstrained(states: Array, constraints: Sequence[Constraint], origin: str) -> References:
    """Without the states that must change: what happens there is no side effect."""
    flat = states.reshape(len(states), -1)
    kept = ~np.any([_speaks_of(one, flat) for one in constraints], axis=0)
    if not kept.any():
        raise InvalidArgument(
            f"All {len(states)} reference states are constrained themselves, so none is left to "
            "measure side effects on. Give states of which no constraint speaks."
        )
    return References(states[kept], origin)


def _speaks_of(constraint: Constraint, states: Array) -> Mask:
    """Which of the states (n, n_coordinates) a constraint is about."""
    if isinstance(constraint, PlacedConstraint) and constraint.region is not None:
        return constraint.region.contains(states)
    own = set(_keys(constraint.states.reshape(len(constraint.states), -1)))
    return np.array([key in own for key in _keys(states)])


def _keys(states: Array) -> list[bytes]:
    """Equal for states that are the same to an environment, which observes in float32."""
    with np.errstate(over="ignore"):  # beyond float32 everything is infinite
        rounded = states.astype(np.float32) + np.float32(0.0)  # -0.0 + 0.0 is 0.0
    return [state.tobytes() for state in rounded]
