"""Simple polygons in triangles, and what is not simple: decided exactly, whatever the rounding."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from handrail.arrays import Array, Indices

Point = tuple[float, float]

# Above this many times the terms' size the sign of the rounded value is the true one (Shewchuk,
# "Adaptive precision floating-point arithmetic and fast robust geometric predicates", 1997).
_CERTAIN = 4e-16
# Products of smaller numbers underflow, and the rule above does not hold for them.
_SMALL = 1e-140


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
