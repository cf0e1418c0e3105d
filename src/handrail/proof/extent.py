"""What bounds and weights that depend on the state are worth over a region, cell by cell.

A formula may be bounded on every small cell and on no large one: intervals know of x² - x only that
x² and x are somewhere in theirs, so that 1/(x² - x + 1) may seem to divide by 0, and a disk beside
x = 0 has a box around it that is not beside it. So a region on which a formula has no bound is
divided first. What bounds it on a cell bounds it on all parts of the cell, too, as intervals of
parts are parts of intervals: all that follows starts from such cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from handrail._types import Array, Mask
from handrail.constraints import state_in_words
from handrail.formulas import Formula
from handrail.regions import Cover

# Planes steeper than this, times what the bound itself is worth, are of no use.
STEEP = 1e4

# Halvings of a cell, and cells, after which a formula is said to have no bound.
_HALVINGS, _MOST_CELLS = 40, 20_000


@final
@dataclass(frozen=True)
class Extent:
    """Boxes around all cells of a proof.

    Attributes:
        low: (n, n_coordinates).
        high: (n, n_coordinates).
    """

    low: Array
    high: Array

    @classmethod
    def around(cls, covers: Sequence[Cover]) -> Extent:
        """One box around all cells."""
        low, high = cls.of_cells(covers).hull
        return cls(low[None], high[None])

    @classmethod
    def of_cells(cls, covers: Sequence[Cover]) -> Extent:
        """A box around each cell."""
        low = np.concatenate([cover.cells.low for cover in covers])
        return cls(low, np.concatenate([cover.cells.high for cover in covers]))

    @property
    def n_coordinates(self) -> int:
        """Of a state."""
        return int(self.low.shape[1])

    @property
    def hull(self) -> tuple[Array, Array]:
        """The lowest and the highest of each coordinate (n_coordinates,)."""
        return self.low.min(axis=0), self.high.max(axis=0)

    def bounds_all(self, formulas: Iterable[Formula]) -> bool:
        """Whether every formula is bounded on every box."""
        return all(bool(_is_bounded(one, self.low, self.high).all()) for one in formulas)

    def range_of(self, formula: Formula) -> tuple[float, float]:
        """The lowest and the highest value on them, rounded outwards."""
        low, high = formula.enclose(self.low, self.high)
        return float(low.min()), float(high.max())

    def size_of(self, formula: Formula) -> float:
        """Of what planes around it add up to: at most so large as it pays."""
        value = largest_of(self.range_of(formula))
        slopes = (self.range_of(formula.derivative(i)) for i in range(self.n_coordinates))
        far = np.maximum(*map(np.abs, self.hull))
        steep = sum(largest_of(one) * at for one, at in zip(slopes, far, strict=True) if at)
        return value + 2.0 * min(float(steep), STEEP * (1.0 + value))

    def importance_of(self, formula: Formula) -> Array:
        """How much it may bend along each coordinate (n_coordinates,), for want of better."""
        slopes = [self.range_of(formula.derivative(i)) for i in range(self.n_coordinates)]
        bends = np.array([high - low for low, high in slopes])
        return np.where(np.isfinite(bends), bends, 1.0)


def largest_of(ends: tuple[float, float]) -> float:
    """The larger size of two ends."""
    return max(abs(ends[0]), abs(ends[1]))


@final
class Unbounded(Exception):
    """A formula that has no bound in a region, as far as it was divided; the message says where."""


@final
@dataclass(frozen=True)
class Ground:
    """The cells that a proof starts from.

    Attributes:
        covers: of the region.
        extent: boxes around their cells.
    """

    covers: Sequence[Cover]
    extent: Extent

    def divided(self, formulas: Sequence[Formula]) -> Ground:
        """Itself if every formula is bounded on it; else in cells on each of which they are.

        Raises:
            Unbounded: if some cell does not become small enough.
        """
        if self.extent.bounds_all(formulas):
            return self
        covers = _bounded_covers(self.covers, formulas)
        return Ground(covers, Extent.of_cells(covers))


def _bounded_covers(covers: Sequence[Cover], formulas: Sequence[Formula]) -> list[Cover]:
    low, high = Extent.around(covers).hull
    width = high - low
    concerned = [any(one.depends_on(i) for one in formulas) for i in range(len(width))]
    # Only what the formulas depend on, each coordinate in units of the region.
    importance = np.where(concerned, 1.0 / np.where(width > 0.0, width, 1.0), 0.0)
    found: list[Cover] = []
    left = list(covers)
    for _ in range(_HALVINGS):
        open_ = []
        for cover in left:
            bounded = _are_bounded(formulas, cover)
            found += [cover.take(np.flatnonzero(bounded))] if bounded.any() else []
            open_ += [cover.take(np.flatnonzero(~bounded))] if not bounded.all() else []
        if not open_:
            return found
        left = [half for half in (one.halves(importance) for one in open_) if len(half)]
        if sum(map(len, left)) > _MOST_CELLS:
            break
    raise _unbounded(left[0], formulas)


def _are_bounded(formulas: Sequence[Formula], cover: Cover) -> Mask:
    """Which cells (n,) of a cover bound all formulas."""
    every = [_is_bounded(one, cover.cells.low, cover.cells.high) for one in formulas]
    result: Mask = np.all(every, axis=0)
    return result


def _is_bounded(formula: Formula, low: Array, high: Array) -> Mask:
    """On boxes (n,) between two corners (n, n_coordinates) each, with a value everywhere."""
    ends = formula.enclose(low, high)
    finite: Mask = np.isfinite(ends[0]) & np.isfinite(ends[1]) & formula.is_defined(low, high)
    return finite


def _unbounded(cover: Cover, formulas: Sequence[Formula]) -> Unbounded:
    """Names a formula and a state: one where it has no value, if it is one that was met."""
    cells = cover.cells
    for formula in formulas:
        bounded = _is_bounded(formula, cells.low, cells.high)
        if not bounded.all():
            at = cells.take(np.flatnonzero(~bounded)[:1])
            states = np.concatenate([at.low, at.high, at.centres])
            values = formula.at(states)
            worst = states[~np.isfinite(values)] if not np.isfinite(values).all() else at.centres
            return Unbounded(
                f"{formula} has no bound near {state_in_words(worst[0])}. Bound it there with "
                "min(…) or max(…), or leave such states out"
            )
    raise AssertionError("a cell was left open, but every formula is bounded on it")
