"""What a plane cuts out of cells."""

from __future__ import annotations

import numpy as np
import pytest

import handrail as hr
from handrail._types import Array
from handrail.regions.cells import Cells, Cover
from handrail.regions.outline import area, beside_faces, cut_cells
from handrail.regions.region import Region
from handrail.report.plane import middle_of

PRISM = hr.Polytope(
    [(0, 0), (2, 0), (2, 1), (1, 0.5), (0, 1)], coordinates=[2, 3], others={0: (-3, 2), 1: 0.5}
)
HULL = hr.Polytope(
    [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)], coordinates=[0, 2, 3], others={1: (-1, 1)}
)
BOX = hr.Box([0, -1, 0, 2], [1, 1, 3, 2])


def halved(region: Region, times: int) -> list[Cover]:
    """Cells of a proof, some of them halved more often than others."""
    done: list[Cover] = []
    covers = list(region.covers())
    for _ in range(times):
        halves = [cover.halves(np.ones(region.n_coordinates)) for cover in covers]
        done += [half.take(np.arange(0, len(half), 3)) for half in halves]
        covers = [half.take(np.flatnonzero(np.arange(len(half)) % 3)) for half in halves]
    return [*done, *covers]


def cut_area(region: Region, across: int, up: int, at: Array, times: int = 4) -> float:
    return sum(
        area(outline)
        for cover in halved(region, times)
        for outline in cut_cells(cover.cells, across, up, at)[1]
    )


@pytest.mark.parametrize("plane", [(2, 3), (3, 2), (0, 2), (2, 0), (0, 3), (0, 1), (1, 2)])
@pytest.mark.parametrize("region", [PRISM, HULL, BOX], ids=["prism", "hull", "box"])
def test_cells_tile_what_a_plane_cuts_out_of_a_region(
    region: Region, plane: tuple[int, int]
) -> None:
    for state in [*region.sample(5, np.random.default_rng(3)), middle_of(region)]:
        at = beside_faces(region, state)
        expected = sum(area(outline) for outline in region.section(*plane, at))
        assert cut_area(region, *plane, at) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("height", [0.0, 0.25, 0.6])
def test_a_tetrahedron_is_cut_in_triangles(height: float) -> None:
    at = np.array([0.0, 0.3, 0.0, height])
    for times in (0, 3):
        assert cut_area(HULL, 0, 2, at, times) == pytest.approx(0.5 * (1 - height) ** 2)
    # Across x and the free range of x_dot: a rectangle, 1 - z - height wide and 2 high.
    at = np.array([0.0, 0.0, 0.125, height])
    assert cut_area(HULL, 0, 1, at) == pytest.approx(2 * (0.875 - height))


def test_cell_by_cell() -> None:
    low, high = np.array([[0.0, 0, 0], [1, 0, 0]]), np.array([[1.0, 2, 1], [2, 2, 1]])
    cells = Cells.boxes(low, high)
    met, outlines = cut_cells(cells, 1, 2, np.array([1.5, 9.0, 9.0]))
    assert met.tolist() == [1]
    assert outlines[0].tolist() == [[0, 0], [2, 0], [2, 1], [0, 1], [0, 0]]
    corners = np.array([[[0.0, 0], [2, 0], [0, 1]]])
    cells = Cells(low[:1] * 1.0, np.array([[2.0, 1, 5]]), corners, np.array([1, 0]))
    # The simplex is in (1, 0): drawn over (0, 1) its columns change places.
    _, outlines = cut_cells(cells, 0, 1, np.array([0.0, 0.0, 3.0]))
    assert outlines[0].tolist() == [[0, 0], [0, 2], [1, 0], [0, 0]]
    _, outlines = cut_cells(cells, 1, 2, np.array([0.5, 0.0, 0.0]))
    assert outlines[0].min(axis=0).tolist() == [0, 0]
    assert outlines[0].max(axis=0).tolist() == [1, 5]


def test_planes_that_miss_cells_cut_nothing() -> None:
    for at in ([0, 0.5, 0, 0], [9, 0.5, 0, 0], [0, 0.6, 0, 0]):
        met, outlines = cut_cells(PRISM.covers()[0].cells, 2, 3, np.array(at, dtype=float))
        hit = at == [0, 0.5, 0, 0]
        assert bool(len(met)) == bool(outlines) == hit
    # Inside the bounds of the simplex, but beyond its slanted face.
    assert cut_cells(HULL.covers()[0].cells, 0, 1, np.array([0, 0, 0.6, 0.6]))[1] == []
    # Touched in a corner.
    assert cut_cells(HULL.covers()[0].cells, 0, 2, np.array([0, 0, 0, 1.0]))[1] == []


def test_planes_are_moved_off_the_faces_between_cells() -> None:
    at = np.array([-0.5, 0.5, 0, 0])  # the middle of the range of x: where it is halved first
    assert cut_area(PRISM, 2, 3, at) > 1.5 + 0.1
    moved = beside_faces(PRISM, at)
    assert cut_area(PRISM, 2, 3, moved) == pytest.approx(1.5)
    assert np.abs(moved - at).max() < 1e-8
    for edge in (-3.0, 2.0):  # stays in the region
        assert cut_area(PRISM, 2, 3, beside_faces(PRISM, np.array([edge, 0.5, 0, 0]))) > 1.4
    outside = np.array([2.1, 0.5, 0.5, 0.5])
    assert (beside_faces(PRISM, outside)[:2] == outside[:2]).all()
