"""A network as float64 arrays: what a proof is about, and what a NumPy file holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np

from handrail._types import Array
from handrail.policies.activation import ACTIVATIONS, IDENTITY, Activation

_UNDERFLOW = 1e-30


@final
@dataclass(frozen=True)
class LayerArrays:
    """The layers at given weights, as float64 arrays: what a proof is about.

    A scaling in front is part of the first layer, W (f s + o) + b = (W f) s + (W o + b), which is
    the same but for rounding. One behind is a diagonal layer of its own, and so is one in front
    whose results are clipped.

    Attributes:
        weights: one (n_out, n_in) per layer.
        biases: one (n_out,) per layer.
        activations: one behind each layer.
        gains: one (n_out, n_observations) per layer that observations are added with, before its
            activation; None where they are not, and if nowhere, for all.
        summed: one (n_out,) per layer: how large what its bias is the sum of may be. None if no
            bias is a sum. Only whoever bounds rounding needs it.
    """

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    activations: tuple[Activation, ...]
    gains: tuple[Array | None, ...] | None = None
    summed: tuple[Array, ...] | None = None

    @property
    def n_observations(self) -> int:
        """Length of a state."""
        return int(self.weights[0].shape[1])

    @property
    def n_outputs(self) -> int:
        """How many numbers the network returns."""
        return len(self.biases[-1])

    @cached_property
    def weight_sizes(self) -> tuple[Array, ...]:
        """|weights| (n_out, n_in), layer by layer."""
        return tuple(np.abs(weight) for weight in self.weights)

    @cached_property
    def bias_sizes(self) -> tuple[Array, ...]:
        """What may cancel in the biases (n_out,), layer by layer."""
        if self.summed is not None:
            return self.summed
        return tuple(np.abs(bias) for bias in self.biases)

    def gain_at(self, layer: int) -> Array | None:
        """What observations are added with to what a layer returns (n_out, n_observations)."""
        return None if self.gains is None else self.gains[layer]

    @cached_property
    def is_finite(self) -> bool:
        """Whether no weight is infinite or NaN."""
        gains = [gain for gain in self.gains or () if gain is not None]
        parts = (*self.weights, *self.biases, *self.bias_sizes, *gains)
        return all(np.isfinite(part).all() for part in parts)

    def outputs(self, states: Array) -> Array:
        """Raw outputs (n, n_outputs) at states (n, n_observations)."""
        signal = states
        layers = zip(self.weights, self.biases, self.activations, strict=True)
        for index, (weight, bias, activation) in enumerate(layers):
            signal = signal @ weight.T + bias
            gain = self.gain_at(index)
            if gain is not None:
                signal += states @ gain.T
            if activation is not IDENTITY:
                signal = np.asarray(activation.value(signal), dtype=np.float64)
        return signal

    def behind(self, factor: Array, offset: Array) -> LayerArrays:
        """The same network behind a scaling f s + o of what it observes."""
        first, *weights = self.weights
        bias, *biases = self.biases
        size, *sizes = self.bias_sizes
        # What underflows in f s is far below what rounds in this.
        cancelling = np.abs(first) @ (np.abs(offset) + _UNDERFLOW)
        return replace(
            self,
            weights=(first * factor, *weights),
            biases=(first @ offset + bias, *biases),
            summed=(size + cancelling, *sizes),
        )

    def behind_clipping(self, factor: Array, offset: Array, limit: Array) -> LayerArrays:
        """The same behind f s + o that is clipped to ±limit: limit · hardtanh((f s + o) / limit).

        One limit for all, or one for each.

        The scaling becomes a diagonal layer of its own, the limit part of the weights behind it.
        """
        first, *weights = self.weights
        shrunk = offset / limit
        # What underflows in f s is far below what rounds in this.
        size = np.abs(shrunk) + _UNDERFLOW / limit
        return replace(
            self,
            weights=(np.diag(factor / limit), first * limit, *weights),
            biases=(shrunk, *self.biases),
            activations=(ACTIVATIONS["hardtanh"], *self.activations),
            gains=None if self.gains is None else (None, *self.gains),
            summed=(size, *self.bias_sizes),
        )

    def scaled(self, factor: Array, offset: Array) -> LayerArrays:
        """The same network, its outputs z as f z + o."""
        gains = None if self.gains is None else (*self.gains, None)
        summed = None if self.summed is None else (*self.summed, np.abs(offset))
        return LayerArrays(
            (*self.weights, np.diag(factor)),
            (*self.biases, offset),
            (*self.activations, IDENTITY),
            gains,
            summed,
        )

    def beside(self, gain: Array, offset: Array) -> LayerArrays:
        """The same network, with gain · s + offset added to what its last layer returns."""
        *biases, last = self.biases
        *sizes, size = self.bias_sizes
        return replace(
            self,
            biases=(*biases, last + offset),
            gains=(*[None] * len(biases), gain),
            summed=(*sizes, size + np.abs(offset)),
        )
