"""A policy over a plane before and after an edit, and what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from handrail._types import Array
from handrail.enforcement import SideEffects
from handrail.policies import Policy
from handrail.report.drawing import HALF, draw_legend, draw_output, draw_regions, new_figure
from handrail.report.plane import Slice, constrained_points, constrained_regions
from handrail.report.policy_panels import draw_marks, scale_of
from handrail.rulebook import Rulebook

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh


# White where nothing changed, orange for less, purple for more, not too dark for black lines. Grey
# cannot tell the two ends apart, so labelled lines say the sign as well.
_LESS_AND_MORE = ListedColormap(colormaps["PuOr"](np.linspace(0.1, 0.9, 256)), name="change")


# Parts of the range of the output: of a probability 1, of a mean the width of the action's range.
_LINES = (-0.5, -0.1, 0.1, 0.5)


_SMALLEST_SCALE = 0.05


_TICKS = 5


def over_plane(policy: Policy, plane: Slice) -> Array:
    """The policy's outputs (n_actions, n, n) over a grid of the plane, a row per vertical value."""
    across, up, states = plane.states()
    return policy.outputs(states).T.reshape(-1, len(up), len(across))


def edit_figure(
    rulebook: Rulebook, before: Array, after: Array, effects: SideEffects, plane: Slice
) -> Figure:
    """Before, after and the change, side by side, of one action.

    Args:
        rulebook: the constraints that were asked for, and the names.
        before: what `over_plane` gave then.
        after: what it gives now.
        effects: the state of the largest change is marked.
        plane: that is shown.
    """
    action = _shown_action(rulebook, before, after)
    limits, what, half = scale_of(rulebook, action)
    figure = new_figure(12.6, 4.9)
    panels = figure.subplots(1, 3, sharex=True, sharey=True)
    for axes, values, when in zip(panels, (before, after), ("before", "after"), strict=False):
        mesh = draw_output(axes, values[action], plane, limits)
        if values[action].min() < 0.5 * sum(limits) < values[action].max():
            axes.plot([], [], color=HALF, linestyle="--", label=half)
        axes.set_title(when, fontsize=10)
    width = limits[1] - limits[0]
    shades = _draw_change(panels[2], after[action] - before[action], plane, width)
    panels[2].set_title("change", fontsize=10)
    for axes in panels:
        _draw_places(axes, rulebook, effects, plane)
        axes.set_xlim(*plane.horizontal_range)
        axes.set_ylim(*plane.vertical_range)
        axes.locator_params(axis="x", nbins=_TICKS)  # three panels: labels would touch
        axes.set_xlabel(rulebook.observations[plane.horizontal])
    panels[0].set_ylabel(rulebook.observations[plane.vertical])
    name = rulebook.actions[action]
    figure.colorbar(mesh, ax=list(panels[:2]), label=f"{what} “{name}”")
    figure.colorbar(shades, ax=panels[2], label=f"change of the {what} “{name}”")
    draw_legend(figure, panels, plane.fixed(rulebook.observations), columns=4)
    return figure


def _shown_action(rulebook: Rulebook, before: Array, after: Array) -> int:
    """The file's, if it names one of two; else the one that changed most over the plane."""
    if not rulebook.quantity.is_continuous and len(rulebook.actions) == 2:
        return 1 if rulebook.picture is None else rulebook.picture.action
    return int(np.abs(after - before).max(axis=(1, 2)).argmax())


def _draw_change(axes: Axes, change: Array, plane: Slice, width: float) -> QuadMesh:
    """With lines at round parts of the width of what the output can be."""
    across, up, _ = plane.states()
    scale = max(float(np.abs(change).max()), _SMALLEST_SCALE * width)
    mesh = axes.pcolormesh(
        across,
        up,
        change,
        cmap=_LESS_AND_MORE,
        vmin=-scale,
        vmax=scale,
        shading="auto",
        rasterized=True,
    )
    levels = [part * width for part in _LINES if change.min() < part * width < change.max()]
    if levels:
        styles = ["dashed" if level < 0.0 else "solid" for level in levels]
        lines = axes.contour(
            across, up, change, levels=levels, colors=HALF, linewidths=0.8, linestyles=styles
        )
        axes.clabel(lines, fmt=lambda level: f"{level:+g}".replace("-", "−"), fontsize=7)
    return mesh


def _draw_places(axes: Axes, rulebook: Rulebook, effects: SideEffects, plane: Slice) -> None:
    """What was constrained, and where the largest side effect is."""
    draw_regions(axes, constrained_regions(rulebook), plane, facecolor="none")
    draw_marks(axes, constrained_points(rulebook), plane, "constrained state", "o", 6.0)
    draw_marks(axes, effects.at.reshape(1, -1), plane, "largest side effect", "X", 11.0)
