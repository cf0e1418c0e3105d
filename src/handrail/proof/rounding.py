"""The rounding model: how far computed numbers can be from those of the real-number network.

Two things are computed with finitely many digits. The policy that *acts* evaluates its network in
its own precision, in an order of summation that we do not know. And a proof computes its bounds in
float64, from many more terms. `Rounding` bounds both, in advance, for every state of a box. The
derivation is in docs/guides/proof.md; a bound counts only if it exceeds the sum of the two.

All of it is in the sizes of what is added up, layer by layer: no step needs more than |W|, |b| and
what the table of activations says (Lipschitz constant, value at 0, largest value, jump).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
import torch

from handrail._types import Array
from handrail.policies import IDENTITY, Activation, LayerArrays

_Size = Callable[[Activation, Array], Array]

# An activation, and a log-sum-exp: units in the last place of what it is given and returns.
_ULPS = 8.0

# Operations on every term of a layer with a scaling or a controller, besides its sum: f s, + o,
# the products W f that we take beforehand, the sum with the controller; and some to spare. The
# biases that we add up beforehand have as many terms as the layer: twice its own, in all.
_SCALED = 8

# These bounds are computed in float64, too: sums of up to a million terms are off by less.
_OUTWARD = 1.0 + 2.0**-30

# The middle of an edge is rounded by a unit of its coordinates, so two halves of a simplex miss a
# sliver of it. From a figure down to neighbouring numbers an edge is halved less than 64 times, and
# what is missed adds up at most: twice that.
_SLIVERS = 128.0

# More terms than this share of 1/unit, and rounding could be as large as the sum itself.
_MANY_TERMS = 0.01


@final
@dataclass(frozen=True)
class Arithmetic:
    """Of floating-point numbers.

    Attributes:
        name: as people call it.
        unit: a rounded result is off by at most this share of itself.
        tiny: and by at most this where it underflows, subnormal numbers flushed or not.
        largest: sums of a few numbers of this size do not overflow.
        reads_states: whether a state in float64 is read as it is.
    """

    name: str
    unit: float
    tiny: float
    largest: float
    reads_states: bool


FLOAT64 = Arithmetic("float64", 2.0**-53, 2.0**-1022, 1e300, reads_states=True)

FLOAT32 = Arithmetic("float32", 2.0**-24, 2.0**-126, 1e37, reads_states=False)


def arithmetic_of(dtype: torch.dtype) -> Arithmetic:
    """What a network of this precision computes in."""
    return FLOAT64 if dtype == torch.float64 else FLOAT32


def float32_is_whole() -> bool:
    """Whether torch multiplies in float32 as float32 is, rather than in fewer bits for speed."""
    try:
        return torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:  # set for some backend on its own (torch.backends.….fp32_precision)
        return False


@final
@dataclass(frozen=True)
class Rounding:
    """Of a network that acts in some arithmetic, and of bounds of its margins in float64.

    Attributes:
        layers: the network.
        acting: what it acts in.
        bounded: what bounds are computed of, if that is another network with the same outputs.
    """

    layers: LayerArrays
    acting: Arithmetic
    bounded: LayerArrays | None = None

    def of_evaluation(self, states: Array, size: float) -> Array:
        """Of margins (n,) that were evaluated at states (n, n_observations), in float64.

        How far the real one can be from that.

        Args:
            states: where.
            size: of the constants of the margin.
        """
        with np.errstate(all="ignore"):
            ours, largest = _output_errors(self.layers, np.abs(states), FLOAT64)
            return _finite(2.0 * ours + _of_margin(largest, size))

    def of_values(self, states: Array, size: float) -> Array:
        """How far the acting policy's margin, too, can be from such an evaluation: (n,)."""
        with np.errstate(all="ignore"):
            theirs, _ = _output_errors(self.layers, np.abs(states), self.acting)
            return _finite(self.of_evaluation(states, size) + 2.0 * theirs)

    def of_bounds(self, low: Array, high: Array, size: float, *, simplices: bool = False) -> float:
        """Of bounds of a margin over cells within a box; infinite if a sum might overflow.

        Args:
            low: (n_observations,).
            high: (n_observations,).
            size: of the constants of the margin.
            simplices: whether some of the cells are, which lose slivers when they are halved.
        """
        sizes = np.maximum(np.abs(low), np.abs(high))[None]
        lost = _SLIVERS * FLOAT64.unit * sizes if simplices else np.zeros_like(sizes)
        with np.errstate(all="ignore"):
            bounded = self.layers if self.bounded is None else self.bounded
            ours, largest = _bound_errors(bounded, sizes)
            theirs, _ = _output_errors(self.layers, sizes, self.acting, lost)
            terms = _terms_of_bounds(bounded)
            total = 2.0 * theirs + terms * (ours + _of_margin(largest, size))
        return float(_finite(total)[0])


