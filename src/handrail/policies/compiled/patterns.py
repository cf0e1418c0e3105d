"""The gradient of a network with one hidden ReLU layer, by which states switch which units on.

With m_kj whether state k switches unit j on, a gradient is made of Σ_k m_kj weight_k (state_k, 1)
alone, since a unit that is on is an affine function of its state. A forward pass knows m, and notes
it in bits: `patterns`. Of four states there are sixteen patterns, so sixteen sums; once these are
in a table, four states are one row that is looked up and added.

Shapes: as in `passes`, of which `forward_and_patterns` makes the patterns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from handrail._types import Array
from handrail.policies.compiled.compilation import compiled
from handrail.policies.compiled.passes import STATES_A_PATTERN, Patterns

_SUMS = 8  # at once: the widest registers there are, where all of them are in one

_UNITS, _BLOCK = 2048, 128  # hidden units whose sums stay in the second cache, and in the first

_TABLES, _ROWS = STATES_A_PATTERN // 4, 16


def _four_rows_added(
    _context: Any, totals: Any, at: Any, rows: Any, a: Any, b: Any, c: Any, d: Any
) -> tuple[Any, Any]:
    """Eight of `totals` from `at` += those of `rows` from a, b, c and d; all lie in one piece.

    Written for LLVM: its own way to eight sums at once begins by asking whether arrays overlap.
    """

    def generate(context: Any, builder: Any, signature: Any, given: Sequence[Any]) -> Any:
        eight = ir.VectorType(ir.DoubleType(), _SUMS)

        def address(array: int, index: int) -> Any:
            data = context.make_array(signature.args[array])(context, builder, given[array]).data
            first = context.cast(builder, given[index], signature.args[index], types.intp)
            return builder.bitcast(builder.gep(data, [first]), eight.as_pointer())

        def load(pointer: Any) -> Any:
            return builder.load(pointer, align=np.dtype(np.float64).alignment)

        of_a, of_b, of_c, of_d = (load(address(2, index)) for index in (3, 4, 5, 6))
        added = builder.fadd(builder.fadd(of_a, of_b), builder.fadd(of_c, of_d))
        target = address(0, 1)
        total = builder.fadd(load(target), added)
        builder.store(total, target, align=np.dtype(np.float64).alignment)
        return context.get_dummy_value()

    return types.void(totals, at, rows, a, b, c, d), generate


_add_four_rows: Any = intrinsic(_four_rows_added)


@compiled
def backward(
    inward: Array,
    inward_bias: Array,
    slopes: Array,
    states: Array,
    weights: Array,
    patterns: Patterns,
) -> tuple[Array, Array]:
    """Gradient of Σ_k Σ_a weights[k, a] slopes_a · units_k, over the hidden layer and the slopes.

    Args:
        inward: weights, and
        inward_bias: their biases.
        slopes: (m, n_hidden), as rows of `outward` are.
        states: (n, n_observations).
        weights: (n, m).
        patterns: of these states.

    Returns (n_observations + 1, n_hidden), of which the last row is of the biases, and
    (m, n_hidden).
    """
    n_observations, n_hidden = inward.shape
    m = n_observations + 1
    coefficients = _coefficients(states, weights, len(patterns))
    of_hidden, of_slopes = np.zeros((m, n_hidden)), np.zeros(slopes.shape)
    sums, columns = _eights(min(_UNITS, n_hidden)), np.empty((_SUMS, _BLOCK))
    for first in range(0, n_hidden, _UNITS):
        last = min(first + _UNITS, n_hidden)
        for c in range(len(coefficients)):
            _set_sums(sums, patterns[:, first:last], coefficients[c])
            for begin in range(first, last, _BLOCK):
                n = min(_BLOCK, last - begin)
                _set_columns(columns, n, sums[_SUMS * (begin - first) :])
                for s in range(min(_SUMS, len(slopes) * m - _SUMS * c)):
                    a, i = divmod(_SUMS * c + s, m)
                    _add_products(of_hidden[i], slopes[a], columns[s], begin, n)
                    row = inward[i] if i < n_observations else inward_bias
                    _add_products(of_slopes[a], row, columns[s], begin, n)
    return of_hidden, of_slopes


@compiled
def _eights(n: int) -> Array:
    """Room for n times eight sums, none of which is half in one line of the cache (64 bytes)."""
    room = np.empty(_SUMS * (n + 1))
    skipped = -(room.ctypes.data // room.itemsize) % _SUMS
    return room[skipped : skipped + _SUMS * n]


@compiled
def _coefficients(states: Array, weights: Array, n_patterns: int) -> Array:
    """weight_k (state_k, 1) of all weights in a row, in columns of eight: (columns, n, 8).

    With zeros behind, for states that are not there and up to a whole column.
    """
    n_states, n_observations = states.shape
    n_columns = -(-weights.shape[1] * (n_observations + 1) // _SUMS)
    result = np.zeros((n_columns, n_patterns * STATES_A_PATTERN, _SUMS))
    for a in range(weights.shape[1]):
        for i in range(n_observations + 1):
            r, s = divmod(a * (n_observations + 1) + i, _SUMS)
            for k in range(n_states):
                result[r, k, s] = weights[k, a] * (states[k, i] if i < n_observations else 1.0)
    return result


@compiled
def _set_sums(sums: Array, patterns: Patterns, coefficients: Array) -> None:
    """sums[8 j : 8 j + 8] = Σ_k coefficients[k] over the states that switch unit j on."""
    n = patterns.shape[1]
    sums[: _SUMS * n] = 0.0
    tables = _eights(_TABLES * _ROWS)
    for p in range(patterns.shape[0]):
        _set_tables(tables, coefficients[p * STATES_A_PATTERN : (p + 1) * STATES_A_PATTERN])
        own = patterns[p]
        for j in range(n):
            bits = np.intp(own[j])
            _add_four_rows(
                sums,
                _SUMS * j,
                tables,
                _SUMS * (bits & 15),
                _SUMS * (16 + ((bits >> 4) & 15)),
                _SUMS * (32 + ((bits >> 8) & 15)),
                _SUMS * (48 + (bits >> 12)),
            )


@compiled
def _set_tables(tables: Array, coefficients: Array) -> None:
    """Row b of table t is the sum of those of its four coefficients whose bits are in b."""
    rows = tables.reshape(_TABLES, _ROWS, _SUMS)
    for t in range(_TABLES):
        rows[t, 0, :] = 0.0
        for i in range(4):
            for b in range(1 << i):
                for s in range(_SUMS):
                    rows[t, b + (1 << i), s] = rows[t, b, s] + coefficients[4 * t + i, s]


@compiled
def _set_columns(columns: Array, n: int, sums: Array) -> None:
    """columns[s, :n], of which each is every eighth of the sums."""
    for j in range(n):
        for s in range(_SUMS):
            columns[s, j] = sums[_SUMS * j + s]


@compiled
def _add_products(total: Array, row: Array, column: Array, first: int, n: int) -> None:
    """total[first:] += row[first:] · column, of n units."""
    total, row = total[first : first + n], row[first : first + n]
    for j in range(n):
        total[j] += row[j] * column[j]
