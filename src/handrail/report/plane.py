"""A plane through the observations, to look at a policy over: chosen by name, or by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from handrail._types import Array, Mask
from handrail.errors import InvalidArgument
from handrail.regions import Region
from handrail.report.subject import Domain
from handrail.rulebook import AnyConstraints

RESOLUTION = 121  # states along each axis


@final
@dataclass(frozen=True)
class Plane:
    """Two observations vary, the others are fixed.

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

    @classmethod
    def of(
        cls,
        constraints: AnyConstraints | Domain,
        over: Sequence[str] | None = None,
        at: Mapping[str, float] | None = None,
    ) -> Plane:
        """A plane wide enough to show every constrained state and region.

        A little wider, as far as observations go by the ranges of their space.

        Args:
            constraints: a list, a Rulebook, the path of a constraint file or a bundled one's name.
            over: the names of the two observations that vary, the horizontal one first; by default
                those of the file's picture, else the two that the constraints vary most.
            at: values of others, by name; by default those of the file's picture, else where the
                plane meets most regions. Without a file, observations are called "observation 0", …
        """
        domain = Domain.of(constraints)
        if domain.rulebook is not None and domain.rulebook.parts:
            raise InvalidArgument(
                f"A plane is over two named observations, and the numbers of "
                f"{domain.rulebook.declared_observations} have no names: there is no map of what a "
                "policy does with them."
            )
        if len(domain.observations) < 2:
            raise InvalidArgument("There is only one observation, so no plane to draw.")
        if over is not None:
            plane = _spanned(domain, *_pair(domain, over))
        elif domain.picture is not None:
            one = domain.picture
            plane = cls(one.at, one.across, one.up, one.across_range, one.up_range)
        else:
            plane = _spanned(domain, *_most_varied(domain))
        return plane.moved(
            {_index(domain, name): value for name, value in (at or {}).items()}, domain
        )

    def moved(self, values: Mapping[int, float], domain: Domain) -> Plane:
        """The parallel plane with other fixed values, by index."""
        at = list(self.at)
        for index, value in values.items():
            if index in (self.horizontal, self.vertical):
                raise InvalidArgument(
                    f"{domain.observations[index]} is on an axis of the picture, so it has no "
                    "fixed value. Choose two other observations for the axes, or leave it out."
                )
            at[index] = float(value)
        return replace(self, at=tuple(at))

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

    def states(self, count: int = RESOLUTION) -> tuple[Array, Array, Array]:
        """Both axes (n,) and the states (n·n, n_observations) of a grid over the plane."""
        across = np.linspace(*self.horizontal_range, count)
        up = np.linspace(*self.vertical_range, count)
        states = np.tile(np.asarray(self.at, dtype=np.float64), (count**2, 1))
        grid_across, grid_up = np.meshgrid(across, up)
        states[:, self.horizontal] = grid_across.ravel()
        states[:, self.vertical] = grid_up.ravel()
        return across, up, states


def middle_of(region: Region) -> Array:
    """The state (n_coordinates,) of a region that is nearest to the middle of its bounds."""
    low, high = region.bounds
    middle: Array = region.project(0.5 * (low + high)[None])[0]
    return middle


def _pair(domain: Domain, names: Sequence[str]) -> tuple[int, int]:
    if isinstance(names, str) or len(names) != 2 or names[0] == names[1]:
        wanted = ", ".join(domain.observations[:2])
        raise InvalidArgument(
            f"A plane is over two different observations, such as {wanted}, but got {names!r}."
        )
    return _index(domain, names[0]), _index(domain, names[1])


def _index(domain: Domain, name: str) -> int:
    if name not in domain.observations:
        raise InvalidArgument(
            f"Unknown observation {name!r}. This environment has {', '.join(domain.observations)}."
        )
    return domain.observations.index(name)


def _spanned(domain: Domain, across: int, up: int) -> Plane:
    (low, high), (lowest, highest) = domain.extent, domain.limits

    def around(index: int) -> tuple[float, float]:
        bottom, top = float(low[index]), float(high[index])
        margin = 0.3 * (top - bottom) or 0.5 * abs(top) or 0.5
        # Not beyond what can be observed, unless constraints are.
        least, most = min(float(lowest[index]), bottom), max(float(highest[index]), top)
        return max(bottom - margin, least), min(top + margin, most)

    at = tuple(_middle(domain, across, up).tolist())
    return Plane(at, across, up, around(across), around(up))


def _middle(domain: Domain, across: int, up: int) -> Array:
    """The middle of everything, or that of a region if a plane there meets more of them.

    The middle of everything may lie between the regions, where there is nothing to see.
    """
    regions, points = domain.regions, domain.points
    low, high = domain.extent
    everything = np.median(points, axis=0) if len(points) else 0.5 * (low + high)
    candidates = [everything, *(middle_of(region) for region in regions)]

    def met(at: Array) -> int:
        return sum(bool(region.section(across, up, at)) for region in regions)

    return max(candidates, key=met)  # the first of the best


def _most_varied(domain: Domain) -> tuple[int, int]:
    """Furthest from first to last, in units of each observation's typical size.

    A range that all regions share comes behind: it tells none of them apart.
    """
    low, high = domain.extent
    parts = [part for region in domain.regions for part in region.parts]
    shared = np.zeros(len(low), dtype=bool)
    if len(parts) > 1:
        shared = np.ptp([np.stack(part.bounds) for part in parts], axis=0).max(axis=0) == 0.0
    order = np.lexsort(((low - high) / np.array(domain.scale), shared))
    return int(order[0]), int(order[1])
