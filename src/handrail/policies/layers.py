"""A policy's network as plain arrays: affine layers with an activation between them, in float64.

What a proof is about. Anything that is not such a network is refused by name.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from handrail._types import Array
from handrail.errors import InvalidPolicy
from handrail.policies.activation import ACTIVATIONS

_PROVABLE: dict[type[nn.Module], str] = {
    nn.ReLU: "relu",
    nn.Tanh: "tanh",
    nn.Sigmoid: "sigmoid",
}


_UNIT_ROUNDOFF = 2.0**-53


@final
@dataclass(frozen=True)
class Layers:
    """Raw outputs z = W_L σ(… σ(W_1 s + b_1) …) + b_L.

    Attributes:
        weights: one (n_out, n_in) per layer.
        biases: one (n_out,) per layer.
        activation: σ, a value of `_PROVABLE`.
    """

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    activation: str

    @classmethod
    def of(cls, module: nn.Module) -> Layers:
        """The layers of a network; `InvalidPolicy` if a proof cannot look into it."""
        if type(module) is not nn.Sequential:
            raise InvalidPolicy(_refusal(type(module).__name__))
        layers = _flat(module)
        for layer in layers:
            if type(layer) is not nn.Linear and type(layer) not in _PROVABLE:
                raise InvalidPolicy(_refusal(type(layer).__name__))
        linear, between = layers[::2], layers[1::2]
        kinds = {_PROVABLE.get(type(layer), "") for layer in between}
        alternate = all(type(layer) is nn.Linear for layer in linear) and "" not in kinds
        if not alternate or len(linear) != len(between) + 1:
            raise InvalidPolicy(_refusal("layers that do not alternate"))
        if len(kinds) > 1:
            raise InvalidPolicy(_refusal("different activations: " + ", ".join(sorted(kinds))))
        weights, biases = [], []
        for layer in linear:
            assert isinstance(layer, nn.Linear)  # checked above
            weights.append(layer.weight.detach().double().cpu().numpy().copy())
            bias = np.zeros(layer.out_features)
            if layer.bias is not None:
                bias = layer.bias.detach().double().cpu().numpy().copy()
            biases.append(bias)
        return cls(tuple(weights), tuple(biases), kinds.pop() if kinds else "relu")

    @property
    def n_observations(self) -> int:
        """Length of a state."""
        return int(self.weights[0].shape[1])

    def is_finite(self) -> bool:
        """Whether no weight is infinite or NaN."""
        return all(np.isfinite(part).all() for part in (*self.weights, *self.biases))

    def rounding(self, low: Array, high: Array) -> float:
        """How far an output evaluated in float64 can be from the exact one, for states in a box.

        The standard bound for dot products, γ_n Σ|terms| with γ_n ≈ n·2⁻⁵³, carried through the
        layers with absolute values. Activations are 1-Lipschitz and exact to a few units in the
        last place. The factor 4 covers our own order of summation and the softmax.
        """
        size = np.maximum(np.abs(low), np.abs(high))
        terms = 0
        for weight, bias in zip(self.weights, self.biases, strict=True):
            size = np.abs(weight) @ size + np.abs(bias)
            terms += weight.shape[1] + 4
        return float(4.0 * terms * _UNIT_ROUNDOFF * (size.max() + 1.0))


def _flat(module: nn.Sequential) -> list[nn.Module]:
    """The layers in order, without those that change nothing."""
    layers: list[nn.Module] = []
    for layer in module:
        if type(layer) is nn.Sequential:
            layers += _flat(layer)
        elif not _changes_nothing(layer):
            layers.append(layer)
    return layers


def _changes_nothing(layer: nn.Module) -> bool:
    if type(layer) is nn.Dropout:
        return not layer.training
    return type(layer) in (nn.Flatten, nn.Identity)


def _refusal(what: str) -> str:
    return (
        f"Nothing can be proven about a network with {what}: proofs look into nn.Sequential of "
        "Linear layers with the same activation between them, ReLU, Tanh or Sigmoid. Such a "
        "network can still be made to obey on samples of a region (prove=False)."
    )


def plain_layers(module: nn.Module) -> tuple[nn.Module, ...]:
    """The layers of an `nn.Sequential`, but for a flattening of whole observations in front.

    None at all for any other module, and where hooks could do something between the layers. A
    flattening further back is a layer like any other: what is in front of it may have been applied
    to every row of an observation.
    """
    if type(module) is not nn.Sequential:
        return ()
    layers = tuple(module)
    if any(one._forward_hooks or one._forward_pre_hooks for one in (module, *layers)):
        return ()
    return layers[1:] if layers and _flattens_observations(layers[0]) else layers


def _flattens_observations(layer: nn.Module) -> bool:
    return type(layer) is nn.Flatten and (layer.start_dim, layer.end_dim) == (1, -1)


# For any module, torch records a graph and walks it backwards. Of a chain, the same numbers are one
# product per layer, on the very weights of the module, and nothing needs to be recorded.


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


# Collecting experience asks the network for one observation at a time. Torch's overhead for that is
# several times the arithmetic; the same few products in NumPy are not. The arrays are views of the
# torch parameters, so an in-place update (an optimiser, an enforcement) is seen at once; anything
# that swaps a parameter's memory or a layer is noticed before every call.


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


NO_ACTIVATION = "id"


_NAMES = {kind: name for name, kind in ACTIVATIONS.items()}


@final
@dataclass(frozen=True)
class AffineLayer:
    """activation(z @ weight + bias).

    Attributes:
        weight: (n_in, n_out).
        bias: (n_out,).
        activation: a key of `networks.ACTIVATIONS`, or "id" for none.
    """

    weight: NDArray[Any]
    bias: NDArray[Any]
    activation: str


def affine_layers(module: nn.Module) -> list[AffineLayer]:
    """The layers of a module, in order; `InvalidPolicy` if there is any other kind."""
    layers: list[AffineLayer] = []
    for part in _in_order(module):
        if type(part) is nn.Linear:
            bias = part.bias if part.bias is not None else part.weight.new_zeros(part.out_features)
            layers.append(AffineLayer(_array(part.weight.T), _array(bias), NO_ACTIVATION))
        elif type(part) in _NAMES and layers and layers[-1].activation == NO_ACTIVATION:
            _refuse_options(part)
            last = layers.pop()
            layers.append(AffineLayer(last.weight, last.bias, _NAMES[type(part)]))
        else:
            raise _not_for_numpy(part)
    return layers


def _in_order(part: nn.Module) -> list[nn.Module]:
    """Layers without those that change nothing for flat observations."""
    if type(part) is nn.Sequential:
        return [one for child in part for one in _in_order(child)]
    flattens = type(part) is nn.Flatten and (part.start_dim, part.end_dim) == (1, -1)
    sleeps = type(part) is nn.Dropout and not part.training
    return [] if flattens or sleeps or type(part) is nn.Identity else [part]


def _refuse_options(part: nn.Module) -> None:
    altered = (isinstance(part, nn.ELU) and part.alpha != 1.0) or (
        isinstance(part, nn.GELU) and part.approximate != "none"
    )
    if altered:
        raise _not_for_numpy(part)


def _not_for_numpy(part: nn.Module) -> InvalidPolicy:
    named = type(part).__name__ if list(part.children()) else str(part)
    return InvalidPolicy(
        f"A NumPy file holds Linear layers, each with at most one activation behind it "
        f"({', '.join(ACTIVATIONS)}); this network has {named} elsewhere or besides. Export it as "
        "ONNX, which holds any network."
    )


def _array(tensor: Tensor) -> NDArray[Any]:
    return np.ascontiguousarray(tensor.detach().cpu().numpy())
