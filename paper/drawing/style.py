"""Colours and lines, the same for the same thing in every figure.

Roles differ in lightness and in the pattern of their line, so they stay apart in greyscale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from handrail.report.drawing import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 6.4, 3.6  # inches, of a figure of one panel
CARTPOLE_AXES = ("pole angle φ (rad)", "pole's angular velocity φ̇ (rad/s)")


@final
@dataclass(frozen=True)
class Role:
    """How one kind of learner is drawn."""

    colour: str
    line: str | tuple[float, tuple[float, ...]]
    marker: str

    def style(self, width: float = 1.8) -> dict[str, Any]:
        """For matplotlib."""
        return {"color": self.colour, "linestyle": self.line, "linewidth": width}


PAPER = Role("#2166ac", "-", "o")
EXACT = Role("#b35806", "--", "s")
CERTIFIED = Role("#1a1a1a", (0, (6, 1.5)), "^")
PLAIN = Role("#7f7f7f", ":", "v")
PLAIN_OTHER = Role("#a6a6a6", "-.", "<")
RAW = Role("#c7c7c7", "--", ">")
Q_LEARNING = Role("#4d9221", "-.", "D")
OTHER = Role("#9e7fc7", (0, (3, 1, 1, 1)), "P")
ANOTHER = Role("#d6a54a", (0, (1, 1)), "X")


def panels(rows: int = 1, columns: int = 1, height: float = HEIGHT) -> tuple[Figure, list[Axes]]:
    """A figure of so many panels, row by row."""
    width = WIDTH if columns == 1 else 4.6 * columns
    figure = new_figure(width, height * rows)
    return figure, list(figure.subplots(rows, columns, squeeze=False).ravel())


def over_episodes(axes: Axes, what: str) -> None:
    """Labels and a light grid."""
    axes.set_xlabel("episode")
    axes.set_ylabel(what)
    axes.grid(alpha=0.25)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def legend_above(axes: Axes, columns: int = 2) -> None:
    """Where it hides nothing."""
    axes.legend(
        fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=columns, frameon=False
    )