def largest_output(layers: LayerArrays, low: Array, high: Array) -> float:
    """No number on the way to the outputs is larger, anywhere in a box."""
    with np.errstate(all="ignore"):
        return float(_bound_errors(layers, np.maximum(np.abs(low), np.abs(high))[None])[1][0])


def _of_margin(largest: Array, size: float) -> Array:
    """Of the constants, differences and log-sum-exp that make a margin of outputs."""
    result: Array = _ULPS * FLOAT64.unit * (largest + size + 1.0)
    return result


def _terms_of_bounds(layers: LayerArrays) -> float:
    """How many times the rounding of an output a bound of differences of them may have.

    Of d activations, the offsets of lines are up to twice as large as the values (1 + 2d times the
    terms), and the lines of layer k come from bounds that were rounded themselves (twice 1 + 2k for
    each k < d). That makes 1 + 2d + 2d², and twice that for the difference of two outputs.
    """
    depth = sum(activation is not IDENTITY for activation in layers.activations)
    return 2.0 * (1.0 + 2.0 * depth + 2.0 * depth**2)


def _output_errors(
    layers: LayerArrays, size: Array, used: Arithmetic, lost: Array | float = 0.0
) -> tuple[Array, Array]:
    """How far outputs are from the real ones at most, and the largest number on the way: (n,).

    Args:
        layers: the network.
        size: (n, n_observations) of the states.
        used: the arithmetic that evaluates it.
        lost: how far states are from those that are meant.
    """
    read = np.zeros_like(size) if used.reads_states else used.unit * size + used.tiny
    return _carried(layers, size, read + lost, used, _size_of_values)


def _bound_errors(layers: LayerArrays, size: Array) -> tuple[Array, Array]:
    """The same for what bounds add up: lines through an activation are as large as its input."""
    return _carried(layers, size, np.zeros_like(size), FLOAT64, _size_of_lines)


def _size_of_values(activation: Activation, size: Array) -> Array:
    return np.minimum(_size_of_lines(activation, size), activation.largest)


def _size_of_lines(activation: Activation, size: Array) -> Array:
    """|σ(h)| ≤ |σ(0)| + lipschitz · |h|."""
    return activation.lipschitz * size + activation.at_zero


def _carried(
    layers: LayerArrays, size: Array, error: Array, used: Arithmetic, size_behind: _Size
) -> tuple[Array, Array]:
    """Sizes and errors, layer by layer; NaN or infinite if anything might overflow."""
    observed, observed_error = size, error
    largest = (size + error).max(axis=1)
    steps = zip(layers.weight_sizes, layers.bias_sizes, layers.activations, strict=True)
    for index, (weight, added, activation) in enumerate(steps):
        absolute, terms = weight.T, weight.shape[1] + 2
        if layers.summed is not None:
            terms = 2 * terms + _SCALED
        computed = (size + error) @ absolute + added
        size, error = size @ absolute + added, error @ absolute
        gain = layers.gain_at(index)
        if gain is not None:
            beside, terms = np.abs(gain).T, terms + gain.shape[1] + 2
            computed = computed + (observed + observed_error) @ beside
            size, error = size + observed @ beside, error + observed_error @ beside
        error = error + _gamma(terms, used) * computed + 2.0 * terms * used.tiny
        largest = np.maximum(largest, computed.max(axis=1))
        if activation is not IDENTITY:
            size = size_behind(activation, size)
            error = activation.lipschitz * error + activation.jump + used.tiny
            error += _ULPS * used.unit * (computed + size)
    errors = np.where(largest <= used.largest, error.max(axis=1), np.inf)
    return errors, largest


def _gamma(terms: int, used: Arithmetic) -> float:
    """Relative to the sum of sizes, of a sum of products in whatever order (Higham, γ_n)."""
    share = terms * used.unit
    return share / (1.0 - share) if share < _MANY_TERMS else np.inf


def _finite(errors: Array) -> Array:
    """Infinite where there is no number."""
    return np.where(np.isfinite(errors), _OUTWARD * errors, np.inf)
