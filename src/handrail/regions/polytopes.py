"""Polygons and polytopes in some coordinates, times ranges in the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from handrail.arrays import Array, Mask
from handrail.errors import InvalidConstraint
from handrail.regions.boxes import between, grid_within
from handrail.regions.checks import as_coordinates, as_index, as_mapping, as_number, as_range
from handrail.regions.covers import Cells, ExactCover
from handrail.regions.half_spaces import common_vertices
from handrail.regions.hulls import Hull
from handrail.regions.outlines import clip, rectangle
from handrail.regions.polygons import Polygon
from handrail.regions.region import Region
from handrail.regions.scaling import simplex_volumes

_MAX_CORNERS = 1024


@final
class Polytope(Region):
    """A polygon, convex or not, or the convex hull of vertices in more than two coordinates.

    Args:
        vertices: (m, k); in two coordinates in order around the boundary.
        coordinates: (k,) which coordinates they are in; by default 0 … k - 1, and no others.
        others: {index: value or (low, high)} for each of the remaining coordinates.
    """

    def __init__(
        self,
        vertices: ArrayLike,
        coordinates: Sequence[int] | None = None,
        others: Mapping[int, float | tuple[float, float]] | None = None,
    ) -> None:
        self._given = _as_vertices(vertices)
        k = self._given.shape[1]
        mapping = as_mapping(others, "Polytope: others")
        n = k + len(mapping)
        chosen = range(k) if coordinates is None else coordinates
        _refuse_missing(chosen, mapping, n)
        self._coordinates = as_coordinates(chosen, n, "Polytope")
        if len(self._coordinates) != k:
            raise InvalidConstraint(
                f"Polytope: the vertices have {k} coordinates, but {len(self._coordinates)} are "
                "named. Name one for each column."
            )
        self._low, self._high = np.zeros(n), np.zeros(n)
        self._set_others(mapping)
        self._body: Polygon | Hull = Polygon(self._given) if k == 2 else Hull(self._given)
        self._low[self._coordinates] = self._body.vertices.min(axis=0)
        self._high[self._coordinates] = self._body.vertices.max(axis=0)
        self._rest = np.setdiff1d(np.arange(n), self._coordinates)
        self._ranged = self._rest[self._low[self._rest] < self._high[self._rest]]
        shares = simplex_volumes(self._body.simplices).cumsum()
        self._shares = shares / shares[-1]

    @classmethod
    def from_half_spaces(
        cls,
        normals: ArrayLike,
        offsets: ArrayLike,
        coordinates: Sequence[int] | None = None,
        others: Mapping[int, float | tuple[float, float]] | None = None,
    ) -> Polytope:
        """All states with normals @ x <= offsets.

        Args:
            normals: (m, k) with k >= 2.
            offsets: (m,).
            coordinates: as in `Polytope`.
            others: as in `Polytope`.
        """
        return cls(common_vertices(normals, offsets), coordinates, others)

    def _set_others(self, others: Mapping[object, object]) -> None:
        n = len(self._low)
        for key, value in others.items():
            index = as_index(key, n, "Polytope: others: coordinate")
            if index in self._coordinates:
                raise InvalidConstraint(
                    f"Polytope: coordinate {index} is both a coordinate of the vertices and in "
                    "others. Every coordinate belongs to one of them."
                )
            what = f"Polytope: others: coordinate {index}"
            if isinstance(value, Sequence | np.ndarray):
                self._low[index], self._high[index] = as_range(value, what)
            else:
                self._low[index] = self._high[index] = as_number(value, what)

    def __repr__(self) -> str:
        others = ", ".join(f"{index}: ({low:g}, {high:g})" for index, low, high in self._others())
        return (
            f"Polytope({len(self._body.vertices)} vertices in coordinates "
            f"{self._coordinates.tolist()}, others={{{others}}})"
        )

    def _others(self) -> list[tuple[int, float, float]]:
        """(index, low, high) of the coordinates outside the vertices."""
        return [(int(i), float(self._low[i]), float(self._high[i])) for i in self._rest]

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Of the vertices and the others."""
        return self._low.copy(), self._high.copy()

    @property
    def volume(self) -> float:
        """Of the polytope, times the lengths of the ranges."""
        return float(self._body.volume * (self._high - self._low)[self._ranged].prod())

    def contains(self, states: Array) -> Mask:
        """In the polytope, up to rounding, and in the ranges."""
        others = self._rest
        result = between(states[:, others], self._low[others], self._high[others])
        result[result] = self._body.contains(states[np.ix_(result, self._coordinates)])
        return result

    def project(self, states: Array) -> Array:
        """The nearest point of the polytope; clipped in the other coordinates."""
        result = np.clip(states, self._low, self._high)
        result[:, self._coordinates] = self._body.nearest(states[:, self._coordinates])
        return result

    def grid(self, count: int) -> Array:
        """A grid of the box around it, as far as inside."""
        return grid_within(self, count)

    @property
    def corners(self) -> Array:
        """Every vertex with every end of the ranges; none if these are more than 1024."""
        if len(self._body.vertices) << len(self._ranged) > _MAX_CORNERS:
            return np.zeros((0, len(self._low)))
        ends = [(self._low[i], self._high[i]) for i in self._ranged]
        blocks = []
        for chosen in product(*ends):
            block = np.tile(self._low, (len(self._body.vertices), 1))
            block[:, self._coordinates] = self._body.vertices
            block[:, self._ranged] = chosen
            blocks.append(block)
        return np.concatenate(blocks)

    @property
    def parts(self) -> Sequence[Region]:
        """Itself."""
        return [self]

    def covers(self) -> Sequence[ExactCover]:
        """A cell per simplex, times the ranges."""
        simplices = self._body.simplices
        low = np.tile(self._low, (len(simplices), 1))
        high = np.tile(self._high, (len(simplices), 1))
        low[:, self._coordinates] = simplices.min(axis=1)
        high[:, self._coordinates] = simplices.max(axis=1)
        return [ExactCover(Cells(low, high, simplices, self._coordinates))]

    def section(self, across: int, up: int, at: Array) -> list[Array]:
        """The polygon itself, or what the plane cuts out."""
        fixed = np.ones(len(at), dtype=bool)
        fixed[[across, up]] = False
        fixed[self._coordinates] = False
        if ((at < self._low) | (at > self._high))[fixed].any():
            return []
        where = at[self._coordinates]
        columns = [_position(self._coordinates.tolist(), axis) for axis in (across, up)]
        ranges = [(float(self._low[axis]), float(self._high[axis])) for axis in (across, up)]
        if isinstance(self._body, Polygon):
            return _cut_polygon(self._body, columns, ranges, where)
        return _cut_hull(self._body, columns, ranges, where)

    def describe(self) -> Mapping[str, Any]:
        """The vertices as given; the others as (index, low, high)."""
        return {
            "shape": "polytope",
            "vertices": self._given.tolist(),
            "coordinates": self._coordinates.tolist(),
            "others": [list(other) for other in self._others()],
        }

    @property
    def n_cube(self) -> int:
        """A simplex, a point in it, and a number per range."""
        return 1 + len(self._coordinates) + len(self._ranged)

    def from_cube(self, numbers: Array) -> Array:
        """The spacings of sorted numbers are uniform weights of a simplex' corners."""
        k = len(self._coordinates)
        chosen = np.searchsorted(self._shares, numbers[:, 0], side="right")
        simplices = self._body.simplices[np.minimum(chosen, len(self._shares) - 1)]
        cuts = np.sort(numbers[:, 1 : k + 1], axis=1)
        weights = np.diff(cuts, axis=1, prepend=0.0, append=1.0)
        states = np.tile(self._low, (len(numbers), 1))
        states[:, self._coordinates] = np.einsum("ni,nij->nj", weights, simplices)
        low, high = self._low[self._ranged], self._high[self._ranged]
        states[:, self._ranged] = low + (high - low) * numbers[:, k + 1 :]
        result: Array = np.clip(states, self._low, self._high)
        return result


