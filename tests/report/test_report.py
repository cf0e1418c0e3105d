"""Pictures: what is drawn, and where."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from PIL import Image
from torch import nn

import handrail as hr
from handrail._types import Array
from handrail.constraints.constraint import Constraint
from handrail.errors import EnvironmentFailure
from handrail.policies import PROBABILITY
from handrail.regions.cells import Cells, Cover
from handrail.regions.outline import area, beside_faces, cut_cells
from handrail.regions.region import Region
from handrail.report import policy_panels
from handrail.report.drawing import draw_regions, draw_trajectory, new_figure
from handrail.report.plane import Slice, default_plane, middle_of, plane_over
from handrail.report.policy_panels import first_episode, policy_figure
from handrail.report.proof_panels import Side, certify_regions, proof_figure
from handrail.report.report import write_report
from handrail.rulebook.rulebook import Rulebook, load_rulebook, with_settings
from handrail.runs.run import Run, make_agent
from tests.support.cartpole import regions

PRISM = hr.Polytope(
    [(0, 0), (2, 0), (2, 1), (1, 0.5), (0, 1)], coordinates=[2, 3], others={0: (-3, 2), 1: 0.5}
)
HULL = hr.Polytope(
    [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)], coordinates=[0, 2, 3], others={1: (-1, 1)}
)
DISK = hr.Ball([0, 0, 0.2, 0.1], 0.1, coordinates=[2, 3])
BOX = hr.Box([0, -1, 0, 2], [1, 1, 3, 2])
PLANE = Slice((0.0, 0.0, 0.0, 0.0), 2, 3, (-0.4, 0.4), (-0.4, 0.4))


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


def labels(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def caption(figure: Figure) -> str:
    return figure.legends[0].get_title().get_text()


def marked(axes: Axes, label: str) -> Array:
    """The positions (n, 2) of the marks or the line with a label."""
    found = [line.get_xydata() for line in axes.lines if line.get_label() == label]
    return np.concatenate([np.asarray(one) for one in found])


def book(constraints: Sequence[Constraint], hidden: int = 64, **settings: object) -> Rulebook:
    """Cartpole under other constraints."""
    small = with_settings(load_rulebook("cartpole"), network={"hidden": [hidden]}, **settings)
    return replace(small, constraints=tuple(constraints))


def lean_left(name: str = "left", x: float = 0.0) -> hr.AtLeast:
    return hr.AtLeast(0.6, 0, hr.Box([x, 0, -0.3, -0.2], [x, 0, -0.2, 0.1]), name=name)


def leaning() -> hr.CategoricalPolicy:
    """The log-odds of action 0 are -10 φ."""
    layer = nn.Linear(4, 2, bias=False)
    with torch.no_grad():
        layer.weight[:] = torch.tensor([[0.0, 0.0, -10.0, 0.0], [0.0] * 4])
    return hr.CategoricalPolicy(nn.Sequential(layer))


LEANING = leaning()


# What a plane cuts out of cells.


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


# The policy's picture.


def test_regions_are_drawn_where_they_are() -> None:
    axes = new_figure(4, 4).subplots()
    elsewhere = hr.Box([2, 0, 0, 0], [3, 0, 0.1, 0.1])
    square = hr.Box([-1, -1, -0.3, -0.2], [1, 1, -0.2, 0.1])
    draw_regions(axes, [hr.Union([DISK, elsewhere]), square], PLANE)
    disk, box = (np.asarray(patch.get_path().vertices) for patch in axes.patches)
    assert area(disk) == pytest.approx(np.pi * 0.01, rel=0.01)
    assert disk.mean(axis=0) == pytest.approx([0.2, 0.1], abs=0.01)
    assert area(box) == pytest.approx(0.03)
    assert not axes.lines


def test_curves_are_lines_even_if_they_are_closed() -> None:
    axes = new_figure(4, 4).subplots()
    ring = hr.Curve([0.0, 0.0, "0.2*cos(2*pi*t)", "0.2*sin(2*pi*t)"], 0.0, 1.0)
    there_and_back = hr.Curve([0.0, 0.0, "t*(1-t)", "t*(1-t)"], 0.0, 1.0)  # ends where it began
    elsewhere = hr.Curve(["t", 0.0, "t", "0.1*t"], -0.3, 0.3)
    draw_regions(axes, [ring, there_and_back, elsewhere], PLANE)
    assert not axes.patches
    distances = np.linalg.norm(np.asarray(axes.lines[0].get_xydata()), axis=1)
    assert distances == pytest.approx(0.2)
    assert [line.get_label() for line in axes.lines] == [
        "constrained curve",
        "constrained curve",
        "constrained curve, projected",
    ]
    path = marked(axes, "constrained curve, projected")
    assert path[:, 1] == pytest.approx(0.1 * path[:, 0])


def test_a_plane_that_misses_the_regions_shows_none() -> None:
    agent = make_agent(rules := book([lean_left(x=1.0), lean_left("other", x=2.0)]))
    figure = policy_figure(rules, agent, PLANE)
    assert not figure.axes[0].patches
    assert "constrained region" not in labels(figure)
    assert caption(figure) == "x = 0, x_dot = 0; 2 of 2 regions do not meet this plane"
    figure = policy_figure(rules, agent, replace(PLANE, at=(1.0, 0.0, 0.0, 0.0)))
    assert len(figure.axes[0].patches) == 1
    assert caption(figure) == "x = 1, x_dot = 0; 1 of 2 regions do not meet this plane"


def test_stars_points_and_an_episode() -> None:
    points = hr.Points([[0, 0, 0.1, 0.3], [0, 0, 0.2, 0.3], [1, 0, 0.3, 0.3], [0, 0, 9.0, 0]])
    region = hr.Box([-1, 0, -0.3, -0.2], [1, 0, -0.2, 0.1])
    rules = book(
        [hr.AtLeast(0.9, 0, region, name="left"), hr.AtMost(0.3, 0, points, name="right")],
        hidden=200,
    )
    agent = make_agent(rules)
    stars = np.concatenate(agent.active_states)
    assert len(stars) > 2
    # A plane through one of them: it is white, those of other planes are grey and smaller.
    figure = policy_figure(rules, agent, replace(PLANE, at=tuple(stars[0].tolist())))
    here = stars[:, 0] == stars[0, 0]
    axes = figure.axes[0]
    drawn = marked(axes, "state constrained at present")
    assert (drawn == stars[here][:, [2, 3]]).all()
    drawn = marked(axes, "state constrained at present, other plane")
    assert (drawn == stars[~here][:, [2, 3]]).all()
    figure = policy_figure(rules, agent, PLANE)
    axes = figure.axes[0]
    assert marked(axes, "constrained state").tolist() == [[0.1, 0.3], [0.2, 0.3]]
    assert marked(axes, "constrained state, other plane").tolist() == [[0.3, 0.3]]
    path = first_episode(rules, agent)
    assert (marked(axes, "one episode, from the dot") == path[:, [2, 3]]).all()
    assert len(path) == agent.evaluate(1).lengths[0] + 1
    assert (first_episode(rules, make_agent(rules)) == path).all()
    assert set(labels(figure)) <= {
        "probability 50 %",
        "constrained region",
        "constrained state",
        "constrained state, other plane",
        "state constrained at present",
        "state constrained at present, other plane",
        "one episode, from the dot",
    }


def test_only_what_is_there_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    obedient = hr.AtLeast(0.01, 0, hr.Box([0, 0, -0.3, -0.2], [0, 0, -0.2, 0.1]), name="obeyed")
    agent = make_agent(rules := book([obedient]))
    assert not sum(map(len, agent.active_states))
    wanted = ["constrained region", "one episode, from the dot"]
    found = labels(policy_figure(rules, agent, PLANE))
    assert [label for label in found if label != "probability 50 %"] == wanted

    def broken(*_: object) -> None:
        raise EnvironmentFailure("The environment raised RuntimeError.")

    monkeypatch.setattr(policy_panels, "make_player", broken)
    far = replace(PLANE, horizontal_range=(50.0, 60.0), vertical_range=(50.0, 51.0))
    figure = policy_figure(rules, agent, far)
    assert labels(figure) in ([], ["constrained region"])
    assert not [line for line in figure.axes[0].lines if len(line.get_xydata())]  # type: ignore[arg-type]


def test_an_episode_that_leaves_the_picture() -> None:
    axes = new_figure(4, 4).subplots()
    states = np.array([[0, 0, 0.9, 0.9], [0, 0, 0.1, 0.1], [0, 0, 0.2, 0.1]])
    draw_trajectory(axes, states, PLANE)
    draw_trajectory(axes, states[::-1], PLANE)
    draw_trajectory(axes, states[:1], PLANE)
    assert [line.get_label() for line in axes.lines] == ["one episode", "one episode, from the dot"]


def test_a_panel_per_action(tmp_path: Path) -> None:
    rules = with_settings(load_rulebook("acrobot"), network={"hidden": [32]})
    agent = make_agent(rules)
    plane = default_plane(rules)
    assert plane is not None
    figure = policy_figure(rules, agent, plane)
    titles = [axes.get_title() for axes in figure.axes[:3]]
    assert titles == [f"probability of “{action}”" for action in rules.actions]
    figure.savefig(tmp_path / "policy.png")
    with Image.open(tmp_path / "policy.png") as picture:
        assert picture.width < 2000


# The proof's picture.


def shown_cells(axes: Axes) -> list[Array]:
    (cells,) = (one for one in axes.collections if isinstance(one, PolyCollection))
    return [np.asarray(path.vertices) for path in cells.get_paths()]


def test_a_proof_is_drawn_cell_by_cell(tmp_path: Path) -> None:
    rules = book([hr.AtLeast(0.6, 0, PRISM_AT_THE_LEFT, name="left")])
    answers = certify_regions(LEANING, rules.constraints)
    figure = proof_figure(rules, answers, PLANE)
    assert sum(map(area, shown_cells(figure.axes[0]))) == pytest.approx(0.025)
    assert caption(figure).startswith("1 of 1 region certified; ")
    assert labels(figure) == ["constrained region"]
    bar = figure.axes[1]
    assert bar.get_ylabel() == "log-odds inside the bound"
    (beside,) = bar.child_axes
    assert beside.get_ylabel() == "certified everywhere in the cell:\n“left” at least"
    # The log-odds are -10 φ, at least 2 in both triangles; those of 0.6 are 0.405.
    assert answers[0].cut(PLANE)[1] == pytest.approx(2.0 - np.log(1.5), abs=1e-9)
    assert [text.get_text() for text in bar.get_yticklabels()][-1] == "+2"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # layouts that do not fit warn
        figure.savefig(tmp_path / "proof.png")
    with Image.open(tmp_path / "proof.png") as picture:
        assert picture.height > 300


PRISM_AT_THE_LEFT = hr.Polytope(
    [(-0.3, -0.2), (-0.2, -0.2), (-0.2, 0.1), (-0.3, 0.0)],
    coordinates=[2, 3],
    others={0: (-1.0, 1.0), 1: 0.0},
)


def test_a_counterexample_is_a_cross_and_nothing_is_claimed() -> None:
    bad = hr.AtMost(0.05, 0, hr.Box([0, 0, -0.1, -0.1], [0, 0, 0.5, 0.1]), name="right")
    far = hr.AtMost(0.05, 0, hr.Box([3, 0, -0.1, -0.1], [4, 0, 0.5, 0.1]), name="far")
    rules = book([bad])
    answers = certify_regions(LEANING, [bad])
    figure = proof_figure(rules, answers, PLANE)
    state = answers[0].certificate.state
    assert state is not None
    assert marked(figure.axes[0], "counterexample").tolist() == [[state[2], state[3]]]
    assert labels(figure) == ["not proven", "constrained region", "counterexample"]
    assert len(figure.axes) == 1  # there is nothing for a colour bar to explain
    assert caption(figure) == "0 of 1 region certified; 0 proven cells"
    figure = proof_figure(rules, certify_regions(LEANING, [bad, far]), PLANE)
    assert [axes.get_title() for axes in figure.axes] == ["x = 0, x_dot = 0", "x = 3.5, x_dot = 0"]
    assert len(marked(figure.axes[1], "counterexample, other plane")) == 1


def test_what_overlaps_shows_the_lowest_bound() -> None:
    """Between has a proof for each bound, over the same region."""
    rule = hr.Between(0.5, 0.97, 0, hr.Box([0, 0, -0.3, -0.2], [0, 0, -0.1, 0.1]), name="both")
    (answer,) = certify_regions(LEANING, [rule])
    outlines, bounds = answer.cut(PLANE)
    assert sum(map(area, outlines)) == pytest.approx(2 * 0.06)
    axes = proof_figure(book([rule]), [answer], PLANE).axes
    lowest = outlines[int(bounds.argmin())]
    assert (shown_cells(axes[0])[-1][: len(lowest)] == lowest).all()
    label = axes[1].child_axes[0].get_ylabel()
    assert label == "certified everywhere in the cell:\n“left” at least / “left” at most"


def test_a_proof_that_was_given_up_claims_no_more_than_it_has() -> None:
    region = hr.Box([0, 0, -0.3, -0.2], [0, 0, -0.1, 0.1])
    for rule, proven in ((hr.AtLeast(0.5, 0, region), 1), (hr.Between(0.5, 0.97, 0, region), 0)):
        (answer,) = certify_regions(LEANING, [rule])
        leaves = answer.certificate.leaves[:1]
        certificate = replace(answer.certificate, status="unknown", leaves=leaves)
        figure = proof_figure(book([rule]), [replace(answer, certificate=certificate)], PLANE)
        assert len(shown_cells(figure.axes[0])) == proven
        assert "not proven" in labels(figure)
        assert caption(figure) == f"0 of 1 region certified; {proven} proven cells"


def test_many_places_and_weights() -> None:
    rules = [lean_left(f"{x}", x) for x in range(9)]
    answers = certify_regions(LEANING, rules)
    figure = proof_figure(book(rules), answers, PLANE)
    assert caption(figure).endswith("; 3 regions not drawn")
    assert len([axes for axes in figure.axes if axes.get_title()]) == 6
    weighted = hr.AtLeast(0.4, {0: 1.0, 1: -1.0}, lean_left().where, name="difference")
    (answer,) = certify_regions(LEANING, [weighted])
    bar = proof_figure(book([weighted]), [answer], PLANE).axes[1]
    assert not bar.child_axes
    assert bar.get_ylabel() == "certified everywhere in the cell:\nlog-odds inside the bound"


def test_cells_without_an_area_are_seen() -> None:
    """A region that is a line in the plane, and a curve that leaves it."""
    line = hr.AtLeast(0.6, 0, hr.Box([-1, 0, -0.3, 0.1], [1, 0, -0.2, 0.1]), name="line")
    curve = hr.AtLeast(0.6, 0, hr.Curve(["t", 0.0, "-0.2 - 0.1*t", 0.2], 0, 1), name="curve")
    answers = certify_regions(LEANING, [line, curve])
    axes = proof_figure(book([line, curve]), answers, PLANE).axes[0]
    (cells,) = (one for one in axes.collections if isinstance(one, PolyCollection))
    assert (np.asarray(cells.get_linewidth()) == 3.0).all()
    assert np.array_equal(cells.get_edgecolor(), cells.get_facecolor())
    heights = {round(float(outline[0, 1]), 12) for outline in shown_cells(axes)}
    assert heights == {0.1, 0.2}
    ends = np.concatenate([one for one in shown_cells(axes) if one[0, 1] > 0.15])[:, 0]
    assert (ends.min(), ends.max()) == pytest.approx((-0.3, -0.2))


def test_what_cannot_be_proven_is_left_out() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factor = nn.Parameter(torch.ones(2))

        def forward(self, states: torch.Tensor) -> torch.Tensor:
            return self.factor * states[:, :2] ** 3

    assert certify_regions(hr.CategoricalPolicy(Odd()), [lean_left()]) == ()
    assert certify_regions(LEANING, []) == ()
    points = hr.AtLeast(0.6, 0, hr.Points([[0, 0, -0.3, 0]]))
    function = hr.Curve(lambda t: np.stack([t, 0 * t, t - 2, t], axis=1), 0.0, 1.0)
    unknown = hr.AtLeast(0.6, 0, function, name="function")
    mirror = hr.Symmetric(lean_left().where, [-1] * 4, {0: 1, 1: 0}, within=0.1)
    answers = certify_regions(LEANING, [points, unknown, mirror, lean_left()])
    assert [answer.certificate.name for answer in answers] == ["left"]


@pytest.mark.parametrize("bound", [0.95, 0.05, 0.5, 0.999, 1e-4])
@pytest.mark.parametrize("margin", [0.0, 0.02, 1.0, 3.0])
def test_probabilities_are_rounded_to_the_safe_side(bound: float, margin: float) -> None:
    odds = bound / (1 - bound)
    least = float(Side(PROBABILITY, 1, 3, bound, is_lower=True).at(margin))
    exact = odds * np.exp(margin) / (1 + odds * np.exp(margin))
    assert exact - 0.1 * min(bound, 1 - bound) <= least <= exact + 1e-9
    most = float(Side(PROBABILITY, 0, 2, bound, is_lower=False).at(margin))
    exact = odds * np.exp(-margin) / (1 + odds * np.exp(-margin))
    assert exact - 1e-9 <= most <= exact + 0.1 * min(bound, 1 - bound)


# Planes.


def test_planes_show_whole_regions() -> None:
    rules = replace(book(regions()), picture=None)
    plane = default_plane(rules)
    assert plane is not None
    # All six share the range of x, so it is not what tells them apart.
    assert (plane.horizontal, plane.vertical) == (2, 3)
    assert plane.at[:2] == (0.0, 0.0)
    assert plane.horizontal_range == pytest.approx((-0.64, 0.64))
    assert all(plane.section(one.region) for one in regions())  # type: ignore[attr-defined]
    over_x = plane_over(rules, 0, 2)
    assert over_x.horizontal_range == pytest.approx((-4.0, 4.0))
    assert plane_over(rules, 0, 2, (1, 2, 3, 4)).at == (1, 2, 3, 4)


def test_planes_run_through_regions_not_between_them() -> None:
    rules = book([lean_left("one", -2.0), lean_left("two", 2.0), lean_left("three", 2.0)])
    plane = plane_over(rules, 2, 3)
    assert plane.at[0] == 2.0
    rules = replace(rules, picture=None, constraints=(lean_left(), hr.AtLeast(0.5, 0, BOX)))
    assert default_plane(rules) is not None


def test_the_scale_of_observations_counts() -> None:
    rules = replace(load_rulebook("mountain_car"), picture=None)
    box = hr.AtLeast(0.5, 0, hr.Box([-0.2, 0.0], [0.1, 0.03]))
    plane = default_plane(replace(rules, constraints=(box,)))
    assert plane is not None
    assert (plane.horizontal, plane.vertical) == (1, 0)  # 0.03 of 0.03, but 0.3 of 0.5


# Files.


def test_the_report_has_all_of_it(tmp_path: Path) -> None:
    rules = with_settings(book([lean_left()]), episodes=2)
    run = Run.create(tmp_path / "run", rules)
    run.learn()
    page = write_report([run], tmp_path / "report")
    for name in ("policy", "proof"):
        with Image.open(page.parent / f"{name}.png") as picture:
            assert picture.width > 400
            assert np.asarray(picture.convert("L")).std() > 10
        assert f'src="{name}.png"' in page.read_text()
