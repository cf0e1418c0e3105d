"""Linear layers with activations between them: what the tangent kernel needs, in closed form (H4).

For any module, torch records a graph and walks it backwards. Of a chain, the same numbers are one
product per layer, on the very weights of the module, and nothing needs to be recorded.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import NamedTuple, final

import torch
from torch import Tensor, nn

from handrail.sequences import plain_layers


def _relu_slope(output: Tensor) -> Tensor:
    return output > 0.0


def _tanh_slope(output: Tensor) -> Tensor:
    return 1.0 - output.square()


# The derivative of each activation, from its output.
_SLOPES: dict[type[nn.Module], Callable[[Tensor], Tensor]] = {
    nn.ReLU: _relu_slope,
    nn.Tanh: _tanh_slope,
}


class Passed(NamedTuple):
    """One linear layer, for n states with r functionals each.

    Attributes:
        inputs: (n, d_in) what it was given.
        signals: (n, r, d_out) what arrives backwards at its output.
        has_bias: whether it adds one.
    """

    inputs: Tensor
    signals: Tensor
    has_bias: bool


@final
class Chain:
    """An `nn.Sequential` of linear layers, all of them trainable, and ReLU or tanh."""

    def __init__(self, layers: tuple[nn.Module, ...]) -> None:
        self._layers = layers

    @classmethod
    def of(cls, module: nn.Module) -> Chain | None:
        """The chain that a module is at present, or None."""
        layers = plain_layers(module)
        if not all(type(layer) in (nn.Linear, *_SLOPES) for layer in layers):
            return None
        parameters = [p for m in layers for p in m._parameters.values() if p is not None]
        once = len({id(p) for p in parameters}) == len(parameters)
        if not (once and parameters and all(p.requires_grad for p in parameters)):
            return None
        return cls(layers)

    @torch.no_grad()
    def passes(self, states: Tensor, weights: Tensor) -> list[Passed]:
        """Every linear layer, first to last, for functionals weights · raw(states).

        Args:
            states: (n, *observation_shape).
            weights: (n, r, n_actions).
        """
        signals = [states.flatten(1)]  # forwards: what each layer is given, then the outputs
        for layer in self._layers:
            signals.append(layer(signals[-1]))
        passed, arriving = [], weights
        for layer, given, output in zip(
            self._layers[::-1], signals[-2::-1], signals[:0:-1], strict=True
        ):
            if not isinstance(layer, nn.Linear):
                arriving = arriving * _SLOPES[type(layer)](output)[:, None, :]
                continue
            passed.append(Passed(given, arriving, layer.bias is not None))
            if given is not signals[0]:
                arriving = arriving @ layer.weight
        return passed[::-1]


def in_float64(module: nn.Module) -> nn.Module:
    """A copy that computes in float64."""
    if Chain.of(module) is None or not isinstance(module, nn.Sequential):
        return copy.deepcopy(module).double()
    # Deep copies of layers take longer than anything else here: a layer is a hundred small objects.
    return nn.Sequential(*(_layer_in_float64(layer) for layer in module))


def _layer_in_float64(layer: nn.Module) -> nn.Module:
    """The layer itself if it has no parameters, else a copy with its own."""
    if not layer._parameters:
        return layer
    copied = copy.copy(layer)
    copied._parameters = {
        name: None if parameter is None else nn.Parameter(parameter.detach().double())
        for name, parameter in layer._parameters.items()
    }
    return copied
