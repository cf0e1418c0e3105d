"""What a branch-and-bound proof asks of a bound on the margin."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from handrail._types import Array
from handrail.regions import Cells


@final
@dataclass(frozen=True)
class Bounds:
    """Of n cells.

    Attributes:
        lowest: (n,) the margin is nowhere in the cell below this; NaN if nothing can be said.
        suspects: (n, n_coordinates) a state of each cell where the bound is at its lowest.
    """

    lowest: Array
    suspects: Array


class Bounder(ABC):
    """Lower bounds of a margin over cells.

    Attributes:
        importance: (n_coordinates,) which coordinates to cut first.
        levels: how often cells are halved before each of them is worth a `narrowed` one.
    """

    importance: Array
    levels: int

    @abstractmethod
    def narrowed(self, cell: Cells) -> Bounder:
        """The same for the inside of a single cell, where more is known."""

    @abstractmethod
    def bounds(self, cells: Cells) -> Bounds:
        """Of every cell."""

    @abstractmethod
    def dips(self, cells: Cells) -> Array:
        """A state per cell where a narrow dip of the margin would be, if there is one.

        It may lie a little outside of the cell. Only worth asking for cells that are not proven.
        """

    @abstractmethod
    def margins(self, states: Array) -> Array:
        """The margin itself (n,) at states (n, n_coordinates)."""


def bounds_by_block(cells: Cells, size: int, bound: Callable[[Cells], Bounds]) -> Bounds:
    """The bounds of all cells, at most `size` of them at a time."""
    blocks = [np.arange(i, min(i + size, len(cells))) for i in range(0, len(cells), size)]
    parts = [bound(cells.take(block)) for block in blocks]
    return Bounds(
        np.concatenate([part.lowest for part in parts]),
        np.concatenate([part.suspects for part in parts]),
    )
