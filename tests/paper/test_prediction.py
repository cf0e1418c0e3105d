"""Predictions of updates, against closed forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paper.experiment import Prediction
from paper.prediction import (
    DEFINITIONS,
    Change,
    Predicted,
    measure_predictions,
    read_predicted,
    relative_error,
)
from tests.support.paper import NARROW, nothing


def measured(folder: Path, episodes: int, averaged: bool = False, **settings: Any) -> Predicted:
    folder.mkdir()
    study = Prediction(
        kind="prediction",
        constraints="cartpole",
        episodes=episodes,
        settings={**NARROW, "enforcement": "none", **settings},
        averaged=averaged,
    )
    measure_predictions(study, 0, folder, nothing)
    return read_predicted(folder)


def test_relative_errors_are_the_papers() -> None:
    assert relative_error(0.011, 0.010) == pytest.approx(10.0)
    assert relative_error(-0.02, -0.04) == pytest.approx(-50.0)
    assert np.isnan(relative_error(0.0, 0.0))


def test_each_definition_takes_its_own_average() -> None:
    # Two steps with actions 0 and 1, and the mean state last; columns are the two outputs.
    actual = np.array([[0.10, -0.10], [0.30, -0.30], [0.20, -0.20]])
    predicted = np.array([[0.12, -0.12], [0.36, -0.36], [0.19, -0.19]])
    change = Change(np.array([0, 1]), predicted, actual)
    errors = [error(change) for error in DEFINITIONS.values()]
    # (0.48 - 0.40) / 0.40; (0.12 - 0.36 - (0.10 - 0.30)) / (0.10 - 0.30); 0.19 / 0.20; 0.16 / 0.80
    assert errors == pytest.approx([20.0, 20.0, -5.0, 20.0])
    off = np.array([[0.01, 0.0], [-0.01, 0.0], [0.0, 0.0]])
    opposed = Change(np.array([0, 1]), actual + off, actual)
    # Of the first output errors cancel; of the action taken one stays; of sizes none cancels.
    assert [error(opposed) for error in DEFINITIONS.values()] == pytest.approx(
        [0.0, -5.0, 0.0, 2.5], abs=1e-9
    )


def test_predictions_are_exact_to_first_order(tmp_path: Path) -> None:
    found = [measured(tmp_path / str(size), 4, step_size=size) for size in (1e-4, 1e-5, 1e-6)]
    for name in DEFINITIONS:
        assert found[0].errors[name].shape == (4,)
        # The first update starts from the same policy: its relative error falls with the step.
        first = [abs(one.errors[name][0]) for one in found]
        assert first[0] / first[1] == pytest.approx(10.0, rel=0.25)
        assert first[1] / first[2] == pytest.approx(10.0, rel=0.25)


def test_averaged_gradients_are_those_of_a_smaller_step(tmp_path: Path) -> None:
    averaged = measured(tmp_path / "averaged", 1, averaged=True)
    length = averaged.scores[0]  # a point a step
    summed = measured(tmp_path / "summed", 1, step_size=1e-4 / length)
    for name in DEFINITIONS:
        assert averaged.errors[name] == pytest.approx(summed.errors[name], rel=1e-3)
