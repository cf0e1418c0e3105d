"""Pictures of policies. Nothing here trains or changes anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from matplotlib.figure import Figure

from handrail.arrays import Array, Mask
from handrail.policies import CategoricalPolicy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh

_RESOLUTION = 121


@final
@dataclass(frozen=True)
class Slice:
    """A plane through the observations: two coordinates vary, the others are fixed.

    Attributes:
        at: (n_observations,), the fixed values (those of the two varying ones are ignored).
        horizontal: index of the coordinate on the horizontal axis.
        vertical: index of the coordinate on the vertical axis.
        horizontal_range: (from, to).
        vertical_range: (from, to).
    """

    at: tuple[float, ...]
    horizontal: int
    vertical: int
    horizontal_range: tuple[float, float]
    vertical_range: tuple[float, float]

    def contains(self, states: Array) -> Mask:
        """Which of the states (n, n_observations) lie in the plane."""
        fixed = [i for i in range(len(self.at)) if i not in (self.horizontal, self.vertical)]
        distance = np.abs(states[:, fixed] - np.asarray(self.at)[fixed])
        result: Mask = (distance <= 1e-9).all(axis=1)
        return result

    def states(self) -> tuple[Array, Array, Array]:
        """Both axes (n,) and the states (n·n, n_observations) of a grid over the plane."""
        across = np.linspace(*self.horizontal_range, _RESOLUTION)
        up = np.linspace(*self.vertical_range, _RESOLUTION)
        states = np.tile(np.asarray(self.at, dtype=np.float64), (_RESOLUTION**2, 1))
        grid_across, grid_up = np.meshgrid(across, up)
        states[:, self.horizontal] = grid_across.ravel()
        states[:, self.vertical] = grid_up.ravel()
        return across, up, states


def draw_policy(axes: Axes, policy: CategoricalPolicy, plane: Slice, action: int) -> QuadMesh:
    """The probability of an action over a plane, with its 50 % line."""
    across, up, states = plane.states()
    probability = policy.probabilities(states)[:, action].reshape(_RESOLUTION, _RESOLUTION)
    mesh = axes.pcolormesh(
        across, up, probability, cmap="RdBu_r", vmin=0.0, vmax=1.0, shading="auto", rasterized=True
    )
    if probability.min() < 0.5 < probability.max():
        axes.contour(across, up, probability, levels=[0.5], colors="0.25", linewidths=1.0)
    return mesh


def draw_states(axes: Axes, states: Array, plane: Slice, **style: object) -> None:
    """Mark states (n, n_observations), projected onto the plane."""
    axes.plot(
        states[:, plane.horizontal],
        states[:, plane.vertical],
        linestyle="none",
        **{"marker": "o", "markersize": 9, "markeredgecolor": "black", **style},  # type: ignore[arg-type]
    )


def new_figure(width: float, height: float) -> Figure:
    """A figure without any global state, so that nothing leaks between pictures."""
    return Figure(figsize=(width, height), layout="constrained")
