"""A polytope in some coordinates, times values and ranges of the others.

In two coordinates it is a polygon, convex or not; in more, a convex hull. Given by half-spaces, its
vertices are found first (`common_vertices`), or why there are none: it is empty, flat or unbounded.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations, product
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linprog
from scipy.spatial import ConvexHull, HalfspaceIntersection, QhullError
from typing_extensions import override

from handrail._types import Array, Mask
from handrail.errors import Coordinate, InvalidConstraint, Phrase
from handrail.regions.box import between, grid_within
from handrail.regions.cells import Cells, ExactCover
from handrail.regions.checks import (
    as_coordinates,
    as_index,
    as_mapping,
    as_number,
    as_range,
    as_triples,
)
from handrail.regions.hull import FLAT, LARGEST_GROWTH, Hull, Scaling, simplex_volumes
from handrail.regions.outline import clip, rectangle
from handrail.regions.polygon import Polygon
from handrail.regions.region import Region

# Vertices where more than k half-spaces meet are found several times, up to rounding.
_SAME = 1e-12

_EPSILON = float(np.finfo(np.float64).eps)

_TOLERANCES = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
_UNBOUNDED = 3  # scipy's status code

# From here on HiGHS takes a number for infinite, as do environments with theirs of 3e38.
_NO_BOUND = 1e20

_Plane = tuple[Fraction, Fraction, Fraction]


def _exactly(normals: Array, offsets: Array) -> list[_Plane]:
    """Half-planes a·x + b·y <= c, as (a, b, c)."""
    rows = np.column_stack([normals, offsets]).tolist()
    return [(Fraction(a), Fraction(b), Fraction(c)) for a, b, c in rows]


def _encloses(vertices: Array, planes: Sequence[_Plane]) -> bool:
    """Whether a polygon (m, 2), in order against the clock, contains all that half-planes leave.

    Exactly, by weak duality: a·x <= c follows if a is a sum of two normals with weights that are
    not negative, and the same sum of their offsets is at most c. The two are looked for among the
    half-planes that are nearest in direction, one on each side.
    """
    corners = [(Fraction(x), Fraction(y)) for x, y in vertices.tolist()]
    by_angle = sorted(planes, key=lambda plane: math.atan2(float(plane[1]), float(plane[0])))
    for (x, y), (next_x, next_y) in zip(corners, [*corners[1:], corners[0]], strict=True):
        a, b = next_y - y, x - next_x
        if not _follows((a, b, a * x + b * y), by_angle):
            return False
    return True


def _follows(wanted: _Plane, by_angle: Sequence[_Plane]) -> bool:
    a, b, c = wanted
    angle = math.atan2(float(b), float(a))
    angles = [math.atan2(float(plane[1]), float(plane[0])) for plane in by_angle]
    at, n = bisect_left(angles, angle), len(by_angle)
    near = {(at + shift) % n for shift in range(-_NEIGHBOURS, _NEIGHBOURS)}
    for first, second in combinations(sorted(near), 2):
        (p, q, r), (s, t, u) = by_angle[first], by_angle[second]
        determinant = p * t - q * s
        if determinant == 0:
            continue
        one, other = (a * t - b * s) / determinant, (p * b - q * a) / determinant
        if one >= 0 and other >= 0 and one * r + other * u <= c:
            return True
    return False


# Half-planes on each side of a direction: several may have almost the same one.
_NEIGHBOURS = 4

_MAX_CORNERS = 1024


def common_vertices(normals: ArrayLike, offsets: ArrayLike) -> Array:
    """The vertices (m, k) of {x: normals @ x <= offsets}; in two dimensions in order.

    Their hull contains all of these states. Vertices are rounded, so where the hull would not, it
    grows from its middle: in two dimensions by as little as exact arithmetic asks for, in more by
    what rounding and the merging of vertices can do.

    Raises:
        InvalidConstraint: if it is empty, flat or unbounded.
    """
    matrix, right = _checked(normals, offsets)
    extent = _extent(matrix, right)
    if (extent[1] - extent[0] <= FLAT * np.abs(extent).max(axis=0)).any():
        raise _flat()
    scaling = Scaling.of(extent)
    right = right - matrix @ scaling.middle
    matrix = matrix * scaling.half
    lengths = np.linalg.norm(matrix, axis=1)
    matrix, right = matrix / lengths[:, None], right / lengths
    centre, radius = _deepest(matrix, right)
    if radius <= FLAT:
        raise _flat()
    same = max(_SAME, 4.0 * _EPSILON * float(np.abs(scaling.middle / scaling.half).max()))
    try:
        found = HalfspaceIntersection(np.column_stack([matrix, -right]), centre).intersections
        points = _distinct(found, same)
        vertices = points[ConvexHull(points).vertices]
    except QhullError as error:
        raise _flat() from error
    if matrix.shape[1] > 2:
        return scaling.back(centre + (1.0 + 4.0 * same / radius) * (vertices - centre))
    given = _exactly(np.array(normals, dtype=np.float64), np.array(offsets, dtype=np.float64))
    growth = 0.0
    while growth <= LARGEST_GROWTH:
        grown = scaling.back(centre + (1.0 + growth) * (vertices - centre))
        if _encloses(grown, given):
            return grown
        growth = max(8.0 * growth, _EPSILON / radius)
    raise _flat()


def _checked(normals: ArrayLike, offsets: ArrayLike) -> tuple[Array, Array]:
    """Normals of length 1 and their offsets."""
    try:
        matrix = np.array(normals, dtype=np.float64)
        right = np.array(offsets, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidConstraint(f"Polytope: half-spaces must be numbers: {error}") from error
    if matrix.ndim != 2 or right.shape != (len(matrix),):
        raise InvalidConstraint(
            "Polytope: half-spaces need normals (m, k) and offsets (m,), but got the shapes "
            f"{matrix.shape} and {right.shape}."
        )
    if matrix.shape[1] < 2:
        raise InvalidConstraint("Polytope: half-spaces in one coordinate are a range. Use Box.")
    if not (np.isfinite(matrix).all() and np.isfinite(right).all()):
        raise InvalidConstraint(
            "Polytope: a half-space has numbers that are not finite. Leave out what has no bound."
        )
    lengths = np.linalg.norm(matrix, axis=1)
    if not (lengths > 0.0).all():
        raise InvalidConstraint(
            f"Polytope: the normal of half-space {lengths.argmin()} is zero. Leave it out."
        )
    right = right / lengths
    bounding = right < _NO_BOUND
    return (matrix / lengths[:, None])[bounding], right[bounding]


def _extent(matrix: Array, right: Array) -> Array:
    """Lowest and highest value (2, k) of every coordinate."""
    unit = _unit(right)
    _refuse_empty(matrix, right / unit)
    k = matrix.shape[1]
    extent = np.zeros((2, k))
    for coordinate in range(k):
        for end, sign in enumerate((1.0, -1.0)):
            direction = np.zeros(k)
            direction[coordinate] = sign
            answer = _linear_program(direction, matrix, right / unit)
            if answer.status == _UNBOUNDED:
                side = "below" if end == 0 else "above"
                raise InvalidConstraint(
                    "{polytope} is unbounded: nothing bounds {coordinate} from {side}. Add a "
                    "half-space that does.",
                    polytope=Phrase.POLYTOPE,
                    coordinate=Coordinate(coordinate),
                    side=side,
                )
            if answer.status:
                raise _flat()
            extent[end, coordinate] = answer.x[coordinate] * unit
    return extent


def _unit(right: Array) -> float:
    """A size that the solver's absolute tolerances fit."""
    sizes = np.abs(right[right != 0.0])
    return float(max(sizes.min(), 1e-6 * np.median(sizes))) if len(sizes) else 1.0


