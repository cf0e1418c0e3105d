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

from handrail._types import Array

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
def _set_rows(total: Array, start: Array, factors: Array, rows: Array, first: int) -> None:
    """Total = start + Σ_q factor_q · rows[q, first:], where `start` begins at `first`, too."""
    n = total.shape[0]
    last = first + n
    own = start[first:last]
    if factors.shape[0] < 4:
        for j in range(n):
            total[j] = own[j]
        _add_rows(total, factors, rows, first)
        return
    f0, f1, f2, f3 = factors[0], factors[1], factors[2], factors[3]
    r0, r1 = rows[0, first:last], rows[1, first:last]
    r2, r3 = rows[2, first:last], rows[3, first:last]
    for j in range(n):
        total[j] = own[j] + (f0 * r0[j] + f1 * r1[j]) + (f2 * r2[j] + f3 * r3[j])
    if factors.shape[0] > 4:
        _add_rows(total, factors[4:], rows[4:], first)


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
            total[j] += (f0 * r0[j] + f1 * r1[j]) + (f2 * r2[j] + f3 * r3[j])
        q += 4
    while q < factors.shape[0]:
        f0 = factors[q]
        r0 = rows[q, first:last]
        for j in range(n):
            total[j] += f0 * r0[j]
        q += 1


@_compile
def _add_products(totals: Array, units: Array, rows: Array, first: int) -> None:
    """totals_a += rows[a, first:] · max(units, 0), two rows a pass. NaN passes through."""
    n = units.shape[0]
    last = first + n
    a = 0
    while a + 2 <= totals.shape[0]:
        r0, r1 = rows[a, first:last], rows[a + 1, first:last]
        t0 = t1 = 0.0
        for j in range(n):
            unit = 0.0 if units[j] < 0.0 else units[j]
            t0 += r0[j] * unit
            t1 += r1[j] * unit
        totals[a] += t0
        totals[a + 1] += t1
        a += 2
    if a < totals.shape[0]:
        r0 = rows[a, first:last]
        t0 = 0.0
        for j in range(n):
            t0 += r0[j] * (0.0 if units[j] < 0.0 else units[j])
        totals[a] += t0


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
            _set_rows(units, inward_bias, states[k], inward, first)
            _add_products(logits[k], units, outward, first)
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
    ones, nothing = np.ones(_TOGETHER), np.zeros(n_hidden)
    by_observation, by_action = np.ascontiguousarray(states.T), np.ascontiguousarray(weights.T)
    for first in range(0, n_hidden, _BLOCK):
        last = min(first + _BLOCK, n_hidden)
        n = last - first
        for start in range(0, n_states, _TOGETHER):
            stop = min(start + _TOGETHER, n_states)
            for k in range(start, stop):
                unit, signal = units[k - start, :n], signals[k - start, :n]
                _set_rows(unit, inward_bias, states[k], inward, first)
                _set_rows(signal, nothing, weights[k], outward, first)
                for j in range(n):
                    signal[j] = signal[j] if unit[j] > 0.0 else 0.0
                    unit[j] = 0.0 if unit[j] < 0.0 else unit[j]
            _add_rows(of_inward_bias[first:last], ones[: stop - start], signals, 0)
            for i in range(n_observations):
                _add_rows(of_inward[i, first:last], by_observation[i, start:stop], signals, 0)
            for a in range(n_actions):
                _add_rows(of_outward[a, first:last], by_action[a, start:stop], units, 0)
    for k in range(n_states):
        of_outward_bias += weights[k]
    return of_inward, of_inward_bias, of_outward, of_outward_bias


@_compile
def _product_where_active(one: Array, other: Array, units: Array) -> float:
    total = 0.0
    for j in range(one.shape[0]):
        total += one[j] * (other[j] if units[j] > 0.0 else 0.0)
    return total


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
            _set_rows(unit, inward_bias, states[k], inward, first)
            _add_products(result[k], unit, outward_change, first)
            _set_rows(change, inward_bias_change, states[k], inward_change, first)
            for a in range(n_actions):
                result[k, a] += _product_where_active(outward[a, first:last], change, unit)
    return result


@_compile
def _add_dots(totals: Array, one: Array, rows: Array) -> None:
    """totals_i += rows_i · one, for the first rows, four a pass: each pass reads `one` again."""
    n = one.shape[0]
    i = 0
    while i + 4 <= totals.shape[0]:
        r0, r1, r2, r3 = rows[i, :n], rows[i + 1, :n], rows[i + 2, :n], rows[i + 3, :n]
        t0 = t1 = t2 = t3 = 0.0
        for j in range(n):
            t0 += r0[j] * one[j]
            t1 += r1[j] * one[j]
            t2 += r2[j] * one[j]
            t3 += r3[j] * one[j]
        totals[i] += t0
        totals[i + 1] += t1
        totals[i + 2] += t2
        totals[i + 3] += t3
        i += 4
    while i < totals.shape[0]:
        r0 = rows[i, :n]
        t0 = 0.0
        for j in range(n):
            t0 += r0[j] * one[j]
        totals[i] += t0
        i += 1