def _refuse_missing(chosen: Sequence[int], others: Mapping[object, object], n: int) -> None:
    """Coordinates beyond those that are given: the ones in between were forgotten."""
    named = [one for one in [*chosen, *others] if isinstance(one, int) and one >= 0]
    missing = sorted(set(range(max(named, default=0))) - set(named))
    if missing and max(named) >= n:
        raise InvalidConstraint(
            f"Polytope: nothing is said about coordinates {', '.join(map(str, missing))}. Give a "
            f"value or a range for each: others={{{missing[0]}: 0.0, …}}."
        )


def _as_vertices(vertices: ArrayLike) -> Array:
    try:
        array = np.array(vertices, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidConstraint(
            f"Polytope: vertices must be numbers, a row per vertex, all of the same length: {error}"
        ) from error
    if array.ndim != 2 or not array.size:
        raise InvalidConstraint(
            f"Polytope: vertices must be a row per vertex, but have shape {array.shape}."
        )
    if array.shape[1] < 2:
        raise InvalidConstraint("Polytope: vertices in one coordinate are a range. Use Box.")
    bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if len(bad):
        raise InvalidConstraint(
            f"Polytope: vertex {bad[0]} is not finite: {array[bad[0]].tolist()}. Every coordinate "
            "must be an ordinary number."
        )
    array.setflags(write=False)
    return array


def _position(coordinates: list[int], axis: int) -> int | None:
    return coordinates.index(axis) if axis in coordinates else None


def _cut_polygon(
    polygon: Polygon,
    columns: list[int | None],
    ranges: list[tuple[float, float]],
    where: Array,
) -> list[Array]:
    """What a plane cuts out of a polygon and of the ranges of the plane's other coordinates."""
    across, up = columns
    if across is not None and up is not None:
        outline = polygon.vertices[:, [across, up]]
        return [np.concatenate([outline, outline[:1]])]
    if across is not None:
        found = polygon.intervals(across, float(where[1 - across]))
        return [rectangle(*interval, *ranges[1]) for interval in found]
    if up is not None:
        found = polygon.intervals(up, float(where[1 - up]))
        return [rectangle(*ranges[0], *interval) for interval in found]
    return [rectangle(*ranges[0], *ranges[1])] if polygon.contains(where[None])[0] else []


def _cut_hull(
    hull: Hull,
    columns: list[int | None],
    ranges: list[tuple[float, float]],
    where: Array,
) -> list[Array]:
    """The rectangle of the ranges, clipped by the half-planes that the plane leaves."""
    normals, offsets = hull.half_spaces
    fixed = np.array([i not in columns for i in range(len(where))])
    offsets = offsets - normals[:, fixed] @ where[fixed]
    zero = np.zeros(len(offsets))
    planes = [zero if column is None else normals[:, column] for column in columns]
    outline = clip(rectangle(*ranges[0], *ranges[1]), np.stack(planes, axis=1), offsets)
    return [outline] if len(outline) else []
