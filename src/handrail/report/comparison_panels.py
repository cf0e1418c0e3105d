"""A comparison in pictures: learning curves with bands, end scores with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from handrail.constraints import counted
from handrail.report.comparison import Comparison, Contestant, Standing
from handrail.report.drawing import literal, new_figure
from handrail.report.estimate import band
from handrail.report.learning_curves import GREY, label_curves, trailing_average

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which most people can tell apart, and a style each for all others.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_STYLES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))

_POINTS = 60  # of a curve: a bootstrap at every one
_SMOOTHED = 20  # a curve is the average of a twentieth of its episodes
_LINE = 0.28  # inches


def curves_figure(comparison: Comparison) -> Figure:
    """Interquartile means over seeds with their intervals; of many groups the first and the best.

    Every seed is averaged over its last few episodes before.
    """
    figure = new_figure(7.2, 4.2)
    axes = figure.subplots()
    shown = _first_and_best(comparison)
    window = max(1, comparison.episodes // _SMOOTHED)
    for one, colour, style in zip(shown, _COLOURS, _STYLES, strict=False):
        _draw_curve(axes, one, window, colour, style)
    pass_mark = comparison.contestants[0].pass_mark
    if pass_mark is not None:
        axes.axhline(pass_mark, color="black", linestyle=":", linewidth=1.0, label="pass mark")
    label_curves(axes, f"score, average of {counted(window, 'episode')}", columns=2)
    number = len(comparison.contestants)
    if len(shown) < number:
        axes.set_xlabel(f"episode ({len(shown)} of {number} groups: the first and the best)")
    return figure


def _first_and_best(comparison: Comparison) -> list[Contestant]:
    """As many as have a colour, in their order."""
    ends = [one.end.iqm for one in comparison.standings]
    best = sorted(range(1, len(ends)), key=lambda number: -ends[number])[: len(_COLOURS) - 1]
    return [comparison.contestants[number] for number in sorted([0, *best])]


def _draw_curve(axes: Axes, one: Contestant, window: int, colour: str, style: object) -> None:
    smooth = np.array([trailing_average(row, window) for row in one.scores])
    episodes = smooth.shape[1]
    at = np.unique(np.linspace(min(window, episodes) - 1, episodes - 1, _POINTS).astype(int))
    middle, low, high = band(smooth[:, at])
    axes.fill_between(at, low, high, color=colour, alpha=0.18, linewidth=0.0)
    name = f"{literal(one.name)} ({counted(len(smooth), 'seed')})"
    axes.plot(at, middle, color=colour, linestyle=style, linewidth=1.8, label=name)


def standings_figure(comparison: Comparison) -> Figure:
    """End scores with intervals, a dot per seed; and who is better than the first, how probably."""
    standings = comparison.standings
    figure = new_figure(9.0, 1.2 + _LINE * max(3, len(standings)))
    scores, chances = figure.subplots(1, 2, sharey=True, width_ratios=[3, 2])
    for place, (one, contestant) in enumerate(zip(standings, comparison.contestants, strict=True)):
        ends = contestant.end_scores(comparison.last)
        scores.plot(ends, [place] * len(ends), ".", color=GREY, alpha=0.6, markersize=4)
        scores.plot(one.end.interval, [place] * 2, color=_COLOURS[0], linewidth=4.0, alpha=0.6)
        scores.plot(one.end.iqm, place, "|", color="black", markersize=12, markeredgewidth=2.0)
    _draw_chances(chances, standings)
    scores.set_yticks(range(len(standings)), [literal(one.name) for one in standings], fontsize=8)
    scores.set_ylim(len(standings) - 0.4, -0.6)  # the first above
    scores.set_xlabel(comparison.measure[0].lower() + comparison.measure[1:])
    scores.grid(alpha=0.25, axis="x")
    return figure


def _draw_chances(axes: Axes, standings: Sequence[Standing]) -> None:
    axes.axvline(0.5, color="black", linestyle=":", linewidth=1.0)
    for place, one in enumerate(standings):
        if one.improvement is not None:
            ends = (one.improvement.low, one.improvement.high)
            axes.plot(ends, [place] * 2, color=_COLOURS[1], linewidth=4.0, alpha=0.6)
            axes.plot(
                one.improvement.value, place, "|", color="black", markersize=12, markeredgewidth=2.0
            )
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel("probability to score higher than the first")
    axes.grid(alpha=0.25, axis="x")
