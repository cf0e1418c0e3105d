"""What every shape of a region can do, and how a shape is found again by its name.

A shape declares its name with its class, `class Box(Region, shape="box")`; so `region_from` knows
every shape that there is, and a new one is one module.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from scipy.stats import qmc

from handrail._types import Array, Mask
from handrail.errors import InvalidConstraint
from handrail.regions.cells import Cover

# Corners enter a covering sample only if they leave it at least this many other states per corner.
_STATES_PER_CORNER = 2

_MAX_DOUBLINGS = 8

_SHAPES: dict[str, type[Region]] = {}


class Region(ABC):
    """Infinitely many states: a bounded part of the space of flat observations (n_coordinates,).

    A coordinate that a shape holds at a single value is fixed; the others vary.
    """

    shape: ClassVar[str]
    """What descriptions call it."""

    def __init_subclass__(cls, shape: str) -> None:
        super().__init_subclass__()
        cls.shape = shape
        _SHAPES[shape] = cls

    @property
    @abstractmethod
    def bounds(self) -> tuple[Array, Array]:
        """The smallest box around it: lowest and highest value of each coordinate."""

    @property
    @abstractmethod
    def volume(self) -> float:
        """Its size in the varying coordinates alone; 0 for a shape of fewer dimensions."""

    @abstractmethod
    def contains(self, states: Array) -> Mask:
        """Which of the states (n, n_coordinates) lie in it, its boundary included."""

    @abstractmethod
    def project(self, states: Array) -> Array:
        """The nearest state of the region to each of the states (n, n_coordinates)."""

    @abstractmethod
    def grid(self, count: int) -> Array:
        """A regular grid with `count` values along each varying coordinate, as far as inside."""

    @property
    @abstractmethod
    def corners(self) -> Array:
        """Extreme states (n, n_coordinates); none for a shape that is round."""

    @property
    @abstractmethod
    def parts(self) -> Sequence[Region]:
        """The sub-regions of a union; of anything else, itself."""

    @abstractmethod
    def covers(self) -> Sequence[Cover]:
        """Convex cells that together contain every state of it, to start a proof from."""

    @abstractmethod
    def section(self, across: int, up: int, at: Array) -> list[Array]:
        """What a plane cuts out of it: outlines (m, 2); a closed one repeats its first point.

        Args:
            across: the coordinate of the first column.
            up: the coordinate of the second column.
            at: (n_coordinates,) where the plane lies; the entries of the two are ignored.
        """

    @abstractmethod
    def description(self) -> Mapping[str, Any]:
        """Plain values that `from_description` makes the same region of."""

    @classmethod
    @abstractmethod
    def from_description(cls, described: Mapping[str, Any]) -> Self:
        """The region that has this description; `KeyError` if a part of it is missing."""

    def describe(self) -> Mapping[str, Any]:
        """Plain values that `region_from` makes the same region of."""
        return {"shape": self.shape, **self.description()}

    @property
    @abstractmethod
    def n_cube(self) -> int:
        """How many numbers `from_cube` takes per state."""

    @abstractmethod
    def from_cube(self, numbers: Array) -> Array:
        """Map numbers (n, n_cube) in [0, 1) to states, uniform ones to uniform ones."""

    @property
    def n_coordinates(self) -> int:
        """Length of a state."""
        return len(self.bounds[0])

    def sample(self, count: int, rng: np.random.Generator) -> Array:
        """Uniformly random states (count, n_coordinates)."""
        return self.from_cube(rng.random((count, self.n_cube)))

    def spread(self, count: int, seed: int = 0) -> Array:
        """Low-discrepancy states (count, n_coordinates): random, but evenly spread (Sobol)."""
        numbers = qmc.Sobol(self.n_cube, scramble=True, rng=seed)
        # Sobol's sequence is balanced at powers of 2; a part of one is as good as it gets.
        return self.from_cube(numbers.random_base2(max(count - 1, 0).bit_length())[:count])

    def cover(self, count: int) -> Array:
        """`count` distinct states that stand for the region, always the same.

        Its corners, where they are not too many, and low-discrepancy states.
        """
        known: dict[int, Array] = self.__dict__.setdefault("_covers_known", {})
        if count not in known:  # drawing them takes longer than most of what they are used for
            known[count] = self._cover(count)
            known[count].setflags(write=False)
        return known[count]

    def _cover(self, count: int) -> Array:
        corners = self.corners
        if len(corners) * _STATES_PER_CORNER > count:
            corners = corners[:0]
        # More than `count` are drawn only where some are equal: on a curve that stands still.
        for drawn in (count << doublings for doublings in range(_MAX_DOUBLINGS)):
            states = np.concatenate([corners, self.spread(drawn)])
            _, first = np.unique(states, axis=0, return_index=True)
            if len(first) >= count:
                return states[np.sort(first)[:count]]
        raise InvalidConstraint(
            f"{self!r} has too few distinct states: {len(first)}, not {count}. Make it larger."
        )


def region_from(described: Mapping[str, Any]) -> Region:
    """The region that `describe` gave these values for, to the last bit.

    Raises:
        InvalidConstraint: if it is no such description.
    """
    if not isinstance(described, Mapping):
        raise InvalidConstraint(f"A region is described by a mapping, but got {described!r}.")
    shape = described.get("shape")
    kind = _SHAPES.get(shape) if isinstance(shape, str) else None
    if kind is None:
        raise InvalidConstraint(f"Unknown shape {shape!r}: the shapes are {', '.join(_SHAPES)}.")
    try:
        return kind.from_description(described)
    except KeyError as error:
        raise InvalidConstraint(
            f"The description of a {shape} lacks {error}. It has {', '.join(described)}."
        ) from error
