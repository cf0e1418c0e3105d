"""The proof's picture."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from PIL import Image
from torch import nn

import handrail as hr
from handrail._types import Array
from handrail.constraints import counted
from handrail.errors import InvalidArgument
from handrail.policies.quantity import PROBABILITY
from handrail.regions.outline import area
from handrail.report.proof_panels import Side, certify_regions, draw_answers, proof_figure
from handrail.report.subject import Domain
from tests.report.figures import LEANING, PLANE, book, caption, labels, lean_left, marked

PRISM_AT_THE_LEFT = hr.Polytope(
    [(-0.3, -0.2), (-0.2, -0.2), (-0.2, 0.1), (-0.3, 0.0)],
    coordinates=[2, 3],
    others={0: (-1.0, 1.0), 1: 0.0},
)


def shown_cells(axes: Axes) -> list[Array]:
    (cells,) = (one for one in axes.collections if isinstance(one, PolyCollection))
    return [np.asarray(path.vertices) for path in cells.get_paths()]


def test_a_proof_is_drawn_cell_by_cell(tmp_path: Path) -> None:
    rules = book([hr.AtLeast(0.6, 0, PRISM_AT_THE_LEFT, name="left")])
    answers = certify_regions(LEANING, rules.constraints)
    figure = draw_answers(Domain.of(rules), answers, PLANE)
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


def test_a_counterexample_is_a_cross_and_nothing_is_claimed() -> None:
    bad = hr.AtMost(0.05, 0, hr.Box([0, 0, -0.1, -0.1], [0, 0, 0.5, 0.1]), name="right")
    far = hr.AtMost(0.05, 0, hr.Box([3, 0, -0.1, -0.1], [4, 0, 0.5, 0.1]), name="far")
    rules = book([bad])
    answers = certify_regions(LEANING, [bad])
    figure = draw_answers(Domain.of(rules), answers, PLANE)
    state = answers[0].certificate.state
    assert state is not None
    assert marked(figure.axes[0], "counterexample").tolist() == [[state[2], state[3]]]
    assert labels(figure) == ["not proven", "constrained region", "counterexample"]
    assert len(figure.axes) == 1  # there is nothing for a colour bar to explain
    assert caption(figure) == "0 of 1 region certified; 0 proven cells"
    figure = proof_figure(LEANING, replace(rules, constraints=(bad, far)), PLANE)
    assert [axes.get_title() for axes in figure.axes] == ["x = 0, x_dot = 0", "x = 3.5, x_dot = 0"]
    assert len(marked(figure.axes[1], "counterexample, other plane")) == 1


def test_what_overlaps_shows_the_lowest_bound() -> None:
    """Between has a proof for each bound, over the same region."""
    rule = hr.Between(0.5, 0.97, 0, hr.Box([0, 0, -0.3, -0.2], [0, 0, -0.1, 0.1]), name="both")
    (answer,) = certify_regions(LEANING, [rule])
    outlines, bounds = answer.cut(PLANE)
    assert sum(map(area, outlines)) == pytest.approx(2 * 0.06)
    axes = draw_answers(Domain.of(book([rule])), [answer], PLANE).axes
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
        figure = draw_answers(
            Domain.of(book([rule])), [replace(answer, certificate=certificate)], PLANE
        )
        assert len(shown_cells(figure.axes[0])) == proven
        assert "not proven" in labels(figure)
        assert caption(figure) == f"0 of 1 region certified; {counted(proven, 'proven cell')}"


def test_many_places_and_weights() -> None:
    rules = [lean_left(f"{x}", x) for x in range(9)]
    answers = certify_regions(LEANING, rules)
    figure = draw_answers(Domain.of(book(rules)), answers, PLANE)
    assert caption(figure).endswith("; 3 regions not drawn")
    assert len([axes for axes in figure.axes if axes.get_title()]) == 6
    weighted = hr.AtLeast(0.4, {0: 1.0, 1: -1.0}, lean_left().where, name="difference")
    (answer,) = certify_regions(LEANING, [weighted])
    bar = draw_answers(Domain.of(book([weighted])), [answer], PLANE).axes[1]
    assert not bar.child_axes
    assert bar.get_ylabel() == "certified everywhere in the cell:\nlog-odds inside the bound"


def test_cells_without_an_area_are_seen() -> None:
    """A region that is a line in the plane, and a curve that leaves it."""
    line = hr.AtLeast(0.6, 0, hr.Box([-1, 0, -0.3, 0.1], [1, 0, -0.2, 0.1]), name="line")
    curve = hr.AtLeast(0.6, 0, hr.Curve(["t", 0.0, "-0.2 - 0.1*t", 0.2], 0, 1), name="curve")
    answers = certify_regions(LEANING, [line, curve])
    axes = draw_answers(Domain.of(book([line, curve])), answers, PLANE).axes[0]
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
    assert [answer.certificate.name for answer in answers] == ["symmetric", "left"]
    assert answers[0].sides == ()


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


def test_a_proof_needs_a_region() -> None:
    points = hr.AtLeast(0.6, 0, hr.Points([[0, 0, -0.3, 0]]))
    with pytest.raises(InvalidArgument, match="no constraint on a region that a proof can look"):
        proof_figure(LEANING, [points])


def test_margins_of_slopes_are_in_units_of_their_own() -> None:
    """The log-odds of action 0 fall by 10 per unit of φ."""
    steady = hr.Lipschitz(12.0, 0, 2, PRISM_AT_THE_LEFT, name="steady")
    rules = replace(book([]), constraints=(steady,), requirements=("",))
    answers = certify_regions(LEANING, rules.constraints)
    assert answers[0].cut(PLANE)[1].min() == pytest.approx(2.0, abs=1e-9)
    figure = draw_answers(Domain.of(rules), answers, PLANE)
    label = figure.axes[1].get_ylabel()
    assert label == "certified everywhere in the cell:\nlog-odds per unit of phi inside the bound"
    both = (hr.AtLeast(0.6, 0, PRISM_AT_THE_LEFT, name="left"), steady)
    rules = replace(rules, constraints=both, requirements=("", ""))
    figure = draw_answers(Domain.of(rules), certify_regions(LEANING, both), PLANE)
    assert "log-odds / log-odds per unit of phi inside the bound" in figure.axes[1].get_ylabel()
