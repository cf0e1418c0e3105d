"""Bounds of a network's slopes over cells: linear relaxation, one derivative further.

The derivative of the outputs along an observation is a network of its own, whose layers are
t_k = σ'(h_k) ⊙ u_k with u_k = W_k t_{k-1}, besides those of the values h_k. On a cell σ' lies
between two lines over h_k (`slope_lines`); and a product is, with middles m and radii r,

    d · u = m_d · u + m_u · d - m_d · m_u + (d - m_d)(u - m_u),   |the last| ≤ r_d · r_u.

Substituting layer by layer, from the outputs back, leaves an affine function of the state above the
slope. Of one hidden layer u is a number, and nothing is lost but by the lines.

Everything is about the network with real numbers: slopes of what is computed with finitely many
digits mean nothing. What the computation of the bounds itself loses is in `rounding`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple, final

import numpy as np

from handrail._types import Array
from handrail.policies import IDENTITY, LayerArrays
from handrail.proof.bounder import NO_DEADLINE, Bounder, Bounds, Deadline, bounds_by_block
from handrail.proof.relaxation import EnclosedUnits, Lines, enclose_units
from handrail.proof.rounding import FLOAT64, Rounding
from handrail.proof.slope_lines import slope_band, steepest_line
from handrail.regions import Cells

_LEVELS = 10**6  # there is nothing to narrow

# Numbers in the largest array of one block: 64 MiB.
_BLOCK = 2**23

# Of each layer, besides the terms of its sums: lines, middles, radii and their products.
_OPERATIONS = 32.0

# Halves of a simplex miss a sliver of it (`rounding`).
_SLIVERS = 128.0


@final
@dataclass(frozen=True)
class SlopeMargin:
    """sign · (∂(row · raw outputs)/∂s_along - threshold) ≥ 0, of the worst of some rows.

    Attributes:
        rows: (m, n_actions) weights of raw outputs.
        along: the coordinate.
        threshold: what slopes are compared with.
        sign: +1 for a lower bound, -1 for an upper one.
    """

    rows: Array
    along: int
    threshold: float
    sign: float

    @property
    def opposite(self) -> SlopeMargin:
        """Minus this margin, of a single row."""
        return replace(self, sign=-self.sign)

    def of_slopes(self, slopes: Array) -> Array:
        """Margins (n,) from slopes (n, n_actions) of the raw outputs."""
        result: Array = (self.sign * (slopes @ self.rows.T - self.threshold)).min(axis=1)
        return result


class SlopeErrors(NamedTuple):
    """How far numbers may be from what they should be, all over a box.

    Attributes:
        units: of what the units of each layer are given.
        tangents: of the bounds of u_k, per layer.
        largest: |u_k| is nowhere above these (width,), per layer.
        margin: of a bound of the margin.
    """

    units: tuple[float, ...]
    tangents: tuple[float, ...]
    largest: tuple[Array, ...]
    margin: float


def slope_errors(
    layers: LayerArrays, margin: SlopeMargin, low: Array, high: Array, *, simplices: bool
) -> SlopeErrors:
    """Of bounds over cells within a box; infinite if a sum might overflow.

    Whatever is added up on the way from a row to its affine function is a product of a chain of
    numbers, and of every chain the sizes are known: those of the lines, of the middles and of the
    weights. A sum of chains of N roundings each is off by at most N units of the sum of their sizes
    (Higham, γ_N), here twice that.
    """
    size = observed = np.maximum(np.abs(low), np.abs(high))
    tangent = np.zeros_like(size)
    tangent[margin.along] = 1.0
    chains = tangent  # the sizes of all that is added up, of a row that is a unit
    roundings = sum(2.0 * weight.shape[1] + _OPERATIONS for weight in layers.weights)
    share = 2.0 * FLOAT64.unit * (roundings + (_SLIVERS if simplices else 0.0))
    units, tangents, largest = [], [], []
    with np.errstate(all="ignore"):
        for depth, (weight, added, activation) in enumerate(
            zip(layers.weights, layers.bias_sizes, layers.activations, strict=True)
        ):
            first = _first_layers(layers, depth)
            units.append(Rounding(first, FLOAT64).of_bounds(low, high, 0.0, simplices=simplices))
            absolute = np.abs(weight)
            given = absolute @ size + added
            tangent, chains = absolute @ tangent, absolute @ chains
            gain = layers.gain_at(depth)
            if gain is not None:
                beside = np.abs(gain)
                given = given + beside @ observed
                tangent, chains = (one + beside[:, margin.along] for one in (tangent, chains))
            tangent = tangent * (1.0 + share)
            tangents.append(float(share * chains.max()))
            largest.append(tangent)
            if activation is not IDENTITY:
                steep, lipschitz = steepest_line(activation), activation.lipschitz
                # What lines are a function of is known up to `units` only.
                lines = steep * (3.0 * given + units[-1] / share)
                chains = 4.0 * lipschitz * chains + tangent * (2.0 + lines)
                tangent = lipschitz * tangent
                size = lipschitz * given + activation.at_zero
        of_rows = np.abs(margin.rows) @ chains + abs(margin.threshold)
        total = float(share * of_rows.max())
    finite = np.isfinite([*units, total]).all() and total < FLOAT64.largest
    return SlopeErrors(tuple(units), tuple(tangents), tuple(largest), total if finite else np.inf)


def _first_layers(layers: LayerArrays, depth: int) -> LayerArrays:
    """Up to what the units of a layer are given."""
    end = depth + 1
    return replace(
        layers,
        weights=layers.weights[:end],
        biases=layers.biases[:end],
        activations=(*layers.activations[:depth], IDENTITY),
        gains=None if layers.gains is None else layers.gains[:end],
        summed=None if layers.summed is None else layers.summed[:end],
    )


class _Products(NamedTuple):
    """σ'(h) ⊙ u of a layer on n cells, all (n, width): middles, radii, and lines of σ'."""

    slope: Array
    slope_radius: Array
    tangent: Array
    tangent_radius: Array
    lines: Lines


@final
@dataclass(frozen=True)
class SlopeRelaxation(Bounder):
    """The bound for a network and a margin of its slopes.

    Attributes:
        layers: the network.
        margin: what is bounded.
        errors: of the bounds themselves; what they are worth is less by `errors.margin`.
    """

    layers: LayerArrays
    margin: SlopeMargin
    errors: SlopeErrors
    importance: Array = field(init=False)
    levels: int = field(init=False, default=_LEVELS)
    narrows: ClassVar[bool] = False

    def __post_init__(self) -> None:
        size = np.abs(self.margin.rows).max(axis=0)
        for weight in reversed(self.layers.weights[1:]):
            size = size @ np.abs(weight)
        first = np.abs(self.layers.weights[0])
        bends = (size * first[:, self.margin.along]) @ first
        object.__setattr__(self, "importance", bends + 1e-300)

    def narrowed(self, cell: Cells) -> SlopeRelaxation:
        """Itself: the lines are chosen for every cell anyway."""
        del cell
        return self

    def bounds(self, cells: Cells, deadline: Deadline = NO_DEADLINE) -> Bounds:
        """Block by block, so that memory stays bounded."""
        size = max(1, _BLOCK // max(weight.size for weight in self.layers.weights))
        return bounds_by_block(cells, size, self._bounds, deadline)

    def _bounds(self, cells: Cells) -> Bounds:
        sign = self.margin.sign
        slope, offset = self._above(cells, -sign)
        values = cells.highest(slope) + offset
        worst, each = values.argmax(axis=1), np.arange(len(cells))
        suspects = _furthest(cells, slope[each, worst])
        return Bounds(-(values[each, worst] + sign * self.margin.threshold), suspects)

    def highest(self, cells: Cells) -> Array:
        """The margin is nowhere in a cell above this (n,)."""
        sign = self.margin.sign
        slope, offset = self._above(cells, sign)
        values = (cells.highest(slope) + offset).min(axis=1)
        result: Array = values - sign * self.margin.threshold
        return result

    def dips(self, cells: Cells) -> Array:
        """The centres: which unit bends most is not looked for."""
        return cells.centres

    def margins(self, states: Array) -> Array:
        """The margin itself; at kinks, with the slopes of one side."""
        return self.margin.of_slopes(slopes_at(self.layers, self.margin.along, states))

    def _above(self, cells: Cells, factor: float) -> tuple[Array, Array]:
        """Affine functions (n, m, …) of the state above factor · slope of each row."""
        units = enclose_units(self.layers, cells)
        products: list[_Products | None] = []
        for depth in range(len(self.layers.weights)):
            products.append(self._products(cells, units, products, depth))
        rows = np.broadcast_to(factor * self.margin.rows, (len(cells), *self.margin.rows.shape))
        return self._substituted(rows, units, products)

    def _products(
        self,
        cells: Cells,
        units: Sequence[EnclosedUnits | None],
        before: Sequence[_Products | None],
        depth: int,
    ) -> _Products | None:
        """Of a layer, from those before it; None of the identity."""
        given, activation = units[depth], self.layers.activations[depth]
        if given is None:
            return None
        low, high = self._tangents(cells, units, before, depth)
        error = self.errors.units[depth]
        band = slope_band(activation, given.low - error, given.high + error)
        return _Products(
            0.5 * (band.low + band.high),
            0.5 * (band.high - band.low),
            0.5 * (low + high),
            0.5 * (high - low),
            band.lines,
        )

    def _tangents(
        self,
        cells: Cells,
        units: Sequence[EnclosedUnits | None],
        before: Sequence[_Products | None],
        depth: int,
    ) -> tuple[Array, Array]:
        """Between which the derivatives u of what a layer's units are given are: (n, width)."""
        weight, limit = self.layers.weights[depth], self.errors.largest[depth]
        gain = self.layers.gain_at(depth)
        beside = np.zeros(len(weight)) if gain is None else gain[:, self.margin.along]
        if not depth:
            known = weight[:, self.margin.along] + beside
            known = np.broadcast_to(known, (len(cells), len(weight)))
            return known, known
        rows = np.broadcast_to(weight, (len(cells), *weight.shape))
        slope, offset = self._substituted(rows, units, before)
        highest = cells.highest(slope) + offset + beside + self.errors.tangents[depth]
        slope, offset = self._substituted(-rows, units, before)
        lowest = -(cells.highest(slope) + offset - beside + self.errors.tangents[depth])
        return np.maximum(lowest, -limit), np.minimum(highest, limit)

    def _substituted(
        self,
        rows: Array,
        units: Sequence[EnclosedUnits | None],
        products: Sequence[_Products | None],
    ) -> tuple[Array, Array]:
        """An affine function of the state above rows · (tangents behind layers of such products).

        Args:
            rows: (n, m, width).
            units: of at least these layers.
            products: of the first layers.
        """
        of_tangents, of_values = rows, np.zeros_like(rows)
        total, slope = np.zeros(rows.shape[:2]), np.zeros(1)  # of observations beside the layers
        for depth in range(len(products) - 1, -1, -1):
            at, given = products[depth], units[depth]
            if at is not None and given is not None:
                of_values, total = _through(of_values, given.lines, total)
                added, total = _through(of_tangents * at.tangent[:, None], at.lines, total)
                of_values = of_values + added
                total -= _times(of_tangents, at.slope * at.tangent)
                total += _times(np.abs(of_tangents), at.slope_radius * at.tangent_radius)
                of_tangents = of_tangents * at.slope[:, None]
            total += of_values @ self.layers.biases[depth]
            gain = self.layers.gain_at(depth)
            if gain is not None:
                slope = slope + of_values @ gain
                total += of_tangents @ gain[:, self.margin.along]
            of_values = of_values @ self.layers.weights[depth]
            of_tangents = of_tangents @ self.layers.weights[depth]
        return slope + of_values, total + of_tangents[:, :, self.margin.along]


