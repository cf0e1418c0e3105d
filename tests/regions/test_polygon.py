"""Polygons: triangles that are the whole of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail._types import Array
from handrail.regions import polygon
from handrail.regions.polygon import Polygon
from handrail.regions.polytope import Polytope
from tests.support.regions import (
    around,
    inside_outline,
)


@st.composite
def star_polygons(draw: st.DrawFn) -> Array:
    """Simple by construction, rarely convex; coordinates of any scale and place."""
    count = draw(st.integers(3, 14))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    angles = 2 * np.pi * (np.arange(count) + 0.4 * rng.random(count)) / count
    radii = rng.choice([0.1, 0.5, 1.0], count) * rng.uniform(0.9, 1.1, count)
    points = np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=1)
    scales = 10.0 ** np.array(draw(st.tuples(st.integers(-6, 6), st.integers(-6, 6))))
    shift = scales * draw(st.sampled_from([0.0, 1.0, -30.0, 1e4]))
    result: Array = points[:: draw(st.sampled_from([1, -1]))] * scales + shift
    return result


@st.composite
def skylines(draw: st.DrawFn) -> Array:
    """Of integers, with vertices on straight edges."""
    heights = draw(st.lists(st.integers(1, 4), min_size=1, max_size=8))
    top = [(x, h) for i, h in enumerate(heights) for x in (i, i + 1)]
    top = [point for i, point in enumerate(top) if point not in top[:i]]
    bottom = [(x, 0) for x in range(len(heights), -1, -1)]
    return np.array(top + bottom, dtype=np.float64)


def _shoelace(vertices: Array) -> float:
    x, y = (vertices - vertices.mean(axis=0)).T
    return abs(0.5 * float(x @ np.roll(y, -1) - y @ np.roll(x, -1)))


@settings(max_examples=150, deadline=None)
@given(st.one_of(star_polygons(), skylines()), st.integers(0, 5))
def test_triangles_are_the_whole_polygon(vertices: Array, turn: int) -> None:
    vertices = np.roll(vertices, turn, axis=0)
    polygon = Polytope(vertices)
    cells = polygon.covers()[0].cells
    edges = cells.simplex[:, 1:] - cells.simplex[:, :1]
    # Relative to the size, and what is lost of it where the polygon lies far from zero.
    lost = 1e-15 * (np.abs(vertices).max(axis=0) / np.ptp(vertices, axis=0)).max()
    areas = np.abs(np.linalg.det(edges)) / 2
    assert areas.sum() == pytest.approx(_shoelace(vertices), rel=1e-12 + 100 * lost)
    assert polygon.volume == pytest.approx(_shoelace(vertices), rel=1e-12 + 100 * lost)
    rng = np.random.default_rng(0)
    states = around(polygon, 300, rng)
    inside = inside_outline(np.concatenate([vertices, vertices[:1]]), states)
    np.testing.assert_array_equal(polygon.contains(states), inside)
    # Each in exactly one triangle, for the sum of areas could hide an overlap and a gap.
    low, scale = vertices.min(axis=0), np.ptp(vertices, axis=0)
    matrices = np.concatenate(
        [(cells.simplex - low) / scale, np.ones((len(cells), 3, 1))], axis=2
    ).transpose(0, 2, 1)
    flat = np.column_stack([(states - low) / scale, np.ones(len(states))])
    weights = np.linalg.solve(matrices, np.broadcast_to(flat.T, (len(cells), 3, len(states))))
    np.testing.assert_array_equal((weights >= 0).all(axis=1).sum(axis=0), inside)
    nearest = polygon.project(states)
    assert polygon.contains(nearest).all()
    assert polygon.contains(vertices).all()
    assert polygon.contains(polygon.sample(100, rng)).all()


@settings(max_examples=50, deadline=None)
@given(star_polygons())
def test_the_nearest_point_is_the_nearest_of_a_fine_outline(vertices: Array) -> None:
    """However many points are compared with all edges at a time."""
    body = Polygon(vertices)
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    size = high - low
    points = np.random.default_rng(0).uniform(low - size, high + size, size=(50, 2))
    found = body.nearest(points)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(polygon, "_POINTS_AT_ONCE", 7)
        assert body.nearest(points).tobytes() == found.tobytes()
    assert body.contains(found).all()
    inside = body.contains(points)
    assert found[inside].tobytes() == points[inside].tobytes()
    shares = np.linspace(0.0, 1.0, 200)[:, None, None]
    outline = (vertices + shares * (np.roll(vertices, -1, axis=0) - vertices)).reshape(-1, 2)
    gaps = np.linalg.norm(points[:, None] - outline, axis=2).min(axis=1)
    distances = np.linalg.norm(points - found, axis=1)
    assert (distances[~inside] <= gaps[~inside] * (1.0 + 1e-9) + 1e-9 * size.max()).all()
