"""Scores, losses and violations over episodes: the mean of the seeds, and how far they spread.

Colours and lines are the same for the same thing in every figure. Roles differ in lightness and in
the pattern of their line, so they stay apart in greyscale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from matplotlib.ticker import MaxNLocator

from handrail._types import Array
from handrail.report.drawing import new_figure
from handrail.report.learning_curves import mean_over_seeds, trailing_average
from handrail.report.statistics import WINDOW
from paper.results import Learned

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 6.4, 3.6  # inches, of a figure of one panel
CARTPOLE_AXES = ("pole angle φ (rad)", "pole's angular velocity φ̇ (rad/s)")
_HARDLY = 1e-6  # of probability: below it, violations are drawn on a linear scale
_SMOOTHED = 10  # episodes, where several learners share a panel or there are many episodes
_LONG = 200  # episodes
_SMOOTHED_SCORE = f"score, average of {_SMOOTHED} episodes"


@final
@dataclass(frozen=True)
class Role:
    """How one kind of learner is drawn."""

    colour: str
    line: str | tuple[float, tuple[float, ...]]
    marker: str

    def style(self, width: float = 1.8) -> dict[str, Any]:
        """For matplotlib."""
        return {"color": self.colour, "linestyle": self.line, "linewidth": width}


PAPER = Role("#2166ac", "-", "o")
EXACT = Role("#b35806", "--", "s")
CERTIFIED = Role("#1a1a1a", (0, (6, 1.5)), "^")
PLAIN = Role("#7f7f7f", ":", "v")
PLAIN_OTHER = Role("#a6a6a6", "-.", "<")
RAW = Role("#c7c7c7", "--", ">")
Q_LEARNING = Role("#4d9221", "-.", "D")
OTHER = Role("#9e7fc7", (0, (3, 1, 1, 1)), "P")
ANOTHER = Role("#d6a54a", (0, (1, 1)), "X")


def panels(rows: int = 1, columns: int = 1, height: float = HEIGHT) -> tuple[Figure, list[Axes]]:
    """A figure of so many panels, row by row."""
    width = WIDTH if columns == 1 else 4.6 * columns
    figure = new_figure(width, height * rows)
    return figure, list(figure.subplots(rows, columns, squeeze=False).ravel())


def over_episodes(axes: Axes, what: str) -> None:
    """Labels and a light grid."""
    axes.set_xlabel("episode")
    axes.set_ylabel(what)
    axes.grid(alpha=0.25)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def legend_above(axes: Axes, columns: int = 2) -> None:
    """Where it hides nothing."""
    axes.legend(
        fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=columns, frameon=False
    )


@final
@dataclass(frozen=True)
class Line:
    """One experiment in a panel."""

    learned: Learned
    role: Role

    @property
    def label(self) -> str:
        """What it is, and of how many seeds."""
        stopped = len(self.learned.diverged)
        note = f", {stopped} diverge" if stopped else ""
        return f"{self.learned.label} ({len(self.learned.seeds)} seeds{note})"


def score_figure(line: Line) -> Figure:
    """One experiment: every seed, mean, deviation and the average over the last 100 episodes."""
    figure, (axes,) = panels()
    scores = line.learned.table("scores")
    long = scores.shape[1] > _LONG
    table = _smoothed(scores) if long else scores
    _draw_seeds(axes, table)
    alone = Line(line.learned, replace(line.role, line="-"))
    _draw_mean(axes, alone, table, "mean of the seeds ± standard deviation")
    average = trailing_average(_mean_of_most(scores), WINDOW)
    axes.plot(
        average, color="black", linestyle="--", linewidth=1.4, label="its 100-episode average"
    )
    _draw_pass_mark(axes, line.learned.pass_mark)
    over_episodes(axes, _SMOOTHED_SCORE if long else "score of an episode")
    legend_above(axes)
    return figure


def comparison_figure(lines: Sequence[Line], until: int | None = None) -> Figure:
    """Several experiments, each smoothed over ten episodes."""
    figure, (axes,) = panels(height=4.2)
    for line in lines:
        table = _smoothed(line.learned.table("scores"))[:, :until]
        _draw_mean(axes, line, table, line.label)
    _draw_pass_mark(axes, lines[0].learned.pass_mark)
    over_episodes(axes, _SMOOTHED_SCORE)
    legend_above(axes)
    return figure


def score_grid(groups: Sequence[tuple[str, Sequence[Line]]]) -> Figure:
    """Several comparisons side by side, two in a row."""
    figure, axes_of = panels(rows=-(-len(groups) // 2), columns=2, height=3.9)
    for axes, (title, lines) in zip(axes_of, groups, strict=False):
        for line in lines:
            _draw_mean(axes, line, _smoothed(line.learned.table("scores")), line.label)
        _draw_pass_mark(axes, lines[0].learned.pass_mark)
        over_episodes(axes, _SMOOTHED_SCORE)
        axes.text(0.5, 0.02, title, transform=axes.transAxes, ha="center", fontsize=9)
        legend_above(axes, columns=1)
    for axes in axes_of[len(groups) :]:
        axes.set_visible(False)
    return figure


def loss_figure(lines: Sequence[Line]) -> Figure:
    """The loss of every episode's update, and the safe returns' part of it; logarithmic."""
    figure, (axes,) = panels()
    for line in lines:
        losses = line.learned.table("losses")
        axes.plot(mean_over_seeds(losses), label=line.label, **line.role.style())
        _fill(axes, losses, line.role)
        safe = mean_over_seeds(line.learned.table("safe_losses"))
        axes.plot(safe, color=line.role.colour, linestyle=":", linewidth=1.1)
    axes.plot([], [], color="0.3", linestyle=":", linewidth=1.1, label="the safe returns' part")
    axes.set_yscale("symlog", linthresh=10.0)
    over_episodes(axes, "loss of the update (log. beyond ±10)")
    legend_above(axes)
    return figure


def violation_figure(lines: Sequence[Line], until: int) -> Figure:
    """The worst violation of the worst seed when each episode begins; logarithmic."""
    figure, (axes,) = panels()
    lowest = 0.0
    for line in lines:
        worst = np.nanmax(line.learned.table("violations"), axis=0)[:until]
        axes.plot(
            worst, label=line.label, marker=line.role.marker, markersize=4, **line.role.style(1.4)
        )
        lowest = min(lowest, float(np.nanmin(worst)))
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.set_yscale("symlog", linthresh=_HARDLY)
    axes.set_ylim(2.0 * lowest - _HARDLY, 2.0)
    over_episodes(axes, "worst violation, worst seed (> 0: broken)")
    legend_above(axes)
    return figure


def _draw_seeds(axes: Axes, table: Array) -> None:
    for number, row in enumerate(table):
        label = "one seed" if number == 0 else None
        axes.plot(row, color="0.6", linewidth=0.6, alpha=0.7, label=label)


def _draw_mean(axes: Axes, line: Line, table: Array, label: str) -> None:
    axes.plot(_mean_of_most(table), label=label, **line.role.style())
    _fill(axes, table, line.role)


def _mean_of_most(table: Array) -> Array:
    """Over seeds, as long as most of them go on: the few that are left then say little of all."""
    going = (~np.isnan(table)).sum(axis=0)
    mean: Array = np.where(2 * going > len(table), mean_over_seeds(table), np.nan)
    return mean


def _fill(axes: Axes, table: Array, role: Role) -> None:
    """One standard deviation to each side of the mean."""
    if len(table) < 2:
        return
    mean, spread = _mean_of_most(table), _deviation(table)
    axes.fill_between(
        np.arange(len(mean)), mean - spread, mean + spread, color=role.colour, alpha=0.16, lw=0
    )


def _draw_pass_mark(axes: Axes, mark: float) -> None:
    axes.axhline(
        mark, color="black", linestyle=(0, (1, 2)), linewidth=1.0, label=f"pass mark {mark:g}"
    )


def _deviation(table: Array) -> Array:
    """Standard deviation over the seeds that have a value; 0 where only one has."""
    counts = (~np.isnan(table)).sum(axis=0)
    squares = np.nansum((table - mean_over_seeds(table)) ** 2, axis=0)
    deviation: Array = np.sqrt(squares / np.maximum(counts - 1, 1))
    return deviation


def _smoothed(table: Array) -> Array:
    return np.array([trailing_average(row, _SMOOTHED) for row in table])