@_compile
def kernel(
    inward: Array, inward_bias: Array, outward: Array, states: Array, weights: Array
) -> Array:
    """Inner products (n, n) of the gradients of weights_k · logits_k (H4).

    For few states: beyond what fits in the cache, matrix products are faster.
    """
    n_states, n_hidden = states.shape[0], inward.shape[1]
    units, signals = np.empty((n_states, _BLOCK)), np.empty((n_states, _BLOCK))
    of_units, of_signals = np.zeros((n_states, n_states)), np.zeros((n_states, n_states))
    nothing = np.zeros(n_hidden)
    for first in range(0, n_hidden, _BLOCK):
        n = min(_BLOCK, n_hidden - first)
        for k in range(n_states):
            unit, signal = units[k, :n], signals[k, :n]
            _set_rows(unit, inward_bias, states[k], inward, first)
            _set_rows(signal, nothing, weights[k], outward, first)
            for j in range(n):
                signal[j] = signal[j] if unit[j] > 0.0 else 0.0
                unit[j] = 0.0 if unit[j] < 0.0 else unit[j]
            # Against this state and those before it: the other triangle is the mirror.
            _add_dots(of_units[k, : k + 1], unit, units)
            _add_dots(of_signals[k, : k + 1], signal, signals)
    result = np.empty((n_states, n_states))
    for k in range(n_states):
        for i in range(k + 1):
            outer = (weights[k] * weights[i]).sum() * (of_units[k, i] + 1.0)
            inner = of_signals[k, i] * ((states[k] * states[i]).sum() + 1.0)
            result[k, i] = result[i, k] = outer + inner
    return result


@_compile
def changes(
    inward: Array,
    inward_bias: Array,
    outward: Array,
    new_inward: Array,
    new_inward_bias: Array,
    new_outward: Array,
    centres: Array,
    radii: Array,
) -> Array:
    """Between what (n, 2) one output less its bias changes in n boxes, from old to new weights.

    Units that are on at both weights all over a box are affine there, and so is the sum of their
    changes; those that are off change nothing. Of others q·relu(h) each is bounded by itself:
    q'(relu(h') - relu(h)) + (q' - q) relu(h). Here `outward` is (n_hidden,).
    """
    n_observations, n_hidden = inward.shape
    step, step_bias = new_inward - inward, new_inward_bias - inward_bias
    sizes, new_sizes, step_sizes = np.abs(inward), np.abs(new_inward), np.abs(step)
    nothing = np.zeros(n_hidden)
    block = np.empty((5, _BLOCK))
    on = np.empty(_BLOCK)
    slope = np.empty(n_observations)
    result = np.empty((centres.shape[0], 2))
    for k in range(centres.shape[0]):
        constant = lowest = highest = 0.0
        slope[:] = 0.0
        for first in range(0, n_hidden, _BLOCK):
            last = min(first + _BLOCK, n_hidden)
            n = last - first
            h, dh, reach = block[0, :n], block[1, :n], block[2, :n]
            new_reach, step_reach = block[3, :n], block[4, :n]
            _set_rows(h, inward_bias, centres[k], inward, first)
            _set_rows(dh, step_bias, centres[k], step, first)
            _set_rows(reach, nothing, radii[k], sizes, first)
            _set_rows(new_reach, nothing, radii[k], new_sizes, first)
            _set_rows(step_reach, nothing, radii[k], step_sizes, first)
            old_out, new_out = outward[first:last], new_outward[first:last]
            for j in range(n):
                q, new_q, new_h = old_out[j], new_out[j], h[j] + dh[j]
                is_on = h[j] >= reach[j] and new_h >= new_reach[j]
                is_off = h[j] <= -reach[j] and new_h <= -new_reach[j]
                on[j] = 1.0 if is_on else 0.0
                open_ = 0.0 if is_on or is_off else 1.0
                constant += on[j] * (new_q * new_h - q * h[j])
                down = new_q * min(0.0, dh[j] - step_reach[j])
                up = new_q * max(0.0, dh[j] + step_reach[j])
                at_most = (new_q - q) * max(0.0, h[j] + reach[j])
                lowest += open_ * (min(down, up) + min(0.0, at_most))
                highest += open_ * (max(down, up) + max(0.0, at_most))
            for i in range(n_observations):
                old_row, new_row = inward[i, first:last], new_inward[i, first:last]
                total = 0.0
                for j in range(n):
                    total += on[j] * (new_out[j] * new_row[j] - old_out[j] * old_row[j])
                slope[i] += total
        spread = 0.0
        for i in range(n_observations):
            spread += abs(slope[i]) * radii[k, i]
        result[k, 0] = constant - spread + lowest
        result[k, 1] = constant + spread + highest
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