def _refuse_empty(matrix: Array, right: Array) -> None:
    _, radius = _deepest(matrix, right, at_most=1.0)
    if radius < -FLAT:
        raise InvalidConstraint(
            "{polytope} is empty: no state satisfies all of its half-spaces. Is the sign of one "
            "wrong?{meaning}",
            polytope=Phrase.POLYTOPE,
            meaning=Phrase.HALF_SPACES_MEAN,
        )
    if radius <= FLAT:
        raise _flat()


def _deepest(matrix: Array, right: Array, at_most: float | None = None) -> tuple[Array, float]:
    """The centre and the radius of the largest ball inside (Chebyshev's); negative if empty."""
    k = matrix.shape[1]
    objective = np.append(np.zeros(k), -1.0)
    bounds = [(None, None)] * k + [(None, at_most)]
    answer = _linear_program(
        objective, np.column_stack([matrix, np.ones(len(right))]), right, bounds
    )
    if answer.status:
        raise _flat()
    return answer.x[:k], float(answer.x[k])


def _linear_program(
    objective: Array,
    matrix: Array,
    right: Array,
    bounds: object = (None, None),
) -> Any:
    """Scipy's answer to min objective @ x subject to matrix @ x <= right."""
    return linprog(objective, matrix, right, bounds=bounds, method="highs", options=_TOLERANCES)


def _flat() -> InvalidConstraint:
    return InvalidConstraint(
        "{polytope} is flat: its half-spaces leave no room between them. Loosen one of them, or "
        "{remedy}.",
        polytope=Phrase.POLYTOPE,
        remedy=Phrase.FEWER_COORDINATES,
    )


def _distinct(points: Array, same: float) -> Array:
    """Without those that repeat an earlier one up to rounding."""
    kept: list[Array] = []
    for point in points[np.isfinite(points).all(axis=1)]:
        if all(np.abs(point - other).max() > same for other in kept):
            kept.append(point)
    return np.array(kept)


@final
class Polytope(Region, shape="polytope"):
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
        simplices = self._body.covering
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

    def description(self) -> Mapping[str, Any]:
        """The vertices as given; the others as (index, low, high)."""
        return {
            "vertices": self._given.tolist(),
            "coordinates": self._coordinates.tolist(),
            "others": [list(other) for other in self._others()],
        }

    @classmethod
    @override
    def from_description(cls, described: Mapping[str, Any]) -> Polytope:
        others = {
            index: low if low == high else (low, high)
            for index, low, high in as_triples(described["others"])
        }
        return cls(described["vertices"], described["coordinates"], others)

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
