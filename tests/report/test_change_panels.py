"""A policy before and after a change: an edit, or the first holding of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.contour import ContourSet
from torch import nn

import handrail as hr
from handrail._types import Array
from handrail.enforcement.elsewhere import Influence
from handrail.enforcement.rail import Rail
from handrail.errors import UnsatisfiedConstraints
from handrail.policies.quantity import PROBABILITY
from handrail.report.change_panels import change_figure, first_holding_figure
from handrail.report.plane import Plane
from handrail.runs.run import Run, make_policy
from tests.report.figures import PLANE, book, labels, lean_left, marked


def linear(n_actions: int, weights: Array, bias: float) -> nn.Module:
    """The last output is the only one that is not 0."""
    layer = nn.Linear(len(weights), n_actions).double()
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.zero_()
        layer.weight[-1] = torch.from_numpy(weights)
        layer.bias[-1] = bias
    return nn.Sequential(layer)


def along(plane: Plane, slope: float) -> Array:
    weights = np.zeros(len(plane.at))
    weights[plane.horizontal] = slope
    return weights


def change_of(panel: Axes) -> tuple[tuple[float, float], Array]:
    """The limits of the colours, and the lines."""
    (mesh,) = (one for one in panel.collections if isinstance(one, QuadMesh))
    levels = [one.levels for one in panel.collections if isinstance(one, ContourSet)]
    return mesh.get_clim(), np.concatenate([[], *levels])


@pytest.mark.parametrize("changes", [3.0, 0.3])
def test_a_change_of_a_mean_is_drawn_in_parts_of_its_range(changes: float) -> None:
    plane = Plane.of("pendulum")
    low, high = plane.horizontal_range
    slope = 2.0 * changes / (high - low)
    before = hr.GaussianPolicy(linear(1, along(plane, 0.0), 0.0), 1.0)
    after = hr.GaussianPolicy(linear(1, along(plane, slope), -0.5 * slope * (low + high)), 1.0)
    limits, levels = change_of(change_figure(before, after, "pendulum").axes[2])
    assert limits == pytest.approx((-changes, changes))
    wanted = [4.0 * part for part in (-0.5, -0.1, 0.1, 0.5) if abs(4.0 * part) < changes]
    assert levels == pytest.approx(wanted)


def test_a_change_of_a_probability_and_its_mark() -> None:
    plane = Plane.of("cartpole")
    slope = 2.0 * np.arctanh(0.75) / plane.horizontal_range[1]
    before = hr.CategoricalPolicy(linear(2, along(plane, -slope), 0.0))
    after = hr.CategoricalPolicy(linear(2, along(plane, slope), 0.0))
    state = np.array([0.0, 0.0, 0.3, 0.2])
    effects = Influence(1, "given", PROBABILITY, 0.7, state, 1, 0.2, 0.9, 0.7, 1)
    figure = change_figure(before, after, "cartpole", plane, mark=effects)
    limits, levels = change_of(figure.axes[2])
    assert limits == pytest.approx((-0.75, 0.75))
    assert levels == pytest.approx([-0.5, -0.1, 0.1, 0.5])
    assert marked(figure.axes[2], "largest change").tolist() == [[0.3, 0.2]]
    assert "largest change" not in labels(change_figure(before, after, "cartpole", plane))


def test_a_change_far_below_the_range_is_drawn_pale() -> None:
    plane = Plane.of("pendulum")
    before, after = (
        hr.GaussianPolicy(linear(1, along(plane, 0.0), bias), 1.0) for bias in (0.0, 0.1)
    )
    limits, _ = change_of(change_figure(before, after, "pendulum").axes[2])
    assert limits == pytest.approx((-0.2, 0.2))  # a twentieth of what a torque can be


def test_the_first_holding_of_a_run_is_of_its_own_network(run: Run, tmp_path: Path) -> None:
    figure = first_holding_figure(run, PLANE)
    assert figure is not None
    fresh = make_policy(run.rulebook, run.make_environment())
    held = hr.make_agent(run.rulebook)
    states = PLANE.states()[2]
    for panel, policy in zip(figure.axes, (fresh, held.policy), strict=False):
        (mesh,) = (one for one in panel.collections if isinstance(one, QuadMesh))
        expected = policy.outputs(states)[:, 1]
        np.testing.assert_allclose(np.asarray(mesh.get_array()).ravel(), expected)
    assert held.first_enforcement is not None
    assert hr.measure(held.policy, run.rulebook).worst_violation <= 0.0
    assert hr.measure(fresh, run.rulebook).worst_violation > 0.01
    paper = Run.create(tmp_path / "run", book([lean_left()], enforcement="none"))
    assert first_holding_figure(paper, PLANE) is None


def test_a_first_holding_that_no_longer_succeeds_costs_nobody_a_report(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Rail, policy: hr.Policy) -> hr.Enforcement:
        return replace(held, satisfied=False, reason="No time for a proof.")

    held = hr.enforce(make_policy(run.rulebook, run.make_environment()), run.rulebook)
    monkeypatch.setattr(Rail, "hold", fail)
    with pytest.raises(UnsatisfiedConstraints, match="No time"):
        hr.make_agent(run.rulebook)
    assert first_holding_figure(run, PLANE) is None
