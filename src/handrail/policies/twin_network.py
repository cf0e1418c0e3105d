"""Two networks that are almost the same, as one: the first, and what the second is more.

With d = g - h, of units h of the first and g of the second, and D = f(g) - f(h) behind an
activation,

    d_k = V_k D_{k-1} + (V_k - W_k) f(h_{k-1}) + (c_k - b_k):

where weights hardly differ, d is small, and so is D, whatever h is. Side by side (`joined`), each
unit would be bounded for itself, and what that costs is as large as the units.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, final

import numpy as np

from handrail._types import Array
from handrail.policies.activation import IDENTITY, twinned
from handrail.policies.layer_arrays import LayerArrays


@final
@dataclass(frozen=True)
class TwinNetwork:
    """Both networks, with the outputs of the first and then those of the second.

    Attributes:
        layers: as above.
        sizes: a network whose numbers and roundings are at least as large: those of a difference
            are no smaller than those of what it is a difference of.
    """

    layers: LayerArrays
    sizes: LayerArrays

    @classmethod
    def of(cls, first: LayerArrays, second: LayerArrays) -> TwinNetwork | None:
        """None unless they have the same layers, and nothing else."""
        if not (_is_plain(first) and _is_plain(second) and _are_alike(first, second)):
            return None
        weights = list(zip(first.weights, second.weights, strict=True))
        biases = list(zip(first.biases, second.biases, strict=True))
        activations = tuple(map(twinned, first.activations))
        (one, other), *inner, last = weights
        return cls(
            LayerArrays(
                (
                    np.concatenate([one, other - one]),
                    *(_block(w, 0.0 * w, v - w, v) for w, v in inner),
                    _block(last[0], 0.0 * last[0], last[1], last[1]),
                ),
                (*(_stack(b, c - b) for b, c in biases[:-1]), _stack(*biases[-1])),
                activations,
            ),
            LayerArrays(
                (
                    _stack(np.abs(one), _size(one, other)),
                    *(_block(np.abs(w), 0.0 * w, _size(w, v), np.abs(v)) for w, v in inner),
                    np.abs(_block(last[0], 0.0 * last[0], last[1], last[1])),
                ),
                (
                    *(_stack(np.abs(b), _size(b, c)) for b, c in biases[:-1]),
                    np.abs(_stack(*biases[-1])),
                ),
                activations,
            ),
        )


def _is_plain(layers: LayerArrays) -> bool:
    """Whether weights, biases and activations are all of it."""
    known = ("weights", "biases", "activations")
    more: list[Any] = [getattr(layers, one.name) for one in fields(layers) if one.name not in known]
    return all(one is None for one in more) and len(layers.weights) > 1


def _are_alike(first: LayerArrays, second: LayerArrays) -> bool:
    shapes = [[one.shape for one in layers.weights] for layers in (first, second)]
    same = first.activations == second.activations and first.activations[-1] is IDENTITY
    return same and shapes[0] == shapes[1]


def _size(one: Array, other: Array) -> Array:
    result: Array = np.abs(one) + np.abs(other - one)
    return result


def _stack(one: Array, other: Array) -> Array:
    return np.concatenate([one, other])


def _block(a: Array, b: Array, c: Array, d: Array) -> Array:
    return np.block([[a, b], [c, d]])
