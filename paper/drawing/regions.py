"""Regions: what states are chosen by, what one of them stands for, and the policy around them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import colormaps
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from handrail._types import Array, Indices
from handrail.regions import Region
from handrail.report import Plane
from handrail.report.drawing import (
    draw_output,
    draw_regions,
    draw_states,
    draw_trajectory,
    new_figure,
)
from handrail.tangent.carryover import ENOUGH
from paper.drawing.learning import CARTPOLE_AXES, panels
from paper.state_choice import Choices, Map

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def choice_figure(strategies: Sequence[tuple[str, str, Choices]], order: Indices) -> Figure:
    """Per strategy: the values over the points of the first region, a line per episode.

    Args:
        strategies: (title, what the values are, one seed's choices) each.
        order: (n_points,) in which the points are drawn.
    """
    place = np.argsort(order)  # of each point, in that order
    figure, axes_of = panels(columns=len(strategies), height=3.9)
    for axes, (title, what, choices) in zip(axes_of, strategies, strict=True):
        for episode, (values, chosen) in enumerate(
            zip(choices.scores, choices.chosen, strict=True)
        ):
            colour = _shade(episode, len(choices.scores))
            axes.plot(values[order], color=colour, linewidth=1.2, label=f"episode {episode}")
            axes.plot(place[chosen], values[chosen], marker="*", color=colour, markersize=9)
        axes.axhline(0.0, color="black", linewidth=0.8)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("point tᵢ of the region, by its angle around the centre")
        # Far below 0 nothing is asked for, and how far says nothing.
        highest = float(choices.scores.max())
        axes.set_ylim(bottom=max(-2.0 * highest, 1.1 * float(choices.scores.min())))
        axes.set_ylabel(what)
        axes.grid(alpha=0.25)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(
        *axes_of[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=5,
        fontsize=8,
        frameon=False,
        title="stars: the state that is constrained",
        title_fontsize=8,
    )
    return figure


def _shade(episode: int, episodes: int) -> tuple[float, float, float, float]:
    """From light to dark as learning goes on; that order survives greyscale."""
    return colormaps["viridis_r"](0.1 + 0.9 * episode / max(episodes - 1, 1))


def maps_figure(
    columns: Sequence[tuple[str, Sequence[Map]]],
    regions: Sequence[Region],
    plane: Plane,
    action: str,
) -> Figure:
    """The policy in some episodes (rows) under each strategy (columns)."""
    rows = max(len(maps) for _, maps in columns)
    figure = new_figure(4.0 * len(columns) + 0.8, 3.3 * rows)
    grid = figure.subplots(rows, len(columns), squeeze=False, sharex=True, sharey=True)
    for column, (title, maps) in enumerate(columns):
        for row, one in enumerate(maps):
            axes: Axes = grid[row, column]
            mesh = draw_output(axes, one.probability, plane)
            draw_regions(axes, regions, plane)
            draw_trajectory(axes, one.trajectory, plane)
            draw_states(axes, one.stars, plane, marker="*", markersize=11, markerfacecolor="white")
            axes.set_xlim(*plane.horizontal_range)
            axes.set_ylim(*plane.vertical_range)
            axes.set_title(f"{title}, episode {one.episode}", fontsize=9)
    for axes in grid[-1]:
        axes.set_xlabel(CARTPOLE_AXES[0])
    for axes in grid[:, 0]:
        axes.set_ylabel(CARTPOLE_AXES[1])
    figure.colorbar(mesh, ax=list(np.ravel(grid)), label=f"probability of “{action}”", aspect=50)
    return figure


def carryover_figure(positions: Array, shares: Array, cuts: Sequence[float]) -> Figure:
    """What a step at one position of the cart moves at another, and the parts that are cut.

    Args:
        positions: (n,), in metres.
        shares: (n, n): of a change at the row's position, what arrives at the column's.
        cuts: ends of the parts, in metres.
    """
    figure, (axes,) = panels(height=4.6)
    mesh = axes.pcolormesh(
        positions, positions, shares, cmap="viridis", vmin=0.0, vmax=2.0, rasterized=True
    )
    axes.contour(positions, positions, shares, levels=[ENOUGH], colors="white", linestyles="--")
    for low, high in pairwise(cuts):
        square = Rectangle((low, low), high - low, high - low, fill=False, linewidth=1.8)
        axes.add_patch(square)
    axes.set_aspect("equal")
    axes.set_xlabel("cart where it arrives, x' (m)")
    axes.set_ylabel("cart where the policy is moved by 1, x (m)")
    figure.colorbar(mesh, ax=axes, label="what arrives")
    return figure
