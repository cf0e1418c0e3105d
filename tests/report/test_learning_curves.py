"""Learning curves: what is drawn of runs, and of which."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from handrail.errors import InvalidArgument
from handrail.report.drawing import new_figure
from handrail.report.learning_curves import (
    cost_figure,
    draw_costs,
    draw_influence,
    draw_losses,
    influence_figure,
    loss_figure,
    mean_over_seeds,
    score_figure,
    violation_figure,
)
from handrail.runs.run import Run
from tests.report.figures import book, lean_left


def curve(figure: Figure, label: str) -> list[float]:
    (line,) = (one for one in figure.axes[0].lines if one.get_label() == label)
    return [float(value) for value in np.asarray(line.get_ydata())]


def test_figures_of_a_run(run: Run) -> None:
    records = run.records()
    assert curve(score_figure(run), "the run") == [one.score for one in records]
    assert curve(score_figure(run.folder), "pass mark") == [195.0, 195.0]
    losses = [one.batch_loss for one in records]  # held exactly, it has no safe returns
    assert curve(loss_figure([run]), "loss, the run") == pytest.approx(losses)
    worst = [one.violation_before for one in records]
    assert curve(violation_figure(run), "the run") == worst


def test_the_influence_of_every_holding(run: Run) -> None:
    records = run.records()
    figure = influence_figure(run)
    assert curve(figure, "mean change, the run") == [one.influence for one in records]
    assert curve(figure, "largest change") == [one.largest_influence for one in records]
    assert all(0.0 <= one.influence <= one.largest_influence for one in records)  # type: ignore[operator]


def test_the_influence_of_several_seeds_some_of_them_frozen(run: Run) -> None:
    one = replace(run.records()[0], influence=0.1, largest_influence=0.4)
    two = replace(one, influence=0.3, largest_influence=0.2)
    frozen = replace(one, influence=None, largest_influence=None)
    figure = new_figure(4, 3)
    draw_influence(figure.subplots(), [[one, one, frozen], [two, frozen, frozen]])
    assert curve(figure, "mean change, mean of 2 seeds") == pytest.approx(
        [0.2, 0.1, np.nan], nan_ok=True
    )
    assert curve(figure, "largest change") == pytest.approx([0.4, 0.4, np.nan], nan_ok=True)


def test_only_safe_returns_have_a_part_in_the_loss(run: Run) -> None:
    record = replace(run.records()[0], batch_loss=2.0, safe_loss=None)
    figure = new_figure(4, 3)
    draw_losses(figure.subplots(), [[record]])
    assert [line.get_label() for line in figure.axes[0].lines] == ["loss, the run"]
    figure = new_figure(4, 3)
    draw_losses(figure.subplots(), [[replace(record, safe_loss=0.5)]])
    assert curve(figure, "whole loss, the run") == [2.5]
    assert curve(figure, "safe returns' part") == [0.5]


def test_costs_of_several_seeds(run: Run) -> None:
    one = replace(run.records()[0], cost=2.0)
    figure = new_figure(4, 3)
    draw_costs(figure.subplots(), [[one, replace(one, cost=None)], [replace(one, cost=4.0)]])
    assert curve(figure, "mean of 2 seeds") == [3.0, 0.0]
    assert figure.axes[0].get_ylabel() == "cost of an episode"
    with pytest.raises(InvalidArgument, match=r'environment names none in info\["cost"\]'):
        cost_figure(run)


def test_without_influence_there_is_no_figure_of_it(tmp_path: Path) -> None:
    made = Run.create(tmp_path / "run", book([lean_left()], episodes=1, enforcement="none"))
    made.learn()
    with pytest.raises(InvalidArgument, match="have recorded no influence: with enforcement 'ex"):
        influence_figure(made)


def test_runs_without_a_record_are_left_out(run: Run, empty: Run) -> None:
    assert curve(score_figure([empty, run]), "the run") == [one.score for one in run.records()]
    with pytest.raises(InvalidArgument, match="No episode has been recorded yet"):
        score_figure(empty)


def test_the_mean_is_of_the_seeds_that_have_a_value() -> None:
    table = np.array([[1.0, np.nan, np.nan], [3.0, 5.0, np.nan]])
    np.testing.assert_array_equal(mean_over_seeds(table), [2.0, 5.0, np.nan])


def test_no_figure_touches_the_global_state(run: Run) -> None:
    code = (
        "import sys, handrail as hr; hr.report.score_figure(sys.argv[1]); "
        "hr.report.policy_figure(hr.Run.open(sys.argv[1])); "
        "print('matplotlib.pyplot' in sys.modules)"
    )
    said = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(run.folder)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "False\n"
