"""Regions of every shape, and the same written once more in the simplest way."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise
from operator import mul

import numpy as np
import pytest

from handrail._types import Array, Mask
from handrail.regions.ball import Ball
from handrail.regions.box import Box
from handrail.regions.cells import Cells
from handrail.regions.curve import Curve
from handrail.regions.polytope import Polytope
from handrail.regions.region import Region
from handrail.regions.union import Union

PRISM = [(-0.4, 0.4), (-0.3, 0.4), (-0.267, 0.133), (-0.4, 0.133)]

ELL = [(0.0, 0.0), (2.0, 0.0), (2.0, 1.0), (1.0, 1.0), (1.0, 2.0), (0.0, 2.0)]

CUBE = np.vstack([np.eye(3), -np.eye(3)])


@dataclass(frozen=True)
class Example:
    """A region, and the same written once more in the simplest way."""

    region: Region
    inside: Callable[[Array], Mask] | None = None  # None for what has no volume
    volume: float = 0.0


def within(states: Array, low: list[float], high: list[float]) -> Mask:
    result: Mask = np.logical_and.reduce((states >= low) & (states <= high), axis=1)
    return result


def _in_ell(x: Array, y: Array) -> Mask:
    result: Mask = (x >= 0) & (y >= 0) & (x <= 2) & (y <= 2) & ((x <= 1) | (y <= 1))
    return result


def _in_prism(x: Array) -> Mask:
    right = -0.3 + (0.4 - x[:, 3]) / (0.4 - 0.133) * (0.3 - 0.267)
    sides: Mask = within(x, [-2.5, 0.0, -0.4, 0.133], [2.5, 0.0, 0.0, 0.4]) & (x[:, 2] <= right)
    return sides


def _in_ell_or_disk(x: Array) -> Mask:
    return _in_ell(x[:, 0], x[:, 1]) | (np.hypot(x[:, 0] - 2.0, x[:, 1] - 1.0) <= 0.8)


def spiral(t: Array) -> Array:
    return np.stack([t * np.cos(3 * t), t * np.sin(3 * t), np.full(len(t), 0.5)], axis=1)


EXAMPLES = {
    "box": Example(
        Box([0.0, -1.0, 2.0], [1.0, 1.0, 2.0]),
        lambda x: within(x, [0.0, -1.0, 2.0], [1.0, 1.0, 2.0]),
        2.0,
    ),
    "disk": Example(
        Ball([1.0, -2.0], 0.5),
        lambda x: np.hypot(x[:, 0] - 1.0, x[:, 1] + 2.0) <= 0.5,
        math.pi / 4,
    ),
    "ball": Example(
        Ball([0.0, 10.0, 0.1], 2.0),
        lambda x: np.linalg.norm(x - [0.0, 10.0, 0.1], axis=1) <= 2.0,
        4 / 3 * math.pi * 8,
    ),
    "interval": Example(
        Ball([0.3, 1.0], 0.25, [1]), lambda x: within(x, [0.3, 0.75], [0.3, 1.25]), 0.5
    ),
    "ball with ranges": Example(
        Ball([0.0, 1.0, 2.0, 5.0], 1.5, (2, 0), {3: (-1.0, 1.0)}),
        lambda x: (
            (np.hypot(x[:, 0], x[:, 2] - 2.0) <= 1.5) & (x[:, 1] == 1.0) & (np.abs(x[:, 3]) <= 1.0)
        ),
        math.pi * 2.25 * 2,
    ),
    "prism": Example(
        Polytope(PRISM, (2, 3), {0: (-2.5, 2.5), 1: 0.0}), _in_prism, 5 * 0.267 * (0.1 + 0.133) / 2
    ),
    "ell": Example(Polytope(ELL), lambda x: _in_ell(x[:, 0], x[:, 1]), 3.0),
    "ell, clockwise, times a range": Example(
        Polytope(ELL[::-1], (3, 1), {0: 7.0, 2: (-1.0, 0.0)}),
        lambda x: _in_ell(x[:, 3], x[:, 1]) & (x[:, 0] == 7) & (x[:, 2] >= -1) & (x[:, 2] <= 0),
        3.0,
    ),
    "octagon": Example(
        Polytope.from_half_spaces(
            [[1, 0], [-1, 0], [0, 1], [0, -1], [1, 1], [1, -1], [-1, 1], [-1, -1]],
            [1, 1, 1, 1, 1.5, 1.5, 1.5, 1.5],
        ),
        lambda x: (np.abs(x).max(axis=1) <= 1) & (np.abs(x).sum(axis=1) <= 1.5),
        3.5,
    ),
    "simplex": Example(
        Polytope(np.array([[0, 0, 0], [1, 0, 0], [0, 2, 0], [0, 0, 3], [0.1, 0.1, 0.1]])),
        lambda x: (x >= 0).all(axis=1) & (x @ [1.0, 1 / 2, 1 / 3] <= 1),
        1.0,
    ),
    "cube": Example(
        Polytope.from_half_spaces(CUBE, [1, 1, 1, 0, 0, 0], (0, 3, 2), {1: (0.0, 0.1)}),
        lambda x: within(x, [0, 0, 0, 0], [1, 0.1, 1, 1]),
        0.1,
    ),
    "circle": Example(Curve(["0.05*cos(t) - 0.2", 1.0, "sin(t)/2"], 0.0, 2 * math.pi)),
    "parabola": Example(Curve(["t", "t**2 - t + 0.3"], -1.0, 2.0)),
    "spiral": Example(Curve(spiral, 0.0, 4.0, speed=[13.1, 13.1, 0.0])),
    "dwelling": Example(Curve(["max(t, 0.3)", "sqrt(1 - t**2)*0"], -1.0, 1.0)),
    "union": Example(
        Union([Polytope(ELL), Ball([2.0, 1.0], 0.8)]), _in_ell_or_disk, 3.0 + math.pi * 0.64
    ),
    "union of a line and a square": Example(
        Union([Box([0, 0], [1, 1]), Union([Box([2, 0.5], [3, 0.5]), Curve(["t", "-t"], 0, 1)])])
    ),
}

SHAPES = pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES.keys())

SOLID = pytest.mark.parametrize(
    "example",
    [example for example in EXAMPLES.values() if example.inside],
    ids=[name for name, example in EXAMPLES.items() if example.inside],
)


def around(region: Region, count: int, rng: np.random.Generator, margin: float = 0.3) -> Array:
    """States in the box around a region and beside it; fixed coordinates stay fixed."""
    low, high = region.bounds
    width = margin * (high - low)
    return rng.uniform(low - width, high + width, (count, len(low)))


def covered(cells: Cells, states: Array) -> Mask:
    """Whether states lie in some cell: barycentric coordinates in the simplex, and in the box."""
    found = np.zeros(len(states), dtype=bool)
    for i in range(len(cells)):
        low, high = cells.low[i] - 1e-9, cells.high[i] + 1e-9
        inside = within(states, low.tolist(), high.tolist())
        if len(cells.simplex_coordinates) and inside.any():
            corners = cells.simplex[i]
            matrix = np.vstack([corners.T, np.ones(len(corners))])
            points = states[:, cells.simplex_coordinates].T
            weights = np.linalg.solve(matrix, np.vstack([points, np.ones(len(states))]))
            inside &= (weights >= -1e-9).all(axis=0)
        found |= inside
    return found


def inside_outline(outline: Array, points: Array) -> Mask:
    """Even-odd rule."""
    inside = np.zeros(len(points), dtype=bool)
    for (x0, y0), (x1, y1) in pairwise(outline):
        crosses = (y0 > points[:, 1]) != (y1 > points[:, 1])
        with np.errstate(divide="ignore", invalid="ignore"):
            inside ^= crosses & (points[:, 0] < x0 + (points[:, 1] - y0) / (y1 - y0) * (x1 - x0))
    return inside


ExactPoint = tuple[Fraction, ...]


def exactly(points: Array) -> list[ExactPoint]:
    """Points (n, k) as fractions."""
    return [tuple(map(Fraction, point)) for point in points.tolist()]


def exact_vertices(normals: Array, offsets: Array) -> list[ExactPoint]:
    """Of {x: normals @ x <= offsets}, by trying every k of the half-spaces."""
    rows, right = exactly(normals), [one for (one,) in exactly(offsets[:, None])]
    found = set()
    for chosen in combinations(range(len(rows)), len(rows[0])):
        point = _solved([list(rows[i]) for i in chosen], [right[i] for i in chosen])
        if point is not None and all(
            sum(map(mul, row, point)) <= bound for row, bound in zip(rows, right, strict=True)
        ):
            found.add(tuple(point))
    return sorted(found)


def covered_exactly(simplices: Array, points: Sequence[ExactPoint]) -> bool:
    """Whether every point is in one of the simplices (n, k + 1, k), by its weights there."""
    bodies = [exactly(simplex) for simplex in simplices]
    return all(any(_is_inside(body, point) for body in bodies) for point in points)


def _is_inside(body: list[ExactPoint], point: ExactPoint) -> bool:
    if any(
        not min(column) <= x <= max(column)
        for column, x in zip(zip(*body, strict=True), point, strict=True)
    ):
        return False
    weights = exact_weights(body, point)
    return weights is not None and min(weights) >= 0


def exact_weights(body: list[ExactPoint], point: ExactPoint) -> list[Fraction] | None:
    """Of the corners of a simplex, that make a point; negative outside, None if it is flat."""
    rows = [list(column) for column in zip(*body, strict=True)]
    return _solved([*rows, [Fraction(1)] * len(body)], [*point, Fraction(1)])


def _solved(matrix: list[list[Fraction]], right: list[Fraction]) -> list[Fraction] | None:
    """By elimination; None if it is singular."""
    rows = [[*row, one] for row, one in zip(matrix, right, strict=True)]
    for column in range(len(rows)):
        pivot = next((i for i in range(column, len(rows)) if rows[i][column]), None)
        if pivot is None:
            return None
        rows[column], rows[pivot] = rows[pivot], rows[column]
        head = rows[column][column]
        rows[column] = [entry / head for entry in rows[column]]
        for i, row in enumerate(rows):
            if i != column and row[column]:
                factor = row[column]
                rows[i] = [a - factor * b for a, b in zip(row, rows[column], strict=True)]
    return [row[-1] for row in rows]
