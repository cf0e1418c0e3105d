"""Finitely many states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from handrail._types import Array
from handrail.errors import InvalidConstraint

_MOST_SHOWN = 100


@final
class Points:
    """Finitely many states.

    Args:
        states: (n, *observation_shape), or one flat state (n_observations,).
    """

    def __init__(self, states: ArrayLike) -> None:
        _refuse_parts(states)
        try:
            array = np.array(states, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidConstraint(
                f"Points needs an array of numbers, one row per state, all of the same length: "
                f"{error}"
            ) from error
        if array.ndim == 0:
            raise InvalidConstraint(
                f"Points needs states, but got the single number {array}. Give a row per state."
            )
        if not array.size:
            raise InvalidConstraint(
                f"Points is empty (shape {array.shape}): a constraint needs at least one state."
            )
        array = array[None] if array.ndim == 1 else array
        flat = array.reshape(len(array), -1)
        _refuse_non_finite(flat)
        _refuse_duplicates(flat)
        array.setflags(write=False)
        self.states: Array = array

    def __len__(self) -> int:
        return len(self.states)

    def __repr__(self) -> str:
        states = "1 state" if len(self) == 1 else f"{len(self):,} states"
        return f"Points({states} of shape {self.states.shape[1:]})"


def _refuse_parts(states: Any) -> None:
    """Of a Dict, which constraints know as one list of numbers."""
    listed = states if isinstance(states, list | tuple) else [states]
    of_parts = next((one for one in listed if isinstance(one, Mapping)), None)
    if of_parts is not None:
        raise InvalidConstraint(
            f"states are numbers in a row, but got a mapping of {', '.join(map(str, of_parts))}. "
            "Of Dict observations, a state is its parts one behind the other, in the order of the "
            "space: gymnasium.spaces.flatten(env.observation_space, observation); of a model of "
            "Stable-Baselines3, handrail.sb3.state_of(model, observation).",
            about="Points",
        )


def _refuse_non_finite(states: Array) -> None:
    bad = np.flatnonzero(~np.isfinite(states).all(axis=1))
    if len(bad):
        raise InvalidConstraint(
            f"state {bad[0]} is not finite{_shown(states[bad[0]])}. "
            "Every coordinate must be an ordinary number.",
            about="Points",
        )


def _refuse_duplicates(states: Array) -> None:
    _, first, inverse = np.unique(states, axis=0, return_index=True, return_inverse=True)
    again = np.flatnonzero(first[inverse] != np.arange(len(states)))
    if len(again):
        raise InvalidConstraint(
            f"state {again[0]} repeats state {first[inverse[again[0]]]}"
            f"{_shown(states[again[0]])}. List each state once.",
            about="Points",
        )


def _shown(state: Array) -> str:
    """Of images, nobody reads the numbers."""
    return f": {state.tolist()}" if state.size <= _MOST_SHOWN else ""
