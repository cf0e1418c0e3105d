"""Half-spaces and vertices, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail._types import Array
from handrail.errors import InvalidConstraint
from handrail.regions.polytope import Polytope
from tests.support.regions import (
    CUBE,
    ELL,
    around,
)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 4), st.integers(0, 2**32 - 1), st.sampled_from([1e-4, 1.0, 1e5]))
def test_half_spaces_and_their_hull_agree(k: int, seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    normals = np.concatenate([rng.normal(size=(6, k)), np.eye(k), -np.eye(k)])
    offsets = rng.uniform(0.2, 2.0, len(normals)) * scale
    centre = rng.normal(size=k) * scale
    polytope = Polytope.from_half_spaces(normals, offsets + normals @ centre)
    states = around(polytope, 500, rng)
    excess = states @ normals.T - (offsets + normals @ centre)
    clear = np.abs(excess).min(axis=1) > 1e-9 * scale
    np.testing.assert_array_equal(
        polytope.contains(states)[clear], (excess <= 0).all(axis=1)[clear]
    )


def test_half_spaces_with_bounds_as_large_as_numbers_get() -> None:
    normals = np.concatenate([CUBE, CUBE])
    offsets = np.concatenate([np.full(6, 3e38), [1e-3, 1, 1, 0, 0, 0]])
    low, high = Polytope.from_half_spaces(normals, offsets).bounds
    # It contains all of these states for certain, so it is a little larger.
    np.testing.assert_allclose(low, 0.0, atol=1e-10)
    np.testing.assert_allclose(high, [1e-3, 1, 1], rtol=1e-10)
    assert (low <= 0.0).all()
    assert (high >= [1e-3, 1, 1]).all()


def test_where_many_half_spaces_meet_is_one_vertex() -> None:
    pyramid = Polytope.from_half_spaces(
        np.array([[1, 0, 1], [-1, 0, 1], [0, 1, 1], [0, -1, 1], [0.5, 0.5, 1], [0, 0, -1]]),
        [1, 1, 1, 1, 1, 0],
    )
    assert len(pyramid.corners) == 5
    assert pyramid.volume == pytest.approx(4 / 3)


REFUSALS: list[tuple[Callable[[], object], str]] = [
    (lambda: Polytope([[0], [1]]), "vertices in one coordinate are a range. Use Box"),
    (lambda: Polytope([[0, 0], [1, 1]]), "a polygon has at least 3 vertices, but got 2"),
    (lambda: Polytope([0, 1, 2]), r"a row per vertex, but have shape \(3,\)"),
    (lambda: Polytope([[0.0, 0.0], [1.0]]), "all of the same length"),
    (lambda: Polytope([[0.0, 0.0], [1.0, 0.0], [0.0, math.inf]]), "vertex 2 is not finite"),
    (lambda: Polytope([[0, 0], [1, 1], [1, 0], [0, 1]]), "edges 0 and 2 cross or touch"),
    (lambda: Polytope([[0, 0], [1, 0], [2, 0]]), "Polytope is flat: its vertices lie on a line"),
    (lambda: Polytope([[0.0, 0.0], [1.0, 1.0], [2.0, 2 + 1e-13]]), "Polytope is flat"),
    (lambda: Polytope([[0, 0], [1, 0], [1, 1], [0, 0]]), "vertices 0 and 3 are the same"),
    (
        lambda: Polytope([[0, 0], [2, 0], [1, 0], [1, 1]]),
        "edges 0 and 1 cross or touch",
    ),
    (lambda: Polytope([[0, 0], [4, 0], [4, 2], [2, 0], [0, 2]]), "edges 0 and 2 cross or touch"),
    (lambda: Polytope(ELL, (0, 1, 2)), "Polytope: coordinate 2 does not exist"),
    (lambda: Polytope(ELL, (0,), {1: 0}), "vertices have 2 coordinates, but 1 are named"),
    (lambda: Polytope(ELL, (0, 1), {1: 0}), "coordinate 1 is both a coordinate of the vertices"),
    (lambda: Polytope(ELL, (0, 1), {3: 0}), "nothing is said about coordinates 2. Give a value"),
    (lambda: Polytope(ELL, (0, 1), {2: (1, 1)}), "others: coordinate 2 is empty"),
    (lambda: Polytope(ELL, (0, 1), {2: "x"}), "others: coordinate 2 must be a range"),  # type: ignore[dict-item]
    (lambda: Polytope(ELL, (0, 1), {2: math.nan}), "others: coordinate 2 must be a finite"),
    (
        lambda: Polytope(np.eye(3)),
        "is flat: in 3 coordinates it has at least 4 vertices, but got 3",
    ),
    (lambda: Polytope([*np.eye(3), [1 / 3] * 3]), "is flat: its vertices lie in fewer than 3"),
    (lambda: Polytope.from_half_spaces(CUBE[:5], [1] * 5), "unbounded: .* coordinate 2 from below"),
    (lambda: Polytope.from_half_spaces(CUBE, [1, 1, 1, 0, 0, -2]), "Polytope is empty"),
    (lambda: Polytope.from_half_spaces(CUBE, [1, 1, 1, 0, 0, -1]), "Polytope is flat: its half-"),
    (lambda: Polytope.from_half_spaces([[1], [-1]], [1, 1]), "are a range. Use Box"),
    (lambda: Polytope.from_half_spaces(np.eye(2), [1]), r"shapes \(2, 2\) and \(1,\)"),
    (lambda: Polytope.from_half_spaces([[0, 0]], [1]), "normal of half-space 0 is zero"),
    (lambda: Polytope.from_half_spaces([[1, math.nan]], [1]), "numbers that are not finite"),
]


@pytest.mark.parametrize(("make", "message"), REFUSALS, ids=[text for _, text in REFUSALS])
def test_refusals(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidConstraint, match=message):
        make()


def _exact_vertices(normals: Array, offsets: Array) -> list[tuple[Fraction, Fraction]]:
    planes = [tuple(map(Fraction, row)) for row in np.column_stack([normals, offsets]).tolist()]
    found = []
    for (a, b, e), (c, d, f) in combinations(planes, 2):
        determinant = a * d - b * c
        if determinant:
            x, y = (e * d - b * f) / determinant, (a * f - e * c) / determinant
            if all(p * x + q * y <= r for p, q, r in planes):
                found.append((x, y))
    return found


def test_cells_cover_every_exact_vertex_of_half_spaces() -> None:
    """Needles and corners that are cut off a little; a vertex may not be left out by rounding."""
    rng = np.random.default_rng(0)
    checked = 0
    for case in range(120):
        small, turn = 10.0 ** rng.uniform(-9, -1), rng.uniform(0.0, 2.0 * np.pi)
        along = np.array([np.cos(turn), np.sin(turn)])
        across = np.array([-along[1], along[0]])
        if case % 2:
            normals = np.stack([across + small * along, small * along - across, -along])
            offsets = np.array([small, 1.5 * small, 0.1])
        else:
            turns = turn + np.arange(5) * 2.0 * np.pi / 5
            normals = np.stack([np.cos(turns), np.sin(turns)], axis=1)
            corner = np.linalg.solve(normals[:2], np.ones(2))
            cut = normals[0] + normals[1]
            normals = np.vstack([normals, cut])
            offsets = np.append(np.ones(5), cut @ corner - small)
        offsets = offsets + normals @ (rng.normal(size=2) * rng.choice([1.0, 100.0]))
        try:
            region = Polytope.from_half_spaces(normals, offsets)
        except InvalidConstraint:  # too thin to be seen in float64
            continue
        corners = [tuple(map(Fraction, row)) for row in region.corners.tolist()]
        edges = list(zip(corners, [*corners[1:], corners[0]], strict=True))
        turned = sum(a * d - b * c for (a, b), (c, d) in edges)
        for x, y in _exact_vertices(normals, offsets):
            sides = [(c - a) * (y - b) - (d - b) * (x - a) for (a, b), (c, d) in edges]
            assert all(side * turned >= 0 for side in sides)
            checked += 1
    assert checked >= 300
