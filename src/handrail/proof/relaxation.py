"""Linear relaxation bounds (CROWN): networks of any depth with any activations of the table.

On an interval every activation lies between two lines. Substituting them layer by layer, from a
difference of outputs back to the state, leaves an affine function above it on the whole cell. A
log-sum-exp of affine functions is convex, so its maximum over the cell is at a vertex.

The lines of each shape of activations are at the end: of one that declares none nothing is proven.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, NamedTuple, final

import numpy as np

from handrail._types import Array, Mask
from handrail.policies import (
    IDENTITY,
    Activation,
    Clipping,
    Convex,
    LayerArrays,
    NearRectifier,
    Rectifier,
    SideBySide,
    Sigmoidal,
    Twinned,
)
from handrail.proof.bounder import NO_DEADLINE, Bounder, Bounds, Deadline, bounds_by_block
from handrail.proof.margin import Margin, log_sum_exp
from handrail.proof.slope_range import slope_range
from handrail.regions import Cells

_LEVELS = 10**6  # there is nothing to narrow

# Numbers in the largest array of one block: 16 MiB.
_BLOCK = 2**21

# Work between two looks at the clock, in products that are summed up: some hundredths of a second.
# A number of a row, which goes through two lines, takes as long as so many products.
_PRODUCTS, _PER_NUMBER = 2**27, 256

# Up to so many inputs of a layer, units behind the next are bounded in products of all cells.
_NARROW = 32

# Above this many vertices a cell's log-sum-exp is bounded term by term.
_MANY_VERTICES = 256


class Lines(NamedTuple):
    """Below and above an activation: slope · h + offset, each (n, width)."""

    lower_slope: Array
    lower_offset: Array
    upper_slope: Array
    upper_offset: Array


@final
@dataclass(frozen=True)
class Relaxation(Bounder):
    """The bound for a network and a margin.

    Attributes:
        layers: the network.
        margin: what is bounded.
    """

    layers: LayerArrays
    margin: Margin
    importance: Array = field(init=False)
    levels: int = field(init=False, default=_LEVELS)
    narrows: ClassVar[bool] = False

    def __post_init__(self) -> None:
        size, beside = np.ones(self.layers.n_outputs), np.zeros(self.layers.n_observations)
        for depth in range(len(self.layers.weights) - 1, -1, -1):
            gain = self.layers.gain_at(depth)
            beside = beside if gain is None else beside + size @ np.abs(gain)
            size = size @ np.abs(self.layers.weights[depth])
        importance = size + beside + self.margin.importance() + 1e-300
        object.__setattr__(self, "importance", importance)

    def narrowed(self, cell: Cells) -> Relaxation:
        """Itself: the lines are chosen for every cell anyway."""
        del cell
        return self

    def bounds(self, cells: Cells, deadline: Deadline = NO_DEADLINE) -> Bounds:
        """Block by block, so that memory stays bounded."""
        widest = max(w.size for w in (*self.layers.weights, np.zeros((1, cells.n_vertices))))
        size = max(1, _BLOCK // widest)
        return bounds_by_block(cells, size, partial(self._bounds, deadline=deadline), deadline)

    def dips(self, cells: Cells) -> Array:
        """The centres: which unit dips is known of the first layer only."""
        return cells.centres

    def _bounds(self, cells: Cells, deadline: Deadline) -> Bounds:
        lines = lines_of(enclose_units(self.layers, cells, deadline))
        centres = self.layers.outputs(cells.centres)
        local = self.margin.local(cells, centres)
        slope, offset = affine_above(self.layers, local.differences, local.constants, lines)
        if local.slope is not None:
            slope = slope + local.slope
        if local.spread is not None:
            offset += (local.spread * self._deviations(cells, centres, lines)).sum(axis=1)[:, None]
        return _worst_vertex(cells, slope, offset)

    def _deviations(self, cells: Cells, centres: Array, lines: Sequence[Lines | None]) -> Array:
        """How far outputs in a cell are from those at its centre at most: (n, n_actions)."""
        rows = np.broadcast_to(np.eye(centres.shape[1]), (len(cells), *[centres.shape[1]] * 2))
        none = np.zeros(centres.shape[1])
        ends = []
        for sign in (1.0, -1.0):
            slope, offset = affine_above(self.layers, sign * rows, none, lines)
            ends.append(cells.highest(slope) + offset - sign * centres)
        return np.maximum(*ends)

    def margins(self, states: Array) -> Array:
        """The margin itself."""
        return self.margin.of_raw(self.layers.outputs(states), states)


class EnclosedUnits(NamedTuple):
    """What the units of a layer are given on n cells: low to high, and the lines there."""

    low: Array
    high: Array
    lines: Lines


def enclose_units(
    layers: LayerArrays, cells: Cells, deadline: Deadline = NO_DEADLINE
) -> list[EnclosedUnits | None]:
    """Layer by layer: the lines of the first bound what the next is given. None of the identity."""
    units: list[EnclosedUnits | None] = []
    steps = zip(layers.weights, layers.biases, layers.activations, strict=True)
    for depth, (weight, bias, activation) in enumerate(steps):
        if activation is IDENTITY:
            units.append(None)
            continue
        lines, gain = lines_of(units), layers.gain_at(depth)
        given = _given(layers, cells, weight, bias, gain, lines, deadline)
        units.append(EnclosedUnits(*given, lines_between(activation, *given)))
    return units


def _given(
    layers: LayerArrays,
    cells: Cells,
    weight: Array,
    bias: Array,
    gain: Array | None,
    lines: Sequence[Lines | None],
    deadline: Deadline,
) -> tuple[Array, Array]:
    """The lowest and the highest that units (n, width) are given; as many at a time as is quick."""
    behind = layers.weights[: len(lines)]
    work = len(cells) * sum(one.size + _PER_NUMBER * len(one) for one in behind)
    some = max(1, _PRODUCTS // max(1, work))
    lowest, highest = np.empty((2, len(cells), len(bias)))
    for first in range(0, len(bias), some):
        if first:
            deadline.check()
        part = slice(first, first + some)
        rows, beside = weight[part], 0.0 if gain is None else gain[part]
        slope, offset = _affine_above_units(layers, len(cells), rows, bias[part], lines)
        highest[:, part] = cells.highest(slope + beside) + offset
        slope, offset = _affine_above_units(layers, len(cells), -rows, -bias[part], lines)
        lowest[:, part] = -(cells.highest(slope - beside) + offset)
    return lowest, highest


def _affine_above_units(
    layers: LayerArrays, n: int, rows: Array, offset: Array, lines: Sequence[Lines | None]
) -> tuple[Array, Array]:
    """`affine_above` of rows (m, width) that are the same on all of n cells.

    With R⁺ and R⁻ their positive and negative parts, R⁺ (s ∘ W) + R⁻ (t ∘ W) is two products for
    all cells at once, where R⁺ ∘ s + R⁻ ∘ t of each cell would be as large as the layer. With a
    wide layer in front the products cost more than that.
    """
    depth = len(lines) - 1
    at = lines[depth] if lines else None
    if at is None or layers.weights[depth].shape[1] > _NARROW:
        return affine_above(layers, np.broadcast_to(rows, (n, *rows.shape)), offset, lines)
    gain = layers.gain_at(depth)
    inward, beside = layers.weights[depth], np.zeros((rows.shape[1], 0)) if gain is None else gain
    matrix = np.column_stack([inward, beside, layers.biases[depth]])
    rising, falling = np.maximum(rows, 0.0), np.minimum(rows, 0.0)
    found = rising @ _columns(at.upper_slope, matrix)
    found += falling @ _columns(at.lower_slope, matrix)
    found = found.reshape(len(rows), n, -1).transpose(1, 0, 2)
    total = offset + at.upper_offset @ rising.T + at.lower_offset @ falling.T + found[:, :, -1]
    ahead = inward.shape[1]
    slope, total = affine_above(layers, found[:, :, :ahead], total, lines[:depth])
    return slope if gain is None else slope + found[:, :, ahead:-1], total


def _columns(slopes: Array, matrix: Array) -> Array:
    """A matrix (width, k) with its rows times slopes (n, width): (width, n · k), cell by cell."""
    result: Array = (slopes.T[:, :, None] * matrix[:, None, :]).reshape(len(matrix), -1)
    return result


def lines_of(units: Sequence[EnclosedUnits | None]) -> list[Lines | None]:
    """Of every layer; None where they would be the function itself."""
    return [None if one is None else one.lines for one in units]


def affine_above(
    layers: LayerArrays, rows: Array, offset: Array, lines: Sequence[Lines | None]
) -> tuple[Array, Array]:
    """An affine function of the state above rows · (what the layers with these lines return).

    Args:
        layers: the network.
        rows: (n, m, width) linear functions of that.
        offset: (m,) or (n, m), added.
        lines: of the first layers.
    """
    slope, beside = rows, np.zeros(())
    total = np.broadcast_to(offset, rows.shape[:2]).copy()
    for depth in range(len(lines) - 1, -1, -1):
        at = lines[depth]
        if at is not None:
            rising, falling = np.maximum(slope, 0.0), np.minimum(slope, 0.0)
            total += (rising @ at.upper_offset[:, :, None])[:, :, 0]
            total += (falling @ at.lower_offset[:, :, None])[:, :, 0]
            slope = rising * at.upper_slope[:, None] + falling * at.lower_slope[:, None]
        total += slope @ layers.biases[depth]
        gain = layers.gain_at(depth)
        beside = beside if gain is None else beside + slope @ gain
        slope = slope @ layers.weights[depth]
    return slope + beside, total


def _worst_vertex(cells: Cells, slope: Array, offset: Array) -> Bounds:
    """From affine functions (n, n_negative, …) above the differences of outputs."""
    if cells.n_vertices > _MANY_VERTICES:
        highest = log_sum_exp(cells.highest(slope) + offset)
        return Bounds(-highest, cells.centres)
    vertices = cells.vertices()
    values = log_sum_exp(vertices @ slope.transpose(0, 2, 1) + offset[:, None])
    worst = values.argmax(axis=1)
    rows = np.arange(len(worst))
    return Bounds(-values[rows, worst], vertices[rows, worst])


def has_lines(activation: Activation) -> bool:
    """Whether anything can be proven of a network with it."""
    if isinstance(activation.shape, Twinned):
        return has_lines(activation.shape.activation)
    if isinstance(activation.shape, SideBySide):
        return all(has_lines(one) for one, _ in activation.shape.parts)
    return type(activation.shape) in _LINES


def lines_between(activation: Activation, low: Array, high: Array) -> Lines:
    """Lines below and above an activation on intervals [low, high], all (n, width)."""
    return _LINES[type(activation.shape)](activation, low, high)


# In what follows l, u and m are the ends and the middle of an interval, w is its width, and f is
# the activation. Of lines that are sound the best is that which is nearest at m: the area between
# it and f is then least.


def _tangent(activation: Activation, at: Array) -> tuple[Array, Array]:
    """Slope and offset."""
    slope = activation.slopes(at)
    return slope, activation.value(at) - slope * at


def _chord(activation: Activation, low: Array, high: Array) -> tuple[Array, Array, Array]:
    """Slope, and the offsets through the lower and through the higher end.

    The slope is that of the chord but for rounding, which on tiny intervals is all there is: it is
    cut to what slopes there are. The two offsets differ then. f less a line is convex where f is,
    so it is highest at one of the ends, whatever the slope: the line through the end that needs
    the larger offset is above f. Likewise below, where f is concave.
    """
    at_low, at_high = activation.value(low), activation.value(high)
    slope = (at_high - at_low) / np.maximum(high - low, np.finfo(np.float64).tiny)
    slope = np.clip(slope, -activation.lipschitz, activation.lipschitz)
    by_low, by_high = at_low - slope * low, at_high - slope * high
    return slope, np.minimum(by_low, by_high), np.maximum(by_low, by_high)


def _relu_lines(activation: Activation, low: Array, high: Array) -> Lines:
    """The chord above; below, a line through 0 of slope 0 or 1, whichever is nearer."""
    del activation
    inactive, active = high <= 0.0, low >= 0.0
    chord = np.where(inactive | active, 0.0, high) / np.where(inactive | active, 1.0, high - low)
    upper = np.where(active, 1.0, chord)
    upper_offset = -chord * np.where(inactive, 0.0, low)
    lower = np.where(active, 1.0, np.where(inactive, 0.0, (high > -low).astype(np.float64)))
    return Lines(lower, np.zeros_like(low), upper, upper_offset)


def _convex_lines(activation: Activation, low: Array, high: Array) -> Lines:
    """Of a convex activation: the chord above, the tangent in the middle below."""
    upper, _, upper_offset = _chord(activation, low, high)
    return Lines(*_tangent(activation, 0.5 * (low + high)), upper, upper_offset)


def _clipping_lines(activation: Activation, low: Array, high: Array) -> Lines:
    """Of h cut to [-1, 1]: convex where no interval reaches beyond 1, concave above -1.

    Where it reaches beyond both, the lines from one end to the other kink: above, from (l, -1) to
    (1, 1); below, from (-1, -1) to (u, 1).
    """
    slope, below, above = _chord(activation, low, high)
    middle, middle_offset = _tangent(activation, 0.5 * (low + high))
    convex, concave = high <= 1.0, low >= -1.0
    rising = 2.0 / np.where(convex | concave, 2.0, 1.0 - low)
    falling = 2.0 / np.where(convex | concave, 2.0, high + 1.0)
    upper = np.where(convex, slope, np.where(concave, middle, rising))
    upper_offset = np.where(convex, above, np.where(concave, middle_offset, 1.0 - rising))
    lower = np.where(concave, slope, np.where(convex, middle, falling))
    lower_offset = np.where(concave, below, np.where(convex, middle_offset, falling - 1.0))
    return Lines(lower, lower_offset, upper, upper_offset)


def _s_lines(activation: Activation, low: Array, high: Array) -> Lines:
    """Of an S-shaped activation: convex below 0, concave above, steepest at 0."""
    slope, below, above = _chord(activation, low, high)
    tangent, tangent_offset = _tangent(activation, 0.5 * (low + high))
    # The derivative has one peak, so on an interval it is lowest at an end: parallel lines of that
    # slope through the two ends are above and below, whatever the signs.
    gentle = np.minimum(activation.slopes(low), activation.slopes(high))
    concave, convex = low >= 0.0, high <= 0.0
    upper = np.where(concave, tangent, np.where(convex, slope, gentle))
    lower = np.where(concave, slope, np.where(convex, tangent, gentle))
    upper_through = activation.value(high) - gentle * high
    lower_through = activation.value(low) - gentle * low
    upper_offset = np.where(concave, tangent_offset, np.where(convex, above, upper_through))
    lower_offset = np.where(concave, below, np.where(convex, tangent_offset, lower_through))
    return Lines(lower, lower_offset, upper, upper_offset)


def _near_relu_lines(activation: Activation, low: Array, high: Array) -> Lines:
    """Of GELU and SiLU, which are between ReLU less a little and ReLU, and almost convex.

    Three pairs of lines are sound. The nearest is taken, on each side for itself.

    - f'' ≥ -κ everywhere, so f + κ(h - m)²/2 is convex. It lies below its chord, which is that of f
      and κw²/8; it lies above its tangent at m, which is that of f, while the square is at most
      κw²/4 / 2. So f is below its chord + κw²/8 and above its tangent at m - κw²/8.
    - Where f'' ≤ 0, beyond the inflection points, f is below its tangent and above its chord.
    - relu - gap ≤ f ≤ relu, so the lines of ReLU hold, the lower one less the gap: for wide
      intervals.
    """
    shape = activation.shape
    assert isinstance(shape, NearRectifier)  # this is how the lines are chosen
    middle, width = 0.5 * (low + high), high - low
    slope, below, above = _chord(activation, low, high)
    tangent, tangent_offset = _tangent(activation, middle)
    bend = 0.125 * shape.curvature * width * width
    relu = _relu_lines(activation, low, high)
    lower = Nearest(middle, tangent, tangent_offset - bend, 1.0)
    upper = Nearest(middle, slope, above + bend, -1.0)
    concave = (low >= shape.inflection) | (high <= -shape.inflection)
    lower.offer(slope, below, concave)
    upper.offer(tangent, tangent_offset, concave)
    lower.offer(relu.lower_slope, relu.lower_offset - shape.gap, True)
    upper.offer(relu.upper_slope, relu.upper_offset, True)
    return Lines(lower.slope, lower.offset, upper.slope, upper.offset)


@final
class Nearest:
    """Of lines on one side of an activation, the nearest in the middle of the interval.

    Args:
        middle: (n, width).
        slope: of a first line.
        offset: of that line.
        side: 1 for lines below, of which the highest is nearest; -1 above.
    """

    def __init__(self, middle: Array, slope: Array, offset: Array, side: float) -> None:
        self.slope, self.offset = slope, offset
        self._middle, self._side = middle, side

    def offer(self, slope: Array, offset: Array, sound: Mask | bool) -> None:
        """Another line, which may be taken where it is sound."""
        nearer = (slope - self.slope) * self._middle + (offset - self.offset)
        taken = sound & (self._side * nearer > 0.0)
        self.slope = np.where(taken, slope, self.slope)
        self.offset = np.where(taken, offset, self.offset)


def _lines_side_by_side(activation: Activation, low: Array, high: Array) -> Lines:
    """Of each part its own; the identity is its own line."""
    shape = activation.shape
    assert isinstance(shape, SideBySide)  # this is how the lines are chosen
    found, start = [], 0
    for one, width in shape.parts:
        units = slice(start, start + width)
        start += width
        if one is IDENTITY:
            none, steep = np.zeros_like(low[:, units]), np.ones_like(low[:, units])
            found.append(Lines(steep, none, steep, none))
        else:
            found.append(lines_between(one, low[:, units], high[:, units]))
    return Lines(*(np.concatenate(each, axis=1) for each in zip(*found, strict=True)))


def _twin_lines(activation: Activation, low: Array, high: Array) -> Lines:
    """Of f(h) its own; of f(h + d) - f(h) = s d, s a slope of f between the two, lines over d.

    With m ≤ s ≤ M the difference is below max(m d, M d), which is convex: below its chord. Above
    the chord of min(m d, M d) likewise.
    """
    shape = activation.shape
    assert isinstance(shape, Twinned)  # this is how the lines are chosen
    (h_low, low), (h_high, high) = (np.split(one, 2, axis=1) for one in (low, high))
    own = lines_between(shape.activation, h_low, h_high)
    least, most = slope_range(
        shape.activation, np.minimum(h_low, h_low + low), np.maximum(h_high, h_high + high)
    )
    across = (low < 0.0) & (high > 0.0)
    width = np.where(across, high - low, 1.0)
    ahead = low >= 0.0
    upper = np.where(ahead, most, least)
    upper = np.where(across, (most * high - least * low) / width, upper)
    lower = np.where(ahead, least, most)
    lower = np.where(across, (least * high - most * low) / width, lower)
    none = np.zeros_like(low)
    more = Lines(
        lower,
        np.where(across, (least - lower) * high, none),
        upper,
        np.where(across, (most - upper) * high, none),
    )
    return Lines(*(np.concatenate(pair, axis=1) for pair in zip(own, more, strict=True)))


_LINES: dict[type[object], Callable[[Activation, Array, Array], Lines]] = {
    Rectifier: _relu_lines,
    Convex: _convex_lines,
    Clipping: _clipping_lines,
    Sigmoidal: _s_lines,
    NearRectifier: _near_relu_lines,
    SideBySide: _lines_side_by_side,
    Twinned: _twin_lines,
}
