"""Whether simplices cover a figure, in exact arithmetic: nothing that a proof looks at has a gap.

Simplices that share faces are a chain. Oriented alike, all of their faces cancel but the outer
ones. As seen from a state that is on the inner side of every outer face, these go round it at least
once, and then at least one simplex contains it, however flat or folded single ones are (the winding
number of the boundary is the sum of the orientations of the simplices around a state). So simplices
contain whatever is on the inner side of all outer faces: that is all there is to check.

Numbers are whole: every float64 is one over a power of two, and units do not matter here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import starmap

import numpy as np

from handrail._types import Array, Indices

_Point = list[int]

# The numbers of its vertices, in order, and the side that its simplex is on: 1 or -1.
_Face = tuple[int, ...]
OuterFace = tuple[_Face, int]


def encloses(faces: Sequence[OuterFace], vertices: Array, points: Array) -> bool:
    """Whether simplices contain the convex hull of points, for certain.

    Args:
        faces: `outer_faces` of the simplices.
        vertices: (m, k) of the simplices.
        points: (p, k).
    """
    centre = vertices.mean(axis=0)
    whole = _as_integers(np.concatenate([vertices, centre[None], points]))
    corners, middle, asked = (
        whole[: len(vertices)],
        whole[len(vertices)],
        whole[len(vertices) + 1 :],
    )
    planes = [_plane([corners[i] for i in face], sign) for face, sign in faces]
    solid = [plane for plane in planes if any(plane[0])]  # others are seen from nowhere
    depths = [_height(plane, middle) for plane in solid]
    side = 1 if any(depth > 0 for depth in depths) else -1
    return (
        len(solid) > 0
        and all(side * depth > 0 for depth in depths)
        and all(side * _height(plane, point) >= 0 for plane in solid for point in asked)
    )


def outer_faces(simplices: Indices) -> list[OuterFace]:
    """Of simplices (n, k + 1), as numbers of vertices; none if these do not fit together."""
    ordered: list[list[int]] = np.sort(simplices, axis=1).tolist()
    sharing: dict[_Face, list[tuple[int, int]]] = defaultdict(list)
    for number, simplex in enumerate(ordered):
        for place in range(len(simplex)):
            sharing[(*simplex[:place], *simplex[place + 1 :])].append((number, (-1) ** place))
    if any(len(sides) > 2 for sides in sharing.values()):
        return []
    neighbours: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for (one, sign), (other, other_sign) in (s for s in sharing.values() if len(s) == 2):
        neighbours[one].append((other, -sign * other_sign))
        neighbours[other].append((one, -sign * other_sign))
    orientation = {0: 1}
    reached = [0]
    for number in reached:  # grows meanwhile
        for other, relative in neighbours[number]:
            if other not in orientation:
                orientation[other] = relative * orientation[number]
                reached.append(other)
            elif orientation[other] != relative * orientation[number]:
                return []
    if len(reached) < len(ordered):
        return []
    return [
        (face, sides[0][1] * orientation[sides[0][0]])
        for face, sides in sharing.items()
        if len(sides) == 1
    ]


def _as_integers(points: Array) -> list[_Point]:
    """Points (n, k), each coordinate in a unit in which all of its numbers are whole."""
    columns = []
    for column in points.T.tolist():
        ratios = [number.as_integer_ratio() for number in column]
        unit = max(below for _, below in ratios)
        columns.append([above * (unit // below) for above, below in ratios])
    return [list(point) for point in zip(*columns, strict=True)]


def _plane(face: Sequence[_Point], sign: int) -> tuple[_Point, int]:
    """A normal and an offset, through the k points of a face."""
    origin, *others = face
    edges = [[a - b for a, b in zip(point, origin, strict=True)] for point in others]
    normal = [
        sign * (-1) ** column * _determinant([[*row[:column], *row[column + 1 :]] for row in edges])
        for column in range(len(origin))
    ]
    return normal, _product(normal, origin)


def _height(plane: tuple[_Point, int], point: _Point) -> int:
    """Of a point above a plane, in units of the plane."""
    normal, offset = plane
    return _product(normal, point) - offset


def _product(one: _Point, other: _Point) -> int:
    return sum(starmap(int.__mul__, zip(one, other, strict=True)))


def _determinant(rows: list[_Point]) -> int:
    """Of a matrix of integers, without fractions (Bareiss)."""
    sign, previous, n = 1, 1, len(rows)
    for k in range(n - 1):
        pivot = next((i for i in range(k, n) if rows[i][k]), None)
        if pivot is None:
            return 0
        if pivot != k:
            rows[k], rows[pivot], sign = rows[pivot], rows[k], -sign
        for i in range(k + 1, n):
            for j in range(k + 1, n):
                product = rows[i][j] * rows[k][k] - rows[i][k] * rows[k][j]
                rows[i][j] = product // previous
        previous = rows[k][k]
    return sign * rows[-1][-1]
