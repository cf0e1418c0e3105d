"""A network of Linear layers with an activation behind each, as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from handrail.errors import InvalidPolicy
from handrail.networks import ACTIVATIONS

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
            raise _refusal(part)
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
        raise _refusal(part)


def _refusal(part: nn.Module) -> InvalidPolicy:
    named = type(part).__name__ if list(part.children()) else str(part)
    return InvalidPolicy(
        f"A NumPy file holds Linear layers, each with at most one activation behind it "
        f"({', '.join(ACTIVATIONS)}); this network has {named} elsewhere or besides. Export it as "
        "ONNX, which holds any network."
    )


def _array(tensor: Tensor) -> NDArray[Any]:
    return np.ascontiguousarray(tensor.detach().cpu().numpy())
