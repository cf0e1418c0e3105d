"""Linear relaxation bounds (CROWN): networks of any depth with ReLU, tanh or sigmoid.

On an interval every activation lies between two lines. Substituting them layer by layer, from a
difference of outputs back to the state, leaves an affine function above it on the whole cell. A
log-sum-exp of affine functions is convex, so its maximum over the cell is at a vertex.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, final

import numpy as np
from scipy.special import expit

from handrail._types import Array
from handrail.policies import Layers
from handrail.proof.bounder import Bounder, Bounds, bounds_by_block
from handrail.proof.margin import Margin, log_sum_exp
from handrail.regions import Cells

_LEVELS = 10**6  # there is nothing to narrow


# Numbers in the largest array of one block: 64 MiB.
_BLOCK = 2**23


# Above this many vertices a cell's log-sum-exp is bounded term by term.
_MANY_VERTICES = 256


_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda hidden: np.maximum(hidden, 0.0),
    "tanh": np.tanh,
    "sigmoid": expit,
}


class _Lines(NamedTuple):
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

    layers: Layers
    margin: Margin
    importance: Array = field(init=False)
    levels: int = field(init=False, default=_LEVELS)

    def __post_init__(self) -> None:
        size = np.ones(len(self.layers.biases[-1]))
        for weight in reversed(self.layers.weights):
            size = size @ np.abs(weight)
        object.__setattr__(self, "importance", size + 1e-300)

    def narrowed(self, cell: Cells) -> Relaxation:
        """Itself: the lines are chosen for every cell anyway."""
        del cell
        return self

    def bounds(self, cells: Cells) -> Bounds:
        """Block by block, so that memory stays bounded."""
        widest = max(w.size for w in (*self.layers.weights, np.zeros((1, cells.n_vertices))))
        size = max(1, _BLOCK // widest)
        return bounds_by_block(cells, size, self._bounds)

    def dips(self, cells: Cells) -> Array:
        """The centres: which unit dips is known of the first layer only."""
        return cells.centres

    def _bounds(self, cells: Cells) -> Bounds:
        layers = self.layers
        lines: list[_Lines] = []
        for depth in range(len(layers.weights) - 1):
            rows = np.broadcast_to(
                layers.weights[depth], (len(cells), *layers.weights[depth].shape)
            )
            slope, offset = self._above(rows, layers.biases[depth], lines)
            highest = cells.highest(slope) + offset
            slope, offset = self._above(-rows, -layers.biases[depth], lines)
            lowest = -(cells.highest(slope) + offset)
            lines.append(_lines(layers.activation, lowest, highest))
        differences, constants = self._differences(cells)
        rows = differences @ layers.weights[-1]
        slope, offset = self._above(rows, differences @ layers.biases[-1] + constants, lines)
        return _worst_vertex(cells, slope, offset)

    def _differences(self, cells: Cells) -> tuple[Array, Array]:
        """Of every cell, at its centre: (n, n_negative, n_actions) and (n, n_negative)."""
        found = [self.margin.differences(raw) for raw in self._raw(cells.centres)]
        return np.stack([d for d, _ in found]), np.stack([c for _, c in found])

    def _above(self, rows: Array, offset: Array, lines: list[_Lines]) -> tuple[Array, Array]:
        """An affine function of the state above rows · (output of the last relaxed layer).

        Args:
            rows: (n, m, width) linear functions of that output.
            offset: (m,) or (n, m), added.
            lines: of the layers below.
        """
        slope = rows
        total = np.broadcast_to(offset, rows.shape[:2]).copy()
        for depth in range(len(lines) - 1, -1, -1):
            at = lines[depth]
            rising, falling = np.maximum(slope, 0.0), np.minimum(slope, 0.0)
            total += (rising @ at.upper_offset[:, :, None])[:, :, 0]
            total += (falling @ at.lower_offset[:, :, None])[:, :, 0]
            hidden = rising * at.upper_slope[:, None] + falling * at.lower_slope[:, None]
            total += hidden @ self.layers.biases[depth]
            slope = hidden @ self.layers.weights[depth]
        return slope, total

    def _raw(self, states: Array) -> Array:
        activate = _FUNCTIONS[self.layers.activation]
        values = states
        for weight, bias in zip(self.layers.weights[:-1], self.layers.biases[:-1], strict=True):
            values = activate(values @ weight.T + bias)
        result: Array = values @ self.layers.weights[-1].T + self.layers.biases[-1]
        return result

    def margins(self, states: Array) -> Array:
        """The margin itself."""
        return self.margin.of_raw(self._raw(states))


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


def _lines(activation: str, low: Array, high: Array) -> _Lines:
    return _relu_lines(low, high) if activation == "relu" else _s_lines(activation, low, high)


def _relu_lines(low: Array, high: Array) -> _Lines:
    """The chord above; below, a line through 0 of slope 0 or 1, whichever is nearer."""
    inactive, active = high <= 0.0, low >= 0.0
    chord = np.where(inactive | active, 0.0, high) / np.where(inactive | active, 1.0, high - low)
    upper = np.where(active, 1.0, chord)
    upper_offset = -chord * np.where(inactive, 0.0, low)
    lower = np.where(active, 1.0, np.where(inactive, 0.0, (high > -low).astype(np.float64)))
    return _Lines(lower, np.zeros_like(low), upper, upper_offset)


def _s_lines(activation: str, low: Array, high: Array) -> _Lines:
    """Of an S-shaped activation: convex below 0, concave above, steepest at 0."""
    function = _FUNCTIONS[activation]
    slope_at = _tanh_slope if activation == "tanh" else _sigmoid_slope
    at_low, at_high = function(low), function(high)
    middle = 0.5 * (low + high)
    at_middle = function(middle)
    chord = (at_high - at_low) / np.maximum(high - low, np.finfo(np.float64).tiny)
    flat = high - low < 1e-9  # a chord of rounding errors; lines of slope 0 are as good
    chord = np.where(flat, 0.0, chord)
    tangent = np.where(flat, 0.0, slope_at(at_middle))
    # The derivative has one peak, so on an interval it is lowest at an end: parallel lines of that
    # slope through the two ends are above and below, whatever the signs.
    gentle = np.where(flat, 0.0, np.minimum(slope_at(at_low), slope_at(at_high)))
    concave, convex = low >= 0.0, high <= 0.0
    upper = np.where(concave & ~flat, tangent, np.where(convex & ~flat, chord, gentle))
    lower = np.where(concave & ~flat, chord, np.where(convex & ~flat, tangent, gentle))
    upper_at = np.where(concave & ~flat, at_middle - tangent * middle, at_high - upper * high)
    lower_at = np.where(convex & ~flat, at_middle - tangent * middle, at_low - lower * low)
    return _Lines(lower, lower_at, upper, upper_at)


def _tanh_slope(value: Array) -> Array:
    """The derivative of tanh where it has this value."""
    return 1.0 - value * value


def _sigmoid_slope(value: Array) -> Array:
    """The derivative of the sigmoid where it has this value."""
    return value * (1.0 - value)
