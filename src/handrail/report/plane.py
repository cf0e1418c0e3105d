"""Pictures of policies. Nothing here trains or changes anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from handrail._types import Array, Mask
from handrail.constraints import PlacedConstraint
from handrail.regions import Region
from handrail.rulebook import Rulebook

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

    def shows(self, states: Array) -> Mask:
        """Which of the states (n, n_observations) are projected into the plane's ranges."""
        low, high = np.array([self.horizontal_range, self.vertical_range]).T
        projected = states[:, [self.horizontal, self.vertical]]
        result: Mask = ((low <= projected) & (projected <= high)).all(axis=1)
        return result

    def section(self, region: Region) -> list[Array]:
        """The outlines (m, 2) that the plane cuts out of a region."""
        return region.section(self.horizontal, self.vertical, np.asarray(self.at))

    def fixed(self, names: Sequence[str]) -> str:
        """Where the plane lies, in words; empty if nothing is fixed."""
        return ", ".join(
            f"{name} = {value:.4g}"
            for index, (name, value) in enumerate(zip(names, self.at, strict=True))
            if index not in (self.horizontal, self.vertical)
        )

    def states(self) -> tuple[Array, Array, Array]:
        """Both axes (n,) and the states (n·n, n_observations) of a grid over the plane."""
        across = np.linspace(*self.horizontal_range, _RESOLUTION)
        up = np.linspace(*self.vertical_range, _RESOLUTION)
        states = np.tile(np.asarray(self.at, dtype=np.float64), (_RESOLUTION**2, 1))
        grid_across, grid_up = np.meshgrid(across, up)
        states[:, self.horizontal] = grid_across.ravel()
        states[:, self.vertical] = grid_up.ravel()
        return across, up, states


def middle_of(region: Region) -> Array:
    """The state (n_coordinates,) of a region that is nearest to the middle of its bounds."""
    low, high = region.bounds
    middle: Array = region.project(0.5 * (low + high)[None])[0]
    return middle


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


def constrained_points(rulebook: Rulebook) -> Array:
    """(n, n_observations) of the constraints at points; what stands for a region is none."""
    blocks = [np.zeros((0, len(rulebook.observations)))]
    for one in rulebook.constraints:
        if not isinstance(one, PlacedConstraint) or one.region is None:
            blocks.append(one.states.reshape(len(one.states), -1))
    return np.concatenate(blocks)


def constrained_regions(rulebook: Rulebook) -> list[Region]:
    """Every region that a constraint holds on."""
    placed = [one for one in rulebook.constraints if isinstance(one, PlacedConstraint)]
    return [one.region for one in placed if one.region is not None]
