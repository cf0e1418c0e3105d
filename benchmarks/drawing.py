"""How the pictures of the page look: two panels, lines told apart without colour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from handrail.report.drawing import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OURS: dict[str, Any] = {"color": "black", "marker": "o", "linestyle": "-"}
FIRST: dict[str, Any] = {"color": "0.45", "marker": "s", "linestyle": "--"}
SECOND: dict[str, Any] = {"color": "0.45", "marker": "^", "linestyle": "-."}
GUIDE: dict[str, Any] = {"color": "0.65", "linestyle": ":"}


def two_panels(share_y: bool) -> tuple[Figure, Axes, Axes]:
    """A figure with a left and a right panel."""
    figure = new_figure(9.6, 4.0)
    left, right = figure.subplots(1, 2, sharey=share_y)
    return figure, left, right


def tick_at(axes: Axes, sizes: list[int]) -> None:
    """Ticks at what was measured, and nowhere else."""
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.grid(visible=True, color="0.9")
