"""The vertex bound: one hidden ReLU layer, cells with few vertices.

A difference of outputs d(s) = Σ_i q_i relu(h_i(s)) + k is convex (q_i > 0) plus concave (q_i < 0).
relu(h) ≥ α h for every α in [0, 1], so the concave part is at most affine, and what remains is
convex: its maximum over a cell is at a vertex, and so is that of a log-sum-exp of several. Units
whose sign is the same all over a cell are affine there and are folded away as cells become smaller.

The compiled pass is imported where it is used: numba is optional, and slow to import.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from typing import final

import numpy as np

from handrail._types import Array, Indices, Mask
from handrail.policies import LayerArrays, ReluLayer
from handrail.proof.bounder import NO_DEADLINE, Bounder, Bounds, Deadline, bounds_by_block
from handrail.proof.margin import UniformMargin, log_sum_exp
from handrail.regions import Cells

_LEVELS = 12

# Hidden values between two looks at the clock: some hundredths of a second.
_BLOCK = 2**25

# Of the second tangent, at the vertex where the first is worst.
_MIXTURES = np.array([0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0])[:, None, None]


# So often cells are halved, and so many are open at most: what takes more has a proof of its own,
# which narrows its bounds to single cells.
_HALVINGS, _MOST_OPEN = 20, 1024


@final
@dataclass(frozen=True)
class CellCorners:
    """Where n cells are looked at.

    Attributes:
        vertices: (n, V, n_coordinates).
        centres: (n, n_coordinates).
    """

    vertices: Array
    centres: Array

    @classmethod
    def of(cls, cells: Cells) -> CellCorners:
        """Of all of them."""
        return cls(cells.vertices(), cells.centres)

    @cached_property
    def order(self) -> Indices:
        """(n,) of the cells, neighbours together; far is what many cells are in between."""
        from handrail.proof import _cell_bounds as compiled

        sizes = np.ptp(self.vertices, axis=1).mean(axis=0)
        return compiled.order_of_neighbours(self.centres / np.where(sizes > 0.0, sizes, 1.0))

    def of_some(self, chosen: Mask) -> Array:
        """The states (m, n_coordinates) of the chosen cells."""
        vertices, centres = self.vertices[chosen], self.centres[chosen]
        return np.concatenate([centres, vertices.reshape(-1, centres.shape[1])])


@final
@dataclass(frozen=True)
class VertexBound(Bounder):
    """A network with one hidden ReLU layer, on the inside of a cell.

    Attributes:
        margin: what is bounded.
        inward: (m, n_coordinates) weights of the units that are not affine in the cell.
        inward_bias: (m,).
        outward: (n_actions, m).
        slope: (n_actions, n_coordinates) of everything that is affine in the cell.
        intercept: (n_actions,).
        differences: (n_negative, n_actions) and
        constants: (n_negative,) of `UniformMargin.differences`, at the centre of the cell.
    """

    margin: UniformMargin
    inward: Array
    inward_bias: Array
    outward: Array
    slope: Array
    intercept: Array
    differences: Array
    constants: Array
    importance: Array = field(init=False)
    levels: int = field(init=False, default=_LEVELS)

    def __post_init__(self) -> None:
        sizes = np.abs(self.differences @ self.outward).max(axis=0)
        importance = sizes @ np.abs(self.inward) + self.margin.importance() + 1e-300
        object.__setattr__(self, "importance", importance)

    @classmethod
    def of(cls, layers: LayerArrays, margin: UniformMargin) -> VertexBound:
        """The bound before anything is known about a cell."""
        (inward, outward), (inward_bias, outward_bias) = layers.weights, layers.biases
        gain = layers.gain_at(1)
        slope = np.zeros((len(outward), inward.shape[1])) if gain is None else gain
        differences, constants = margin.differences(outward_bias)
        return cls(
            margin, inward, inward_bias, outward, slope, outward_bias, differences, constants
        )

    def narrowed(self, cell: Cells) -> VertexBound:
        """Fold the units whose sign does not change in the cell; tangents at its centre."""
        centre, radii = cell.centres[0], 0.5 * (cell.high - cell.low)[0]
        hidden = self.inward @ (0.5 * (cell.low + cell.high)[0]) + self.inward_bias
        reach = np.abs(self.inward) @ radii
        always, undecided = hidden >= reach, np.abs(hidden) < reach
        slope = self.slope + self.outward[:, always] @ self.inward[always]
        intercept = self.intercept + self.outward[:, always] @ self.inward_bias[always]
        inward, inward_bias = self.inward[undecided], self.inward_bias[undecided]
        outward = np.ascontiguousarray(self.outward[:, undecided])
        raw = outward @ np.maximum(inward @ centre + inward_bias, 0.0)
        raw += slope @ centre + intercept
        differences, constants = self.margin.differences(raw)
        return VertexBound(
            self.margin, inward, inward_bias, outward, slope, intercept, differences, constants
        )

    def bounds(self, cells: Cells, deadline: Deadline = NO_DEADLINE) -> Bounds:
        """Block by block, so that the clock is looked at now and then."""
        size = max(1, _BLOCK // max(1, len(self.inward_bias) * cells.n_vertices))
        return bounds_by_block(cells, size, self._bounds, deadline)

    def _bounds(self, cells: Cells) -> Bounds:
        vertices = cells.vertices()
        at_vertices = log_sum_exp(self._highest_differences(cells, vertices))
        plane = self.margin.plane_above(cells)
        if plane is not None:
            slope, offset = plane
            at_vertices = at_vertices + (vertices @ slope[:, :, None])[:, :, 0] + offset[:, None]
        worst = at_vertices.argmax(axis=1)
        rows = np.arange(len(worst))
        return Bounds(-at_vertices[rows, worst], vertices[rows, worst])

    @property
    def is_single(self) -> bool:
        """Whether `single_bounds` knows it: one difference, where numba is there."""
        compiled = find_spec("numba") is not None
        return compiled and len(self.differences) == 1 and bool(self.inward.size)

    def single_bounds(self, corners: CellCorners) -> Array:
        """What a single difference leaves of the margin, at least, and at a state of it: (n, 2).

        As `bounds`, narrowed to a few cells at a time; of margins without a `plane_above`.
        """
        from handrail.proof import _cell_bounds as compiled

        difference = self.differences[0]
        return -compiled.highest_on_cells(
            *self._single,
            difference @ self.slope,
            float(difference @ self.intercept + self.constants[0]),
            corners.vertices,
            corners.centres,
            corners.order,
            _MIXTURES.ravel(),
        )

    @cached_property
    def _single(self) -> tuple[Array, Array, Array]:
        """Weights (n_coordinates, m) and biases of the units, and what they are multiplied with.

        Those that make it convex are in front; a unit that is multiplied with 0 is none.
        """
        factors = self.differences[0] @ self.outward
        order = np.concatenate([np.flatnonzero(factors > 0.0), np.flatnonzero(factors < 0.0)])
        return self.inward.T.take(order, axis=1), self.inward_bias[order], factors[order]

    def _highest_differences(self, cells: Cells, vertices: Array) -> Array:
        """Above every difference of outputs, at the vertices of each cell: (n, V, n_negative)."""
        centres = cells.centres
        each = [
            self._highest_difference(vertices, centres, difference, constant)
            for difference, constant in zip(self.differences, self.constants, strict=True)
        ]
        return np.stack(each, axis=-1)

    def _highest_difference(
        self, vertices: Array, centres: Array, difference: Array, constant: float
    ) -> Array:
        """A convex function above a difference of outputs on each cell, at its vertices (n, V)."""
        n, n_vertices, n_coordinates = vertices.shape
        q = difference @ self.outward
        above, below = q > 0.0, q < 0.0
        convex = ReluLayer(self.inward[above], self.inward_bias[above])
        concave = ReluLayer(self.inward[below], self.inward_bias[below])
        every = vertices.reshape(-1, n_coordinates)
        fixed = convex.sums(q[above], every).reshape(n, n_vertices)
        fixed += vertices @ (difference @ self.slope) + (difference @ self.intercept + constant)

        def with_tangent_at(points: Array) -> Array:
            """The concave part replaced by its tangent: α is 1 for the units active there."""
            slope, offset = concave.tangents(q[below], points)
            return fixed + (vertices @ slope[:, :, None])[:, :, 0] + offset[:, None]

        rows = np.arange(n)
        first = with_tangent_at(centres)
        second = with_tangent_at(vertices[rows, first.argmax(axis=1)])
        # Every mixture of two tangents is above the concave part, too: the best of a few.
        mixtures = (1.0 - _MIXTURES) * first + _MIXTURES * second
        best = mixtures.max(axis=2).argmin(axis=0)
        result: Array = mixtures[best, rows]
        return result

    def dips(self, cells: Cells) -> Array:
        """The centre, moved onto the kink of the concave unit that bends the margin most.

        A dip too narrow to be met by vertices and centres has its bottom on such a kink.
        """
        centres, radii = cells.centres, 0.5 * (cells.high - cells.low)
        bend = np.maximum(-(self.differences @ self.outward), 0.0).sum(axis=0)
        hidden = centres @ self.inward.T + self.inward_bias
        depth = bend * (radii @ np.abs(self.inward).T - np.abs(hidden))
        if not depth.shape[1]:
            return centres
        unit, rows = depth.argmax(axis=1), np.arange(len(cells))
        scaled = self.inward[unit] * radii
        square = np.maximum((scaled * scaled).sum(axis=1), np.finfo(np.float64).tiny)
        moved: Array = centres - (hidden[rows, unit] / square)[:, None] * scaled * radii
        return moved

    def margins(self, states: Array) -> Array:
        """The margin itself, at states of the cell."""
        hidden = np.maximum(states @ self.inward.T + self.inward_bias, 0.0)
        logits = hidden @ self.outward.T + states @ self.slope.T + self.intercept
        return self.margin.of_raw(logits, states)


@final
@dataclass(frozen=True)
class BoundedCells:
    """Cells that are proven, after some were halved.

    Attributes:
        cells: all of them.
        lowest: (n,) what the margin at least is.
        owners: (n,) the constraint that each is of.
        open_: the constraints of which some cells are not proven.
        counts: of every constraint, how many bounds were computed.
        suspects: of some that are open, states that seem to be violated, and those around them.
    """

    cells: Cells
    lowest: Array
    owners: Indices
    open_: frozenset[int]
    counts: Mapping[int, int]
    suspects: Mapping[int, Array]

    @classmethod
    def of(
        cls,
        bounder: VertexBound,
        cells: Cells,
        corners: CellCorners,
        owners: Indices,
        rounding: float,
        most: int,
    ) -> BoundedCells:
        """Of the cells of some constraints: each has so many bounds at most.

        Args:
            bounder: of their margin.
            cells: of all of them, one behind the other.
            corners: of these cells.
            owners: (n,) the constraint that each cell is of.
            rounding: a bound must exceed this to count.
            most: bounds that may be computed for each.
        """
        done: list[tuple[Cells, Array, Indices]] = []
        given_up: set[int] = set()
        suspects: dict[int, Array] = {}
        counts = Counter(owners.tolist())
        for _ in range(_HALVINGS + 1):
            lowest, somewhere = bounder.single_bounds(corners).T
            proven = np.isfinite(lowest) & (lowest >= rounding)
            if proven.all():
                done.append((cells, lowest, owners))
                owners = owners[:0]
                break
            done.append((cells.take(proven), lowest[proven], owners[proven]))
            met = ~proven & ~(somewhere >= rounding)
            suspects |= {one: corners.of_some(met & (owners == one)) for one in set(owners[met])}
            given_up |= suspects.keys()
            cells, owners = cells.take(~proven), owners[~proven]
            # Each of them is two cells next time.
            again = Counter(2 * owners.tolist())
            given_up |= {one for one, count in again.items() if counts[one] + count > most}
            left = ~np.isin(owners, list(given_up))
            if not left.any() or left.sum() > _MOST_OPEN:
                break
            cells = cells.take(left).halves(bounder.importance)
            owners, corners = np.repeat(owners[left], 2), CellCorners.of(cells)
            counts += Counter(owners.tolist())
        given_up |= set(owners.tolist())
        return cls(
            together([cells for cells, _, _ in done]),
            np.concatenate([lowest for _, lowest, _ in done]),
            np.concatenate([owners for _, _, owners in done]),
            frozenset(given_up),
            counts,
            suspects,
        )


def together(blocks: Sequence[Cells]) -> Cells:
    """Cells of one shape, one block behind the other."""
    return Cells(
        np.concatenate([block.low for block in blocks]),
        np.concatenate([block.high for block in blocks]),
        np.concatenate([block.simplex for block in blocks]),
        blocks[0].simplex_coordinates,
    )
