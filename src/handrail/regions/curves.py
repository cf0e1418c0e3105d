"""The states on a curve, the paper's f_s(t)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import KDTree

from handrail.arrays import Array, Mask
from handrail.errors import InvalidConstraint
from handrail.regions.checks import as_number, check_grid
from handrail.regions.curve_covers import CurveCover
from handrail.regions.paths import CalledPath, Path, WrittenPath
from handrail.regions.region import Region

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


@final
class Curve(Region):
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
                f"Curve does not move: f(t) is {self._dense[0].tolist()} for every t. Use Points "
                "for single states."
            )
        self._low, self._high = self._make_bounds()
        self._tree = KDTree(self._dense)
        self._size = float(np.abs(self._dense).max())

    def _as_path(self, f: object, speed: ArrayLike | None) -> Path:
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

    def describe(self) -> Mapping[str, Any]:
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
            "shape": "curve",
            "expressions": list(self._path.written),
            "t_min": self._t_min,
            "t_max": self._t_max,
        }

    @property
    def n_cube(self) -> int:
        """One, for t."""
        return 1

    def from_cube(self, numbers: Array) -> Array:
        """Uniform in t."""
        t = self._t_min + (self._t_max - self._t_min) * numbers[:, 0]
        return self._path.states(np.minimum(t, self._t_max))
