"""One observation through a plain MLP, in NumPy, on the very memory of the torch weights.

Collecting experience asks the network for one observation at a time. Torch's overhead for that is
several times the arithmetic; the same few products in NumPy are not. The arrays are views of the
torch parameters, so an in-place update (an optimiser, an enforcement) is seen at once; anything
that swaps a parameter's memory or a layer is noticed before every call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import numpy as np
from numpy.typing import NDArray
from torch import nn

from handrail.arrays import Array
from handrail.sequences import plain_layers

FloatArray = NDArray[np.floating]


def _relu(hidden: FloatArray) -> None:
    np.maximum(hidden, 0.0, out=hidden)


def _tanh(hidden: FloatArray) -> None:
    np.tanh(hidden, out=hidden)


_ACTIVATIONS: dict[type[nn.Module], Callable[[FloatArray], None]] = {
    nn.ReLU: _relu,
    nn.Tanh: _tanh,
}


@final
class PlainMLP:
    """The NumPy forward pass of an `nn.Sequential` of Linear, ReLU and Tanh layers on the CPU."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._layers = tuple(layer for layer in module._modules.values() if layer is not None)
        self._steps = tuple(self._step(layer) for layer in self._layers)
        self._addresses = self._current_addresses()
        self._dtype = next(module.parameters()).detach().numpy().dtype

    @classmethod
    def of(cls, module: nn.Module) -> PlainMLP | None:
        """The NumPy forward of `module`, or None where only torch can evaluate it."""
        layers = plain_layers(module)
        plain = all(type(layer) in (nn.Linear, *_ACTIVATIONS) for layer in layers)
        on_cpu = all(p.device.type == "cpu" for p in module.parameters())
        if not plain or not on_cpu or not any(type(layer) is nn.Linear for layer in layers):
            return None
        return cls(module)

    def is_current(self) -> bool:
        """Whether the views still are the module's weights (no layer or parameter was swapped)."""
        layers = tuple(self._module._modules.values())
        return layers == self._layers and self._current_addresses() == self._addresses

    def __call__(self, state: FloatArray) -> Array:
        """Logits (n_actions,) of one flat observation (n_observations,)."""
        signal = np.asarray(state, dtype=self._dtype)
        for step in self._steps:
            signal = step(signal)
        return signal.astype(np.float64, copy=False)

    def _current_addresses(self) -> tuple[int, ...]:
        return tuple(
            parameter.data_ptr()
            for layer in self._layers
            for parameter in layer._parameters.values()
            if parameter is not None
        )

    @staticmethod
    def _step(layer: nn.Module) -> Callable[[FloatArray], FloatArray]:
        if isinstance(layer, nn.Linear):
            weight = layer.weight.detach().numpy()
            bias = None if layer.bias is None else layer.bias.detach().numpy()

            def linear(signal: FloatArray) -> FloatArray:
                hidden: FloatArray = weight.dot(signal)
                if bias is not None:
                    hidden += bias
                return hidden

            return linear
        if isinstance(layer, nn.Flatten):
            return np.ravel
        activation = _ACTIVATIONS[type(layer)]

        def activate(signal: FloatArray) -> FloatArray:
            activation(signal)  # in place: `signal` is the fresh output of the layer before
            return signal

        return activate
