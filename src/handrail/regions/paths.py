"""A state for every t: written as expressions, or computed by a Python function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from numbers import Real
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from handrail.arrays import Array
from handrail.errors import InvalidConstraint
from handrail.regions.checks import as_number
from handrail.regions.expressions import Expression, parse_expression
from handrail.regions.intervals import Interval

_FORM = (
    "It is called with an array t (n,) and returns the states (n, n_coordinates): use NumPy's "
    "functions, such as np.stack([np.cos(t), np.sin(t)], axis=1), or write expressions."
)


class Path(ABC):
    """A state for every t."""

    @abstractmethod
    def states(self, t: Array) -> Array:
        """States (n, n_coordinates) at t (n,).

        Raises:
            InvalidConstraint: if one is not finite.
        """

    @abstractmethod
    def enclose(self, low: Array, high: Array) -> Interval:
        """Two corners (n, n_coordinates) around all states for t between low (n,) and high (n,).

        Raises:
            InvalidConstraint: if nothing is known about what happens between two values of t.
        """

    @property
    @abstractmethod
    def is_known_between(self) -> bool:
        """Whether `enclose` has an answer."""


@final
class WrittenPath(Path):
    """An expression in t, or a number, per coordinate.

    Args:
        written: (n_coordinates,) as the user gave them.
    """

    def __init__(self, written: Sequence[str | float]) -> None:
        if not len(written):
            raise InvalidConstraint("Curve: give one expression per coordinate, not none.")
        self.written = [text if isinstance(text, str) else _plain(text) for text in written]
        self._expressions = [_parsed(i, text) for i, text in enumerate(self.written)]

    def states(self, t: Array) -> Array:
        """By evaluating the expressions."""
        states = np.stack([expression.evaluate(t) for expression in self._expressions], axis=1)
        bad = np.argwhere(~np.isfinite(states))
        if len(bad):
            row, i = bad[0]
            raise InvalidConstraint(
                f"Curve: coordinate {i}, {self.written[i]}, is not finite at t = {t[row]:g}. "
                "Choose t_min and t_max such that it is."
            )
        return states

    def enclose(self, low: Array, high: Array) -> Interval:
        """By interval arithmetic."""
        found = [expression.enclose(low, high) for expression in self._expressions]
        return np.stack([ends[0] for ends in found], 1), np.stack([ends[1] for ends in found], 1)

    @property
    def is_known_between(self) -> bool:
        """Always."""
        return True


@final
class CalledPath(Path):
    """A Python function.

    Args:
        function: of t (n,), which returns (n, n_coordinates).
        speed: (n_coordinates,) or () bounds on how fast the coordinates change; None if unknown.
        t: (n,) some values to try it with.
    """

    def __init__(
        self, function: Callable[[Array], ArrayLike], speed: ArrayLike | None, t: Array
    ) -> None:
        self._function = function
        self._n_coordinates = _count_coordinates(function, t)
        self.speed = None if speed is None else _as_speed(speed, self._n_coordinates)

    def states(self, t: Array) -> Array:
        """By calling the function."""
        states = np.array(self._function(t.copy()), dtype=np.float64)
        if states.shape != (len(t), self._n_coordinates):
            raise InvalidConstraint(
                f"Curve: f returned the shape {states.shape} for {len(t)} values of t. {_FORM}"
            )
        bad = np.flatnonzero(~np.isfinite(states).all(axis=1))
        if len(bad):
            raise InvalidConstraint(
                f"Curve: f({t[bad[0]]:g}) is not finite: {states[bad[0]].tolist()}. "
                "Choose t_min and t_max such that it is."
            )
        return states

    def enclose(self, low: Array, high: Array) -> Interval:
        """The state in the middle, plus and minus what the speed allows."""
        if self.speed is None:
            raise InvalidConstraint(
                "A curve given as a Python function can be proven only with a bound on its speed: "
                "Curve(f, ..., speed=...), or write it as expressions."
            )
        middle = 0.5 * low + 0.5 * high
        reach = np.maximum(middle - low, high - middle)[:, None] * self.speed
        states = self.states(middle)
        # Rounding must not lose the ends; a coordinate that does not move stays as it is.
        slack = 1e-12 * reach + 1e-15 * np.abs(states) * (self.speed > 0.0)
        return states - reach - slack, states + reach + slack

    @property
    def is_known_between(self) -> bool:
        """Only with a bound on the speed."""
        return self.speed is not None


def _plain(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidConstraint(
            f"Curve: a coordinate must be an expression such as '0.05*cos(t)', or a number, but is "
            f"{value!r}."
        )
    return as_number(value, "Curve: a coordinate")


def _parsed(coordinate: int, text: str | float) -> Expression:
    try:
        return parse_expression(text if isinstance(text, str) else repr(text))
    except InvalidConstraint as error:
        raise InvalidConstraint(f"Curve: coordinate {coordinate}: {error}") from None


def _as_speed(speed: ArrayLike, n_coordinates: int) -> Array:
    try:
        speeds = np.array(speed, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidConstraint(f"Curve: speed must be numbers: {error}") from error
    if speeds.shape not in ((), (n_coordinates,)):
        raise InvalidConstraint(
            f"Curve: speed must be a number, or one for each of the {n_coordinates} coordinates, "
            f"but has shape {speeds.shape}."
        )
    if not np.isfinite(speeds).all() or (speeds < 0.0).any():
        raise InvalidConstraint(
            f"Curve: speed bounds |df/dt|, so it is finite and not negative, but is {speed!r}."
        )
    return np.broadcast_to(speeds, n_coordinates).copy()


def _count_coordinates(function: Callable[[Array], ArrayLike], t: Array) -> int:
    """Found by calling it with several values and with one."""
    try:
        several = np.array(function(t.copy()), dtype=np.float64)
        one = np.array(function(t[1:2].copy()), dtype=np.float64)
    except Exception as error:
        if _works_on_numbers(function, float(t[1])):
            raise InvalidConstraint(
                f"Curve: f works only on single numbers ({type(error).__name__}: {error}). {_FORM}"
            ) from error
        raise InvalidConstraint(
            f"Curve: f failed at t = {t.tolist()} ({type(error).__name__}: {error}). {_FORM}"
        ) from error
    if several.ndim == 2 and len(several) == len(t) and one.shape == (1, several.shape[1]):
        if not several.shape[1]:
            raise InvalidConstraint("Curve: f returns states without coordinates.")
        return int(several.shape[1])
    raise InvalidConstraint(
        f"Curve: f returned the shape {several.shape} for {len(t)} values of t, and {one.shape} "
        f"for one. {_FORM}"
    )


def _works_on_numbers(function: Callable[..., ArrayLike], t: float) -> bool:
    try:
        return bool(np.array(function(t), dtype=np.float64).ndim == 1)
    except Exception:
        return False
