"""Pictures of runs as files: score, loss, violation, the policy over two observations, a proof."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from handrail.arrays import Array
from handrail.curves import draw_losses, draw_scores, draw_violations
from handrail.figures import Slice, middle_of, new_figure
from handrail.policy_picture import constrained_points, constrained_regions, policy_figure
from handrail.proof_picture import proof_figure
from handrail.region_answers import certify_regions
from handrail.reinforce import Reinforce
from handrail.rulebook import Rulebook
from handrail.runs import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DOTS_PER_INCH = 130


def write_pictures(
    runs: Sequence[Run], folder: Path, agent: Reinforce, plane: Slice | None
) -> list[Path]:
    """Score, loss, violation, policy and the proof for its regions, as PNG files.

    Args:
        runs: one per seed; at least one has recorded something.
        folder: where the pictures go.
        agent: whose policy is shown: that of one seed.
        plane: to show it over; None leaves the policy and the proof out.
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
    return written if plane is None else written + _write_planes(rulebook, agent, plane, folder)


def _write_planes(rulebook: Rulebook, agent: Reinforce, plane: Slice, folder: Path) -> list[Path]:
    """The policy over the plane; and the proof, where there is something to be proven."""
    figures = {"policy": policy_figure(rulebook, agent, plane)}
    answers = certify_regions(agent.policy, rulebook.constraints)
    if answers:
        figures["proof"] = proof_figure(rulebook, answers, plane)
    for name, figure in figures.items():
        figure.savefig(folder / f"{name}.png", dpi=_DOTS_PER_INCH)
    return [folder / f"{name}.png" for name in figures]


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
    """A plane over two observations, wide enough to show every constrained state and region.

    Args:
        rulebook: whose constraints are shown.
        across: index of the observation on the horizontal axis.
        up: index of the observation on the vertical axis.
        at: values of the others; by default those in the middle of the constrained states, or of
            a region, whichever meets most regions.
    """
    low, high = _extent(rulebook)

    def around(index: int) -> tuple[float, float]:
        bottom, top = float(low[index]), float(high[index])
        margin = 0.3 * (top - bottom) or 0.5 * abs(top) or 0.5
        return bottom - margin, top + margin

    fixed = _middle(rulebook, across, up) if at is None else np.asarray(at, dtype=np.float64)
    return Slice(tuple(fixed.tolist()), across, up, around(across), around(up))


def _middle(rulebook: Rulebook, across: int, up: int) -> Array:
    """The middle of everything, or that of a region if a plane there meets more of them.

    The middle of everything may lie between the regions, where there is nothing to see.
    """
    regions = constrained_regions(rulebook)
    points = constrained_points(rulebook)
    low, high = _extent(rulebook)
    everything = np.median(points, axis=0) if len(points) else 0.5 * (low + high)
    candidates = [everything, *(middle_of(region) for region in regions)]

    def met(at: Array) -> int:
        return sum(bool(region.section(across, up, at)) for region in regions)

    return max(candidates, key=met)  # the first of the best


def _extent(rulebook: Rulebook) -> tuple[Array, Array]:
    """The smallest box (lowest, highest) around every constrained state and region."""
    blocks = [c.states.reshape(len(c.states), -1) for c in rulebook.constraints]
    blocks += [np.stack(region.bounds) for region in constrained_regions(rulebook)]
    corners = np.concatenate(blocks) if blocks else np.zeros((1, len(rulebook.observations)))
    return corners.min(axis=0), corners.max(axis=0)


def _most_varied(rulebook: Rulebook) -> tuple[int, int]:
    """Furthest from first to last, in units of each observation's typical size.

    A range that all regions share comes behind: it tells none of them apart.
    """
    low, high = _extent(rulebook)
    parts = [part for region in constrained_regions(rulebook) for part in region.parts]
    shared = np.zeros(len(low), dtype=bool)
    if len(parts) > 1:
        shared = np.ptp([np.stack(part.bounds) for part in parts], axis=0).max(axis=0) == 0.0
    order = np.lexsort(((low - high) / np.array(rulebook.scale()), shared))
    return int(order[0]), int(order[1])
