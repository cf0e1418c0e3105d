"""A number that depends on the state: what a bound or a weight of a constraint may be."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike
from typing_extensions import override

from handrail._types import Array
from handrail.errors import InvalidConstraint


class StateFunction(ABC):
    """A number for every state."""

    @property
    @abstractmethod
    def n_coordinates(self) -> int | None:
        """Of the states; None for any."""

    @abstractmethod
    def at(self, states: Array) -> Array:
        """Values (n,) at states (n, n_coordinates); NaN where it has none."""

    @abstractmethod
    def plus(self, number: float) -> StateFunction:
        """The same, and a number."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Plain values that JSON can hold and `function_from` reads."""


@final
@dataclass(frozen=True, eq=False)
class Affine(StateFunction):
    """gain @ s + offset.

    Args:
        gain: (n_coordinates,) a number for each coordinate of a state.
        offset: at the state 0.
    """

    gain: Array
    offset: float

    def __init__(self, gain: ArrayLike, offset: float = 0.0) -> None:
        numbers = np.asarray(gain, dtype=np.float64)
        if numbers.ndim != 1:
            raise InvalidConstraint(
                f"Affine: `gain` has shape {numbers.shape}, but a state has one number for each "
                "coordinate. Give a flat list."
            )
        object.__setattr__(self, "gain", numbers)
        object.__setattr__(self, "offset", float(offset))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Affine):
            return NotImplemented
        return self.offset == other.offset and np.array_equal(self.gain, other.gain)

    def __hash__(self) -> int:
        return hash((self.gain.tobytes(), self.offset))

    def __str__(self) -> str:
        terms = [f"{gain:g}*s{i}" for i, gain in enumerate(self.gain.tolist()) if gain]
        return " + ".join([*terms, f"{self.offset:g}"]).replace("+ -", "- ")

    @property
    def is_number(self) -> bool:
        """Whether nothing depends on a coordinate."""
        return not self.gain.any()

    @property
    @override
    def n_coordinates(self) -> int:
        """As many as there are gains."""
        return len(self.gain)

    @override
    def at(self, states: Array) -> Array:
        """One by one, so that a state has one value however many there are."""
        values: Array = (states * self.gain).sum(axis=1) + self.offset
        return values

    @override
    def plus(self, number: float) -> Affine:
        return Affine(self.gain, self.offset + number)

    @override
    def describe(self) -> dict[str, Any]:
        return {"gain": self.gain.tolist(), "offset": self.offset}


@final
@dataclass(frozen=True)
class PythonFunction(StateFunction):
    """What a vectorised Python function says: it can be held where it is searched, not proven.

    Args:
        call: from states (n, n_coordinates) to numbers (n,).
        added: to each of them.
    """

    call: Callable[[Array], ArrayLike]
    added: float = 0.0

    def __str__(self) -> str:
        name = f"{getattr(self.call, '__name__', type(self.call).__name__)}(s)"
        return f"{name} + {self.added:g}".replace("+ -", "- ") if self.added else name

    @property
    @override
    def n_coordinates(self) -> None:
        """Nobody knows."""
        return

    @override
    def at(self, states: Array) -> Array:
        """Refused if there is not one number for each state."""
        values = np.asarray(self.call(states), dtype=np.float64)
        if values.shape != (len(states),):
            raise InvalidConstraint(
                f"{self} returned an array of shape {values.shape} for states of shape "
                f"{states.shape}. It must take all states at once and return one number for each: "
                f"shape ({len(states)},)."
            )
        return values + self.added

    @override
    def plus(self, number: float) -> PythonFunction:
        return PythonFunction(self.call, self.added + number)

    @override
    def describe(self) -> dict[str, Any]:
        raise InvalidConstraint(
            f"{self} is a Python function and cannot be written to a file. Write it as an Affine "
            "or a Formula."
        )
