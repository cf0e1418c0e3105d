"""Pictures of runs as files: score, loss, violation, and the policy over two observations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from handrail.arrays import Array
from handrail.curves import draw_losses, draw_scores, draw_violations
from handrail.figures import Slice, draw_policy, draw_states, new_figure
from handrail.policies import CategoricalPolicy
from handrail.rulebook import Rulebook
from handrail.runs import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DOTS_PER_INCH = 130


def write_pictures(
    runs: Sequence[Run], folder: Path, policy: CategoricalPolicy, plane: Slice | None
) -> list[Path]:
    """Score, loss, violation and policy, as PNG files.

    Args:
        runs: one per seed; at least one has recorded something.
        folder: where the pictures go.
        policy: which is shown: that of one seed.
        plane: to show it over; None leaves the policy out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rulebook = runs[0].rulebook
    records = [found for run in runs if (found := run.records())]
    written = []
    draws: dict[str, Callable[[Axes], None]] = {
        "score": lambda axes: draw_scores(axes, records, rulebook.pass_mark),
        "loss": lambda axes: draw_losses(axes, records),
        "violation": lambda axes: draw_violations(axes, records, rulebook.settings.tolerance),
    }
    for name, draw in draws.items():
        figure = new_figure(6.4, 3.8)
        draw(figure.subplots())
        written.append(folder / f"{name}.png")
        figure.savefig(written[-1], dpi=_DOTS_PER_INCH)
    if plane is not None:
        written.append(folder / "policy.png")
        _policy_picture(rulebook, policy, plane, written[-1])
    return written


def _policy_picture(
    rulebook: Rulebook, policy: CategoricalPolicy, plane: Slice, path: Path
) -> None:
    actions = _shown_actions(rulebook)
    states = _constrained_states(rulebook)
    here = plane.contains(states)
    figure = new_figure(1.0 + 3.9 * len(actions), 4.1)
    panels = figure.subplots(1, len(actions), squeeze=False)[0]
    for action, axes in zip(actions, panels, strict=True):
        mesh = draw_policy(axes, policy, plane, action)
        draw_states(axes, states[~here], plane, markersize=3, markerfacecolor="0.6", alpha=0.6)
        draw_states(axes, states[here], plane, markersize=6, markerfacecolor="white")
        axes.set_xlim(*plane.horizontal_range)
        axes.set_ylim(*plane.vertical_range)
        axes.set_title(f"probability of “{rulebook.actions[action]}”", fontsize=10)
        axes.set_xlabel(rulebook.observations[plane.horizontal])
        axes.set_ylabel(rulebook.observations[plane.vertical])
    figure.colorbar(mesh, ax=list(panels), label="probability")
    figure.supxlabel(_legend(rulebook, plane), fontsize=8)
    figure.savefig(path, dpi=_DOTS_PER_INCH)


def _legend(rulebook: Rulebook, plane: Slice) -> str:
    """Where the plane lies, and what the dots and the line are."""
    fixed = ", ".join(
        f"{name} {value:g}"
        for index, (name, value) in enumerate(zip(rulebook.observations, plane.at, strict=True))
        if index not in (plane.horizontal, plane.vertical)
    )
    dots = "white: constrained states in this plane; small grey: of other planes; line: 50 %"
    return f"{fixed}\n{dots}"


def _shown_actions(rulebook: Rulebook) -> list[int]:
    """All of them, but of two only one: the other is what is left to 1."""
    if len(rulebook.actions) > 2:
        return list(range(len(rulebook.actions)))
    return [rulebook.picture.action if rulebook.picture is not None else 1]


def default_plane(rulebook: Rulebook) -> Slice | None:
    """The file's picture; else the two observations that the constraints vary most, around them.

    None where there is only one observation.
    """
    if len(rulebook.observations) < 2:
        return None
    if rulebook.picture is not None:
        one = rulebook.picture
        return Slice(one.at, one.across, one.up, one.across_range, one.up_range)
    return plane_over(rulebook, *_most_varied(rulebook))


def plane_over(
    rulebook: Rulebook, across: int, up: int, at: Sequence[float] | None = None
) -> Slice:
    """A plane over two observations, wide enough to show every constrained state.

    Args:
        rulebook: whose constraints are shown.
        across: index of the observation on the horizontal axis.
        up: index of the observation on the vertical axis.
        at: values of the others; by default those of the middle constrained state.
    """
    states = _constrained_states(rulebook)
    fixed = np.median(states, axis=0) if at is None else np.asarray(at, dtype=np.float64)

    def around(index: int) -> tuple[float, float]:
        low, high = float(states[:, index].min()), float(states[:, index].max())
        margin = 0.3 * (high - low) or 0.5 * abs(high) or 0.5
        return low - margin, high + margin

    return Slice(tuple(fixed.tolist()), across, up, around(across), around(up))


def _constrained_states(rulebook: Rulebook) -> Array:
    blocks = [c.states.reshape(len(c.states), -1) for c in rulebook.constraints]
    return np.concatenate(blocks) if blocks else np.zeros((1, len(rulebook.observations)))


def _most_varied(rulebook: Rulebook) -> tuple[int, int]:
    order = np.argsort(-np.ptp(_constrained_states(rulebook), axis=0), kind="stable")
    return int(order[0]), int(order[1])
