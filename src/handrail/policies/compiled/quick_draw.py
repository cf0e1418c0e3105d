"""Actions drawn from a network with one hidden ReLU layer, compiled (optional: needs numba).

What an action takes is the time in which the weights are read. Weights in float32 are half as much
to read, and by far most draws are so clear that they decide them: `quick_draw` knows how far its
logits can be from those in float64, and whether any in between would have drawn another action.
Where that is so, it leaves the draw to `passes.draw`. So the actions are those of the float64
network, all of them.

Shapes: as in `passes`; `rounded` is (n_observations + n_actions, n_hidden) float32: the rows of
`inward`, the biases, and what the rows of `outward` are more than the last of them, as a softmax
knows nothing else.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from handrail._types import Array
from handrail.policies.compiled.compilation import compiled

MOST_OBSERVATIONS, MOST_ACTIONS = 8, 4  # of `quick_draw`, which has them all in one loop

_UNSURE = -1

# Half a unit in the last place, with terms of higher order.
_IN_FLOAT32, _IN_FLOAT64 = 1.1 * 2.0**-24, 1.1 * 2.0**-53

_BLOCK = 256  # hidden units of which a sum is in float32; these sums are added in float64

# Weights that add up to no more are far from what float32 cannot hold, and what it loses near 0 is
# below the latter, whatever the state.
_LARGEST, _LOST = 1e8, 1e-12

_Rounded = NDArray[np.float32]


@compiled
def rounded_weights(
    inward: Array, inward_bias: Array, outward: Array, outward_bias: Array
) -> tuple[_Rounded, Array]:
    """The weights in float32, and how uncertain they make a logit.

    The latter is (n_observations + 1,): at a state s no logit less the last one is further from
    that of `draw` than (|s|, 1) times it. Each weight, product and sum is rounded by a share u of
    itself, so of Σ_j q_j relu(Σ_i w_ij s_i + b_j), in whatever order n of the units are added, no
    more is lost than u (n + n_observations + 8) Σ_j |q_j| (Σ_i |w_ij| |s_i| + |b_j|). In float32
    the q are the differences of `outward`, in float64 its rows.
    """
    n_observations, n_hidden = inward.shape
    weights = np.empty((n_observations + len(outward), n_hidden), np.float32)
    of_differences = _IN_FLOAT32 * (min(n_hidden, _BLOCK) + n_observations + 8)
    of_rows = 2.0 * _IN_FLOAT64 * (n_hidden + n_observations + 8)
    losses, everything, last = np.zeros(n_hidden), 0.0, outward[-1]
    # The row of the last action, which is 0, is where the biases will be.
    for a in range(len(outward)):
        row, own = weights[n_observations + (a + 1) % len(outward)], outward[a]
        for j in range(n_hidden):
            more = own[j] - last[j]
            row[j] = more
            size = abs(own[j])
            loss = of_differences * abs(more) + of_rows * size
            losses[j] = loss if loss > losses[j] else losses[j]
            everything += size
    uncertainty = np.empty(n_observations + 1)
    for i in range(n_observations + 1):
        row, own = weights[i], inward[i] if i < n_observations else inward_bias
        total = 0.0
        for j in range(n_hidden):
            row[j] = own[j]
            size = abs(own[j])
            total += losses[j] * size
            everything += size
        uncertainty[i] = total + _LOST
    uncertainty[n_observations] += of_rows * np.abs(outward_bias).max()
    if not everything <= _LARGEST:  # NaN, too
        uncertainty[:] = np.inf
    return weights, uncertainty


@compiled
def quick_draw(
    rounded: _Rounded, uncertainty: Array, outward_bias: Array, state: Array, uniform: float
) -> int:
    """The action that `draw` would draw; -1 where float32 is not enough to know.

    Of at most `MOST_OBSERVATIONS` and `MOST_ACTIONS`. A row that is not there is multiplied with
    0, or its product not used, so any other one will do.
    """
    n, n_actions = state.shape[0], outward_bias.shape[0]
    logits = np.zeros(MOST_ACTIONS)
    if n <= 4 and n_actions == 2:
        logits[0] = _difference(rounded, state)
    else:
        _add_products(logits, rounded, state)
    logits[n_actions - 1] = 0.0
    for a in range(n_actions):
        logits[a] += outward_bias[a] - outward_bias[n_actions - 1]
    error = float(uncertainty[n])
    for i in range(n):
        error += uncertainty[i] * abs(state[i])
    return _clear_draw(logits[:n_actions], error, uniform)


@compiled
def _difference(rounded: _Rounded, state: Array) -> float:
    """What the first of two logits is more than the second, of at most four observations."""
    n, n_hidden = state.shape[0], rounded.shape[1]
    zero = np.float32(0.0)
    s0 = np.float32(state[0])
    s1 = np.float32(state[1]) if n > 1 else zero
    s2 = np.float32(state[2]) if n > 2 else zero
    s3 = np.float32(state[3]) if n > 3 else zero
    last = n - 1
    r0, r1, r2, r3 = rounded[0], rounded[min(1, last)], rounded[min(2, last)], rounded[min(3, last)]
    bias, more = rounded[n], rounded[n + 1]
    total = 0.0
    for first in range(0, n_hidden, _BLOCK):
        stop = min(first + _BLOCK, n_hidden)
        x0, x1, x2, x3 = r0[first:stop], r1[first:stop], r2[first:stop], r3[first:stop]
        x, y = bias[first:stop], more[first:stop]
        own = zero
        for j in range(stop - first):
            h = x[j] + ((s0 * x0[j] + s1 * x1[j]) + (s2 * x2[j] + s3 * x3[j]))
            own += y[j] * (zero if h < zero else h)
        total += float(own)
    return total


@compiled
def _add_products(logits: Array, rounded: _Rounded, state: Array) -> None:
    """Add what the logits of all actions but the last are more than that one."""
    n, n_hidden = state.shape[0], rounded.shape[1]
    zero = np.float32(0.0)
    s0 = np.float32(state[0])
    s1 = np.float32(state[1]) if n > 1 else zero
    s2 = np.float32(state[2]) if n > 2 else zero
    s3 = np.float32(state[3]) if n > 3 else zero
    s4 = np.float32(state[4]) if n > 4 else zero
    s5 = np.float32(state[5]) if n > 5 else zero
    s6 = np.float32(state[6]) if n > 6 else zero
    s7 = np.float32(state[7]) if n > 7 else zero
    last, end = n - 1, rounded.shape[0] - 1
    r0, r1, r2, r3 = rounded[0], rounded[min(1, last)], rounded[min(2, last)], rounded[min(3, last)]
    r4, r5 = rounded[min(4, last)], rounded[min(5, last)]
    r6, r7 = rounded[min(6, last)], rounded[min(7, last)]
    bias, q0 = rounded[n], rounded[min(n + 1, end)]
    q1, q2 = rounded[min(n + 2, end)], rounded[min(n + 3, end)]
    for first in range(0, n_hidden, _BLOCK):
        stop = min(first + _BLOCK, n_hidden)
        x0, x1, x2, x3 = r0[first:stop], r1[first:stop], r2[first:stop], r3[first:stop]
        x4, x5, x6, x7 = r4[first:stop], r5[first:stop], r6[first:stop], r7[first:stop]
        x, y0, y1, y2 = bias[first:stop], q0[first:stop], q1[first:stop], q2[first:stop]
        t0 = t1 = t2 = zero
        for j in range(stop - first):
            h = x[j] + ((s0 * x0[j] + s1 * x1[j]) + (s2 * x2[j] + s3 * x3[j]))
            h += (s4 * x4[j] + s5 * x5[j]) + (s6 * x6[j] + s7 * x7[j])
            h = zero if h < zero else h
            t0 += y0[j] * h
            t1 += y1[j] * h
            t2 += y2[j] * h
        logits[0] += t0
        logits[1] += t1
        logits[2] += t2


@compiled
def _clear_draw(logits: Array, error: float, uniform: float) -> int:
    """What is drawn whatever the logits are, each within the error of what is given; -1 if unclear.

    The odds of the first actions against the others are then right within a factor exp(2 error),
    so their probability, σ of a logarithm, within tanh(error / 2) ≤ error / 2.
    """
    highest = logits.max()
    total = 0.0
    for a in range(logits.shape[0]):
        logits[a] = np.exp(logits[a] - highest)
        total += logits[a]
    margin = (0.5 * error + _LOST) * total
    remaining = uniform * total
    for a in range(logits.shape[0]):
        remaining -= logits[a]
        if remaining < -margin:
            return a
        if not remaining > margin:  # NaN, too
            return _UNSURE
    return _UNSURE
