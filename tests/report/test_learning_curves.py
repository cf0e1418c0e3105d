"""Learning curves: what is drawn of runs, and of which."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

from handrail.errors import InvalidArgument
from handrail.report.learning_curves import (
    loss_figure,
    mean_over_seeds,
    score_figure,
    violation_figure,
)
from handrail.runs.run import Run


def curve(figure: Figure, label: str) -> list[float]:
    (line,) = (one for one in figure.axes[0].lines if one.get_label() == label)
    return [float(value) for value in np.asarray(line.get_ydata())]


def test_figures_of_a_run(run: Run) -> None:
    records = run.records()
    assert curve(score_figure(run), "the run") == [one.score for one in records]
    assert curve(score_figure(run.folder), "pass mark") == [195.0, 195.0]
    whole = [one.batch_loss + (one.safe_loss or 0.0) for one in records]  # type: ignore[operator]
    assert curve(loss_figure([run]), "whole loss, the run") == pytest.approx(whole)
    worst = [one.violation_before for one in records]
    assert curve(violation_figure(run), "the run") == worst


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
