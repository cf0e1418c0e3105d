"""The comparisons as a page of tables, and a figure of their learning curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.harness import markdown_table, this_machine
from benchmarks.ppo.comparison import FIRST_SEED, PRESSURE, Arm, Comparison
from benchmarks.ppo.measures import averages, measure
from benchmarks.ppo.run import Trained
from handrail._types import Array
from handrail.report.drawing import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Runs = Mapping[Comparison, Mapping[tuple[Arm, int], Trained]]
NAMES: dict[Arm, str] = {
    "plain": "plain",
    "handrail": "with a handrail",
    "pressure": f"with a handrail and pressure {PRESSURE:g}",
}
# Also told apart in black and white.
_STYLES: dict[Arm, dict[str, Any]] = {
    "handrail": {"color": "#0b5394", "linestyle": "-"},
    "plain": {"color": "#b45f06", "linestyle": "--"},
    "pressure": {"color": "#38761d", "linestyle": ":"},
}
_POINTS = 200
# Fewer than the tables': where episodes become longer, 100 of them are most of the training.
_EPISODES = 20


def page(runs: Runs) -> str:
    """The whole page, in Markdown."""
    return "\n\n".join([_opening(), *(_section(one, found) for one, found in runs.items())]) + "\n"


def _runs_of(arm: Arm, runs: Mapping[tuple[Arm, int], Trained]) -> list[Trained]:
    """Of one arm, seed by seed."""
    return [
        run for (own, _), run in sorted(runs.items(), key=lambda item: item[0][1]) if own == arm
    ]


def _opening() -> str:
    versions = this_machine([]).versions
    named = ", ".join(f"{name} {number}" for name, number in versions.items())
    return f"""# Stable-Baselines3 with a handrail and without

This page is generated: `python -m benchmarks.ppo` trained everything on it, with {named}. The two \
sides differ in one thing, `callback=Handrail(file)`; network, settings and seeds are the same, \
and learning rates fall linearly to 0 on both sides. Settings were chosen with seeds below \
{FIRST_SEED}, and these runs have others, from {FIRST_SEED} on. Scores are those of the acting \
policy while it learns, averages over 100 episodes, mean ± standard deviation over seeds. \
[How to use it](../guides/ppo.md).

![Average score over environment steps, with and without a handrail](ppo.png)"""


def _section(comparison: Comparison, runs: Mapping[tuple[Arm, int], Trained]) -> str:
    arms = [arm for arm in comparison.arms if _runs_of(arm, runs)]
    header = [
        "",
        "seeds",
        "episodes 0-99",
        "100-199",
        "100-199, seed by seed",
        "last 100",
        f"steps to {comparison.pass_mark:g}",
    ]
    rows = [_scores_row(comparison, arm, _runs_of(arm, runs)) for arm in arms]
    held = [arm for arm in arms if arm != "plain"]
    holding = [_holding_row(arm, _runs_of(arm, runs)) for arm in held]
    columns = [
        "",
        "worst violation of any acting policy",
        "worst that an update left",
        "linearisations a rollout",
        "part of the time",
    ]
    settings = ", ".join(f"{key} {_in_words(value)}" for key, value in comparison.settings.items())
    return f"""## {comparison.title}

{comparison.steps:,} steps, {comparison.n_envs} environments, constraints of \
[{comparison.rules}.yaml](../../src/handrail/rulebook/bundled/{comparison.rules}.yaml), learning \
rate {comparison.learning_rate:g}{", " + settings if settings else ""}.

{markdown_table(header, rows)}

{markdown_table(columns, holding)}"""


def _in_words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_in_words(one)}" for key, one in value.items())
    return value.__name__ if isinstance(value, type) else str(value)


def _scores_row(comparison: Comparison, arm: Arm, runs: list[Trained]) -> list[str]:
    found = measure(runs, comparison.pass_mark)
    passed = found.steps_to_pass[np.isfinite(found.steps_to_pass)]
    median = f"{np.median(passed):,.0f} ({len(passed)} of {len(runs)})" if len(passed) else "none"
    values = [_spread(found.at_100), _spread(found.at_200), _range(found.at_200)]
    return [NAMES[arm], str(len(runs)), *values, _spread(found.at_end), median]


def _holding_row(arm: Arm, runs: list[Trained]) -> list[str]:
    worst = max(run.worst_violation for run in runs if run.worst_violation is not None)
    left = max(run.largest_correction for run in runs if run.largest_correction is not None)
    iterations = sum(run.iterations for run in runs) / sum(run.holdings for run in runs)
    overhead = sum(run.holding_seconds for run in runs) / sum(run.seconds for run in runs)
    return [NAMES[arm], f"{worst:+.1e}", f"{left:+.2f}", f"{iterations:.2f}", f"{overhead:.2%}"]


def _range(values: Array) -> str:
    known = values[np.isfinite(values)]
    return f"{known.min():.1f} to {known.max():.1f}" if len(known) else "-"


def _spread(values: Array) -> str:
    known = values[np.isfinite(values)]
    if not len(known):
        return "-"
    fewer = f" ({len(known)} seeds)" if len(known) < len(values) else ""
    return f"{known.mean():.1f} ± {known.std():.1f}{fewer}"


def learning_curves(runs: Runs) -> Figure:
    """A panel per comparison: the average over recent episodes, mean and spread over seeds."""
    columns = min(2, len(runs))
    rows = -(-len(runs) // columns)
    figure = new_figure(1.0 + 4.6 * columns, 0.6 + 3.3 * rows)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for (comparison, found), axes in zip(runs.items(), panels, strict=False):
        for arm in comparison.arms:
            _draw(axes, arm, _runs_of(arm, found), comparison)
        axes.axhline(comparison.pass_mark, color="0.5", linewidth=0.8)
        axes.set_title(comparison.title, fontsize=10)
        axes.set_xlabel("thousands of environment steps")
        axes.set_ylabel(f"average of {_EPISODES} episodes")
        axes.legend(fontsize=8, frameon=False, loc="lower right")
    for axes in panels[len(runs) :]:
        axes.set_visible(False)
    return figure


def _draw(axes: Axes, arm: Arm, runs: list[Trained], comparison: Comparison) -> None:
    curves = [averages(run, _EPISODES) for run in runs]
    curves = [(steps, values) for steps, values in curves if len(steps)]
    if not curves:
        return
    begin = max(float(steps[0]) for steps, _ in curves)  # every seed has as many by then
    grid = np.linspace(begin, comparison.steps, _POINTS)
    values = np.stack([np.interp(grid, steps, values) for steps, values in curves])
    mean, spread = values.mean(axis=0), values.std(axis=0)
    style = _STYLES[arm]
    axes.plot(grid / 1000.0, mean, label=NAMES[arm], **style)
    axes.fill_between(grid / 1000.0, mean - spread, mean + spread, color=style["color"], alpha=0.15)
