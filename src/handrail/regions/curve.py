"""A curve: a state for every t, written as formulas or computed by a Python function.

What happens between two values of t is known of formulas by interval arithmetic, of a function only
by a bound on its speed. From either, boxes around pieces of the curve cover it (`CurveCover`), and
proofs start from these; the nearest state to another is found among many and made precise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import KDTree
from typing_extensions import override

from handrail._types import Array, Indices, Mask
from handrail.errors import Coordinate, InvalidConstraint, Phrase
from handrail.formulas import Formula, Interval, InvalidFormula, parse_formula
from handrail.regions.cells import Cells, Cover
from handrail.regions.checks import as_number, check_grid
from handrail.regions.region import Region

_FORM = (
    "It is called with an array t (n,) and returns the states (n, n_coordinates): use NumPy's "
    "functions, such as np.stack([np.cos(t), np.sin(t)], axis=1), or write expressions."
)

_MAX_PIECES = 1 << 16
_DENSE = 2049
_OUTLINE = 257
_PIECES_OF_BOUNDS = 256
_PIECES_OF_COVER = 16
_ON_THE_CURVE = 1e-9

# Where a curve crosses itself, the nearest of the dense states may belong to another branch.
_CANDIDATES = 8

_GOLDEN = 0.5 * (5.0**0.5 - 1.0)
_GOLDEN_STEPS = 50  # shrink an interval of 1/1024 of the curve to 1e-13 of it
_STATES_AT_ONCE = 16_384


class StatePath(ABC):
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
class WrittenPath(StatePath):
    """An expression in t, or a number, per coordinate.

    Args:
        written: (n_coordinates,) as the user gave them.
    """

    def __init__(self, written: Sequence[str | float]) -> None:
        if not len(written):
            raise InvalidConstraint("Curve: give one expression per coordinate, not none.")
        self.written = [text if isinstance(text, str) else _plain(text) for text in written]
        self._formulas = [_parsed(i, text) for i, text in enumerate(self.written)]

    def states(self, t: Array) -> Array:
        """By evaluating the formulas."""
        states = np.stack([formula.evaluate(t[:, None]) for formula in self._formulas], axis=1)
        bad = np.argwhere(~np.isfinite(states))
        if len(bad):
            row, i = bad[0]
            raise InvalidConstraint(
                "{coordinate}, {written}, is not finite at t = {t:g}. Choose {t_min} and {t_max} "
                "such that it is.",
                about="Curve",
                coordinate=Coordinate(int(i)),
                written=self.written[i],
                t=t[row],
                t_min=Phrase.T_MIN,
                t_max=Phrase.T_MAX,
            )
        return states

    def enclose(self, low: Array, high: Array) -> Interval:
        """By interval arithmetic."""
        ends = low[:, None], high[:, None]
        found = [formula.enclose(*ends) for formula in self._formulas]
        return np.stack([one[0] for one in found], 1), np.stack([one[1] for one in found], 1)

    @property
    def is_known_between(self) -> bool:
        """Always."""
        return True


@final
class CalledPath(StatePath):
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


def _parsed(coordinate: int, text: str | float) -> Formula:
    try:
        return parse_formula(text if isinstance(text, str) else repr(text), ["t"])
    except InvalidFormula as error:
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


@final
class CurveCover(Cover):
    """A box around every piece; smaller pieces have smaller boxes.

    Args:
        path: the curve.
        t_low: (n,) where the pieces begin.
        t_high: (n,) where they end.
    """

    def __init__(self, path: StatePath, t_low: Array, t_high: Array) -> None:
        self.path = path
        self.t_low = t_low
        self.t_high = t_high
        self.cells = Cells.boxes(*path.enclose(t_low, t_high))

    @classmethod
    def of(cls, path: StatePath, t_min: float, t_max: float, count: int) -> CurveCover:
        """At least `count` pieces: as many as it takes for every box to be finite."""
        while True:
            ends = np.linspace(t_min, t_max, count + 1)
            cover = cls(path, ends[:-1], ends[1:])
            unbounded = ~np.isfinite(cover.cells.high - cover.cells.low)
            if not unbounded.any():
                return cover
            if count >= _MAX_PIECES:
                piece, coordinate = np.argwhere(unbounded)[0]
                raise InvalidConstraint(
                    "{coordinate} cannot be bounded for t between {start:g} and {end:g}. Is "
                    "something divided by zero there, or is it the logarithm of zero or the root "
                    "of a negative number?",
                    about="Curve",
                    coordinate=Coordinate(int(coordinate)),
                    start=ends[piece],
                    end=ends[piece + 1],
                )
            count *= 2

    def take(self, indices: Indices) -> CurveCover:
        """Only the chosen pieces."""
        return CurveCover(self.path, self.t_low[indices], self.t_high[indices])

    @property
    @override
    def volumes(self) -> Array:
        """How long the pieces are, in t: the boxes around them are no measure."""
        return self.t_high - self.t_low

    def halves(self, importance: Array) -> CurveCover:  # noqa: ARG002  # only t can be halved
        """Every piece in two."""
        middle = 0.5 * self.t_low + 0.5 * self.t_high
        low = np.stack([self.t_low, middle], axis=1).ravel()
        high = np.stack([middle, self.t_high], axis=1).ravel()
        return CurveCover(self.path, low, high)


@final
class Curve(Region, shape="curve"):
    """All states f(t) with t between t_min and t_max; samples are uniform in t.

    Args:
        f: an expression in t or a number per coordinate, such as ["0.05*cos(t) - 0.2", 0.0]; or a
            Python function of t (n,) that returns the states (n, n_coordinates).
        t_min: finite.
        t_max: finite, above t_min.
        speed: for a Python function: a bound on |df/dt|, one number or one per coordinate. Nothing
            can be proven without, and `bounds` are then only those of many of its states.
    """

    def __init__(
        self,
        f: Sequence[str | float] | Callable[[Array], ArrayLike],
        t_min: float,
        t_max: float,
        speed: ArrayLike | None = None,
    ) -> None:
        self._t_min = as_number(t_min, "Curve: t_min")
        self._t_max = as_number(t_max, "Curve: t_max")
        if self._t_min >= self._t_max or not np.isfinite(self._t_max - self._t_min):
            raise InvalidConstraint(
                f"Curve: t_min must be below t_max, but they are {t_min} and {t_max}."
            )
        self._path = self._as_path(f, speed)
        self._dense_t = np.linspace(self._t_min, self._t_max, _DENSE)
        self._dense = self._path.states(self._dense_t)
        self._refuse_faster()
        if (self._dense == self._dense[0]).all():
            raise InvalidConstraint(
                "{curve} does not move: f(t) is {state} for every t. Use {points} for single "
                "states.",
                curve=Phrase.CURVE,
                state=self._dense[0].tolist(),
                points=Phrase.POINTS,
            )
        self._low, self._high = self._make_bounds()
        self._tree = KDTree(self._dense)
        self._size = float(np.abs(self._dense).max())

    def _as_path(self, f: object, speed: ArrayLike | None) -> StatePath:
        if callable(f):
            return CalledPath(f, speed, np.linspace(self._t_min, self._t_max, 3))
        if isinstance(f, str) or not isinstance(f, Sequence):
            raise InvalidConstraint(
                "Curve: f must be a list with an expression per coordinate, such as "
                f"['cos(t)', 'sin(t)', 0.0], or a Python function, but is {f!r}."
            )
        if speed is not None:
            raise InvalidConstraint(
                "Curve: speed is for a curve given as a Python function; that of expressions is "
                "known. Leave it out."
            )
        return WrittenPath(f)

    def _refuse_faster(self) -> None:
        """Than it is said to be, as far as its states can tell."""
        speed = self._path.speed if isinstance(self._path, CalledPath) else None
        if speed is None:
            return
        moved = np.abs(np.diff(self._dense, axis=0))
        rounding = 1e-12 * (np.abs(self._dense).max(axis=0) + 1e-300)
        allowed = np.diff(self._dense_t)[:, None] * speed * (1.0 + 1e-9) + rounding
        bad = np.argwhere(moved > allowed)
        if len(bad):
            row, i = bad[0]
            actual = moved[row, i] / (self._dense_t[row + 1] - self._dense_t[row])
            raise InvalidConstraint(
                f"Curve: coordinate {i} moves faster than its speed of {speed[i]:g}: with "
                f"{actual:g} at t = {self._dense_t[row]:g}. Give a speed that is never exceeded."
            )

    def _make_bounds(self) -> tuple[Array, Array]:
        if not self._path.is_known_between:
            return self._dense.min(axis=0), self._dense.max(axis=0)
        cells = CurveCover.of(self._path, self._t_min, self._t_max, _PIECES_OF_BOUNDS).cells
        return cells.low.min(axis=0), cells.high.max(axis=0)

    def __repr__(self) -> str:
        written = self._path.written if isinstance(self._path, WrittenPath) else "a function"
        return f"Curve({written}, t_min={self._t_min!r}, t_max={self._t_max!r})"

    @property
    def bounds(self) -> tuple[Array, Array]:
        """A box around it, nearly the smallest; of a function without speed, around many states."""
        return self._low.copy(), self._high.copy()

    @property
    def volume(self) -> float:
        """None: it has only a length."""
        return 0.0

    def contains(self, states: Array) -> Mask:
        """Up to 1e-9 of its size."""
        return self._distances(states, self._nearest(states)) <= _ON_THE_CURVE * self._size

    def project(self, states: Array) -> Array:
        """The nearest of many states on it, made precise; a state on the curve stays as it is."""
        nearest = self._nearest(states)
        on = self._distances(states, nearest) <= _ON_THE_CURVE * self._size
        return np.where(on[:, None], states, nearest)

    def _nearest(self, states: Array) -> Array:
        blocks = [
            self._refined(states[start : start + _STATES_AT_ONCE])
            for start in range(0, len(states), _STATES_AT_ONCE)
        ]
        return np.concatenate(blocks) if blocks else np.zeros((0, len(self._low)))

    def _refined(self, states: Array) -> Array:
        """By golden-section search between the neighbours of the nearest of the dense states."""
        found = self._tree.query(states, k=_CANDIDATES)[1].ravel()
        wanted = np.repeat(states, _CANDIDATES, axis=0)
        low = self._dense_t[np.maximum(found - 1, 0)]
        high = self._dense_t[np.minimum(found + 1, _DENSE - 1)]
        for _ in range(_GOLDEN_STEPS):
            width = _GOLDEN * (high - low)
            left, right = high - width, low + width
            to_left = self._distances(wanted, self._path.states(left))
            to_right = self._distances(wanted, self._path.states(right))
            low = np.where(to_left < to_right, low, left)
            high = np.where(to_left < to_right, right, high)
        # The search may have lost what the dense states had: the best of both.
        shape = (len(states), _CANDIDATES)
        found_t, middle = (
            self._dense_t[found].reshape(shape),
            (0.5 * low + 0.5 * high).reshape(shape),
        )
        t = np.concatenate([found_t, middle], axis=1)
        wanted = np.repeat(states, t.shape[1], axis=0)
        distances = self._distances(wanted, self._path.states(t.ravel())).reshape(t.shape)
        return self._path.states(t[np.arange(len(states)), distances.argmin(axis=1)])

    @staticmethod
    def _distances(states: Array, others: Array) -> Array:
        result: Array = np.linalg.norm(states - others, axis=1)
        return result

    def grid(self, count: int) -> Array:
        """`count` values of t, both ends included."""
        check_grid(count, 1)
        return self._path.states(np.linspace(self._t_min, self._t_max, count))

    @property
    def corners(self) -> Array:
        """Its two ends; one where they are the same."""
        ends = self._dense[[0, -1]]
        return ends[:1] if (ends[0] == ends[1]).all() else ends

    @property
    def parts(self) -> Sequence[Region]:
        """Itself."""
        return [self]

    def covers(self) -> Sequence[CurveCover]:
        """Boxes around pieces of it.

        Raises:
            InvalidConstraint: for a Python function whose speed is not known.
        """
        return [CurveCover.of(self._path, self._t_min, self._t_max, _PIECES_OF_COVER)]

    def section(self, across: int, up: int, at: Array) -> list[Array]:
        """The curve itself, if it lies in the plane; nothing otherwise."""
        t = np.linspace(self._t_min, self._t_max, _OUTLINE)
        states = self._path.states(t)
        others = np.ones(len(at), dtype=bool)
        others[[across, up]] = False
        if (np.abs(states - at)[:, others] > _ON_THE_CURVE).any():
            return []
        return [states[:, [across, up]]]

    def description(self) -> Mapping[str, Any]:
        """The expressions.

        Raises:
            InvalidConstraint: for a Python function.
        """
        if not isinstance(self._path, WrittenPath):
            raise InvalidConstraint(
                "A curve given as a Python function cannot be written down. Write it as "
                "expressions: Curve(['cos(t)', 'sin(t)'], ...)."
            )
        return {
            "expressions": list(self._path.written),
            "t_min": self._t_min,
            "t_max": self._t_max,
        }

    @classmethod
    @override
    def from_description(cls, described: Mapping[str, Any]) -> Curve:
        return cls(described["expressions"], described["t_min"], described["t_max"])

    @property
    def n_cube(self) -> int:
        """One, for t."""
        return 1

    def from_cube(self, numbers: Array) -> Array:
        """Uniform in t."""
        t = self._t_min + (self._t_max - self._t_min) * numbers[:, 0]
        return self._path.states(np.minimum(t, self._t_max))
