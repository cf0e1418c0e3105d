"""Two networks as one: side by side on the same state, so that bounds keep what they share.

The weights of the two stand in blocks,

    h_k = [[W_k, 0], [0, V_k]] σ(h_{k-1}) + [b_k, c_k],    with h_1 = [W_1; V_1] s + [b_1, c_1],

so that a linear function of both outputs is bounded by one affine function of the state: what the
two do alike cancels in it. Bounded one by one, each would be worst at a state of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.linalg import block_diag

from handrail._types import Array
from handrail.errors import InvalidPolicy
from handrail.policies.activation import IDENTITY, side_by_side
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
