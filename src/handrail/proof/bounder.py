"""What a branch-and-bound proof asks of a bound on the margin."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import ClassVar, final

import numpy as np

from handrail._types import Array, Indices
from handrail.regions import Cells


class OutOfTime(Exception):
    """The deadline has passed while cells were bounded."""


@final
class Deadline:
    """When to stop; asked between pieces of work that take a small part of a second.

    Args:
        seconds: from now on.
    """

    def __init__(self, seconds: float) -> None:
        self._start, self._seconds = perf_counter(), seconds

    @property
    def elapsed(self) -> float:
        """Seconds until now."""
        return perf_counter() - self._start

    @property
    def passed(self) -> bool:
        """Whether the time is over."""
        return self.elapsed >= self._seconds

    def check(self) -> None:
        """`OutOfTime` if the time is over."""
        if self.passed:
            raise OutOfTime


NO_DEADLINE = Deadline(np.inf)


@final
@dataclass(frozen=True)
class Bounds:
    """Of n cells.

    Attributes:
        lowest: (n,) the margin is nowhere in the cell below this; NaN if nothing can be said.
        suspects: (n, n_coordinates) a state of each cell where the bound is at its lowest.
        alternative: (n,) which one of several it is the bound of; None if there is no choice.
    """

    lowest: Array
    suspects: Array
    alternative: Indices | None = None


class Bounder(ABC):
    """Lower bounds of a margin over cells.

    Attributes:
        importance: (n_coordinates,) which coordinates to cut first.
        levels: how often cells are halved before each of them is worth a `narrowed` one.
        narrows: whether a narrowed one is anything but itself.
    """

    importance: Array
    levels: int
    narrows: ClassVar[bool] = True

    @abstractmethod
    def narrowed(self, cell: Cells) -> Bounder:
        """The same for the inside of a single cell, where more is known."""

    @abstractmethod
    def bounds(self, cells: Cells, deadline: Deadline = NO_DEADLINE) -> Bounds:
        """Of every cell; `OutOfTime` if that takes too long."""

    @abstractmethod
    def dips(self, cells: Cells) -> Array:
        """A state per cell where a narrow dip of the margin would be, if there is one.

        It may lie a little outside of the cell. Only worth asking for cells that are not proven.
        """

    @abstractmethod
    def margins(self, states: Array) -> Array:
        """The margin itself (n,) at states (n, n_coordinates)."""


def bounds_by_block(
    cells: Cells, size: int, bound: Callable[[Cells], Bounds], deadline: Deadline
) -> Bounds:
    """The bounds of all cells, at most `size` of them between two looks at the clock."""
    parts = []
    for first in range(0, len(cells), size):
        if first:
            deadline.check()
        parts.append(bound(cells.take(np.arange(first, min(first + size, len(cells))))))
    return Bounds(
        np.concatenate([part.lowest for part in parts]),
        np.concatenate([part.suspects for part in parts]),
    )
