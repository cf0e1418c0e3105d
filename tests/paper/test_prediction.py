"""Predictions of updates, against closed forms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from paper.experiment import Prediction
from paper.prediction import Predicted, measure_predictions, read_predicted
from tests.support.paper import NARROW, nothing


def test_relative_errors_are_the_papers() -> None:
    predicted = np.array([[0.011, -0.011], [-0.02, 0.02]])
    actual = np.array([[0.010, -0.010], [-0.04, 0.04]])
    one = Predicted(predicted, actual, np.array([9.0, 9.0]))
    assert one.relative_errors(0) == pytest.approx([10.0, -50.0])


def test_predictions_are_exact_to_first_order(tmp_path: Path) -> None:
    errors = []
    for step_size in (1e-3, 1e-4, 1e-5):
        study = Prediction(
            kind="prediction",
            constraints="cartpole",
            episodes=4,
            settings={**NARROW, "enforcement": "none", "step_size": step_size},
        )
        folder = tmp_path / str(step_size)
        folder.mkdir()
        measure_predictions(study, 0, folder, nothing)
        found = read_predicted(folder)
        assert found.predicted.shape == found.actual.shape == (4, 2)
        assert found.actual.sum(axis=1) == pytest.approx(0.0, abs=1e-12)
        errors.append(np.abs(found.predicted - found.actual)[0, 0])
    # The first update starts from the same policy: its error falls with the square of the step.
    assert errors[0] / errors[1] == pytest.approx(100.0, rel=0.25)
    assert errors[1] / errors[2] == pytest.approx(100.0, rel=0.25)


def test_averaged_predictions_are_those_of_a_mean(tmp_path: Path) -> None:
    found = []
    for averaged in (False, True):
        folder = tmp_path / str(averaged)
        folder.mkdir()
        settings = {**NARROW, "enforcement": "none"}
        study = Prediction(
            kind="prediction",
            constraints="cartpole",
            episodes=1,
            settings=settings,
            averaged=averaged,
        )
        measure_predictions(study, 0, folder, nothing)
        found.append(read_predicted(folder))
    summed, mean = found
    assert mean.predicted * summed.scores[0] == pytest.approx(summed.predicted)  # a point a step
