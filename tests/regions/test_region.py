"""Every shape of a region, on the same examples: inside, uniform, nearest, covered, written."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from scipy.spatial import KDTree
from scipy.stats import chi2_contingency

from handrail._types import Array, Mask
from handrail.errors import InvalidConstraint
from handrail.regions import region_from
from handrail.regions.ball import Ball
from handrail.regions.box import Box
from handrail.regions.curve import Curve
from handrail.regions.polytope import Polytope
from handrail.regions.region import Region
from handrail.regions.union import Union
from tests.support.regions import (
    ELL,
    EXAMPLES,
    PRISM,
    SHAPES,
    SOLID,
    Example,
    around,
    covered,
    inside_outline,
)


@SHAPES
def test_samples_spreads_and_grids_lie_inside(example: Example) -> None:
    region, rng = example.region, np.random.default_rng(0)
    low, high = region.bounds
    for states in (
        region.sample(2_000, rng),
        region.spread(777),
        region.spread(1),
        region.corners,
        region.grid(9),
        region.from_cube(np.zeros((1, region.n_cube))),
        region.from_cube(np.full((1, region.n_cube), np.nextafter(1.0, 0.0))),
        region.from_cube(np.full((1, region.n_cube), 0.5)),
    ):
        assert states.dtype == np.float64
        assert states.shape[1] == region.n_coordinates
        assert region.contains(states).all()
        assert ((states >= low) & (states <= high)).all()
    assert len(region.sample(0, rng)) == 0
    assert len(region.contains(np.zeros((0, region.n_coordinates)))) == 0
    assert len(region.project(np.zeros((0, region.n_coordinates)))) == 0
    np.testing.assert_array_equal(region.spread(50), region.spread(50))


@SOLID
def test_contains_what_it_should(example: Example) -> None:
    assert example.inside is not None
    states = around(example.region, 20_000, np.random.default_rng(1))
    inside = example.inside(states)
    assert 0.02 < inside.mean() < 0.9
    np.testing.assert_array_equal(example.region.contains(states), inside)
    assert example.region.volume == pytest.approx(example.volume, rel=1e-10)
    fixed = np.equal(*example.region.bounds)
    for coordinate in np.flatnonzero(fixed):
        beside = states[inside][:10].copy()
        beside[:, coordinate] += 1e-6
        assert not example.region.contains(beside).any()


def _histogram(region: Region, states: Array, bins: int) -> Array:
    """How many of the states are in each part of a coarse grid of the varying coordinates."""
    low, high = region.bounds
    varying = low < high
    shares = ((states - low)[:, varying] / (high - low)[varying]).T
    cells = np.ravel_multi_index(
        tuple(np.minimum((bins * shares).astype(int), bins - 1)), (bins,) * len(shares)
    )
    return np.bincount(cells, minlength=bins ** len(shares)).astype(np.float64)


@SOLID
def test_samples_are_uniform(example: Example) -> None:
    """Against a rejection sampler that uses nothing of the region but its bounds."""
    assert example.inside is not None
    region, rng = example.region, np.random.default_rng(2)
    drawn = around(region, 200_000, rng, margin=0.0)
    drawn = drawn[example.inside(drawn)][:40_000]
    samples = [region.sample(8_000, rng)]
    if not isinstance(region, Union):  # whose spread counts overlaps twice
        samples.append(region.spread(8_000, seed=3))
    scale = np.where(np.equal(*region.bounds), 1.0, np.ptp(region.bounds, axis=0))
    for states in samples:
        counts = np.stack([_histogram(region, x, 4) for x in (states, drawn)])
        assert chi2_contingency(counts[:, counts[1] >= 20]).pvalue > 1e-3
        for moment in (lambda x: (x / scale).mean(axis=0), lambda x: np.cov((x / scale).T)):
            np.testing.assert_allclose(moment(states), moment(drawn), atol=0.012)


@SHAPES
def test_projection(example: Example) -> None:
    region, rng = example.region, np.random.default_rng(4)
    states = np.concatenate([around(region, 300, rng), around(region, 20, rng, margin=100.0)])
    states += rng.normal(size=states.shape) * 0.1
    nearest = region.project(states)
    assert region.contains(nearest).all()
    np.testing.assert_array_equal(region.project(nearest), nearest)
    members = region.sample(500, rng)
    np.testing.assert_array_equal(region.project(members), members)
    many = np.concatenate([region.sample(60_000, rng), region.corners])
    distances = np.linalg.norm(states - nearest, axis=1)
    others = KDTree(many).query(states)[0]
    assert (distances <= others + 1e-9).all()
    size = np.linalg.norm(np.subtract(*region.bounds))
    assert (others[:300] <= distances[:300] + 0.1 * size).all()


@SHAPES
def test_bounds_are_reached(example: Example) -> None:
    region = example.region
    low, high = region.bounds
    states = np.concatenate([region.sample(50_000, np.random.default_rng(0)), region.corners])
    width = high - low
    assert (states >= low).all()
    assert (states <= high).all()
    np.testing.assert_allclose(states.min(axis=0), low, atol=0.05 * width.max() + 1e-15)
    np.testing.assert_allclose(states.max(axis=0), high, atol=0.05 * width.max() + 1e-15)
    if not isinstance(region, Curve):
        far = np.concatenate([np.diag(1e7 * sign * np.ones(len(low))) for sign in (-1, 1)])
        ends = region.project(far + 0.5 * (low + high))
        np.testing.assert_allclose(ends.min(axis=0), low, atol=1e-6)
        np.testing.assert_allclose(ends.max(axis=0), high, atol=1e-6)


@SHAPES
def test_covers_contain_every_state(example: Example) -> None:
    region, rng = example.region, np.random.default_rng(5)
    boundary = region.project(around(region, 500, rng, margin=1.0))
    states = np.concatenate([region.sample(1_000, rng), region.corners, boundary])
    covers = list(region.covers())
    for round_ in range(7):
        if round_:
            importance = 5.0 ** rng.uniform(-1.0, 1.0, (states.shape[1]))
            covers = [cover.halves(importance) for cover in covers]
        found = np.logical_or.reduce([covered(cover.cells, states) for cover in covers])
        assert found.all()
    for cover in covers:
        taken = cover.take(np.array([2, 0]))
        assert len(taken) == 2
        np.testing.assert_array_equal(taken.cells.low, cover.cells.low[[2, 0]])
        np.testing.assert_array_equal(taken.cells.simplex, cover.cells.simplex[[2, 0]])


@SHAPES
def test_cells_are_as_large_as_they_say(example: Example) -> None:
    rng = np.random.default_rng(6)
    for cover in example.region.covers():
        cells = cover.halves(np.ones(example.region.n_coordinates)).cells
        slopes = rng.normal(size=(len(cells), 5, example.region.n_coordinates))
        highest = cells.highest(slopes)
        values = np.einsum("nmc,nvc->nmv", slopes, cells.vertices())
        np.testing.assert_allclose(highest, values.max(axis=2), atol=1e-12)
        weights = rng.dirichlet(np.ones(cells.n_vertices), (len(cells), 20))
        inner = np.einsum("nsv,nvc->nsc", weights, cells.vertices())
        values = np.einsum("nmc,nsc->nms", slopes, inner)
        assert (values <= highest[:, :, None] + 1e-12).all()
        columns = cells.simplex_coordinates
        np.testing.assert_array_equal(cells.low[:, columns], cells.simplex.min(axis=1))
        np.testing.assert_array_equal(cells.high[:, columns], cells.simplex.max(axis=1))


@SHAPES
def test_written_down_and_read_again(example: Example) -> None:
    region = example.region
    if isinstance(region, Curve) and "function" in repr(region):
        with pytest.raises(InvalidConstraint, match="cannot be written down"):
            region.describe()
        return
    again = region_from(json.loads(json.dumps(region.describe())))
    assert type(again) is type(region)
    assert again.describe() == region.describe()
    assert repr(again) == repr(region)
    np.testing.assert_array_equal(again.bounds, region.bounds)
    np.testing.assert_array_equal(again.spread(99), region.spread(99))
    np.testing.assert_array_equal(again.corners, region.corners)


@SHAPES
@pytest.mark.parametrize("count", [1, 2, 7, 64, 1000])
def test_cover_has_exactly_so_many_distinct_states(example: Example, count: int) -> None:
    states = example.region.cover(count)
    assert len(np.unique(states, axis=0)) == len(states) == count
    np.testing.assert_array_equal(states, example.region.cover(count))
    corners = example.region.corners
    if 2 * len(corners) <= count:
        np.testing.assert_array_equal(states[: len(corners)], corners)


def test_grids() -> None:
    assert len(Polytope(ELL).grid(5)) == 21
    assert len(Ball([0.0, 0.0], 1.0).grid(3)) == 5
    np.testing.assert_array_equal(Curve(["t", 2], 0, 1).grid(3), [[0, 2], [0.5, 2], [1, 2]])
    two = Union([Box([0, 0], [1, 1]), Box([1, 0], [2, 1])])
    assert len(two.grid(3)) == 15
    with pytest.raises(InvalidConstraint, match=r"No state of a grid of 2 values .* lies inside"):
        Ball([0.0, 0.0], 1.0).grid(2)


def test_far_states_project_too() -> None:
    far = np.array([[1e200, -1e200], [1e300, 0.0], [-1e307, 1e307]])
    for region in (Ball([1.0, 2.0], 0.5), Polytope(ELL), Box([0, 0], [1, 1])):
        assert region.contains(region.project(far)).all()
    np.testing.assert_allclose(Polytope(ELL).project(np.array([[1e6, -1e6]])), [[2.0, 0.0]])


def _far_from_outline(outline: Array, points: Array, margin: float) -> Mask:
    starts, steps = outline[:-1], np.diff(outline, axis=0)
    shares = np.einsum("pei,ei->pe", points[:, None] - starts, steps)
    shares = np.clip(shares / np.maximum((steps**2).sum(axis=1), 1e-300), 0.0, 1.0)
    gaps = points[:, None] - (starts + shares[:, :, None] * steps)
    result: Mask = np.linalg.norm(gaps, axis=2).min(axis=1) > margin
    return result


@SOLID
def test_sections_agree_with_contains(example: Example) -> None:
    region, rng = example.region, np.random.default_rng(7)
    low, high = region.bounds
    seen = 0
    for across, up in [*combinations(range(len(low)), 2), *combinations(range(len(low))[::-1], 2)]:
        outside = high + 1.0
        assert not len(low) > 2 or region.section(across, up, outside) == []
        for at in region.sample(5, rng):
            outlines = region.section(across, up, at)
            assert outlines
            for outline in outlines:
                np.testing.assert_array_equal(outline[0], outline[-1])
            if low[across] == high[across] or low[up] == high[up]:
                continue
            ignored = at.copy()
            ignored[[across, up]] = np.nan
            width = 0.2 * (high - low)
            axes = [np.linspace(low[i] - width[i], high[i] + width[i], 41) for i in (across, up)]
            points = np.stack([axis.ravel() for axis in np.meshgrid(*axes)], axis=1)
            states = np.tile(at, (len(points), 1))
            states[:, [across, up]] = points
            drawn = np.logical_or.reduce([inside_outline(line, points) for line in outlines])
            # A circle is drawn with 96 straight lines.
            margin = 2e-3 * (high - low).max()
            clear = np.logical_and.reduce(
                [_far_from_outline(line, points, margin) for line in outlines]
            )
            np.testing.assert_array_equal(drawn[clear], region.contains(states[clear]))
            seen += int(drawn[clear].sum())
    assert seen or region.n_coordinates == 2


def test_sections_in_the_other_order_are_mirrored() -> None:
    prism = EXAMPLES["prism"].region
    at = np.zeros(4)
    (one,), (other,) = prism.section(2, 3, at), prism.section(3, 2, at)
    np.testing.assert_array_equal(one, np.array([*PRISM, PRISM[0]]))
    np.testing.assert_array_equal(one[:, ::-1], other)
    ell = EXAMPLES["ell, clockwise, times a range"].region
    pieces = ell.section(1, 2, np.array([7.0, 0.0, 0.0, 1.5]))
    np.testing.assert_allclose(pieces[0][:, 0].min(), 0.0)
    np.testing.assert_allclose(pieces[0][:, 0].max(), 1.0)


REFUSALS: list[tuple[Callable[[], object], str]] = [
    (lambda: region_from({"shape": "cone"}), "Unknown shape 'cone': the shapes are box, ball"),
    (lambda: region_from({}), "Unknown shape None"),
    (lambda: region_from([1]), "described by a mapping"),  # type: ignore[arg-type]
    (lambda: region_from({"shape": "box", "low": [0]}), "a box lacks 'high'. It has shape, low"),
    (
        lambda: region_from(
            {"shape": "ball", "centre": [0], "radius": 1, "coordinates": [0], "ranges": {"1": 2}}
        ),
        r"a list of \[index, low, high\]",
    ),
]


@pytest.mark.parametrize(("make", "message"), REFUSALS, ids=[text for _, text in REFUSALS])
def test_refusals(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidConstraint, match=message):
        make()
