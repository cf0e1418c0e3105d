"""What is drawn over a plane, and where."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib import cbook

import handrail as hr
from handrail._text import visible
from handrail.regions.outline import area
from handrail.report.drawing import (
    draw_frame,
    draw_regions,
    draw_trajectory,
    new_figure,
    save_figure,
)
from tests.report.figures import PLANE, marked

DISK = hr.Ball([0, 0, 0.2, 0.1], 0.1, coordinates=[2, 3])


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


def test_an_episode_that_leaves_the_picture() -> None:
    axes = new_figure(4, 4).subplots()
    states = np.array([[0, 0, 0.9, 0.9], [0, 0, 0.1, 0.1], [0, 0, 0.2, 0.1]])
    draw_trajectory(axes, states, PLANE)
    draw_trajectory(axes, states[::-1], PLANE)
    draw_trajectory(axes, states[:1], PLANE)
    assert [line.get_label() for line in axes.lines] == ["one episode", "one episode, from the dot"]


@pytest.mark.parametrize("name", ["$x$", "$", r"\$x", "a $ and b", "\x1b[31m", "$\\frac{1}$"])
def test_names_are_drawn_as_they_are(name: str, tmp_path: Path) -> None:
    figure = new_figure(2, 2)
    axes = figure.subplots()
    draw_frame(axes, replace(PLANE, horizontal=0, vertical=1), [name, name])
    assert not cbook.is_math_text(axes.get_xlabel())
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a character that no font has
        save_figure(figure, tmp_path / "names.png")
    assert axes.get_xlabel().replace(r"\$", "$") == visible(name)
