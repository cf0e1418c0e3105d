"""Figures, and what is drawn in them over a plane: a policy, states, regions, an episode.

Nothing here trains, changes anything, or touches the global state of pyplot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from handrail._storage import write_atomically
from handrail._text import visible
from handrail._types import Array
from handrail.policies import Policy
from handrail.regions import Region
from handrail.report.plane import RESOLUTION, Plane

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh


_POINTS_OF_A_CURVE = 257

_DOTS_PER_INCH = 130

# From light to dark, so that greyscale keeps the order; not too dark for black lines on it.
_SHADES = ListedColormap(colormaps["YlGnBu"](np.linspace(0.0, 0.8, 256)), name="probability")

HALF = "0.25"  # colour of the line half way: where an action has half of the probability

Limits = tuple[float, float]

PROBABILITIES: Limits = (0.0, 1.0)


def draw_policy(
    axes: Axes, policy: Policy, plane: Plane, action: int, limits: Limits = PROBABILITIES
) -> QuadMesh:
    """The probability of an action, or its mean, over a plane; with the line half way up."""
    return draw_output(axes, output_over(policy, plane, action), plane, limits)


def output_over(policy: Policy, plane: Plane, action: int) -> Array:
    """The output of an action (n, n) over a grid of the plane, a row per vertical value."""
    output: Array = outputs_over(policy, plane)[action]
    return output


def outputs_over(policy: Policy, plane: Plane) -> Array:
    """The policy's outputs (n_actions, n, n) over a grid of the plane, a row per vertical value."""
    _, _, states = plane.states()
    return policy.outputs(states).T.reshape(-1, RESOLUTION, RESOLUTION)


def draw_output(
    axes: Axes, output: Array, plane: Plane, limits: Limits = PROBABILITIES
) -> QuadMesh:
    """What `output_over` gave, with the line half way between the limits."""
    across, up, _ = plane.states()
    low, high = limits
    mesh = axes.pcolormesh(
        across, up, output, cmap=_SHADES, vmin=low, vmax=high, shading="auto", rasterized=True
    )
    half = 0.5 * (low + high)
    if output.min() < half < output.max():
        axes.contour(across, up, output, levels=[half], colors=HALF, linestyles="--")
    return mesh


def draw_states(axes: Axes, states: Array, plane: Plane, **style: object) -> None:
    """Mark states (n, n_observations), projected onto the plane."""
    axes.plot(
        states[:, plane.horizontal],
        states[:, plane.vertical],
        linestyle="none",
        **{"marker": "o", "markersize": 9, "markeredgecolor": "black", **style},  # type: ignore[arg-type]
    )


def draw_regions(axes: Axes, regions: Sequence[Region], plane: Plane, **style: object) -> None:
    """What the plane cuts out of regions, grey; curves as lines.

    Args:
        axes: to draw on.
        regions: those that the plane misses are not drawn; of curves, their projection.
        plane: that cuts them.
        style: of the areas, instead of grey.
    """
    area = {"facecolor": (0.8, 0.8, 0.8, 0.45), "label": "constrained region", **style}
    for part in (part for region in regions for part in region.parts):
        if is_curve(part):
            _draw_curve(axes, part, plane)
            continue
        for outline in plane.section(part):
            axes.fill(*outline.T, edgecolor="0.1", linewidth=1.0, **area)  # type: ignore[arg-type]


def _draw_curve(axes: Axes, curve: Region, plane: Plane) -> None:
    """Never filled: a closed curve encloses states, but not one of them is constrained."""
    for outline in plane.section(curve):
        axes.plot(*outline.T, color="0.1", linewidth=2.0, label="constrained curve")
        return
    across, up = curve.grid(_POINTS_OF_A_CURVE)[:, [plane.horizontal, plane.vertical]].T
    axes.plot(across, up, color="0.1", linestyle=":", label="constrained curve, projected")


def is_curve(region: Region) -> bool:
    """Whether a plane meets it in single states at most, unless it lies in the plane."""
    return all(part.volume == 0.0 for part in region.parts)


def draw_trajectory(axes: Axes, states: Array, plane: Plane) -> None:
    """A path through states (n, n_observations), projected onto the plane, a dot at its start."""
    path = states[:, [plane.horizontal, plane.vertical]]
    seen = plane.shows(states)
    if seen.any():
        label = "one episode, from the dot" if seen[0] else "one episode"
        dot = "o" if seen[0] else None
        (line,) = axes.plot(*path.T, color="black", linewidth=0.5, marker=dot, label=label)
        line.set(markersize=4, markevery=[0])


def draw_marks(
    axes: Axes, states: Array, plane: Plane, what: str, marker: str, size: float
) -> None:
    """States in the plane white, those of other planes smaller and grey; none without a mark."""
    states = states[plane.shows(states)]
    here = plane.contains(states)
    # On the frame of the picture a mark is drawn whole.
    common: dict[str, object] = {"marker": marker, "clip_on": False}
    if here.any():
        style = {"markersize": size, "markerfacecolor": "white", "markeredgewidth": 0.8}
        draw_states(axes, states[here], plane, label=what, zorder=4, **style, **common)
    if (~here).any():
        style = {"markersize": 0.6 * size, "markerfacecolor": "0.65", "markeredgewidth": 0.5}
        label = f"{what}, other plane"
        draw_states(axes, states[~here], plane, label=label, zorder=3, **style, **common)


def draw_frame(axes: Axes, plane: Plane, names: Sequence[str]) -> None:
    """The plane's ranges, and the names of its observations."""
    axes.set_xlim(*plane.horizontal_range)
    axes.set_ylim(*plane.vertical_range)
    axes.set_xlabel(literal(names[plane.horizontal]))
    axes.set_ylabel(literal(names[plane.vertical]))


def draw_legend(figure: Figure, panels: Iterable[Axes], title: str, columns: int) -> None:
    """Everything that has a label in some panel, once, below the panels."""
    handles: dict[str, Artist] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    legend = figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        title=literal(title),
        ncols=columns,
        fontsize=8,
        title_fontsize=8,
        frameon=False,
    )
    legend.get_title().set_multialignment("center")


def literal(text: str) -> str:
    """Text that is drawn as it is: a $ in a name begins no formula, nothing in it is invisible."""
    return visible(text).replace("$", r"\$")


def new_figure(width: float, height: float) -> Figure:
    """A figure without any global state, so that nothing leaks between pictures."""
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure, path: Path) -> None:
    """As a PNG file that is whole or not there."""
    content = BytesIO()
    figure.savefig(content, format="png", dpi=_DOTS_PER_INCH)
    write_atomically(path, content.getvalue())
