"""Figures, and what is drawn in them over a plane: a policy, states, regions, an episode.

Nothing here trains, changes anything, or touches the global state of pyplot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import BytesIO
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from handrail._storage import write_atomically
from handrail._text import visible
from handrail._types import Array
from handrail.constraints import Constraint, PlacedConstraint
from handrail.policies import Policy
from handrail.regions import Region
from handrail.report.plane import RESOLUTION, Plane
from handrail.report.shading import LINE, PROBABILITY, Shading
from handrail.report.subject import Domain

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh


_POINTS_OF_A_CURVE = 257

_MOST_LETTERS = 10  # a legend with more lines than this leaves no room for the picture
_LONGEST = 44  # characters of a requirement
_LETTER = 0.08  # of the width of a picture, that letters stay apart

_DOTS_PER_INCH = 130


def draw_policy(
    axes: Axes, policy: Policy, plane: Plane, action: int, shading: Shading = PROBABILITY
) -> QuadMesh:
    """The probability of an action, or its mean, over a plane; with the line that divides it."""
    return draw_output(axes, output_over(policy, plane, action), plane, shading)


def output_over(policy: Policy, plane: Plane, action: int) -> Array:
    """The output of an action (n, n) over a grid of the plane, a row per vertical value."""
    output: Array = outputs_over(policy, plane)[action]
    return output


def outputs_over(policy: Policy, plane: Plane) -> Array:
    """The policy's outputs (n_actions, n, n) over a grid of the plane, a row per vertical value."""
    _, _, states = plane.states()
    return policy.outputs(states).T.reshape(-1, RESOLUTION, RESOLUTION)


def draw_output(
    axes: Axes, output: Array, plane: Plane, shading: Shading = PROBABILITY
) -> QuadMesh:
    """What `output_over` gave, with the line that divides it."""
    across, up, _ = plane.states()
    mesh = axes.pcolormesh(
        across,
        up,
        output,
        cmap=shading.colours,
        norm=shading.norm,
        shading="auto",
        rasterized=True,
    )
    if output.min() < shading.line < output.max():
        axes.contour(across, up, output, levels=[shading.line], colors=LINE, linestyles="--")
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


def label_regions(axes: Axes, domain: Domain, plane: Plane, drawn: Sequence[Constraint]) -> None:
    """A letter in each region that the plane meets; constraints on one region share its place.

    None of them, if there are more than a legend has room for.

    Args:
        axes: to write on.
        domain: of all panels: the same letter stands for the same constraint in each.
        plane: that is shown.
        drawn: the constraints of this panel.
    """
    found = [(one, _middle_of_section(one, plane)) for one in _placed(domain)]
    shown = [(one, middle) for one, middle in found if middle is not None]
    if len(shown) > _MOST_LETTERS:
        return
    places: dict[tuple[float, float], list[str]] = {}
    here = set(map(id, drawn))
    for letter, (one, middle) in zip(ascii_uppercase, shown, strict=False):
        if id(one) not in here:
            continue
        places.setdefault((float(middle[0]), float(middle[1])), []).append(letter)
        axes.plot([], [], " ", label=literal(f"{letter}: {_in_short(domain, one)}"))
    halo = withStroke(linewidth=2.5, foreground="white")
    for (across, up), letters in zip(_apart(list(places), plane), places.values(), strict=True):
        text = axes.annotate(", ".join(letters), (across, up), ha="center", va="center", zorder=5)
        text.set(fontsize=9, fontweight="bold", path_effects=[halo])


def _apart(places: Sequence[tuple[float, float]], plane: Plane) -> list[tuple[float, float]]:
    """The same, lower where one would lie on another."""
    width, height = np.ptp([plane.horizontal_range, plane.vertical_range], axis=1)
    found: list[tuple[float, float]] = []
    for across, middle in places:
        up = middle
        while any(
            abs(across - x) < _LETTER * width and abs(up - y) < _LETTER * height for x, y in found
        ):
            up -= _LETTER * height
        found.append((across, up))
    return found


def _placed(domain: Domain) -> list[PlacedConstraint]:
    placed = [one for one in domain.constraints if isinstance(one, PlacedConstraint)]
    return [one for one in placed if one.region is not None]


def _middle_of_section(constraint: PlacedConstraint, plane: Plane) -> Array | None:
    """The middle (2,) of the largest outline in the picture; None if the plane meets none."""
    region = constraint.region
    if region is None or is_curve(region):
        return None
    low, high = np.array([plane.horizontal_range, plane.vertical_range]).T
    seen = [np.clip(outline, low, high) for outline in plane.section(region)]
    sizes = [float(np.ptp(outline, axis=0).prod()) for outline in seen]
    if not sizes or max(sizes) == 0.0:
        return None
    outline = seen[int(np.argmax(sizes))]
    middle: Array = 0.5 * (outline.min(axis=0) + outline.max(axis=0))
    return middle


def _in_short(domain: Domain, constraint: PlacedConstraint) -> str:
    required = domain.required(constraint)
    if len(required) > _LONGEST:
        required = f"{required[: _LONGEST - 1]}…"
    if not required or required in constraint.name:
        return constraint.name
    return f"{constraint.name}: {required}"


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
        ncols=columns if max(map(len, handles), default=0) <= _LONGEST else 1,
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
