"""A disk, a ball, or a ball in some coordinates times ranges in others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri
from typing_extensions import override

from handrail._types import Array, Indices, Mask
from handrail.errors import InvalidConstraint
from handrail.regions.box import between, grid_within
from handrail.regions.cells import Cells, Cover
from handrail.regions.checks import (
    as_coordinates,
    as_index,
    as_mapping,
    as_number,
    as_range,
    as_triples,
    as_vector,
)
from handrail.regions.outline import circle, rectangle
from handrail.regions.region import Region

# Rounding must neither put a state of the sphere outside nor drop a cell that touches it.
_SLACK = 1e-12

_EPSILON = float(np.finfo(np.float64).eps)


@final
@dataclass(frozen=True)
class BallCover(Cover):
    """Boxes that together contain a ball.

    Attributes:
        cells: plain boxes.
        centre: (n_coordinates,).
        radius: in the ball's coordinates.
        coordinates: (k,) the ball's.
    """

    cells: Cells
    centre: Array
    radius: float
    coordinates: Indices

    def take(self, indices: Indices) -> BallCover:
        """Only the chosen cells."""
        return self._with(self.cells.take(indices))

    def halves(self, importance: Array) -> BallCover:
        """Every cell in two, without those that the ball does not reach."""
        cells = self.cells.halves(importance)
        low, high = cells.low[:, self.coordinates], cells.high[:, self.coordinates]
        centre = self.centre[self.coordinates]
        gaps = np.maximum(np.maximum(low - centre, centre - high), 0.0)
        # The slack on top of the ball's own keeps every state that `Ball.contains` accepts.
        reach = _reach(centre, self.radius) * (1.0 + _SLACK)
        return self._with(cells.take(np.flatnonzero(np.linalg.norm(gaps, axis=1) <= reach)))

    def _with(self, cells: Cells) -> BallCover:
        return BallCover(cells, self.centre, self.radius, self.coordinates)


@final
class Ball(Region, shape="ball"):
    """All states within a radius of a centre.

    Args:
        centre: (n_coordinates,) a state.
        radius: Euclidean, in the ball's coordinates.
        coordinates: the ball's, by index; all by default. The others are fixed at the centre's
            value, unless they have a range.
        ranges: of coordinates outside the ball: {index: (low, high)}.
    """

    def __init__(
        self,
        centre: ArrayLike,
        radius: float,
        coordinates: Sequence[int] | None = None,
        ranges: Mapping[int, tuple[float, float]] | None = None,
    ) -> None:
        self._centre = as_vector(centre, "Ball: centre")
        self._radius = as_number(radius, "Ball: radius")
        if self._radius <= 0.0:
            raise InvalidConstraint(
                f"Ball: radius must be positive, but is {self._radius:g}. Use Points for single "
                "states."
            )
        n = len(self._centre)
        chosen = range(n) if coordinates is None else coordinates
        self._coordinates = as_coordinates(chosen, n, "Ball")
        self._ranges = self._checked_ranges(ranges)
        self._low, self._high = self._centre.copy(), self._centre.copy()
        self._low[self._coordinates] -= self._radius
        self._high[self._coordinates] += self._radius
        for index, (low, high) in self._ranges.items():
            self._low[index], self._high[index] = low, high
        self._refuse_vanishing()
        self._ranged = np.array(sorted(self._ranges), dtype=np.intp)

    def _checked_ranges(self, given: object) -> dict[int, tuple[float, float]]:
        ranges = {}
        for key, value in as_mapping(given, "Ball: ranges").items():
            index = as_index(key, len(self._centre), "Ball: ranges: coordinate")
            if index in self._coordinates:
                raise InvalidConstraint(
                    f"Ball: coordinate {index} is in the ball, so it cannot have a range too. "
                    "Leave it out of ranges or of coordinates."
                )
            ranges[index] = as_range(value, f"Ball: range of coordinate {index}")
        return dict(sorted(ranges.items()))

    def _refuse_vanishing(self) -> None:
        extents = (self._high - self._low)[self._coordinates]
        if not np.isfinite(extents).all() or not (extents > 0.0).all():
            raise InvalidConstraint(
                f"a radius of {self._radius:g} vanishes beside the centre "
                f"{self._centre.tolist()}, or has no end. Use units of a common size.",
                about="Ball",
            )

    def __repr__(self) -> str:
        return (
            f"Ball(centre={self._centre.tolist()}, radius={self._radius!r}, "
            f"coordinates={self._coordinates.tolist()}, ranges={self._ranges})"
        )

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Centre ± radius, and the ranges."""
        return self._low.copy(), self._high.copy()

    @property
    def volume(self) -> float:
        """Of the ball, times the lengths of the ranges."""
        k = len(self._coordinates)
        ball = math.pi ** (k / 2) / math.gamma(k / 2 + 1) * self._radius**k
        return float(ball * (self._high - self._low)[self._ranged].prod())

    def contains(self, states: Array) -> Mask:
        """Within the radius, up to rounding, and in the ranges."""
        return between(states, self._low, self._high) & self._within(states)

    def project(self, states: Array) -> Array:
        """Drawn towards the centre; clipped in the other coordinates."""
        result = np.array(states, dtype=np.float64)
        outside = np.flatnonzero(~self._within(result))
        centre = self._centre[self._coordinates]
        away = result[np.ix_(outside, self._coordinates)] - centre
        # Divided by the largest entry first: squares of far states would overflow.
        away /= np.abs(away).max(axis=1, keepdims=True, initial=0.0)
        away /= np.linalg.norm(away, axis=1, keepdims=True)
        result[np.ix_(outside, self._coordinates)] = centre + self._radius * away
        return np.clip(result, self._low, self._high)

    def _within(self, states: Array) -> Mask:
        centre = self._centre[self._coordinates]
        with np.errstate(over="ignore"):
            distances = np.linalg.norm(states[:, self._coordinates] - centre, axis=1)
        result: Mask = distances <= _reach(centre, self._radius)
        return result

    def grid(self, count: int) -> Array:
        """A grid of the box around it, as far as inside."""
        return grid_within(self, count)

    @property
    def corners(self) -> Array:
        """None: it is round."""
        return np.zeros((0, len(self._centre)))

    @property
    def parts(self) -> Sequence[Region]:
        """Itself."""
        return [self]

    def covers(self) -> Sequence[BallCover]:
        """The box around it, which loses its empty corners as it is halved."""
        low, high = self._low.copy(), self._high.copy()
        # Centre ± radius were rounded; the box must not be smaller than the ball.
        low[self._coordinates] = np.nextafter(low[self._coordinates], -np.inf)
        high[self._coordinates] = np.nextafter(high[self._coordinates], np.inf)
        cells = Cells.boxes(low[None], high[None])
        return [BallCover(cells, self._centre, self._radius, self._coordinates)]

    def section(self, across: int, up: int, at: Array) -> list[Array]:
        """A circle; a rectangle where one of the two coordinates is not the ball's."""
        away = at - self._centre
        away[[across, up]] = 0.0
        squared = self._radius**2 - float((away[self._coordinates] ** 2).sum())
        others = np.ones(len(at), dtype=bool)
        others[self._coordinates] = False
        others[[across, up]] = False
        if squared <= 0.0 or ((at < self._low) | (at > self._high))[others].any():
            return []
        radius = math.sqrt(squared)
        plane = np.array([across, up])
        if np.isin(plane, self._coordinates).all():
            return [circle(self._centre[plane], radius)]
        low, high = self._low.copy(), self._high.copy()
        low[self._coordinates] = self._centre[self._coordinates] - radius
        high[self._coordinates] = self._centre[self._coordinates] + radius
        return [rectangle(low[across], high[across], low[up], high[up])]

    def description(self) -> Mapping[str, Any]:
        """What it was made of; the ranges as (index, low, high)."""
        return {
            "centre": self._centre.tolist(),
            "radius": self._radius,
            "coordinates": self._coordinates.tolist(),
            "ranges": [[index, low, high] for index, (low, high) in self._ranges.items()],
        }

    @classmethod
    @override
    def from_description(cls, described: Mapping[str, Any]) -> Ball:
        ranges = {index: (low, high) for index, low, high in as_triples(described["ranges"])}
        return cls(described["centre"], described["radius"], described["coordinates"], ranges)

    @property
    def n_cube(self) -> int:
        """A direction, a distance, and a number per range; in one coordinate no direction."""
        k = len(self._coordinates)
        return (1 if k == 1 else k + 1) + len(self._ranged)

    def from_cube(self, numbers: Array) -> Array:
        """A normally distributed direction; the k-th root makes the distance uniform by volume."""
        k, n_ranged = len(self._coordinates), len(self._ranged)
        numbers = np.clip(numbers, 1e-12, 1.0 - 1e-12)  # ndtri(0) is infinite
        states = np.tile(self._centre, (len(numbers), 1))
        low, high = self._low[self._ranged], self._high[self._ranged]
        states[:, self._ranged] = low + (high - low) * numbers[:, numbers.shape[1] - n_ranged :]
        if k == 1:
            offsets = 2.0 * numbers[:, :1] - 1.0
        else:
            offsets = _directions(numbers[:, :k]) * numbers[:, k : k + 1] ** (1.0 / k)
        states[:, self._coordinates] += self._radius * offsets
        return self.project(states)


def _directions(numbers: Array) -> Array:
    """Uniform unit vectors (n, k) from numbers in (0, 1)."""
    normal: Array = ndtri(numbers)
    lengths = np.linalg.norm(normal, axis=1, keepdims=True)
    normal[lengths[:, 0] == 0.0, 0] = 1.0
    return normal / np.where(lengths == 0.0, 1.0, lengths)


def _reach(centre: Array, radius: float) -> float:
    """The radius, and what rounding of the states can add to a distance."""
    return radius * (1.0 + _SLACK) + 16.0 * _EPSILON * float(np.abs(centre).max())
