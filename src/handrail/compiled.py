"""The passes of a network with one hidden ReLU layer, compiled (optional: needs numba).

Torch writes every activation of every state to memory and reads it back several times; for a wide
layer on a few inputs that is nearly all of its time. Here a block of hidden units is computed, used
and forgotten while it is in the nearest cache, so no activation is ever stored.

Shapes: `inward` (n_observations, n_hidden) is the transposed first weight, `outward` (n_actions,
n_hidden) the last one; both lie by rows. `states` is (n, n_observations).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

from handrail.arrays import Array

_BLOCK = 256  # hidden units at a time
_TOGETHER = 8  # states whose gradients are added up in one pass
_Function = TypeVar("_Function", bound=Callable[..., Any])


def _compile(function: _Function) -> _Function:
    # Sums may be reordered (they are everywhere else, too), NaN must stay NaN.
    decorate: Any = numba.njit(
        cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy"
    )
    compiled: _Function = decorate(function)
    return compiled


@_compile
def _add_rows(total: Array, factors: Array, rows: Array, first: int) -> None:
    """Total += Σ_q factor_q · rows[q, first:], four rows a pass: each pass reads `total` again."""
    n = total.shape[0]
    last = first + n
    q = 0
    while q + 4 <= factors.shape[0]:
        f0, f1, f2, f3 = factors[q], factors[q + 1], factors[q + 2], factors[q + 3]
        r0, r1 = rows[q, first:last], rows[q + 1, first:last]
        r2, r3 = rows[q + 2, first:last], rows[q + 3, first:last]
        for j in range(n):
            total[j] += f0 * r0[j] + f1 * r1[j] + f2 * r2[j] + f3 * r3[j]
        q += 4
    while q < factors.shape[0]:
        f0 = factors[q]
        r0 = rows[q, first:last]
        for j in range(n):
            total[j] += f0 * r0[j]
        q += 1


@_compile
def _hidden(inward: Array, bias: Array, state: Array, first: int, units: Array) -> None:
    """The units from `first` on, before their ReLU."""
    n = units.shape[0]
    own = bias[first : first + n]
    for j in range(n):
        units[j] = own[j]
    _add_rows(units, state, inward, first)


@_compile
def _rectify(units: Array) -> None:
    for j in range(units.shape[0]):
        # Written so that NaN passes through.
        units[j] = 0.0 if units[j] < 0.0 else units[j]


@_compile
def _dot(one: Array, other: Array) -> float:
    total = 0.0
    for j in range(one.shape[0]):
        total += one[j] * other[j]
    return total


@_compile
def forward(
    inward: Array, inward_bias: Array, outward: Array, outward_bias: Array, states: Array
) -> Array:
    """Logits (n, n_actions)."""
    n_hidden, n_actions = inward.shape[1], outward.shape[0]
    block = np.empty(_BLOCK)
    logits = np.empty((states.shape[0], n_actions))
    for k in range(states.shape[0]):
        logits[k, :] = outward_bias
    for first in range(0, n_hidden, _BLOCK):
        last = min(first + _BLOCK, n_hidden)
        units = block[: last - first]
        for k in range(states.shape[0]):
            _hidden(inward, inward_bias, states[k], first, units)
            _rectify(units)
            for a in range(n_actions):
                logits[k, a] += _dot(outward[a, first:last], units)
    return logits


@_compile
def backward(
    inward: Array, inward_bias: Array, outward: Array, states: Array, weights: Array
) -> tuple[Array, Array, Array, Array]:
    """Gradient of Σ_k weights_k · logits_k, in the layout of the parameters.

    Returns (n_observations, n_hidden), (n_hidden,), (n_actions, n_hidden) and (n_actions,).
    """
    n_observations, n_hidden = inward.shape
    n_states, n_actions = weights.shape
    of_inward, of_inward_bias = np.zeros((n_observations, n_hidden)), np.zeros(n_hidden)
    of_outward, of_outward_bias = np.zeros((n_actions, n_hidden)), np.zeros(n_actions)
    units, signals = np.empty((_TOGETHER, _BLOCK)), np.empty((_TOGETHER, _BLOCK))
    ones = np.ones(_TOGETHER)
    by_observation, by_action = np.ascontiguousarray(states.T), np.ascontiguousarray(weights.T)
    for first in range(0, n_hidden, _BLOCK):
        last = min(first + _BLOCK, n_hidden)
        n = last - first
        for start in range(0, n_states, _TOGETHER):
            stop = min(start + _TOGETHER, n_states)
            for k in range(start, stop):
                unit, signal = units[k - start, :n], signals[k - start, :n]
                _hidden(inward, inward_bias, states[k], first, unit)
                signal[:] = 0.0
                _add_rows(signal, weights[k], outward, first)
                for j in range(n):
                    signal[j] = signal[j] if unit[j] > 0.0 else 0.0
                _rectify(unit)
            _add_rows(of_inward_bias[first:last], ones[: stop - start], signals, 0)
            for i in range(n_observations):
                _add_rows(of_inward[i, first:last], by_observation[i, start:stop], signals, 0)
            for a in range(n_actions):
                _add_rows(of_outward[a, first:last], by_action[a, start:stop], units, 0)
    for k in range(n_states):
        of_outward_bias += weights[k]
    return of_inward, of_inward_bias, of_outward, of_outward_bias


@_compile
def forward_mode(
    inward: Array,
    inward_bias: Array,
    outward: Array,
    states: Array,
    inward_change: Array,
    inward_bias_change: Array,
    outward_change: Array,
    outward_bias_change: Array,
) -> Array:
    """First-order change of the logits (n, n_actions) under a change of the parameters."""
    n_hidden, n_actions = inward.shape[1], outward.shape[0]
    block, changes = np.empty(_BLOCK), np.empty(_BLOCK)
    result = np.empty((states.shape[0], n_actions))
    for k in range(states.shape[0]):
        result[k, :] = outward_bias_change
    for first in range(0, n_hidden, _BLOCK):
        last = min(first + _BLOCK, n_hidden)
        unit, change = block[: last - first], changes[: last - first]
        for k in range(states.shape[0]):
            _hidden(inward, inward_bias, states[k], first, unit)
            _hidden(inward_change, inward_bias_change, states[k], first, change)
            for j in range(last - first):
                change[j] = change[j] if unit[j] > 0.0 else 0.0
            _rectify(unit)
            for a in range(n_actions):
                result[k, a] += _dot(outward[a, first:last], change)
                result[k, a] += _dot(outward_change[a, first:last], unit)
    return result


@_compile
def draw(
    inward: Array,
    inward_bias: Array,
    outward: Array,
    outward_bias: Array,
    state: Array,
    uniform: float,
) -> int:
    """An action drawn from the softmax with one uniform number; -1 if the logits are not finite."""
    weights = forward(inward, inward_bias, outward, outward_bias, state.reshape(1, -1))[0]
    highest = weights.max()
    total = 0.0
    for a in range(weights.shape[0]):
        weights[a] = np.exp(weights[a] - highest)
        total += weights[a]
    if not total >= 1.0:  # NaN: exp(0) = 1 is one of the summands of anything sound
        return -1
    remaining = uniform * total
    for a in range(weights.shape[0]):
        remaining -= weights[a]
        if remaining < 0.0:
            return a
    return int(np.argmax(weights))  # rounding: the draw fell on the upper end of the sum
