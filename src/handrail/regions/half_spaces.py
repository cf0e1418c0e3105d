"""The vertices of what half-spaces have in common, or why it is no polytope."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linprog
from scipy.spatial import ConvexHull, HalfspaceIntersection, QhullError

from handrail.arrays import Array
from handrail.errors import InvalidConstraint
from handrail.regions.scaling import FLAT, Scaling

# Vertices where more than k half-spaces meet are found several times, up to rounding.
_SAME = 1e-9
_TOLERANCES = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
_UNBOUNDED = 3  # scipy's status code
# From here on HiGHS takes a number for infinite, as do environments with theirs of 3e38.
_NO_BOUND = 1e20


def common_vertices(normals: ArrayLike, offsets: ArrayLike) -> Array:
    """The vertices (m, k) of {x: normals @ x <= offsets}; in two dimensions in order.

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
    try:
        found = HalfspaceIntersection(np.column_stack([matrix, -right]), centre).intersections
        points = _distinct(found)
        return scaling.back(points[ConvexHull(points).vertices])
    except QhullError as error:
        raise _flat() from error


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
                    f"Polytope is unbounded: nothing bounds coordinate {coordinate} from {side}. "
                    "Add a half-space that does."
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
            "Polytope is empty: no state satisfies all of its half-spaces. Is the sign of one "
            "wrong? They mean normals @ x <= offsets."
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
        "Polytope is flat: its half-spaces leave no room between them. Loosen one of them, or "
        "leave a coordinate to others={index: value}."
    )


def _distinct(points: Array) -> Array:
    """Without those that repeat an earlier one up to rounding."""
    kept: list[Array] = []
    for point in points[np.isfinite(points).all(axis=1)]:
        if all(np.abs(point - other).max() > _SAME for other in kept):
            kept.append(point)
    return np.array(kept)
