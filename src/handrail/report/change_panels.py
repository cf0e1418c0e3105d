"""A policy over a plane before and after it was made to obey, and what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from handrail._types import Array
from handrail.enforcement import Influence
from handrail.errors import UnsatisfiedConstraints
from handrail.policies import Policy, Quantity
from handrail.report.drawing import (
    draw_frame,
    draw_legend,
    draw_marks,
    draw_output,
    draw_regions,
    literal,
    new_figure,
    outputs_over,
)
from handrail.report.plane import Plane
from handrail.report.shading import LINE, Shading
from handrail.report.subject import Domain
from handrail.rulebook import AnyConstraints
from handrail.runs import Run, make_agent, make_policy

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


def change_figure(
    before: Policy,
    after: Policy,
    constraints: AnyConstraints,
    plane: Plane | None = None,
    mark: Influence | None = None,
) -> Figure:
    """Before, after and the change, side by side, of the action that changed most.

    Args:
        before: a copy of the policy, made before it was edited, or held.
        after: the policy.
        constraints: that were asked for: a list, a Rulebook, the path of a constraint file or a
            bundled one's name.
        plane: that is shown; by default `Plane.of(constraints)`.
        mark: the largest change among these is marked.
    """
    domain = Domain.of(constraints)
    plane = Plane.of(domain) if plane is None else plane
    outputs = [outputs_over(policy, plane) for policy in (before, after)]
    action = _shown_action(domain, after.quantity, *outputs)
    shown = [one[action] for one in outputs]
    shading = Shading.of(domain, after.quantity, action, np.stack(shown))
    figure = new_figure(12.6, 4.9)
    panels = figure.subplots(1, 3, sharex=True, sharey=True)
    for axes, values, when in zip(panels, shown, ("before", "after"), strict=False):
        mesh = draw_output(axes, values, plane, shading)
        shading.label_line(axes, values)
        axes.set_title(when, fontsize=10)
    shades = _draw_change(panels[2], shown[1] - shown[0], plane, shading.high - shading.low)
    panels[2].set_title("change", fontsize=10)
    asked = domain.about(after.quantity, action)
    for axes in panels:
        _draw_places(axes, asked, mark, plane)
        draw_frame(axes, plane, domain.observations)
        axes.locator_params(axis="x", nbins=_TICKS)  # three panels: labels would touch
        axes.label_outer()
    name = literal(domain.action(after.quantity.part(action)[1]))
    figure.colorbar(mesh, ax=list(panels[:2]), label=f"{shading.noun} “{name}”")
    figure.colorbar(shades, ax=panels[2], label=f"change of the {shading.noun} “{name}”")
    draw_legend(figure, panels, plane.fixed(domain.observations), columns=4)
    return figure


def first_holding_figure(run: Run, plane: Plane | None = None) -> Figure | None:
    """What a run's constraints made of its fresh network, before its first step.

    Computed again from the seed. None of a run that did not hold them exactly, or where that no
    longer succeeds: another version did it, or a proof had more time.

    Args:
        run: whose first holding is shown.
        plane: that is shown; by default `Plane.of(rulebook)`.
    """
    book = run.rulebook
    if book.settings.enforcement != "exact":
        return None
    before = make_policy(book, run.make_environment())
    try:
        after = make_agent(book)
    except UnsatisfiedConstraints:
        return None
    held = after.first_enforcement
    assert held is not None  # a file has constraints, and they are exact
    return change_figure(before, after.policy, book, plane, mark=held.influence)


def _shown_action(domain: Domain, quantity: Quantity, before: Array, after: Array) -> int:
    """The file's, if it names one of two; else the one that changed most over the plane."""
    if quantity.adds_up and len(after) == 2:
        return 1 if domain.picture is None else domain.picture.action
    return int(np.abs(after - before).max(axis=(1, 2)).argmax())


def _draw_change(axes: Axes, change: Array, plane: Plane, width: float) -> QuadMesh:
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
            across, up, change, levels=levels, colors=LINE, linewidths=0.8, linestyles=styles
        )
        axes.clabel(lines, fmt=lambda level: f"{level:+g}".replace("-", "−"), fontsize=7)
    return mesh


def _draw_places(axes: Axes, domain: Domain, mark: Influence | None, plane: Plane) -> None:
    """What was constrained, and where the largest change is."""
    draw_regions(axes, domain.regions, plane, facecolor="none")
    draw_marks(axes, domain.points, plane, "constrained state", "o", 6.0)
    if mark is not None:
        draw_marks(axes, mark.at.reshape(1, -1), plane, "largest change", "X", 11.0)
