"""Pictures of policies. Nothing here trains or changes anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from handrail._types import Array
from handrail.policies import Policy
from handrail.regions import Region
from handrail.report.plane import _RESOLUTION, Slice

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh


_POINTS_OF_A_CURVE = 257


# From light to dark, so that greyscale keeps the order; not too dark for black lines on it.
_SHADES = ListedColormap(colormaps["YlGnBu"](np.linspace(0.0, 0.8, 256)), name="probability")


HALF = "0.25"  # colour of the line half way: where an action has half of the probability


Limits = tuple[float, float]


PROBABILITIES: Limits = (0.0, 1.0)


def draw_policy(
    axes: Axes, policy: Policy, plane: Slice, action: int, limits: Limits = PROBABILITIES
) -> QuadMesh:
    """The probability of an action, or its mean, over a plane; with the line half way up."""
    return draw_output(axes, output_over(policy, plane, action), plane, limits)


def output_over(policy: Policy, plane: Slice, action: int) -> Array:
    """The output of an action (n, n) over a grid of the plane, a row per vertical value."""
    _, _, states = plane.states()
    output: Array = policy.outputs(states)[:, action].reshape(_RESOLUTION, _RESOLUTION)
    return output


def draw_output(
    axes: Axes, output: Array, plane: Slice, limits: Limits = PROBABILITIES
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


def draw_states(axes: Axes, states: Array, plane: Slice, **style: object) -> None:
    """Mark states (n, n_observations), projected onto the plane."""
    axes.plot(
        states[:, plane.horizontal],
        states[:, plane.vertical],
        linestyle="none",
        **{"marker": "o", "markersize": 9, "markeredgecolor": "black", **style},  # type: ignore[arg-type]
    )


def draw_regions(axes: Axes, regions: Sequence[Region], plane: Slice, **style: object) -> None:
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


def _draw_curve(axes: Axes, curve: Region, plane: Slice) -> None:
    """Never filled: a closed curve encloses states, but not one of them is constrained."""
    for outline in plane.section(curve):
        axes.plot(*outline.T, color="0.1", linewidth=2.0, label="constrained curve")
        return
    across, up = curve.grid(_POINTS_OF_A_CURVE)[:, [plane.horizontal, plane.vertical]].T
    axes.plot(across, up, color="0.1", linestyle=":", label="constrained curve, projected")


def is_curve(region: Region) -> bool:
    """Whether a plane meets it in single states at most, unless it lies in the plane."""
    return all(part.volume == 0.0 for part in region.parts)


def draw_trajectory(axes: Axes, states: Array, plane: Slice) -> None:
    """A path through states (n, n_observations), projected onto the plane, a dot at its start."""
    path = states[:, [plane.horizontal, plane.vertical]]
    seen = plane.shows(states)
    if seen.any():
        label = "one episode, from the dot" if seen[0] else "one episode"
        dot = "o" if seen[0] else None
        (line,) = axes.plot(*path.T, color="black", linewidth=0.5, marker=dot, label=label)
        line.set(markersize=4, markevery=[0])


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
        title=title,
        ncols=columns,
        fontsize=8,
        title_fontsize=8,
        frameon=False,
    )
    legend.get_title().set_multialignment("center")


def new_figure(width: float, height: float) -> Figure:
    """A figure without any global state, so that nothing leaks between pictures."""
    return Figure(figsize=(width, height), layout="constrained")