def _through(rows: Array, lines: Lines, total: Array) -> tuple[Array, Array]:
    """Rows over what lies between lines, as rows over their input; offsets are added."""
    rising, falling = np.maximum(rows, 0.0), np.minimum(rows, 0.0)
    total = total + _times(rising, lines.upper_offset) + _times(falling, lines.lower_offset)
    return rising * lines.upper_slope[:, None] + falling * lines.lower_slope[:, None], total


def _times(rows: Array, vectors: Array) -> Array:
    """Rows (n, m, width) times a vector (n, width) each: (n, m)."""
    result: Array = (rows @ vectors[:, :, None])[:, :, 0]
    return result


def _furthest(cells: Cells, slopes: Array) -> Array:
    """The vertex of each cell where a linear function (n, n_coordinates) is largest."""
    furthest = np.where(slopes > 0.0, cells.high, cells.low)
    if len(cells.simplex_coordinates):
        inside = slopes[:, cells.simplex_coordinates]
        corner = (cells.simplex @ inside[:, :, None])[:, :, 0].argmax(axis=1)
        furthest[:, cells.simplex_coordinates] = cells.simplex[np.arange(len(cells)), corner]
    return furthest


def slopes_at(layers: LayerArrays, along: int, states: Array) -> Array:
    """The derivatives (n, n_outputs) of raw outputs at states, along one of their coordinates."""
    values, tangents = states, np.zeros_like(states)
    tangents[:, along] = 1.0
    steps = zip(layers.weights, layers.biases, layers.activations, strict=True)
    for depth, (weight, bias, activation) in enumerate(steps):
        values, tangents = values @ weight.T + bias, tangents @ weight.T
        gain = layers.gain_at(depth)
        if gain is not None:
            values, tangents = values + states @ gain.T, tangents + gain[:, along]
        if activation is not IDENTITY:
            tangents = tangents * activation.slopes(values)
            values = np.asarray(activation.value(values), dtype=np.float64)
    return tangents
