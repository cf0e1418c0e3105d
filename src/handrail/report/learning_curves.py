"""Learning curves: score, loss, violation and influence over episodes, several seeds together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import MaxNLocator

from handrail._types import Array
from handrail.constraints import DEFAULT_TOLERANCE
from handrail.errors import InvalidArgument
from handrail.learning import Record
from handrail.report.drawing import new_figure
from handrail.report.subject import AnyRuns, recorded_runs
from handrail.runs import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_SIZE = 6.4, 3.8

BLUE, ORANGE, GREY = "#2166ac", "#b35806", "0.55"

Runs = Sequence[Sequence[Record]]  # one sequence of records per seed


def score_figure(runs: AnyRuns) -> Figure:
    """The scores of runs: one, several, or those in a folder."""
    found = recorded_runs(runs)
    figure = new_figure(*_SIZE)
    draw_scores(figure.subplots(), _records(found), found[0].rulebook.pass_mark)
    return figure


def loss_figure(runs: AnyRuns) -> Figure:
    """Their losses."""
    figure = new_figure(*_SIZE)
    draw_losses(figure.subplots(), _records(recorded_runs(runs)))
    return figure


def violation_figure(runs: AnyRuns) -> Figure:
    """The worst violation of every policy that acted."""
    found = recorded_runs(runs)
    figure = new_figure(*_SIZE)
    given = found[0].rulebook.settings.tolerance
    tolerance = DEFAULT_TOLERANCE if given is None else given  # a file's networks are in float64
    draw_violations(figure.subplots(), _records(found), tolerance)
    return figure


def influence_figure(runs: AnyRuns) -> Figure:
    """What every holding changed elsewhere; of runs that hold constraints exactly."""
    records = _records(recorded_runs(runs))
    if not have_influence(records):
        raise InvalidArgument(
            "These runs have recorded no influence: with enforcement 'exact' the next ones will."
        )
    figure = new_figure(*_SIZE)
    draw_influence(figure.subplots(), records)
    return figure


def cost_figure(runs: AnyRuns) -> Figure:
    """What their episodes cost; of environments that name a cost."""
    records = _records(recorded_runs(runs))
    if not have_costs(records):
        raise InvalidArgument(
            'These runs have recorded no cost: their environment names none in info["cost"].'
        )
    figure = new_figure(*_SIZE)
    draw_costs(figure.subplots(), records)
    return figure


def have_costs(runs: Runs) -> bool:
    """Whether any episode has recorded a cost."""
    return any(record.cost is not None for records in runs for record in records)


def have_influence(runs: Runs) -> bool:
    """Whether any update has recorded what it changed elsewhere."""
    return any(record.influence is not None for records in runs for record in records)


def _records(runs: Sequence[Run]) -> Runs:
    return [run.records() for run in runs]


def draw_scores(axes: Axes, runs: Runs, pass_mark: float | None) -> None:
    """Every seed's score, the mean over seeds, and its average over the last 100 episodes."""
    _draw_with_average(axes, runs, _table(runs, lambda record: record.score))
    if pass_mark is not None:
        axes.axhline(pass_mark, color="black", linestyle=":", linewidth=1.2, label="pass mark")
    label_curves(axes, "score")


def draw_costs(axes: Axes, runs: Runs) -> None:
    """Every seed's cost of an episode, the mean over seeds, and its average over the last 100."""
    _draw_with_average(axes, runs, _table(runs, lambda record: record.cost or 0.0))
    label_curves(axes, "cost of an episode")


def draw_losses(axes: Axes, runs: Runs) -> None:
    """The mean loss over seeds; where there are safe returns, the part of it that is theirs."""
    batch = mean_over_seeds(_table(runs, lambda record: record.batch_loss))
    safe = mean_over_seeds(_table(runs, lambda record: record.safe_loss))
    has_safe = not np.isnan(safe).all()
    label = f"{'whole loss' if has_safe else 'loss'}, {_mean_of(runs)}"
    axes.plot(batch + np.nan_to_num(safe), color=BLUE, linewidth=1.6, label=label)
    if has_safe:
        axes.plot(safe, color=ORANGE, linewidth=1.4, linestyle="--", label="safe returns' part")
    label_curves(axes, "loss")


