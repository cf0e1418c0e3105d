"""A range for every coordinate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike
from typing_extensions import override

from handrail._types import Array, Mask
from handrail.errors import InvalidConstraint
from handrail.regions.cells import Cells, ExactCover
from handrail.regions.checks import as_vector, check_grid
from handrail.regions.region import Region


@final
class Box(Region, shape="box"):
    """All states between two corners; a coordinate with equal ends is fixed.

    Args:
        low: (n_coordinates,).
        high: (n_coordinates,), nowhere below `low`.
    """

    def __init__(self, low: ArrayLike, high: ArrayLike) -> None:
        self._low = as_vector(low, "Box: low")
        self._high = as_vector(high, "Box: high")
        if self._low.shape != self._high.shape:
            raise InvalidConstraint(
                f"Box: low has {len(self._low)} coordinates but high has {len(self._high)}."
            )
        empty = np.flatnonzero(self._low > self._high)
        if len(empty):
            i = empty[0]
            raise InvalidConstraint(
                f"Box is empty: coordinate {i} runs from {self._low[i]:g} to {self._high[i]:g}. "
                "Exchange the two."
            )
        self._varying = np.flatnonzero(self._low < self._high)
        if not len(self._varying):
            raise InvalidConstraint(
                f"Box: every coordinate is fixed, so it is the single state "
                f"{self._low.tolist()}. Use Points for single states."
            )

    def __repr__(self) -> str:
        return f"Box(low={self._low.tolist()}, high={self._high.tolist()})"

    @property
    def bounds(self) -> tuple[Array, Array]:
        """The two corners."""
        return self._low.copy(), self._high.copy()

    @property
    def volume(self) -> float:
        """The product of the lengths."""
        return float((self._high - self._low)[self._varying].prod())

    def contains(self, states: Array) -> Mask:
        """Between the corners."""
        return between(states, self._low, self._high)

    def project(self, states: Array) -> Array:
        """Clipped coordinate by coordinate."""
        return np.clip(states, self._low, self._high)

    def grid(self, count: int) -> Array:
        """`count` values along each varying coordinate, both ends included."""
        check_grid(count, len(self._varying))
        axes = [
            np.linspace(low, high, count) if low < high else np.array([low])
            for low, high in zip(self._low, self._high, strict=True)
        ]
        return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)

    @property
    def corners(self) -> Array:
        """All of them; none in more than 10 varying coordinates, where they are too many."""
        if len(self._varying) > 10:
            return np.zeros((0, len(self._low)))
        ends = [
            (low, high) if low < high else (low,) for low, high in zip(*self.bounds, strict=True)
        ]
        return np.array(list(product(*ends)))

    @property
    def parts(self) -> Sequence[Region]:
        """Itself."""
        return [self]

    def covers(self) -> Sequence[ExactCover]:
        """A single cell."""
        return [ExactCover(Cells.boxes(self._low[None], self._high[None]))]

    def section(self, across: int, up: int, at: Array) -> list[Array]:
        """A rectangle, or a line where one of the two coordinates is fixed."""
        fixed = np.ones(len(self._low), dtype=bool)
        fixed[[across, up]] = False
        if ((at < self._low) | (at > self._high))[fixed].any():
            return []
        left, right = self._low[across], self._high[across]
        bottom, top = self._low[up], self._high[up]
        return [
            np.array([[left, bottom], [right, bottom], [right, top], [left, top], [left, bottom]])
        ]

    def description(self) -> Mapping[str, Any]:
        """Both corners."""
        return {"low": self._low.tolist(), "high": self._high.tolist()}

    @classmethod
    @override
    def from_description(cls, described: Mapping[str, Any]) -> Box:
        return cls(described["low"], described["high"])

    @property
    def n_cube(self) -> int:
        """A number per varying coordinate."""
        return len(self._varying)

    def from_cube(self, numbers: Array) -> Array:
        """Scaled to the ranges."""
        states = np.tile(self._low, (len(numbers), 1))
        low, high = self._low[self._varying], self._high[self._varying]
        states[:, self._varying] = np.minimum(low + (high - low) * numbers, high)
        return states


def between(states: Array, low: Array, high: Array) -> Mask:
    """Which of the states (n, n_coordinates) lie between two corners."""
    result: Mask = np.logical_and.reduce((states >= low) & (states <= high), axis=1)
    return result


def grid_within(region: Region, count: int) -> Array:
    """A grid of the box around a region, as far as inside the region."""
    states = Box(*region.bounds).grid(count)
    inside = states[region.contains(states)]
    if not len(inside):
        raise InvalidConstraint(
            f"No state of a grid of {count} values along each coordinate lies inside {region!r}. "
            "Use a finer one, or spread()."
        )
    return inside
