"""Convex cells that cover a region, and their halves: what a proof divides and conquers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import final

import numpy as np

from handrail._types import Array, Indices, Mask
from handrail.regions.hull import simplex_volumes


@final
@dataclass(frozen=True)
class Cells:
    """n convex cells, each a simplex in some coordinates times a box in the others.

    Attributes:
        low: (n, n_coordinates) lowest value of each coordinate.
        high: (n, n_coordinates) highest value of each coordinate.
        simplex: (n, k + 1, k) corners of the simplices; k = 0 for plain boxes.
        simplex_coordinates: (k,) which coordinates they are in.
    """

    low: Array
    high: Array
    simplex: Array
    simplex_coordinates: Indices

    @classmethod
    def boxes(cls, low: Array, high: Array) -> Cells:
        """Plain boxes (n, n_coordinates)."""
        return cls(low, high, np.zeros((len(low), 1, 0)), np.zeros(0, dtype=np.intp))

    def __len__(self) -> int:
        return len(self.low)

    @cached_property
    def box_coordinates(self) -> Indices:
        """Coordinates outside the simplices that vary in some cell."""
        varies: Mask = np.logical_or.reduce(self.high > self.low, axis=0)
        varies[self.simplex_coordinates] = False
        return np.flatnonzero(varies)

    @property
    def n_vertices(self) -> int:
        """Of each cell."""
        return int(self.simplex.shape[1] << len(self.box_coordinates))

    @property
    def centres(self) -> Array:
        """(n, n_coordinates)."""
        centres = 0.5 * (self.low + self.high)
        centres[:, self.simplex_coordinates] = self.simplex.mean(axis=1)
        return centres

    @property
    def volumes(self) -> Array:
        """(n,), each in the coordinates that vary in some of them."""
        boxes = np.prod((self.high - self.low)[:, self.box_coordinates], axis=1)
        result: Array = boxes * simplex_volumes(self.simplex)
        return result

    def vertices(self) -> Array:
        """(n, n_vertices, n_coordinates)."""
        corners, box = self.simplex.shape[1], self.box_coordinates
        ends = np.array(list(product((False, True), repeat=len(box))))
        result = np.repeat(self.low[:, None], self.n_vertices, axis=1)
        if len(box):
            choice = np.tile(ends, (corners, 1))
            result[:, :, box] = np.where(choice, self.high[:, None, box], self.low[:, None, box])
        if len(self.simplex_coordinates):
            which = np.repeat(np.arange(corners), len(ends))
            result[:, :, self.simplex_coordinates] = self.simplex[:, which]
        return result

    def highest(self, slopes: Array) -> Array:
        """The largest values (n, m) of linear functions, slopes (n, m, n_coordinates), on each."""
        boxed = slopes.copy()
        boxed[:, :, self.simplex_coordinates] = 0.0
        ends = np.where(boxed > 0.0, self.high[:, None], self.low[:, None])
        result: Array = (boxed * ends).sum(axis=2)
        if len(self.simplex_coordinates):
            inside = slopes[:, :, self.simplex_coordinates]
            result += (inside @ self.simplex.transpose(0, 2, 1)).max(axis=2)
        return result

    def take(self, indices: Indices | Mask) -> Cells:
        """The chosen cells."""
        return Cells(
            self.low[indices],
            self.high[indices],
            self.simplex[indices],
            self.simplex_coordinates,
        )

    def halves(self, importance: Array) -> Cells:
        """Every cell in two (2n cells), cut across its longest edge.

        Args:
            importance: (n_coordinates,) factors on lengths: how much a coordinate matters.
        """
        box, edge, first, second = self._longest(importance)
        low, high = np.repeat(self.low, 2, axis=0), np.repeat(self.high, 2, axis=0)
        simplex = np.repeat(self.simplex, 2, axis=0)
        middle = 0.5 * (self.low + self.high)
        boxed = np.flatnonzero(edge < 0)
        high[2 * boxed, box[boxed]] = middle[boxed, box[boxed]]
        low[2 * boxed + 1, box[boxed]] = middle[boxed, box[boxed]]
        cut = np.flatnonzero(edge >= 0)
        if len(cut):
            a, b = first[cut], second[cut]
            midpoint = 0.5 * (self.simplex[cut, a] + self.simplex[cut, b])
            simplex[2 * cut, a] = midpoint
            simplex[2 * cut + 1, b] = midpoint
            for rows in (2 * cut, 2 * cut + 1):
                columns = self.simplex_coordinates
                low[np.ix_(rows, columns)] = simplex[rows].min(axis=1)
                high[np.ix_(rows, columns)] = simplex[rows].max(axis=1)
        return Cells(low, high, simplex, self.simplex_coordinates)

    def _longest(self, importance: Array) -> tuple[Indices, Indices, Indices, Indices]:
        """For each cell the box coordinate and the simplex edge to cut; edge -1: cut the box."""
        lengths = (self.high - self.low) * importance
        lengths[:, self.simplex_coordinates] = -1.0
        box = lengths.argmax(axis=1)
        longest = lengths[np.arange(len(self)), box]
        pairs = np.triu_indices(self.simplex.shape[1], 1)
        if not len(pairs[0]):
            none = np.full(len(self), -1)
            return box, none, none, none
        difference = self.simplex[:, pairs[0]] - self.simplex[:, pairs[1]]
        scaled = difference * importance[self.simplex_coordinates]
        edges = np.linalg.norm(scaled, axis=2)
        edge = edges.argmax(axis=1)
        first, second = pairs[0][edge], pairs[1][edge]
        return box, np.where(edges.max(axis=1) > longest, edge, -1), first, second


class Cover(ABC):
    """Cells that together contain a region, and know how to become smaller ones.

    Attributes:
        cells: the cells.
    """

    cells: Cells

    @abstractmethod
    def take(self, indices: Indices) -> Cover:
        """Only the chosen cells."""

    @abstractmethod
    def halves(self, importance: Array) -> Cover:
        """Every cell in two, without those that have left the region.

        Args:
            importance: (n_coordinates,) factors on lengths: how much a coordinate matters.
        """

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def volumes(self) -> Array:
        """Of each cell (n,): what share of the region it stands for."""
        return self.cells.volumes


@final
@dataclass(frozen=True)
class ExactCover(Cover):
    """Cells whose union is the region itself."""

    cells: Cells

    def take(self, indices: Indices) -> ExactCover:
        """Only the chosen cells."""
        return ExactCover(self.cells.take(indices))

    def halves(self, importance: Array) -> ExactCover:
        """Every cell in two."""
        return ExactCover(self.cells.halves(importance))
