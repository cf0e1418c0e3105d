"""Simplices that leave no gap, against fractions: near the limits of what float64 tells apart."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import Delaunay

from handrail._types import Array
from handrail.errors import InvalidConstraint
from handrail.regions.enclosure import encloses, outer_faces
from handrail.regions.polytope import Polytope
from tests.support.regions import ExactPoint, covered_exactly, exact_vertices, exactly


def cube(k: int) -> Array:
    return np.array(list(product([-1.0, 1.0], repeat=k)))


@pytest.mark.parametrize("k", [2, 3, 4])
def test_a_cube_is_enclosed_to_the_last_digit(k: int) -> None:
    corners = cube(k)
    simplices = Delaunay(corners).simplices
    faces = outer_faces(simplices)
    assert encloses(faces, corners, corners)
    outside = np.nextafter(corners[:1], 2.0 * corners[:1])
    assert not encloses(faces, corners, outside)
    grown = 1.0 + np.finfo(np.float64).eps
    assert encloses(faces, grown * corners, outside)


def test_what_does_not_fit_together_encloses_nothing() -> None:
    corners = cube(3)
    simplices = Delaunay(corners).simplices
    for some in (simplices[1:], np.concatenate([simplices, simplices[:1]])):
        assert not encloses(outer_faces(some), corners, corners)
    apart = np.concatenate([simplices, simplices + len(corners)])
    assert outer_faces(apart) == []
    # Two triangles on the same side of an edge: a fold.
    corners = np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 2.0], [1.0, 1.0]])
    folded = outer_faces(np.array([[0, 1, 2], [0, 1, 3]]))
    assert len(folded) == 4
    assert not encloses(folded, corners, corners)


def test_a_strip_that_closes_the_wrong_way_round_has_no_sides() -> None:
    assert outer_faces(np.array([[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 0], [4, 0, 1]])) == []


def mixtures(points: list[ExactPoint], rng: np.random.Generator) -> list[ExactPoint]:
    """On edges, faces and inside, exactly."""
    found = list(points)
    for _ in range(8):
        chosen = rng.choice(len(points), min(len(points), int(rng.integers(2, 5))), replace=False)
        weights = [int(weight) for weight in rng.integers(1, 5, len(chosen))]
        columns = zip(*(points[i] for i in chosen), strict=True)
        mixed = [
            sum((w * x for w, x in zip(weights, column, strict=True)), start=0 * column[0])
            / sum(weights)
            for column in columns
        ]
        found.append(tuple(mixed))
    return found


def nearly_degenerate(kind: str, k: int, rng: np.random.Generator) -> Array:
    small = 10.0 ** rng.uniform(-16, -5)
    if kind == "cube":
        points = cube(k) + small * rng.normal(size=(2**k, k))
    elif kind == "twice":
        points = rng.normal(size=(k + 4, k))
        near = np.concatenate([points[:2], (points[2:4] + points[4:6]) / 2.0])
        points = np.concatenate([points, near + small * rng.normal(size=(4, k))])
    else:
        points = rng.normal(size=(k + 4, k)) * np.append(max(1e3 * small, 1e-9), np.ones(k - 1))
        points = points @ np.linalg.qr(rng.normal(size=(k, k)))[0]
    result: Array = points + rng.normal(size=k) * rng.choice([1.0, 1e3])
    return result


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    st.sampled_from(["cube", "twice", "thin"]), st.sampled_from([3, 3, 4]), st.integers(0, 2**32)
)
def test_cells_of_vertices_leave_no_gap(kind: str, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = nearly_degenerate(kind, k, rng)
    try:
        cells = Polytope(points).covers()[0].cells
    except InvalidConstraint:  # too thin to be seen in float64
        return
    asked = mixtures(exactly(points), rng)
    assert covered_exactly(cells.simplex, asked)
    # Not larger than needs be, but where it is as thin as float64 allows.
    if kind != "thin":
        size = np.ptp(points, axis=0).max() + np.abs(points).max()
        assert (cells.high.max(axis=0) <= points.max(axis=0) + 1e-9 * size).all()


def half_spaces(kind: str, k: int, rng: np.random.Generator) -> tuple[Array, Array]:
    small = 10.0 ** rng.uniform(-9, -1)
    normals = rng.normal(size=(int(rng.integers(k + 1, k + 4)), k))
    normals /= np.linalg.norm(normals, axis=1)[:, None]
    normals = np.concatenate([normals, -normals.sum(axis=0)[None]])
    offsets = rng.uniform(0.3, 1.0, len(normals))
    if kind == "slab":
        normals = np.concatenate([normals, np.eye(k)[:1], -np.eye(k)[:1]])
        offsets = np.append(offsets, [small, small])
    if kind == "nearly parallel":
        normals = np.concatenate([normals, normals[:2] + small * rng.normal(size=(2, k))])
        offsets = np.append(offsets, offsets[:2] + small * rng.normal(size=2))
    if kind == "cut corner":
        normals = np.concatenate([np.eye(k), -np.eye(k), np.ones((1, k))])
        offsets = np.append(np.ones(2 * k), k - small)
    if kind == "needle":
        along = rng.normal(size=k)
        across = np.linalg.svd(along[None])[2][1:]
        turned = rng.normal(size=(k + 1, k - 1))
        turned -= turned.mean(axis=0)
        normals = np.concatenate([turned @ across + small * along, -along[None]])
        offsets = np.append(small * rng.uniform(0.5, 2.0, k + 1), 0.1)
    if rng.random() < 0.3:
        normals = normals / 10.0 ** rng.uniform(-3, 3, k)
    return normals, offsets + normals @ (rng.normal(size=k) * rng.choice([1.0, 1e2, 1e6]))


KINDS = ["plain", "slab", "nearly parallel", "cut corner", "needle"]


def no_state_is_left_out(kind: str, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    normals, offsets = half_spaces(kind, k, rng)
    try:
        cells = Polytope.from_half_spaces(normals, offsets).covers()[0].cells
    except InvalidConstraint:
        return
    corners = exact_vertices(normals, offsets)
    assert len(corners) > k
    assert covered_exactly(cells.simplex, mixtures(corners, rng))


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(st.sampled_from(KINDS), st.sampled_from([2, 3]), st.integers(0, 2**32))
def test_cells_of_half_spaces_leave_no_state_out(kind: str, k: int, seed: int) -> None:
    no_state_is_left_out(kind, k, seed)


@pytest.mark.slow
@settings(max_examples=600, deadline=None, derandomize=True, database=None)
@given(st.sampled_from(KINDS), st.sampled_from([2, 3, 3, 4]), st.integers(0, 2**32))
def test_cells_of_half_spaces_leave_no_state_out_often(kind: str, k: int, seed: int) -> None:
    no_state_is_left_out(kind, k, seed)
