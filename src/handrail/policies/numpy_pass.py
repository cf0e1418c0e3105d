"""A plain network at one observation, or at a few, in NumPy.

Collecting experience asks for one at a time, constraints often for a dozen. Torch's overhead for
that is several times the arithmetic; the same few products in NumPy are not.
"""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray

from handrail._types import Array
from handrail.policies.activation import IDENTITY, FloatArray
from handrail.policies.layers import Layers
from handrail.policies.normalisation import Normaliser

# Units of the widest layer, of all states together, up to which NumPy is faster than torch.
_FEW_UNITS = 2**14

# Multiplications of one product up to which OpenBLAS takes one thread by itself.
_FEW_MULTIPLICATIONS = 2**18


class PassedArrays(NamedTuple):
    """One linear layer, for n states with r functionals each.

    Attributes:
        inputs: (n, d_in) what it was given.
        signals: (n, r, d_out) what arrives backwards at its output.
        has_bias: whether it adds one.
    """

    inputs: Array
    signals: Array
    has_bias: bool


@final
class NumpyPass:
    """The passes through one network that is in the memory of the CPU.

    The arrays are views of the torch parameters, so an in-place update (an optimiser, an
    enforcement) is seen at once.
    """

    def __init__(self, layers: Layers) -> None:
        self._flattens = layers.flattens
        self._shape = (layers.n_observations,)
        self._most = _FEW_UNITS // max(layer.out_features for layer in layers.linear)
        self._largest = max(layer.weight.numel() for layer in layers.linear)
        normalised = isinstance(layers.front, Normaliser)
        read = torch.float64 if normalised else layers.dtype
        self._dtype = np.dtype(str(read).removeprefix("torch."))
        self._front = None if layers.front is None else layers.front.in_numpy()
        self._beside, self._back = (
            None if fixed is None else fixed.arrays() for fixed in (layers.residual, layers.back)
        )
        self._activations = layers.activations
        self._steps = tuple(
            (
                layer.weight.detach().numpy().T,
                None if layer.bias is None else layer.bias.detach().numpy(),
                None if activation is IDENTITY else activation.value,
            )
            for layer, activation in zip(layers.linear, layers.activations, strict=True)
        )

    @classmethod
    def of(cls, layers: Layers) -> NumpyPass | None:
        """None where the weights are not in the memory of the CPU."""
        on_cpu = all(parameter.device.type == "cpu" for parameter in layers.parameters)
        return cls(layers) if on_cpu else None

    def __call__(self, state: NDArray[Any]) -> Array:
        """Raw outputs (n_actions,) of one observation (*observation_shape)."""
        signal: FloatArray = np.asarray(state, dtype=self._dtype)
        if self._flattens:
            signal = signal.ravel()
        if signal.shape != self._shape:
            raise ValueError(f"shape {signal.shape}, where the network takes {self._shape}")
        return self._passed(signal)

    def takes(self, states: NDArray[Any], functionals: int = 1) -> bool:
        """Whether states, with so many functionals each, are few; all else is for torch.

        Which is faster at many, and has words for shapes that do not fit.
        """
        n = functionals * len(states)
        return 0 < n <= self._most and states.shape[1:] == self._shape

    def takes_one_thread(self, states: NDArray[Any]) -> bool:
        """Whether states are so few that nobody has to say so."""
        return self.takes(states) and len(states) * self._largest <= _FEW_MULTIPLICATIONS

    def raw(self, states: NDArray[Any]) -> Array:
        """Raw outputs (n, n_actions) of a few observations, in the precision of the network."""
        with np.errstate(all="ignore"):  # as torch: whoever asks looks whether it is finite
            return self._passed(states.astype(self._dtype))

    def _passed(self, signal: FloatArray) -> Array:
        """Of observations (…, n_observations)."""
        observed = signal
        if self._front is not None:
            signal = self._front(signal)
        for weight, bias, activate in self._steps:
            last = weight is self._steps[-1][0]
            signal = signal.dot(weight)
            if bias is not None:
                signal += bias
            if last and self._beside is not None:
                gain, offset = self._beside
                signal += observed.dot(gain.T) + offset
            if activate is not None:
                signal = activate(signal)
        if self._back is not None:
            factor, offset = self._back
            signal = signal * factor + offset
        return signal.astype(np.float64, copy=False)

    def passes(self, states: Array, weights: Array) -> tuple[PassedArrays, ...]:
        """Every linear layer, first to last, for functionals weights · raw(states), in float64.

        As `Layers.passes`, of a few states.

        Args:
            states: (n, n_observations).
            weights: (n, r, n_actions).
        """
        with np.errstate(all="ignore"):
            return self._both_ways(states.astype(np.float64, copy=False), weights)

    def _both_ways(self, observed: Array, weights: Array) -> tuple[PassedArrays, ...]:
        signal = observed
        if self._front is not None:
            signal = self._front(signal).astype(np.float64, copy=False)
        matrices: list[Array] = [one.astype(np.float64, copy=False) for one, _, _ in self._steps]
        inputs: list[Array] = []
        slopes: list[Array | None] = []
        last = len(matrices) - 1
        for depth, (_, bias, _) in enumerate(self._steps):
            inputs.append(signal)
            signal = signal.dot(matrices[depth])
            if bias is not None:
                signal += bias
            if depth == last and self._beside is not None:
                gain, offset = self._beside
                signal += observed.dot(gain.T) + offset
            activation = self._activations[depth]
            if activation is IDENTITY:
                slopes.append(None)
            else:
                signal, slope = activation.value_and_slope(signal)
                slopes.append(slope[:, None, :])
        arriving = weights if self._back is None else weights * self._back[0]
        passed: list[PassedArrays] = []
        for depth in range(last, -1, -1):
            slope_there = slopes[depth]
            if slope_there is not None:
                arriving = arriving * slope_there
            has_bias = self._steps[depth][1] is not None
            passed.append(PassedArrays(inputs[depth], arriving, has_bias))
            if depth:
                arriving = arriving @ matrices[depth].T
        return tuple(passed[::-1])
