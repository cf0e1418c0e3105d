"""Several regions as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from typing_extensions import override

from handrail._types import Array, Indices, Mask
from handrail.errors import InvalidConstraint
from handrail.regions.cells import Cover
from handrail.regions.points import Points
from handrail.regions.region import Region, region_from


@final
class Union(Region, shape="union"):
    """All states of at least two regions, which may overlap.

    Args:
        parts: regions of the same number of coordinates; unions among them are taken apart.
    """

    def __init__(self, parts: Sequence[Region]) -> None:
        self._parts = _flattened(parts)
        if len(self._parts) < 2:
            raise InvalidConstraint(
                f"Union needs at least 2 regions, but got {len(self._parts)}. Use a single region "
                "as it is."
            )
        counts = [part.n_coordinates for part in self._parts]
        if len(set(counts)) > 1:
            raise InvalidConstraint(
                f"Union: its parts have {', '.join(map(str, counts))} coordinates. All must have "
                "the same number."
            )
        self._shares = _shares(self._parts).cumsum()

    def __repr__(self) -> str:
        return f"Union({self._parts})"

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Around all of them."""
        bounds = [part.bounds for part in self._parts]
        low = np.minimum.reduce([ends[0] for ends in bounds])
        high = np.maximum.reduce([ends[1] for ends in bounds])
        return low, high

    @property
    def volume(self) -> float:
        """The sum over the parts: overlaps count as often as they occur."""
        return sum(part.volume for part in self._parts)

    def contains(self, states: Array) -> Mask:
        """In any of them."""
        result: Mask = np.logical_or.reduce([part.contains(states) for part in self._parts])
        return result

    def project(self, states: Array) -> Array:
        """The nearest of the projections onto them."""
        found = np.stack([part.project(states) for part in self._parts])
        nearest = np.linalg.norm(found - states, axis=2).argmin(axis=0)
        result: Array = found[nearest, np.arange(len(states))]
        return result

    def grid(self, count: int) -> Array:
        """Their grids, without duplicates."""
        return _distinct([part.grid(count) for part in self._parts])

    @property
    def corners(self) -> Array:
        """Theirs, without duplicates."""
        return _distinct([part.corners for part in self._parts])

    @property
    def parts(self) -> Sequence[Region]:
        """The regions."""
        return list(self._parts)

    def covers(self) -> Sequence[Cover]:
        """Theirs."""
        return [cover for part in self._parts for cover in part.covers()]

    def section(self, across: int, up: int, at: Array) -> list[Array]:
        """Theirs, which may overlap."""
        return [outline for part in self._parts for outline in part.section(across, up, at)]

    def description(self) -> Mapping[str, Any]:
        """The regions."""
        return {"parts": [part.describe() for part in self._parts]}

    @classmethod
    @override
    def from_description(cls, described: Mapping[str, Any]) -> Union:
        return cls([region_from(part) for part in described["parts"]])

    @property
    def n_cube(self) -> int:
        """One to choose a part, and as many as the part that needs most."""
        return 1 + max(part.n_cube for part in self._parts)

    def from_cube(self, numbers: Array) -> Array:
        """Uniform where parts do not overlap; an overlap counts as often as it occurs.

        By volume if all parts vary in the same coordinates; otherwise volumes do not compare, and
        every part has the same share.
        """
        return self._drawn(numbers)[0]

    def _drawn(self, numbers: Array) -> tuple[Array, Indices]:
        """States, and the parts they were drawn from."""
        chosen = np.searchsorted(self._shares, numbers[:, 0], side="right")
        chosen = np.minimum(chosen, len(self._parts) - 1).astype(np.intp)
        states = np.zeros((len(numbers), self.n_coordinates))
        for i, part in enumerate(self._parts):
            rows = np.flatnonzero(chosen == i)
            if len(rows):
                states[rows] = part.from_cube(numbers[rows, 1 : 1 + part.n_cube])
        return states, chosen

    def sample(self, count: int, rng: np.random.Generator) -> Array:
        """Uniformly random states (count, n_coordinates), overlaps included."""
        kept: list[Array] = []
        missing = count
        # A state counts for the first part that contains it. The first part loses none, and those
        # drawn by volume lose at most all but the largest one's: this comes to an end.
        while missing > 0:
            states, chosen = self._drawn(rng.random((missing, self.n_cube)))
            first = np.argmax([part.contains(states) for part in self._parts], axis=0)
            new = states[chosen <= first]
            kept.append(new)
            missing -= len(new)
        return np.concatenate(kept) if kept else np.zeros((0, self.n_coordinates))


def _flattened(parts: Sequence[Region]) -> list[Region]:
    if not isinstance(parts, Sequence):
        raise InvalidConstraint(f"Union needs a list of regions, but got {parts!r}.")
    flat: list[Region] = []
    for i, part in enumerate(parts):
        if isinstance(part, Points):
            raise InvalidConstraint(
                f"Union: part {i} is Points, but a union is of regions. Constrain single states by "
                "a constraint of their own."
            )
        if not isinstance(part, Region):
            raise InvalidConstraint(f"Union: part {i} is no region: {part!r}.")
        flat.extend(part.parts)
    return flat


def _shares(parts: Sequence[Region]) -> Array:
    """How much of the samples each part gets."""
    volumes = np.array([part.volume for part in parts])
    varying = [np.less(*part.bounds) for part in parts]
    alike = all((which == varying[0]).all() for which in varying)
    if not alike or not (volumes > 0.0).all() or not np.isfinite(volumes.sum()):
        return np.full(len(parts), 1.0 / len(parts))
    shares: Array = volumes / volumes.sum()
    return shares


def _distinct(blocks: Sequence[Array]) -> Array:
    """The rows of all blocks in order, each once."""
    rows = np.concatenate(blocks)
    _, first = np.unique(rows, axis=0, return_index=True)
    return rows[np.sort(first)]