def draw_violations(axes: Axes, runs: Runs, tolerance: float) -> None:
    """The worst violation of the policy that played each episode; above 0 means broken."""
    violations = _table(runs, lambda record: record.violation_before)
    _draw_seeds(axes, violations)
    worst = "the run" if len(runs) == 1 else "worst of all seeds"
    axes.plot(np.nanmax(violations, axis=0), color=BLUE, linewidth=1.6, label=worst)
    axes.axhline(tolerance, color="black", linestyle=":", linewidth=1.2, label="tolerance")
    axes.set_yscale("symlog", linthresh=max(tolerance, 1e-12))
    label_curves(axes, "worst violation (> 0: broken)")


def draw_influence(axes: Axes, runs: Runs) -> None:
    """How far the policy moved where no constraint speaks, with each update's holding."""
    mean = mean_over_seeds(_table(runs, lambda record: record.influence))
    largest = _table(runs, lambda record: record.largest_influence)
    _draw_seeds(axes, largest)
    # fmax: of an update without a holding there is none, and no warning either.
    axes.plot(np.fmax.reduce(largest), color=ORANGE, linewidth=1.4, label="largest change")
    axes.plot(mean, color=BLUE, linewidth=1.6, label=f"mean change, {_mean_of(runs)}")
    axes.set_ylim(bottom=0.0)
    label_curves(axes, "influence of a holding elsewhere")


def label_curves(axes: Axes, what: str, columns: int = 4) -> None:
    """What the axes of curves are, and a legend above them."""
    axes.set_xlabel("episode")
    axes.set_ylabel(what)
    axes.grid(alpha=0.25)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(
        fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=columns, frameon=False
    )


def _draw_with_average(axes: Axes, runs: Runs, table: Array) -> None:
    _draw_seeds(axes, table)
    mean = mean_over_seeds(table)
    axes.plot(mean, color=BLUE, linewidth=1.6, label=_mean_of(runs))
    if len(mean) >= 20:
        average = trailing_average(mean, 100)
        axes.plot(average, color=ORANGE, linewidth=2.0, label="average so far, of at most 100")


def _mean_of(runs: Runs) -> str:
    return "the run" if len(runs) == 1 else f"mean of {len(runs)} seeds"


def _draw_seeds(axes: Axes, table: Array) -> None:
    if len(table) == 1:
        return
    for number, row in enumerate(table):
        axes.plot(
            row, color=GREY, linewidth=0.7, alpha=0.6, label="one seed" if not number else None
        )


def _table(runs: Runs, value: Callable[[Record], float | None]) -> Array:
    """(seeds, episodes), NaN where there is nothing."""
    table = np.full((len(runs), max(len(records) for records in runs)), np.nan)
    for row, records in zip(table, runs, strict=True):
        row[: len(records)] = [np.nan if (v := value(r)) is None else v for r in records]
    return table


def mean_over_seeds(table: Array) -> Array:
    """Over the seeds that have a value; NaN where none has (a frozen policy has no loss)."""
    counts = (~np.isnan(table)).sum(axis=0)
    mean: Array = np.nansum(table, axis=0) / np.where(counts, counts, np.nan)
    return mean


def trailing_average(values: Array, window: int) -> Array:
    """The average of the last `window` values up to each one; of fewer at the beginning.

    From the first NaN on there is none.
    """
    sums = np.cumsum(values)
    before = np.concatenate([np.zeros(window), sums])[: len(sums)]
    averages: Array = (sums - before) / np.minimum(np.arange(1, len(values) + 1), window)
    return averages
