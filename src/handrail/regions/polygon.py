"""Simple polygons, in triangles; and what is not simple, decided exactly, whatever the rounding.

Which way three points turn is computed in floating point where that is certain, else in fractions.
So edges cross or they do not, and triangles leave no gap: a proof on them is one on the polygon.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import final

import numpy as np

from handrail._types import Array, Indices, Mask
from handrail.errors import InvalidConstraint, Phrase
from handrail.regions.hull import FLAT, Scaling, is_flat, simplex_volumes

Point = tuple[float, float]

# Above this many times the terms' size the sign of the rounded value is the true one (Shewchuk,
# "Adaptive precision floating-point arithmetic and fast robust geometric predicates", 1997).
_CERTAIN = 4e-16

# Products of smaller numbers underflow, and the rule above does not hold for them.
_SMALL = 1e-140

# Points that are compared with all edges together.
_POINTS_AT_ONCE = 4096


def orientation(a: Point, b: Point, c: Point) -> int:
    """+1 if a → b → c turns left, -1 if it turns right, 0 if the three are on a line."""
    left = (b[0] - a[0]) * (c[1] - a[1])
    right = (b[1] - a[1]) * (c[0] - a[0])
    value, size = left - right, abs(left) + abs(right)
    if abs(value) > _CERTAIN * size and size > _SMALL:
        return 1 if value > 0.0 else -1
    ax, ay, bx, by, cx, cy = (Fraction(number) for number in (*a, *b, *c))
    exact = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
    return (exact > 0) - (exact < 0)


def crossing_edges(vertices: Array) -> tuple[int, int] | None:
    """The first two edges that share more than the vertex between them; edge i starts at vertex i.

    Args:
        vertices: (m, 2) of which no two are equal.
    """
    points = [(float(x), float(y)) for x, y in vertices]
    m = len(points)
    for i, j in _near_edges(vertices):
        first, second = (points[i], points[(i + 1) % m]), (points[j], points[(j + 1) % m])
        if j == i + 1:
            meet = _folds(*first, second[1])
        elif i == 0 and j == m - 1:
            meet = _folds(*second, first[1])
        else:
            meet = _meet(*first, *second)
        if meet:
            return i, j
    return None


def triangulate(vertices: Array) -> Indices:
    """The corners (m, 3) of triangles that together are a simple polygon, by clipping ears.

    Every simple polygon has an ear, and stays simple without it (Meisters, 1975). A vertex on the
    line between its neighbours is dropped, which leaves the polygon as it is.

    Args:
        vertices: (m, 2) counter-clockwise, of which no two are equal and no edges cross.
    """
    points = [(float(x), float(y)) for x, y in vertices]
    left = list(range(len(points)))
    triangles = []
    while len(left) > 3:
        position, turn = next(_clippable(points, left))
        if turn:
            triangles.append(_corner(left, position))
        del left[position]
    return np.array([*triangles, left], dtype=np.intp)


def _clippable(points: list[Point], left: list[int]) -> Iterator[tuple[int, int]]:
    """Positions of vertices that may go: ears (1), and those on a line (0)."""
    for position in range(len(left)):
        a, b, c = _corner(left, position)
        turn = orientation(points[a], points[b], points[c])
        if turn == 0 or (turn > 0 and _is_empty(points, (a, b, c), left)):
            yield position, turn


def _corner(left: list[int], position: int) -> tuple[int, int, int]:
    return left[position - 1], left[position], left[(position + 1) % len(left)]


def _is_empty(points: list[Point], triangle: tuple[int, int, int], others: list[int]) -> bool:
    """Whether no other vertex lies in the triangle or on its boundary."""
    a, b, c = (points[corner] for corner in triangle)
    low = min(a[0], b[0], c[0]), min(a[1], b[1], c[1])
    high = max(a[0], b[0], c[0]), max(a[1], b[1], c[1])
    for index in others:
        p = points[index]
        if not (low[0] <= p[0] <= high[0] and low[1] <= p[1] <= high[1]) or index in triangle:
            continue
        if min(orientation(a, b, p), orientation(b, c, p), orientation(c, a, p)) >= 0:
            return False
    return True


def _near_edges(vertices: Array) -> list[tuple[int, int]]:
    """Pairs of edges whose bounding boxes meet, in order: only these can cross."""
    after = np.roll(vertices, -1, axis=0)
    low, high = np.minimum(vertices, after), np.maximum(vertices, after)
    pairs = []
    for i in range(len(vertices) - 1):
        near = (low[i] <= high[i + 1 :]) & (low[i + 1 :] <= high[i])
        pairs += [(i, i + 1 + int(j)) for j in np.flatnonzero(near.all(axis=1))]
    return pairs


def _folds(a: Point, b: Point, c: Point) -> bool:
    """Whether b → c goes back over a → b."""
    return orientation(a, b, c) == 0 and not _between(a, b, c)


def _between(a: Point, b: Point, c: Point) -> bool:
    """Whether b, on a line with a and c, lies between them."""
    axis = 0 if a[0] != c[0] else 1
    return min(a[axis], c[axis]) <= b[axis] <= max(a[axis], c[axis])


def _meet(a: Point, b: Point, c: Point, d: Point) -> bool:
    """Whether the segments a b and c d have a point in common."""
    turns = (
        orientation(a, b, c),
        orientation(a, b, d),
        orientation(c, d, a),
        orientation(c, d, b),
    )
    if turns[0] * turns[1] < 0 and turns[2] * turns[3] < 0:
        return True
    ends = ((a, c, b), (a, d, b), (c, a, d), (c, b, d))
    return any(turn == 0 and _between(*end) for turn, end in zip(turns, ends, strict=True))


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
                f"a polygon has at least 3 vertices, but got {len(vertices)}.", about="Polytope"
            )
        self.vertices = vertices
        _refuse_repeated(vertices)
        self._scaling = Scaling.of(vertices)
        scaled = self._scaling.forth(vertices)
        if is_flat(scaled):
            raise InvalidConstraint(
                "{polytope} is flat: its vertices lie on a line. Move one of them off it.",
                polytope=Phrase.POLYTOPE,
            )
        crossing = crossing_edges(vertices)
        if crossing is not None:
            raise InvalidConstraint(
                f"edges {crossing[0]} and {crossing[1]} cross or touch (edge i runs from vertex i "
                "to the next). List the vertices in order around the boundary.",
                about="Polytope",
            )
        if abs(_area(scaled)) <= FLAT:
            raise InvalidConstraint(
                "{polytope} is flat: its edges enclose no area. Move its vertices apart.",
                polytope=Phrase.POLYTOPE,
            )
        self._ordered = vertices if _area(scaled) > 0.0 else vertices[::-1]

    @cached_property
    def simplices(self) -> Array:
        """Triangles (n, 3, 2) that together are the polygon."""
        result: Array = self._ordered[triangulate(self._ordered)]
        return result

    @property
    def covering(self) -> Array:
        """The same: they are found by exact arithmetic, and leave no gap."""
        return self.simplices

    @cached_property
    def volume(self) -> float:
        """Its area."""
        return float(simplex_volumes(self.simplices).sum())

    def contains(self, points: Array) -> Mask:
        """Which of the points (n, 2) lie inside, or on the boundary up to rounding."""
        inside = np.zeros(len(points), dtype=bool)
        for some in _blocks(np.arange(len(points))):
            inside[some] = self._surrounds(points[some])
        near = np.abs(self._scaling.forth(points)).max(axis=1, initial=0.0)
        doubtful = np.flatnonzero(~inside & (near <= 1.0 + self._scaling.slack))
        for some in _blocks(doubtful):
            inside[some] = self._touches(points[some])
        return inside

    def _surrounds(self, points: Array) -> Mask:
        """Around which points it goes: a ray from there crosses an odd number of edges."""
        edges, (x, y) = self._edges, points.T
        left, bottom = (edges.starts[:, axis, None] for axis in (0, 1))
        shares = (y - bottom) / edges.rising
        crossed = x < left + shares * edges.ways[:, 0, None]
        crossed &= (bottom <= y) != (edges.ends[:, 1, None] <= y)  # never along it
        odd: Mask = np.logical_xor.reduce(crossed, axis=0)
        return odd

    def nearest(self, points: Array) -> Array:
        """The nearest point of the polygon to each of the points (n, 2)."""
        result = np.array(points, dtype=np.float64)
        for some in _blocks(np.flatnonzero(~self._surrounds(points))):
            candidates = self._edges.nearest(points[some])
            ways = points[some] - candidates
            closest = np.hypot(ways[..., 0], ways[..., 1]).argmin(axis=0)
            each = np.arange(len(some))
            # What only rounding puts outside stays where it is.
            far = np.abs(ways[closest, each] / self._scaling.half).max(axis=1) > self._scaling.slack
            result[some[far]] = candidates[closest, each][far]
        return result

    def intervals(self, along: int, at: float) -> list[tuple[float, float]]:
        """Where a line along one coordinate, at a value of the other, runs inside."""
        crossings = []
        for start, end in zip(self._edges.starts, self._edges.ends, strict=True):
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
        edges = _Edges(
            self._scaling.forth(self._edges.starts), self._scaling.forth(self._edges.ends)
        )
        gaps = np.abs(scaled - edges.nearest(scaled)).max(axis=2)
        near: Mask = gaps.min(axis=0) <= self._scaling.slack
        return near

    @cached_property
    def _edges(self) -> _Edges:
        return _Edges(self._ordered, np.roll(self._ordered, -1, axis=0))


def _area(vertices: Array) -> float:
    """Positive for vertices in counter-clockwise order."""
    x, y = (vertices - vertices[0]).T
    return 0.5 * float(x @ np.roll(y, -1) - y @ np.roll(x, -1))


def _blocks(indices: Indices) -> list[Indices]:
    """So many at a time that memory stays bounded whatever the number of edges."""
    return [indices[i : i + _POINTS_AT_ONCE] for i in range(0, len(indices), _POINTS_AT_ONCE)]


def _refuse_repeated(vertices: Array) -> None:
    _, first, inverse = np.unique(vertices, axis=0, return_index=True, return_inverse=True)
    again = np.flatnonzero(first[inverse] != np.arange(len(vertices)))
    if len(again):
        raise InvalidConstraint(
            f"vertices {first[inverse[again[0]]]} and {again[0]} are the same: "
            f"{vertices[again[0]].tolist()}. List each vertex once; the polygon closes by itself.",
            about="Polytope",
        )


@final
@dataclass(frozen=True)
class _Edges:
    """Of a polygon, and what is the same whatever points are asked about.

    Attributes:
        starts: (m, 2).
        ends: (m, 2).
    """

    starts: Array
    ends: Array

    @cached_property
    def ways(self) -> Array:
        """From start to end (m, 2)."""
        return self.ends - self.starts

    @cached_property
    def rising(self) -> Array:
        """How far each goes up (m, 1); 1 where it does not."""
        rising = self.ways[:, 1:]
        return np.where(rising == 0.0, 1.0, rising)

    @cached_property
    def _along(self) -> tuple[Array, Array]:
        """Directions (m, 2) and what products with them are divided by (m, 1)."""
        lengths = np.abs(self.ways).max(axis=1)
        along = self.ways / lengths[:, None]
        return along, ((along * along).sum(axis=1) * lengths)[:, None]

    def nearest(self, points: Array) -> Array:
        """Of each edge the point that is nearest to each of the points (n, 2): (m, n, 2)."""
        along, lengths = self._along
        from_starts = points - self.starts[:, None]
        shares = (from_starts[..., 0] * along[:, :1] + from_starts[..., 1] * along[:, 1:]) / lengths
        shares = np.minimum(np.maximum(shares, 0.0), 1.0)[:, :, None]
        # From the nearer end, so that both ends are reached without rounding.
        before = self.starts[:, None] + shares * self.ways[:, None]
        after = self.ends[:, None] - (1.0 - shares) * self.ways[:, None]
        result: Array = np.where(shares < 0.5, before, after)
        return result
