"""The passes of a network with one hidden ReLU layer, compiled (optional: needs numba).

Torch writes every activation of every state to memory and reads it back several times; for a wide
layer on a few inputs that is nearly all of its time. Here a block of hidden units is computed, used
and forgotten while it is in the nearest cache, so no activation is ever stored.

Shapes: `inward` (n_observations, n_hidden) is the transposed first weight, `outward` (n_actions,
n_hidden) the last one; both lie by rows. `states` is (n, n_observations).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from handrail._types import Array
from handrail.policies.compiled.compilation import compiled

Patterns = NDArray[np.uint16]
"""(n_patterns, n_hidden): in bit i of row p, whether state 16 p + i switches a unit on."""

STATES_A_PATTERN = 16

_BLOCK = 256  # hidden units at a time


@compiled
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


@compiled
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


@compiled
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


@compiled
def _in_fours(matrix: Array) -> Array:
    """With zeros behind, so many that both sides are multiples of four."""
    n, m = matrix.shape
    result = np.zeros((-(-n // 4) * 4, -(-m // 4) * 4))
    result[:n, :m] = matrix
    return result


@compiled
def _set_units(
    units: Array, n: int, start: Array, states: Array, k: int, rows: Array, first: int
) -> None:
    """units[i, :n] = start + Σ_q states[k + i, q] · rows[q, first:], for four states in fours.

    Four states and four rows a pass: what is read once serves sixteen products. A row that is not
    there is multiplied with the zeros behind a state, so any other one will do.
    """
    last, end = first + n, rows.shape[0] - 1
    u0, u1, u2, u3 = units[0, :n], units[1, :n], units[2, :n], units[3, :n]
    own = start[first:last]
    for q in range(0, states.shape[1], 4):
        r0, r1 = rows[q, first:last], rows[min(q + 1, end), first:last]
        r2, r3 = rows[min(q + 2, end), first:last], rows[min(q + 3, end), first:last]
        a0, a1, a2, a3 = states[k, q], states[k, q + 1], states[k, q + 2], states[k, q + 3]
        k1, k2, k3 = k + 1, k + 2, k + 3
        b0, b1, b2, b3 = states[k1, q], states[k1, q + 1], states[k1, q + 2], states[k1, q + 3]
        c0, c1, c2, c3 = states[k2, q], states[k2, q + 1], states[k2, q + 2], states[k2, q + 3]
        d0, d1, d2, d3 = states[k3, q], states[k3, q + 1], states[k3, q + 2], states[k3, q + 3]
        if q == 0:
            for j in range(n):
                x, x0, x1, x2, x3 = own[j], r0[j], r1[j], r2[j], r3[j]
                u0[j] = x + ((a0 * x0 + a1 * x1) + (a2 * x2 + a3 * x3))
                u1[j] = x + ((b0 * x0 + b1 * x1) + (b2 * x2 + b3 * x3))
                u2[j] = x + ((c0 * x0 + c1 * x1) + (c2 * x2 + c3 * x3))
                u3[j] = x + ((d0 * x0 + d1 * x1) + (d2 * x2 + d3 * x3))
        else:
            for j in range(n):
                x0, x1, x2, x3 = r0[j], r1[j], r2[j], r3[j]
                u0[j] += (a0 * x0 + a1 * x1) + (a2 * x2 + a3 * x3)
                u1[j] += (b0 * x0 + b1 * x1) + (b2 * x2 + b3 * x3)
                u2[j] += (c0 * x0 + c1 * x1) + (c2 * x2 + c3 * x3)
                u3[j] += (d0 * x0 + d1 * x1) + (d2 * x2 + d3 * x3)


@compiled
def _add_products_of_four(
    totals: Array, k: int, units: Array, n: int, rows: Array, first: int
) -> None:
    """totals[k + i, a] += rows[a, first:] · max(units[i, :n], 0), for four states."""
    last, end = first + n, rows.shape[0] - 1
    u0, u1, u2, u3 = units[0, :n], units[1, :n], units[2, :n], units[3, :n]
    for a in range(0, rows.shape[0], 2):
        r, s = rows[a, first:last], rows[min(a + 1, end), first:last]
        t0 = t1 = t2 = t3 = v0 = v1 = v2 = v3 = 0.0
        for j in range(n):
            x, y = r[j], s[j]
            h0, h1 = 0.0 if u0[j] < 0.0 else u0[j], 0.0 if u1[j] < 0.0 else u1[j]
            h2, h3 = 0.0 if u2[j] < 0.0 else u2[j], 0.0 if u3[j] < 0.0 else u3[j]
            t0 += x * h0
            t1 += x * h1
            t2 += x * h2
            t3 += x * h3
            v0 += y * h0
            v1 += y * h1
            v2 += y * h2
            v3 += y * h3
        totals[k, a] += t0
        totals[k + 1, a] += t1
        totals[k + 2, a] += t2
        totals[k + 3, a] += t3
        if a < end:
            totals[k, a + 1] += v0
            totals[k + 1, a + 1] += v1
            totals[k + 2, a + 1] += v2
            totals[k + 3, a + 1] += v3


@compiled
def forward(
    inward: Array, inward_bias: Array, outward: Array, outward_bias: Array, states: Array
) -> Array:
    """Logits (n, n_actions)."""
    if states.shape[0] == 1:
        return forward_of_one(inward, inward_bias, outward, outward_bias, states[0])
    return _forward(inward, inward_bias, outward, outward_bias, states, None)


@compiled
def forward_and_patterns(
    inward: Array, inward_bias: Array, outward: Array, outward_bias: Array, states: Array
) -> tuple[Array, Patterns]:
    """Logits (n, n_actions), and which states switch which units on."""
    n_patterns = -(-states.shape[0] // STATES_A_PATTERN)
    patterns = np.zeros((n_patterns, inward.shape[1]), np.uint16)
    logits = _forward(inward, inward_bias, outward, outward_bias, states, patterns)
    return logits, patterns


@compiled
def _forward(
    inward: Array,
    inward_bias: Array,
    outward: Array,
    outward_bias: Array,
    states: Array,
    patterns: Patterns | None,
) -> Array:
    """Logits; and into patterns that are all zero, if somebody wants them, what is on."""
    n_hidden, n_actions = inward.shape[1], outward.shape[0]
    fours = _in_fours(states)
    block = np.empty((4, _BLOCK))
    logits = np.empty((fours.shape[0], n_actions))
    for k in range(fours.shape[0]):
        logits[k, :] = outward_bias
    if n_actions == 2 and fours.shape[1] == 4:
        for first in range(0, n_hidden, 4 * _BLOCK):
            n = min(4 * _BLOCK, n_hidden - first)
            for k in range(0, fours.shape[0], 4):
                _add_two_logits_of_four(
                    logits, patterns, k, inward, inward_bias, outward, fours, n, first
                )
        return logits[: states.shape[0]]
    for first in range(0, n_hidden, _BLOCK):
        n = min(_BLOCK, n_hidden - first)
        for k in range(0, fours.shape[0], 4):
            _set_units(block, n, inward_bias, fours, k, inward, first)
            if patterns is not None:
                _add_bits_of_four(patterns, k, block, n, first)
            _add_products_of_four(logits, k, block, n, outward, first)
    return logits[: states.shape[0]]


@compiled
def _bits_of_four(k: int) -> tuple[np.uint16, np.uint16, np.uint16, np.uint16]:
    """Those of the states from k on."""
    bit = 1 << (k % STATES_A_PATTERN)
    return np.uint16(bit), np.uint16(2 * bit), np.uint16(4 * bit), np.uint16(8 * bit)


@compiled
def _add_bits_of_four(patterns: Patterns, k: int, units: Array, n: int, first: int) -> None:
    """The bits of units[i, :n] > 0, for four states."""
    u0, u1, u2, u3 = units[0, :n], units[1, :n], units[2, :n], units[3, :n]
    own, off = patterns[k // STATES_A_PATTERN, first : first + n], np.uint16(0)
    e0, e1, e2, e3 = _bits_of_four(k)
    for j in range(n):
        on0, on1 = e0 if u0[j] > 0.0 else off, e1 if u1[j] > 0.0 else off
        on2, on3 = e2 if u2[j] > 0.0 else off, e3 if u3[j] > 0.0 else off
        own[j] |= on0 | on1 | on2 | on3


@compiled
def _add_two_logits_of_four(
    logits: Array,
    patterns: Patterns | None,
    k: int,
    inward: Array,
    inward_bias: Array,
    outward: Array,
    states: Array,
    n: int,
    first: int,
) -> None:
    """What n units add to both logits of four states of at most four numbers, and their bits.

    As `_two_products`, without storing a unit.
    """
    last, end, own = first + n, inward.shape[0] - 1, inward_bias[first : first + n]
    r0, r1 = inward[0, first:last], inward[min(1, end), first:last]
    r2, r3 = inward[min(2, end), first:last], inward[min(3, end), first:last]
    one, other = outward[0, first:last], outward[1, first:last]
    k1, k2, k3 = k + 1, k + 2, k + 3
    a0, a1, a2, a3 = states[k, 0], states[k, 1], states[k, 2], states[k, 3]
    b0, b1, b2, b3 = states[k1, 0], states[k1, 1], states[k1, 2], states[k1, 3]
    c0, c1, c2, c3 = states[k2, 0], states[k2, 1], states[k2, 2], states[k2, 3]
    d0, d1, d2, d3 = states[k3, 0], states[k3, 1], states[k3, 2], states[k3, 3]
    t0 = t1 = t2 = t3 = v0 = v1 = v2 = v3 = 0.0
    if patterns is not None:
        bits, off = patterns[k // STATES_A_PATTERN, first:last], np.uint16(0)
        e0, e1, e2, e3 = _bits_of_four(k)
    for j in range(n):
        x, x0, x1, x2, x3 = own[j], r0[j], r1[j], r2[j], r3[j]
        h0 = a3 * x3 + (a2 * x2 + (a1 * x1 + (a0 * x0 + x)))
        h1 = b3 * x3 + (b2 * x2 + (b1 * x1 + (b0 * x0 + x)))
        h2 = c3 * x3 + (c2 * x2 + (c1 * x1 + (c0 * x0 + x)))
        h3 = d3 * x3 + (d2 * x2 + (d1 * x1 + (d0 * x0 + x)))
        if patterns is not None:
            on0, on1 = e0 if h0 > 0.0 else off, e1 if h1 > 0.0 else off
            on2, on3 = e2 if h2 > 0.0 else off, e3 if h3 > 0.0 else off
            bits[j] |= on0 | on1 | on2 | on3
        h0, h1 = 0.0 if h0 < 0.0 else h0, 0.0 if h1 < 0.0 else h1
        h2, h3 = 0.0 if h2 < 0.0 else h2, 0.0 if h3 < 0.0 else h3
        y, z = one[j], other[j]
        t0, t1, t2, t3 = t0 + y * h0, t1 + y * h1, t2 + y * h2, t3 + y * h3
        v0, v1, v2, v3 = v0 + z * h0, v1 + z * h1, v2 + z * h2, v3 + z * h3
    logits[k, 0] += t0
    logits[k1, 0] += t1
    logits[k2, 0] += t2
    logits[k3, 0] += t3
    logits[k, 1] += v0
    logits[k1, 1] += v1
    logits[k2, 1] += v2
    logits[k3, 1] += v3


@compiled
def forward_of_one(
    inward: Array, inward_bias: Array, outward: Array, outward_bias: Array, state: Array
) -> Array:
    """Logits (1, n_actions): memory is read once, so what is computed need not be stored either."""
    n_hidden, n_actions = inward.shape[1], outward.shape[0]
    logits = np.empty((1, n_actions))
    logits[0, :] = outward_bias
    if n_actions == 2 and state.shape[0] <= 4:
        least, most = _two_products(inward, inward_bias, outward, state)
        logits[0, 0] += least
        logits[0, 1] += most
        return logits
    block = np.empty(_BLOCK)
    for first in range(0, n_hidden, _BLOCK):
        units = block[: min(_BLOCK, n_hidden - first)]
        _set_rows(units, inward_bias, state, inward, first)
        _add_products(logits[0], units, outward, first)
    return logits


@compiled
def draw(
    inward: Array,
    inward_bias: Array,
    outward: Array,
    outward_bias: Array,
    state: Array,
    uniform: float,
) -> int:
    """An action drawn from the softmax with one uniform number; -1 if the logits are not finite."""
    weights = forward_of_one(inward, inward_bias, outward, outward_bias, state)[0]
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


@compiled
def _two_products(
    inward: Array, inward_bias: Array, outward: Array, state: Array
) -> tuple[float, float]:
    """Both rows of `outward` times max(units, 0), of a state of at most four numbers."""
    end = state.shape[0] - 1
    s0, r0 = state[0], inward[0]
    s1, r1 = state[1] if end > 0 else 0.0, inward[min(1, end)]
    s2, r2 = state[2] if end > 1 else 0.0, inward[min(2, end)]
    s3, r3 = state[3] if end > 2 else 0.0, inward[min(3, end)]
    one, other = outward[0], outward[1]
    t0 = t1 = 0.0
    for j in range(inward.shape[1]):
        h = inward_bias[j] + ((s0 * r0[j] + s1 * r1[j]) + (s2 * r2[j] + s3 * r3[j]))
        h = 0.0 if h < 0.0 else h
        t0 += one[j] * h
        t1 += other[j] * h
    return t0, t1


@compiled
def _add_rows_of_four(
    totals: Array, factors: Array, k: int, units: Array, n: int, first: int
) -> None:
    """totals[r, first:] += Σ_i factors[r, k + i] · units[i, :n], for four states and r < m.

    Two rows a pass: there is an even number m of them in `totals`, and no fewer in `factors`.
    """
    u0, u1, u2, u3 = units[0, :n], units[1, :n], units[2, :n], units[3, :n]
    for r in range(0, totals.shape[0], 2):
        s, t = totals[r, first : first + n], totals[r + 1, first : first + n]
        a, b = factors[r], factors[r + 1]
        a0, a1, a2, a3 = a[k], a[k + 1], a[k + 2], a[k + 3]
        b0, b1, b2, b3 = b[k], b[k + 1], b[k + 2], b[k + 3]
        for j in range(n):
            x0, x1, x2, x3 = u0[j], u1[j], u2[j], u3[j]
            s[j] += (a0 * x0 + a1 * x1) + (a2 * x2 + a3 * x3)
            t[j] += (b0 * x0 + b1 * x1) + (b2 * x2 + b3 * x3)


@compiled
def _set_active(units: Array, n: int) -> None:
    """1 for every unit that is on, 0 for every other, of four states."""
    for i in range(4):
        own = units[i, :n]
        for j in range(n):
            own[j] = 1.0 if own[j] > 0.0 else 0.0


@compiled
def _switch(units: Array, signals: Array, n: int) -> None:
    """Of four states: what a unit lets through, and of the signals those whose unit is on."""
    for i in range(4):
        unit, signal = units[i, :n], signals[i, :n]
        for j in range(n):
            signal[j] = signal[j] if unit[j] > 0.0 else 0.0
            unit[j] = 0.0 if unit[j] < 0.0 else unit[j]


@compiled
def products_where_active(inward: Array, inward_bias: Array, rows: Array, states: Array) -> Array:
    """Σ_j rows[r, j] over the hidden units that each state switches on, (n, m).

    Args:
        inward: weights, and
        inward_bias: their biases.
        rows: (m, n_hidden).
        states: (n, n_observations).
    """
    n_hidden = inward.shape[1]
    fours = _in_fours(states)
    result = np.zeros((fours.shape[0], rows.shape[0]))
    block = np.empty((4, _BLOCK))
    for first in range(0, n_hidden, _BLOCK):
        n = min(_BLOCK, n_hidden - first)
        for k in range(0, fours.shape[0], 4):
            _set_units(block, n, inward_bias, fours, k, inward, first)
            _set_active(block, n)
            _add_products_of_four(result, k, block, n, rows, first)
    return result[: states.shape[0]]


@compiled
def backward(
    inward: Array, inward_bias: Array, outward: Array, states: Array, weights: Array
) -> tuple[Array, Array]:
    """Gradient of Σ_k weights_k · logits_k, but for the last biases.

    Returns (n_observations + 1, n_hidden), of which the last row is of the biases, and
    (n_actions, n_hidden).
    """
    n_observations, n_hidden = inward.shape
    n_states, n_actions = weights.shape
    m = n_observations + 1
    fours, weighed = _in_fours(states), _in_fours(weights)
    by_observation, by_action = np.zeros((m + m % 2, len(fours))), _in_fours(weights.T)
    by_observation[:n_observations, :n_states] = states.T
    by_observation[n_observations] = 1.0
    of_inward = np.zeros((m + m % 2, n_hidden))
    of_outward = np.zeros((n_actions + n_actions % 2, n_hidden))
    units, signals, nothing = np.empty((4, _BLOCK)), np.empty((4, _BLOCK)), np.zeros(n_hidden)
    for first in range(0, n_hidden, _BLOCK):
        n = min(_BLOCK, n_hidden - first)
        for k in range(0, len(fours), 4):
            _set_units(units, n, inward_bias, fours, k, inward, first)
            _set_units(signals, n, nothing, weighed, k, outward, first)
            _switch(units, signals, n)
            _add_rows_of_four(of_inward, by_observation, k, signals, n, first)
            _add_rows_of_four(of_outward, by_action, k, units, n, first)
    return of_inward[:m], of_outward[:n_actions]


@compiled
def both_ways(
    inward: Array, inward_bias: Array, outward: Array, states: Array, weights: Array
) -> tuple[Array, Array]:
    """Units, and what arrives at them of functionals weights_kr · logits_k (n, r, n_actions).

    Returns (n, n_hidden), what each unit lets through, and (n, r, n_hidden).
    """
    n_hidden, n_actions = inward.shape[1], outward.shape[0]
    n_states, n_functionals = weights.shape[:2]
    fours = _in_fours(states)
    weighed = np.zeros((n_functionals, len(fours), -(-n_actions // 4) * 4))
    for r in range(n_functionals):
        weighed[r, :n_states, :n_actions] = weights[:, r]
    units, signals, nothing = np.empty((4, _BLOCK)), np.empty((4, _BLOCK)), np.zeros(n_hidden)
    of_units = np.empty((n_states, n_hidden))
    of_signals = np.empty((n_states, n_functionals, n_hidden))
    for k in range(0, len(fours), 4):
        own = min(4, n_states - k)
        for first in range(0, n_hidden, _BLOCK):
            n = min(_BLOCK, n_hidden - first)
            _set_units(units, n, inward_bias, fours, k, inward, first)
            for r in range(n_functionals):
                _set_units(signals, n, nothing, weighed[r], k, outward, first)
                _switch(units, signals, n)
                for i in range(own):
                    of_signals[k + i, r, first : first + n] = signals[i, :n]
            for i in range(own):
                of_units[k + i, first : first + n] = units[i, :n]
    return of_units, of_signals


@compiled
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
    fours = _in_fours(states)
    units, changes = np.empty((4, _BLOCK)), np.empty((4, _BLOCK))
    result = np.empty((fours.shape[0], n_actions))
    for k in range(fours.shape[0]):
        result[k, :] = outward_bias_change
    for first in range(0, n_hidden, _BLOCK):
        n = min(_BLOCK, n_hidden - first)
        for k in range(0, fours.shape[0], 4):
            _set_units(units, n, inward_bias, fours, k, inward, first)
            _set_units(changes, n, inward_bias_change, fours, k, inward_change, first)
            _add_products_of_four(result, k, units, n, outward_change, first)
            for a in range(n_actions):
                row = outward[a, first : first + n]
                for i in range(4):
                    result[k + i, a] += _product_where_active(row, changes[i, :n], units[i, :n])
    return result[: states.shape[0]]


@compiled
def _product_where_active(one: Array, other: Array, units: Array) -> float:
    total = 0.0
    for j in range(one.shape[0]):
        total += one[j] * (other[j] if units[j] > 0.0 else 0.0)
    return total


@compiled
def _add_dots_of_four(totals: Array, k: int, i: int, rows: Array, n: int) -> None:
    """totals[k + p, i + q] += rows[k + p, :n] · rows[i + q, :n], for p, q < 4: sixteen a pass."""
    a0, a1, a2, a3 = rows[k, :n], rows[k + 1, :n], rows[k + 2, :n], rows[k + 3, :n]
    b0, b1, b2, b3 = rows[i, :n], rows[i + 1, :n], rows[i + 2, :n], rows[i + 3, :n]
    t00 = t01 = t02 = t03 = t10 = t11 = t12 = t13 = 0.0
    t20 = t21 = t22 = t23 = t30 = t31 = t32 = t33 = 0.0
    for j in range(n):
        x0, x1, x2, x3 = a0[j], a1[j], a2[j], a3[j]
        y0, y1, y2, y3 = b0[j], b1[j], b2[j], b3[j]
        t00, t01, t02, t03 = t00 + x0 * y0, t01 + x0 * y1, t02 + x0 * y2, t03 + x0 * y3
        t10, t11, t12, t13 = t10 + x1 * y0, t11 + x1 * y1, t12 + x1 * y2, t13 + x1 * y3
        t20, t21, t22, t23 = t20 + x2 * y0, t21 + x2 * y1, t22 + x2 * y2, t23 + x2 * y3
        t30, t31, t32, t33 = t30 + x3 * y0, t31 + x3 * y1, t32 + x3 * y2, t33 + x3 * y3
    sums = (t00, t01, t02, t03), (t10, t11, t12, t13), (t20, t21, t22, t23), (t30, t31, t32, t33)
    for p in range(4):
        for q in range(4):
            totals[k + p, i + q] += sums[p][q]


@compiled
def kernel(
    inward: Array, inward_bias: Array, outward: Array, states: Array, weights: Array
) -> Array:
    """Inner products (n, n) of the gradients of weights_k · logits_k (H4).

    For few states: beyond what fits in the cache, matrix products are faster.
    """
    n_states, n_hidden = states.shape[0], inward.shape[1]
    fours, weighed = _in_fours(states), _in_fours(weights)
    m = fours.shape[0]
    units, signals = np.empty((m, _BLOCK)), np.empty((m, _BLOCK))
    of_units, of_signals = np.zeros((m, m)), np.zeros((m, m))
    nothing = np.zeros(n_hidden)
    for first in range(0, n_hidden, _BLOCK):
        n = min(_BLOCK, n_hidden - first)
        for k in range(0, m, 4):
            _set_units(units[k:], n, inward_bias, fours, k, inward, first)
            _set_units(signals[k:], n, nothing, weighed, k, outward, first)
            _switch(units[k:], signals[k:], n)
            # Against these states and those before them: the other triangle is the mirror.
            for i in range(0, k + 1, 4):
                _add_dots_of_four(of_units, k, i, units, n)
                _add_dots_of_four(of_signals, k, i, signals, n)
    result = np.empty((n_states, n_states))
    for k in range(n_states):
        for i in range(k + 1):
            of_weights = of_states = 0.0
            for a in range(weights.shape[1]):
                of_weights += weights[k, a] * weights[i, a]
            for a in range(states.shape[1]):
                of_states += states[k, a] * states[i, a]
            outer = of_weights * (of_units[k, i] + 1.0)
            result[k, i] = result[i, k] = outer + of_signals[k, i] * (of_states + 1.0)
    return result


@compiled
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
