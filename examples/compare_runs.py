"""Groups of runs side by side: average score over episodes, with the spread over seeds.

Give a title and two or more groups per panel, each with a label:

    python examples/compare_runs.py --picture compare.png \
        --panel "CartPole-v1" with=runs/cartpole without=runs/cartpole_free \
        --panel "LunarLander-v3" with=runs/lunar without=runs/lunar_free
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from handrail._types import Array
from handrail.report.drawing import new_figure
from handrail.runs.group import open_runs

SMOOTHED_OVER = 10  # episodes
COLOURS, STYLES = ("#2166ac", "#b35806", "#4d9221", "0.3"), ("-", "--", ":", "-.")


def scores(folder: Path) -> Array:
    """(seeds, episodes), each seed averaged over its last few episodes."""
    rows = [np.array([record.score for record in run.records()]) for run in open_runs(folder)]
    window = np.ones(SMOOTHED_OVER)
    return np.array(
        [
            np.convolve(row, window)[: len(row)]
            / np.minimum(np.arange(1, len(row) + 1), SMOOTHED_OVER)
            for row in rows
        ]
    )


def draw(axes: Axes, title: str, groups: list[tuple[str, Path]]) -> None:
    """One panel: the mean over seeds, and one standard deviation to each side."""
    for (label, folder), colour, style in zip(groups, COLOURS, STYLES, strict=False):
        table = scores(folder)
        mean, spread = table.mean(axis=0), table.std(axis=0)
        episodes = np.arange(len(mean))
        axes.fill_between(episodes, mean - spread, mean + spread, color=colour, alpha=0.18, lw=0)
        name = f"{label} ({len(table)} seeds)"
        axes.plot(episodes, mean, color=colour, linestyle=style, linewidth=2.0, label=name)
    axes.set_title(title)
    axes.set_xlabel("episode")
    axes.grid(alpha=0.25)
    axes.legend(loc="best", fontsize=9)


def main() -> None:
    """Parse and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", type=Path, required=True)
    parser.add_argument("--panel", nargs="+", action="append", required=True)
    options = parser.parse_args()
    figure = new_figure(4.9 * len(options.panel), 3.6)
    panels = figure.subplots(1, len(options.panel), squeeze=False)[0]
    for axes, (title, *pairs) in zip(panels, options.panel, strict=True):
        groups = [pair.partition("=") for pair in pairs]
        draw(axes, title, [(label, Path(folder)) for label, _, folder in groups])
    panels[0].set_ylabel("score")
    options.picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.picture, dpi=130)


if __name__ == "__main__":
    main()
