"""Every shape of a region, on the same examples: inside, uniform, nearest, covered, written."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import KDTree
from scipy.stats import chi2_contingency

from handrail._types import Array, Mask
from handrail.errors import InvalidConstraint
from handrail.regions.ball import Ball
from handrail.regions.box import Box
from handrail.regions.cells import Cells
from handrail.regions.curve import Curve, CurveCover
from handrail.regions.description import region_from
from handrail.regions.points import Points
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


def _within(states: Array, low: list[float], high: list[float]) -> Mask:
    result: Mask = np.logical_and.reduce((states >= low) & (states <= high), axis=1)
    return result


def _in_ell(x: Array, y: Array) -> Mask:
    result: Mask = (x >= 0) & (y >= 0) & (x <= 2) & (y <= 2) & ((x <= 1) | (y <= 1))
    return result


def _in_prism(x: Array) -> Mask:
    right = -0.3 + (0.4 - x[:, 3]) / (0.4 - 0.133) * (0.3 - 0.267)
    sides: Mask = _within(x, [-2.5, 0.0, -0.4, 0.133], [2.5, 0.0, 0.0, 0.4]) & (x[:, 2] <= right)
    return sides


def _in_ell_or_disk(x: Array) -> Mask:
    return _in_ell(x[:, 0], x[:, 1]) | (np.hypot(x[:, 0] - 2.0, x[:, 1] - 1.0) <= 0.8)


def _spiral(t: Array) -> Array:
    return np.stack([t * np.cos(3 * t), t * np.sin(3 * t), np.full(len(t), 0.5)], axis=1)


EXAMPLES = {
    "box": Example(
        Box([0.0, -1.0, 2.0], [1.0, 1.0, 2.0]),
        lambda x: _within(x, [0.0, -1.0, 2.0], [1.0, 1.0, 2.0]),
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
        Ball([0.3, 1.0], 0.25, [1]), lambda x: _within(x, [0.3, 0.75], [0.3, 1.25]), 0.5
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
        lambda x: _within(x, [0, 0, 0, 0], [1, 0.1, 1, 1]),
        0.1,
    ),
    "circle": Example(Curve(["0.05*cos(t) - 0.2", 1.0, "sin(t)/2"], 0.0, 2 * math.pi)),
    "parabola": Example(Curve(["t", "t**2 - t + 0.3"], -1.0, 2.0)),
    "spiral": Example(Curve(_spiral, 0.0, 4.0, speed=[13.1, 13.1, 0.0])),
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
    assert example.region.volume == pytest.approx(example.volume, rel=1e-12)
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


def test_a_curve_is_sampled_uniformly_in_t() -> None:
    parabola = EXAMPLES["parabola"].region
    t = parabola.sample(4_000, np.random.default_rng(0))[:, 0]
    counts = np.histogram(t, bins=10, range=(-1.0, 2.0))[0]
    assert np.abs(counts - 400).max() < 80


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


def covered(cells: Cells, states: Array) -> Mask:
    """Whether states lie in some cell: barycentric coordinates in the simplex, and in the box."""
    found = np.zeros(len(states), dtype=bool)
    for i in range(len(cells)):
        low, high = cells.low[i] - 1e-9, cells.high[i] + 1e-9
        inside = _within(states, low.tolist(), high.tolist())
        if len(cells.simplex_coordinates) and inside.any():
            corners = cells.simplex[i]
            matrix = np.vstack([corners.T, np.ones(len(corners))])
            points = states[:, cells.simplex_coordinates].T
            weights = np.linalg.solve(matrix, np.vstack([points, np.ones(len(states))]))
            inside &= (weights >= -1e-9).all(axis=0)
        found |= inside
    return found


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


def test_a_ball_s_cover_loses_its_corners_and_nothing_else() -> None:
    ball = Ball([1.0, -2.0], 0.5)
    cover = ball.covers()[0]
    for _ in range(12):
        cover = cover.halves(np.ones(2))
    area = (cover.cells.high - cover.cells.low).prod(axis=1).sum()
    assert len(cover) < 3_500
    assert math.pi / 4 < area < 1.05 * math.pi / 4
    angles = np.linspace(0.0, 2 * math.pi, 3_000)
    sphere = ball.project(np.stack([np.cos(angles), np.sin(angles)], axis=1) * 9 + [1.0, -2.0])
    assert covered(cover.cells, sphere).all()


@pytest.mark.parametrize("name", ["circle", "parabola", "spiral", "dwelling"])
def test_boxes_enclose_the_pieces_of_a_curve(name: str) -> None:
    cover = EXAMPLES[name].region.covers()[0]
    assert isinstance(cover, CurveCover)
    assert len(cover) == 16
    widths = []
    for _ in range(7):
        for share in np.linspace(0.0, 1.0, 21):
            t = np.clip(
                cover.t_low + share * (cover.t_high - cover.t_low), cover.t_low, cover.t_high
            )
            states = cover.path.states(t)
            assert ((states >= cover.cells.low) & (states <= cover.cells.high)).all()
        widths.append((cover.cells.high - cover.cells.low).max())
        cover = cover.halves(np.ones(2))
    assert widths[-1] < 0.05 * widths[0]


def test_a_curve_that_can_only_be_bounded_in_small_pieces() -> None:
    curve = Curve(["1/(0.01 + t*t - t + 0.25)", "t"], 0.0, 1.0)
    cover = curve.covers()[0]
    assert len(cover) > 16
    assert np.isfinite(cover.cells.high).all()
    assert np.isfinite(curve.bounds).all()


def _inside_outline(outline: Array, points: Array) -> Mask:
    """Even-odd rule."""
    inside = np.zeros(len(points), dtype=bool)
    for (x0, y0), (x1, y1) in pairwise(outline):
        crosses = (y0 > points[:, 1]) != (y1 > points[:, 1])
        with np.errstate(divide="ignore", invalid="ignore"):
            inside ^= crosses & (points[:, 0] < x0 + (points[:, 1] - y0) / (y1 - y0) * (x1 - x0))
    return inside


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
            drawn = np.logical_or.reduce([_inside_outline(line, points) for line in outlines])
            # A circle is drawn with 96 straight lines.
            margin = 2e-3 * (high - low).max()
            clear = np.logical_and.reduce(
                [_far_from_outline(line, points, margin) for line in outlines]
            )
            np.testing.assert_array_equal(drawn[clear], region.contains(states[clear]))
            seen += int(drawn[clear].sum())
    assert seen or region.n_coordinates == 2


def test_sections_of_curves_lie_in_the_plane_or_are_nothing() -> None:
    circle = EXAMPLES["circle"].region
    (outline,) = circle.section(0, 2, np.array([9.0, 1.0, 9.0]))
    assert outline.shape == (257, 2)
    np.testing.assert_allclose(np.hypot((outline[:, 0] + 0.2) / 0.05, outline[:, 1] / 0.5), 1.0)
    assert circle.section(0, 2, np.array([9.0, 1.1, 9.0])) == []
    assert circle.section(0, 1, np.zeros(3)) == []


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


def test_parts_of_a_union() -> None:
    box, disk, line = Box([0, 0], [1, 1]), Ball([0, 0], 1), Curve(["t", 0.0], 0, 1)
    union = Union([Union([box, disk]), line])
    assert union.parts == [box, disk, line]
    assert box.parts == [box]
    assert len(union.covers()) == 3
    assert len(union.section(0, 1, np.zeros(2))) == 3


def test_a_union_without_overlap_is_uniform_by_volume() -> None:
    union = Union([Box([0, 0], [1, 1]), Box([5, 5], [8, 6])])
    states = union.spread(4096)
    assert (states[:, 0] > 4).mean() == pytest.approx(0.75, abs=1e-3)
    different = Union([Box([0, 0], [1, 0]), Box([5, 5], [8, 6])])
    assert (different.spread(4096)[:, 0] > 4).mean() == pytest.approx(0.5, abs=1e-3)


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
    inside = _inside_outline(np.concatenate([vertices, vertices[:1]]), states)
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
    np.testing.assert_allclose(low, 0.0, atol=1e-15)
    np.testing.assert_allclose(high, [1e-3, 1, 1], rtol=1e-12)


def test_where_many_half_spaces_meet_is_one_vertex() -> None:
    pyramid = Polytope.from_half_spaces(
        np.array([[1, 0, 1], [-1, 0, 1], [0, 1, 1], [0, -1, 1], [0.5, 0.5, 1], [0, 0, -1]]),
        [1, 1, 1, 1, 1, 0],
    )
    assert len(pyramid.corners) == 5
    assert pyramid.volume == pytest.approx(4 / 3)


def test_curves_that_cross_themselves_contain_all_of_it() -> None:
    eight = Curve(["sin(7*t)", "cos(5*t)"], 0.0, 2 * math.pi)
    assert eight.contains(eight.sample(3_000, np.random.default_rng(0))).all()
    assert not eight.contains(np.array([[2.0, 0.0], [0.0, 0.05]])).any()


def test_far_states_project_too() -> None:
    far = np.array([[1e200, -1e200], [1e300, 0.0], [-1e307, 1e307]])
    for region in (Ball([1.0, 2.0], 0.5), Polytope(ELL), Box([0, 0], [1, 1])):
        assert region.contains(region.project(far)).all()
    np.testing.assert_allclose(Polytope(ELL).project(np.array([[1e6, -1e6]])), [[2.0, 0.0]])


def _only_numbers(t: float) -> list[float]:
    return [math.cos(t), math.sin(t)]


REFUSALS: list[tuple[Callable[[], object], str]] = [
    (lambda: Ball([0, 0], 0), "Ball: radius must be positive, but is 0. Use Points"),
    (lambda: Ball([0, 0], -1.0), "Ball: radius must be positive"),
    (lambda: Ball([0, 0], math.inf), "Ball: radius must be a finite number, but is inf"),
    (lambda: Ball([0, 0], "1"), "Ball: radius must be a finite number, but is '1'"),  # type: ignore[arg-type]
    (lambda: Ball([0, math.nan], 1), "Ball: centre is unbounded or not a number"),
    (lambda: Ball([1e9, 0], 1e-9), "Ball: a radius of 1e-09 vanishes beside the centre"),
    (lambda: Ball([0, 0], 1, [0, 0]), "Ball: coordinate 0 is named twice"),
    (lambda: Ball([0, 0], 1, []), "Ball: coordinates is empty"),
    (lambda: Ball([0, 0], 1, [2]), "Ball: coordinate 2 does not exist: .* are 0 to 1"),
    (lambda: Ball([0, 0], 1, [-1]), "Ball: coordinate -1 does not exist"),
    (lambda: Ball([0, 0], 1, [0.5]), "Ball: coordinate must be the index .* but is 0.5"),  # type: ignore[list-item]
    (lambda: Ball([0, 0], 1, [0], {0: (0, 1)}), "Ball: coordinate 0 is in the ball, so"),
    (lambda: Ball([0, 0], 1, [0], {2: (0, 1)}), "Ball: ranges: coordinate 2 does not exist"),
    (lambda: Ball([0, 0], 1, [0], {1: (1, 0)}), "range of coordinate 1 is empty: .* 1 to 0"),
    (lambda: Ball([0, 0], 1, [0], {1: 3}), "must be a range .low, high., but is 3"),  # type: ignore[dict-item]
    (lambda: Ball([0, 0], 1, [0], [(1, 0)]), "Ball: ranges must map coordinates"),  # type: ignore[arg-type]
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
    (lambda: Curve(["t"], 1, 1), "t_min must be below t_max, but they are 1 and 1"),
    (lambda: Curve(["t"], 0, math.inf), "t_max must be a finite number"),
    (lambda: Curve("t", 0, 1), "f must be a list with an expression per coordinate"),
    (lambda: Curve([], 0, 1), "one expression per coordinate, not none"),
    (lambda: Curve(["t", "t^2"], 0, 1), r"Curve: coordinate 1: cannot read '\^' at column 2"),
    (lambda: Curve(["t", None], 0, 1), "must be an expression .* or a number, but is None"),  # type: ignore[list-item]
    (lambda: Curve(["1", 2], 0, 1), "Curve does not move"),
    (lambda: Curve(["1/t"], -1, 1), "coordinate 0, 1/t, is not finite at t = 0"),
    (lambda: Curve(["sqrt(t)"], -1, 1), r"coordinate 0, sqrt\(t\), is not finite at t = -1"),
    (lambda: Curve(["1/(t - 0.333)"], 0, 1), "coordinate 0 cannot be bounded for t between 0.33"),
    (lambda: Curve(["t"], 0, 1, speed=1), "speed is for a curve given as a Python function"),
    (lambda: Curve(_only_numbers, 0, 1), "f works only on single numbers"),  # type: ignore[arg-type]
    (lambda: Curve(np.cos, 0, 1), r"f returned the shape \(3,\) for 3 values of t"),
    (lambda: Curve(lambda t: np.stack([t, t, t]), 0, 1), r"and \(3, 1\) for one"),
    (lambda: Curve(lambda t: 1 // 0, 0, 1), "f failed at t = .*ZeroDivisionError"),
    (lambda: Curve(lambda t: t[:, None] * np.inf, 1, 2), "is not finite"),
    (lambda: Curve(_spiral, 0, 1, speed=-1), "finite and not negative, but is -1"),
    (lambda: Curve(_spiral, 0, 1, speed=[1, 2]), "one for each of the 3 coordinates"),
    (lambda: Curve(_spiral, 0, 1, speed=2.0), "coordinate . moves faster than its speed of 2"),
    (
        lambda: Curve(_spiral, 0, 1).covers(),
        "A curve given as a Python function can be proven only with a bound on its speed",
    ),
    (lambda: Union([Box([0], [1])]), "Union needs at least 2 regions, but got 1"),
    (lambda: Union(Box([0], [1])), "Union needs a list of regions"),  # type: ignore[arg-type]
    (lambda: Union([Box([0], [1]), Points([0.0])]), "part 1 is Points, but a union is of"),  # type: ignore[list-item]
    (lambda: Union([Box([0], [1]), 3]), "part 1 is no region: 3"),  # type: ignore[list-item]
    (lambda: Union([Box([0], [1]), Ball([0, 0], 1)]), "its parts have 1, 2 coordinates"),
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
