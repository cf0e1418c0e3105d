"""The edit's picture."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.contour import ContourSet
from torch import nn

import handrail as hr
from handrail._types import Array
from handrail.enforcement.influence import Influence
from handrail.policies.quantity import PROBABILITY
from handrail.report.edit_panels import edit_figure
from handrail.report.plane import Plane
from tests.report.figures import labels, marked


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
    limits, levels = change_of(edit_figure(before, after, "pendulum").axes[2])
    assert limits == pytest.approx((-changes, changes))
    wanted = [4.0 * part for part in (-0.5, -0.1, 0.1, 0.5) if abs(4.0 * part) < changes]
    assert levels == pytest.approx(wanted)


def test_a_change_of_a_probability_and_its_mark() -> None:
    plane = Plane.of("cartpole")
    slope = 2.0 * np.arctanh(0.75) / plane.horizontal_range[1]
    before = hr.CategoricalPolicy(linear(2, along(plane, -slope), 0.0))
    after = hr.CategoricalPolicy(linear(2, along(plane, slope), 0.0))
    state = np.array([0.0, 0.0, 0.3, 0.2])
    effects = Influence(1, "given", PROBABILITY, 0.7, state, 1, 0.7, 1)
    figure = edit_figure(before, after, "cartpole", plane, mark=effects)
    limits, levels = change_of(figure.axes[2])
    assert limits == pytest.approx((-0.75, 0.75))
    assert levels == pytest.approx([-0.5, -0.1, 0.1, 0.5])
    assert marked(figure.axes[2], "largest change").tolist() == [[0.3, 0.2]]
    assert "largest change" not in labels(edit_figure(before, after, "cartpole", plane))


def test_a_change_far_below_the_range_is_drawn_pale() -> None:
    plane = Plane.of("pendulum")
    before, after = (
        hr.GaussianPolicy(linear(1, along(plane, 0.0), bias), 1.0) for bias in (0.0, 0.1)
    )
    limits, _ = change_of(edit_figure(before, after, "pendulum").axes[2])
    assert limits == pytest.approx((-0.2, 0.2))  # a twentieth of what a torque can be
