"""Hulls: simplices that are the whole of them, and the nearest points."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.regions.cells import Cells
from handrail.regions.polytope import Polytope
from tests.support.regions import (
    around,
    covered,
)


@settings(max_examples=60, deadline=None)
@given(st.integers(3, 5), st.integers(0, 20), st.integers(0, 2**32 - 1))
def test_simplices_are_the_whole_hull(k: int, more: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scales = 10.0 ** rng.integers(-3, 4, k)
    vertices = rng.normal(size=(k + 1 + more, k)) * scales + rng.normal(size=k) * scales
    if more > 10:  # many in the same planes
        vertices = rng.integers(0, 3, (200, k)) * scales
    hull = Polytope(vertices)
    cells = hull.covers()[0].cells
    edges = (cells.simplex[:, 1:] - cells.simplex[:, :1]) / scales
    volume = np.abs(np.linalg.det(edges)).sum() / math.factorial(k)
    assert volume * scales.prod() == pytest.approx(hull.volume, rel=1e-9)
    # Mixtures of vertices are inside, by the definition of a hull.
    mixtures = rng.dirichlet(np.full(len(vertices), 0.3), 200) @ vertices
    assert hull.contains(mixtures).all()
    assert hull.contains(vertices).all()
    scaled = Cells(
        cells.low / scales, cells.high / scales, cells.simplex / scales, cells.simplex_coordinates
    )
    solid = np.abs(np.linalg.det(edges)) > 1e-12
    assert covered(scaled.take(np.flatnonzero(solid)), mixtures / scales).all()
    states = around(hull, 30, rng)
    nearest = hull.project(states)
    assert hull.contains(nearest).all()
    # Nearest in a convex set: no vertex lies further in the direction of the state.
    away = states - nearest
    ahead = (vertices @ away.T - (nearest * away).sum(axis=1)).max(axis=0)
    size = np.linalg.norm(away, axis=1) * np.linalg.norm(np.ptp(vertices, axis=0))
    assert (ahead <= 1e-6 * size).all()  # in units that differ by up to 1e6
