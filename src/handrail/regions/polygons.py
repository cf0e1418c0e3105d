"""Polygons in a plane, convex or not."""

from __future__ import annotations

from functools import cached_property
from typing import final

import numpy as np

from handrail.arrays import Array, Mask
from handrail.errors import InvalidConstraint
from handrail.regions.scaling import FLAT, Scaling, is_flat, simplex_volumes
from handrail.regions.triangulation import crossing_edges, triangulate


@final
class Polygon:
    """A simple polygon.

    Args:
        vertices: (m, 2) in order around its boundary, in either sense.

    Raises:
        InvalidConstraint: if it is flat, repeats a vertex or crosses itself.
    """

    def __init__(self, vertices: Array) -> None:
        if len(vertices) < 3:
            raise InvalidConstraint(
                f"Polytope: a polygon has at least 3 vertices, but got {len(vertices)}."
            )
        self.vertices = vertices
        _refuse_repeated(vertices)
        self._scaling = Scaling.of(vertices)
        scaled = self._scaling.forth(vertices)
        if is_flat(scaled):
            raise InvalidConstraint(
                "Polytope is flat: its vertices lie on a line. Move one of them off it."
            )
        crossing = crossing_edges(vertices)
        if crossing is not None:
            raise InvalidConstraint(
                f"Polytope: edges {crossing[0]} and {crossing[1]} cross or touch (edge i runs from "
                "vertex i to the next). List the vertices in order around the boundary."
            )
        if abs(_area(scaled)) <= FLAT:
            raise InvalidConstraint(
                "Polytope is flat: its edges enclose no area. Move its vertices apart."
            )
        self._ordered = vertices if _area(scaled) > 0.0 else vertices[::-1]

    @cached_property
    def simplices(self) -> Array:
        """Triangles (n, 3, 2) that together are the polygon."""
        result: Array = self._ordered[triangulate(self._ordered)]
        return result

    @cached_property
    def volume(self) -> float:
        """Its area."""
        return float(simplex_volumes(self.simplices).sum())

    def contains(self, points: Array) -> Mask:
        """Which of the points (n, 2) lie inside, or on the boundary up to rounding."""
        inside = np.zeros(len(points), dtype=bool)
        for start, end in self._edges():
            spans = (start[1] <= points[:, 1]) != (end[1] <= points[:, 1])
            if start[1] != end[1]:
                share = (points[:, 1] - start[1]) / (end[1] - start[1])
                inside ^= spans & (points[:, 0] < start[0] + share * (end[0] - start[0]))
        near = np.abs(self._scaling.forth(points)).max(axis=1, initial=0.0)
        doubtful = np.flatnonzero(~inside & (near <= 1.0 + self._scaling.slack))
        inside[doubtful] = self._touches(points[doubtful])
        return inside

    def nearest(self, points: Array) -> Array:
        """The nearest point of the polygon to each of the points (n, 2)."""
        result = np.array(points, dtype=np.float64)
        outside = np.flatnonzero(~self.contains(points))
        best = np.full(len(outside), np.inf)
        for start, end in self._edges():
            candidates = _nearest_on_edge(points[outside], start, end)
            distances = np.hypot(*(points[outside] - candidates).T)
            closer = distances <= best
            best[closer] = distances[closer]
            result[outside[closer]] = candidates[closer]
        return result

    def intervals(self, along: int, at: float) -> list[tuple[float, float]]:
        """Where a line along one coordinate, at a value of the other, runs inside."""
        crossings = []
        for start, end in self._edges():
            low, high = start[1 - along], end[1 - along]
            if (low <= at) != (high <= at):
                share = (at - low) / (high - low)
                crossings.append(float(start[along] + share * (end[along] - start[along])))
        crossings.sort()
        pairs = zip(crossings[::2], crossings[1::2], strict=True)
        return [(low, high) for low, high in pairs if low < high]

    def _touches(self, points: Array) -> Mask:
        """Which points are as near to the boundary as rounding can tell."""
        scaled = self._scaling.forth(points)
        near = np.zeros(len(points), dtype=bool)
        for start, end in self._edges():
            start, end = self._scaling.forth(start), self._scaling.forth(end)  # noqa: PLW2901
            gaps = np.abs(scaled - _nearest_on_edge(scaled, start, end)).max(axis=1, initial=0.0)
            near |= gaps <= self._scaling.slack
        return near

    def _edges(self) -> zip[tuple[Array, Array]]:
        return zip(self._ordered, np.roll(self._ordered, -1, axis=0), strict=True)


def _area(vertices: Array) -> float:
    """Positive for vertices in counter-clockwise order."""
    x, y = (vertices - vertices[0]).T
    return 0.5 * float(x @ np.roll(y, -1) - y @ np.roll(x, -1))


def _nearest_on_edge(points: Array, start: Array, end: Array) -> Array:
    along = (end - start) / np.abs(end - start).max()
    share = (points - start) @ along / (along @ along) / np.abs(end - start).max()
    share = np.clip(share, 0.0, 1.0)[:, None]
    # From the nearer end, so that both ends are reached without rounding.
    before, after = start + share * (end - start), end - (1.0 - share) * (end - start)
    result: Array = np.where(share < 0.5, before, after)
    return result


def _refuse_repeated(vertices: Array) -> None:
    _, first, inverse = np.unique(vertices, axis=0, return_index=True, return_inverse=True)
    again = np.flatnonzero(first[inverse] != np.arange(len(vertices)))
    if len(again):
        raise InvalidConstraint(
            f"Polytope: vertices {first[inverse[again[0]]]} and {again[0]} are the same: "
            f"{vertices[again[0]].tolist()}. List each vertex once; the polygon closes by itself."
        )
