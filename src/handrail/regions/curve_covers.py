"""Boxes around the pieces of a curve."""

from __future__ import annotations

from typing import final

import numpy as np

from handrail.arrays import Array, Indices
from handrail.errors import InvalidConstraint
from handrail.regions.covers import Cells, Cover
from handrail.regions.paths import Path

_MAX_PIECES = 1 << 16


@final
class CurveCover(Cover):
    """A box around every piece; smaller pieces have smaller boxes.

    Args:
        path: the curve.
        t_low: (n,) where the pieces begin.
        t_high: (n,) where they end.
    """

    def __init__(self, path: Path, t_low: Array, t_high: Array) -> None:
        self.path = path
        self.t_low = t_low
        self.t_high = t_high
        self.cells = Cells.boxes(*path.enclose(t_low, t_high))

    @classmethod
    def of(cls, path: Path, t_min: float, t_max: float, count: int) -> CurveCover:
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
                    f"Curve: coordinate {coordinate} cannot be bounded for t between "
                    f"{ends[piece]:g} and {ends[piece + 1]:g}. Is something divided by zero there, "
                    "or is it the logarithm of zero or the root of a negative number?"
                )
            count *= 2

    def take(self, indices: Indices) -> CurveCover:
        """Only the chosen pieces."""
        return CurveCover(self.path, self.t_low[indices], self.t_high[indices])

    def halves(self, importance: Array) -> CurveCover:  # noqa: ARG002  # only t can be halved
        """Every piece in two."""
        middle = 0.5 * self.t_low + 0.5 * self.t_high
        low = np.stack([self.t_low, middle], axis=1).ravel()
        high = np.stack([middle, self.t_high], axis=1).ravel()
        return CurveCover(self.path, low, high)
