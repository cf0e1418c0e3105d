"""A policy's network as plain arrays: affine layers with an activation between them, in float64.

What a proof is about. Anything that is not such a network is refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from torch import nn

from handrail.arrays import Array
from handrail.errors import InvalidPolicy
from handrail.policies import Policy

ACTIVATIONS: dict[type[nn.Module], str] = {
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
        activation: σ, a value of `ACTIVATIONS`.
    """

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    activation: str

    @classmethod
    def of(cls, policy: Policy) -> Layers:
        """The layers of a policy's network; `InvalidPolicy` if a proof cannot look into it."""
        if type(policy.module) is not nn.Sequential:
            raise InvalidPolicy(_refusal(type(policy.module).__name__))
        layers = _flat(policy.module)
        for layer in layers:
            if type(layer) is not nn.Linear and type(layer) not in ACTIVATIONS:
                raise InvalidPolicy(_refusal(type(layer).__name__))
        linear, between = layers[::2], layers[1::2]
        kinds = {ACTIVATIONS.get(type(layer), "") for layer in between}
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
