"""Colours of probabilities and of mean actions."""

from __future__ import annotations

import numpy as np
import pytest

from handrail.report.drawing import draw_output, new_figure
from handrail.report.plane import RESOLUTION
from handrail.report.shading import PROBABILITY, Shading
from tests.report.figures import PLANE, labels


def test_a_mean_with_two_signs_is_white_at_zero() -> None:
    shading = Shading.of_mean(-8.0, 2.0)
    assert [float(shading.norm(value)) for value in (-8.0, -4.0, 0.0, 1.0, 2.0)] == [
        0.0,
        0.25,
        0.5,
        0.75,
        1.0,
    ]
    red, _, blue, _ = shading.colours(0.0)
    assert blue > red  # below zero
    red, _, blue, _ = shading.colours(1.0)
    assert red > blue
    assert min(shading.colours(0.5)[:3]) > 0.95
    assert shading.called == "mean 0"


def test_a_mean_with_one_sign_goes_from_light_to_dark() -> None:
    shading = Shading.of_mean(1.0, 3.0)
    assert shading.line == 2.0
    assert shading.colours is PROBABILITY.colours
    assert float(shading.norm(2.0)) == 0.5


@pytest.mark.parametrize(("values", "is_drawn"), [((-1.0, 1.0), True), ((0.5, 1.0), False)])
def test_the_line_is_where_the_sign_changes(values: tuple[float, float], is_drawn: bool) -> None:
    axes = (figure := new_figure(4.0, 4.0)).subplots()
    # Grows with the vertical axis, from the first value to the second.
    output = np.repeat(np.linspace(*values, RESOLUTION)[:, None], RESOLUTION, axis=1)
    shading = Shading.of_mean(-2.0, 2.0)
    draw_output(axes, output, PLANE, shading)
    shading.label_line(axes, output)
    lines = axes.collections[1:]
    assert len(lines) == is_drawn
    assert [text for _, text in zip(*axes.get_legend_handles_labels(), strict=True)] == [
        "mean 0"
    ] * is_drawn
    for line in lines:
        heights = np.concatenate([path.vertices for path in line.get_paths()])[:, 1]
        assert heights == pytest.approx(0.0, abs=1e-12)
    assert not figure.legends or labels(figure)
