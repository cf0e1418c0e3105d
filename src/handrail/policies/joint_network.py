"""Two networks as one: side by side on the same state, so that bounds keep what they share.

The weights of the two stand in blocks,

    h_k = [[W_k, 0], [0, V_k]] σ(h_{k-1}) + [b_k, c_k],    with h_1 = [W_1; V_1] s + [b_1, c_1],

so that a linear function of both outputs is bounded by one affine function of the state: what the
two do alike cancels in it. Bounded one by one, each would be worst at a state of its own.

Two that are almost the same are the first, and what the second is more: with d = g - h, of units h
of the first and g of the second, and D = f(g) - f(h) behind an activation,

    d_k = V_k D_{k-1} + (V_k - W_k) f(h_{k-1}) + (c_k - b_k):

where weights hardly differ, d is small, and so is D, whatever h is. Side by side, each unit would
be bounded for itself, and what that costs is as large as the units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, final

import numpy as np
from scipy.linalg import block_diag

from handrail._types import Array
from handrail.errors import InvalidPolicy
from handrail.policies.activation import IDENTITY, side_by_side, twinned
from handrail.policies.layer_arrays import LayerArrays


def joined(first: LayerArrays, second: LayerArrays) -> LayerArrays:
    """The outputs of both at the same state, those of the first in front.

    Of networks of different depth, the outputs of the shorter are passed on as they are.
    """
    depth = max(len(first.weights), len(second.weights))
    one, other = _deepened(first, depth), _deepened(second, depth)
    pairs = zip(one.activations, one.biases, other.activations, other.biases, strict=True)
    return LayerArrays(
        (np.concatenate([one.weights[0], other.weights[0]]), *_blocks(one.weights, other.weights)),
        tuple(map(np.concatenate, zip(one.biases, other.biases, strict=True))),
        tuple(side_by_side((a, len(b)), (c, len(d))) for a, b, c, d in pairs),
        _gains(one, other),
        None
        if one.summed is None and other.summed is None
        else tuple(map(np.concatenate, zip(one.bias_sizes, other.bias_sizes, strict=True))),
    )


def _gains(one: LayerArrays, other: LayerArrays) -> tuple[Array | None, ...] | None:
    """What observations are added with, in either."""
    if one.gains is None and other.gains is None:
        return None
    n = one.n_observations
    found: list[Array | None] = []
    for k, sizes in enumerate(zip(one.biases, other.biases, strict=True)):
        gains = one.gain_at(k), other.gain_at(k)
        both = zip(gains, sizes, strict=True)
        blocks = [np.zeros((len(bias), n)) if gain is None else gain for gain, bias in both]
        neither = all(gain is None for gain in gains)
        found.append(None if neither else np.concatenate(blocks))
    return tuple(found)


def mirrored(layers: LayerArrays, matrix: Array) -> LayerArrays:
    """What a network says of the image of a state under a matrix (n_observations, n_observations).

    Folded into the first layer where no weight is rounded by that: coordinates that change places
    or signs. Any other matrix is a layer of its own.
    """
    if np.isin(matrix, (-1.0, 0.0, 1.0)).all() and (np.count_nonzero(matrix, axis=0) <= 1).all():
        inward, *weights = layers.weights
        gains = layers.gains and tuple(one if one is None else one @ matrix for one in layers.gains)
        return replace(layers, weights=(inward @ matrix, *weights), gains=gains)
    if layers.gains is not None:
        raise InvalidPolicy(
            "Nothing can be proven about a network beside a controller in a mirror that mixes "
            "observations. It can be held (prove=False)."
        )
    nothing = np.zeros(len(matrix))
    return LayerArrays(
        (matrix, *layers.weights),
        (nothing, *layers.biases),
        (IDENTITY, *layers.activations),
        summed=layers.summed and (nothing, *layers.summed),
    )


def _deepened(layers: LayerArrays, depth: int) -> LayerArrays:
    more, width = depth - len(layers.weights), layers.n_outputs
    return LayerArrays(
        layers.weights + more * (np.eye(width),),
        layers.biases + more * (np.zeros(width),),
        layers.activations + more * (IDENTITY,),
        layers.gains and layers.gains + more * (None,),
        layers.summed and layers.summed + more * (np.zeros(width),),
    )


def _blocks(one: Sequence[Array], other: Sequence[Array]) -> list[Array]:
    """Of all layers but the first, which see different things."""
    return [block_diag(*pair) for pair in zip(one[1:], other[1:], strict=True)]


@final
@dataclass(frozen=True)
class TwinNetwork:
    """Both networks, with the outputs of the first and then those of the second.

    Attributes:
        layers: of the first, and of what the second is more.
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
