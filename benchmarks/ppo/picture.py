"""Learning curves of the arms of every study."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.ppo.measures import averages
from benchmarks.ppo.report import NAMES, Runs, runs_of
from handrail.report.drawing import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from benchmarks.ppo.studies import Arm, Study
    from benchmarks.ppo.training import Trained

# Also told apart in black and white.
_STYLES: dict[str, dict[str, object]] = {
    "handrail": {"color": "#0b5394", "linestyle": "-"},
    "plain": {"color": "#b45f06", "linestyle": "--"},
    "pressure": {"color": "#38761d", "linestyle": ":"},
}
_POINTS = 200
# Fewer than the tables': where episodes become longer, 100 of them are most of the training.
_EPISODES = 20


def picture(runs: Runs) -> Figure:
    """A panel per study: the average over recent episodes, mean and spread over seeds."""
    columns = min(2, len(runs))
    rows = -(-len(runs) // columns)
    figure = new_figure(1.0 + 4.6 * columns, 0.6 + 3.3 * rows)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for (study, found), axes in zip(runs.items(), panels, strict=False):
        for arm in study.arms:
            _draw(axes, arm, runs_of(arm, found), study)
        axes.axhline(study.pass_mark, color="0.5", linewidth=0.8)
        axes.set_title(study.title, fontsize=10)
        axes.set_xlabel("thousands of environment steps")
        axes.set_ylabel(f"average of {_EPISODES} episodes")
        axes.legend(fontsize=8, frameon=False, loc="lower right")
    for axes in panels[len(runs) :]:
        axes.set_visible(False)
    return figure


def _draw(axes: Axes, arm: Arm, runs: list[Trained], study: Study) -> None:
    curves = [averages(run, _EPISODES) for run in runs]
    curves = [(steps, values) for steps, values in curves if len(steps)]
    if not curves:
        return
    begin = max(float(steps[0]) for steps, _ in curves)  # every seed has as many by then
    grid = np.linspace(begin, study.steps, _POINTS)
    values = np.stack([np.interp(grid, steps, values) for steps, values in curves])
    mean, spread = values.mean(axis=0), values.std(axis=0)
    style = _STYLES[arm]
    axes.plot(grid / 1000.0, mean, label=NAMES[arm], **style)  # type: ignore[arg-type]
    axes.fill_between(
        grid / 1000.0, mean - spread, mean + spread, color=str(style["color"]), alpha=0.15
    )
