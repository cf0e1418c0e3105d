"""Comparisons in pictures: what is drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from handrail.report.comparison import Comparison, Contestant
from handrail.report.comparison_panels import curves_figure, standings_figure


def comparison(groups: int) -> Comparison:
    """Group k scores k in every episode, but for noise."""
    rng = np.random.default_rng(0)
    contestants = tuple(
        Contestant(f"group {k}", Path(str(k)), k + 0.1 * rng.normal(size=(5, 40)), 3.0, None)
        for k in range(groups)
    )
    return Comparison(contestants, episodes=40, last=10, remarks=())


def test_a_curve_with_a_band_for_every_group() -> None:
    axes = curves_figure(comparison(3)).axes[0]
    lines = {str(line.get_label()): np.asarray(line.get_ydata()) for line in axes.lines}
    assert list(lines) == [*(f"group {k} (5 seeds)" for k in range(3)), "pass mark"]
    for k in range(3):
        np.testing.assert_allclose(lines[f"group {k} (5 seeds)"], k, atol=0.2)
    assert len(axes.collections) == 3  # the bands
    assert axes.get_ylabel() == "score, average of 2 episodes"


def test_of_many_groups_the_first_and_the_best() -> None:
    axes = curves_figure(comparison(12)).axes[0]
    shown = [str(line.get_label()) for line in axes.lines if "group" in str(line.get_label())]
    assert shown == [f"group {k} (5 seeds)" for k in (0, 6, 7, 8, 9, 10, 11)]
    assert axes.get_xlabel() == "episode (7 of 12 groups: the first and the best)"


def test_end_scores_and_chances() -> None:
    found = comparison(3)
    scores, chances = standings_figure(found).axes
    assert [text.get_text() for text in scores.get_yticklabels()] == [
        "group 0",
        "group 1",
        "group 2",
    ]
    marks = [float(np.asarray(line.get_xdata())[0]) for line in scores.lines[2::3]]
    assert marks == pytest.approx([one.end.iqm for one in found.standings])
    assert np.asarray(chances.lines[-1].get_xdata())[0] == 1.0
