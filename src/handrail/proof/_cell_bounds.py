"""The vertex bound of one hidden ReLU layer on many cells, compiled (optional: needs numba).

What `vertex_bound` computes with NumPy, without an array of all units at all vertices. Cells
beside each other are taken together: a unit whose sign is the same on all of them is affine there,
and of thousands of units only some hundreds are left to be computed at their vertices.

Shapes: `inward` (n_observations, n_hidden) is the transposed weight, `biases` (n_hidden,), and
`factors` (n_hidden,) are what units are multiplied with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

from handrail._types import Array, Indices

_CELLS_TOGETHER = 8

_BLOCK = 256  # hidden units at a time

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _compile(function: _Function) -> _Function:
    # As the passes of policies: sums may be reordered, NaN must stay NaN.
    decorate: Any = numba.njit(
        cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy"
    )
    compiled: _Function = decorate(function)
    return compiled


@_compile
def _set_units(units: Array, biases: Array, state: Array, inward: Array, first: int) -> None:
    """Biases + state · inward, of the units from the first on; two coordinates a pass."""
    last = first + units.shape[0]
    own = biases[first:last]
    n_pairs = state.shape[0] // 2
    for j in range(units.shape[0]):
        units[j] = own[j]
    for i in range(n_pairs):
        a, b = state[2 * i], state[2 * i + 1]
        r, s = inward[2 * i, first:last], inward[2 * i + 1, first:last]
        for j in range(units.shape[0]):
            units[j] += a * r[j] + b * s[j]
    if state.shape[0] % 2:
        a, r = state[2 * n_pairs], inward[2 * n_pairs, first:last]
        for j in range(units.shape[0]):
            units[j] += a * r[j]


@_compile
def highest_on_cells(
    inward: Array,
    biases: Array,
    factors: Array,
    slope: Array,
    intercept: float,
    vertices: Array,
    centres: Array,
    order: Indices,
    mixtures: Array,
) -> Array:
    """Of Σ_j factor_j · unit_j + slope · s + intercept: above what it is nowhere in a cell, (n, 2).

    And, in the second column, what it is at the centre, or at a vertex if that is more.

    Args:
        inward: weights, and
        biases: their biases.
        factors: of the units.
        slope: (n_observations,).
        intercept: of what is affine everywhere.
        vertices: (n, V, n_observations) of convex cells.
        centres: (n, n_observations).
        order: (n,) of the cells, such that neighbours are behind each other.
        mixtures: (m,) shares of the tangent at the worst vertex, in that at the centre.
    """
    n_cells, n_vertices, n_observations = vertices.shape
    n_hidden = inward.shape[1]
    sizes = np.abs(inward)
    result = np.empty((n_cells, 2))
    units = np.empty(n_hidden)
    # Units that bend, convex ones in front, concave ones from the back: weights, biases, factors.
    bent, bent_bias = np.empty((n_observations, n_hidden)), np.empty(n_hidden)
    bent_factors = np.empty(n_hidden)
    plane, tangent = np.empty(n_observations + 1), np.empty((2, n_observations + 1))
    fixed, above = np.empty(n_vertices), np.empty((2, n_vertices))
    for start in range(0, n_cells, _CELLS_TOGETHER):
        some = order[start : start + _CELLS_TOGETHER]
        plane[:n_observations] = slope
        plane[n_observations] = intercept
        n_convex, n_concave = _fold(
            inward, biases, sizes, factors, vertices, some, plane, bent, bent_bias, bent_factors
        )
        first = n_hidden - n_concave
        for cell in some:
            corners, centre = vertices[cell], centres[cell]
            for v in range(n_vertices):
                fixed[v] = _at(plane, corners[v]) + _convex(
                    bent, bent_bias, bent_factors, n_convex, corners[v], units
                )
            _set_tangent(tangent[0], bent, bent_bias, bent_factors, first, centre, units)
            for v in range(n_vertices):
                above[0, v] = fixed[v] + _at(tangent[0], corners[v])
            worst = np.argmax(above[0])
            _set_tangent(tangent[1], bent, bent_bias, bent_factors, first, corners[worst], units)
            for v in range(n_vertices):
                above[1, v] = fixed[v] + _at(tangent[1], corners[v])
            result[cell, 0] = _best_mixture(above, mixtures)
            at_centre = _at(plane, centre) + _at(tangent[0], centre)
            at_centre += _convex(bent, bent_bias, bent_factors, n_convex, centre, units)
            result[cell, 1] = max(at_centre, above[1, worst])  # a tangent touches where it is taken
    return result


@_compile
def _fold(
    inward: Array,
    biases: Array,
    sizes: Array,
    factors: Array,
    vertices: Array,
    some: Indices,
    plane: Array,
    bent: Array,
    bent_bias: Array,
    bent_factors: Array,
) -> tuple[int, int]:
    """Units that are on all over some cells are added to the plane, those that bend are gathered.

    Returns how many are convex and how many concave.
    """
    n_observations, n_hidden = inward.shape
    middle, radius = np.empty(n_observations), np.empty(n_observations)
    for i in range(n_observations):
        low = high = vertices[some[0], 0, i]
        for cell in some:
            for v in range(vertices.shape[1]):
                low, high = min(low, vertices[cell, v, i]), max(high, vertices[cell, v, i])
        middle[i], radius[i] = 0.5 * (low + high), 0.5 * (high - low)
    nothing, block, on = np.zeros(n_hidden), np.empty((2, _BLOCK)), np.empty(_BLOCK)
    # Numbers of units are written without asking, and kept by counting on: asking 5000 times what
    # cannot be foretold takes longer than all that is computed.
    convex, concave = np.empty(n_hidden + 1, np.intp), np.empty(n_hidden + 1, np.intp)
    n_convex = n_concave = 0
    for first in range(0, n_hidden, _BLOCK):
        n = min(_BLOCK, n_hidden - first)
        hidden, reach = block[0, :n], block[1, :n]
        _set_units(hidden, biases, middle, inward, first)
        _set_units(reach, nothing, radius, sizes, first)
        own, own_bias = factors[first : first + n], biases[first : first + n]
        total = 0.0
        for j in range(n):
            on[j] = own[j] if hidden[j] >= reach[j] else 0.0
            total += on[j] * own_bias[j]
        plane[n_observations] += total
        for i in range(n_observations):
            row = inward[i, first : first + n]
            total = 0.0
            for j in range(n):
                total += on[j] * row[j]
            plane[i] += total
        for j in range(n):
            bends = abs(hidden[j]) < reach[j]
            convex[n_convex] = concave[n_concave] = first + j
            n_convex += int(bends & (own[j] > 0.0))
            n_concave += int(bends & (own[j] < 0.0))
    _gather(bent, 0, inward, convex[:n_convex])
    _gather(bent, n_hidden - n_concave, inward, concave[:n_concave])
    for k in range(n_convex):
        bent_bias[k], bent_factors[k] = biases[convex[k]], factors[convex[k]]
    for k in range(n_concave):
        to = n_hidden - n_concave + k
        bent_bias[to], bent_factors[to] = biases[concave[k]], factors[concave[k]]
    return n_convex, n_concave


@_compile
def _gather(to: Array, first: int, rows: Array, chosen: Indices) -> None:
    for i in range(rows.shape[0]):
        for k in range(chosen.shape[0]):
            to[i, first + k] = rows[i, chosen[k]]


@_compile
def _at(plane: Array, state: Array) -> float:
    total = 0.0
    for i in range(state.shape[0]):
        total += plane[i] * state[i]
    return float(total + plane[state.shape[0]])


@_compile
def _convex(
    bent: Array, bent_bias: Array, bent_factors: Array, n: int, state: Array, units: Array
) -> float:
    """Σ factor · max(unit, 0) over the first n units."""
    _set_units(units[:n], bent_bias, state, bent, 0)
    total = 0.0
    for j in range(n):
        total += bent_factors[j] * (0.0 if units[j] < 0.0 else units[j])
    return total


@_compile
def _set_tangent(
    tangent: Array,
    bent: Array,
    bent_bias: Array,
    bent_factors: Array,
    first: int,
    state: Array,
    units: Array,
) -> None:
    """Of Σ factor · max(unit, 0) over the units from the first on: a unit that is 0 is off."""
    n_observations, n = state.shape[0], bent.shape[1] - first
    on = units[:n]
    _set_units(on, bent_bias, state, bent, first)
    own, own_bias = bent_factors[first:], bent_bias[first:]
    total = 0.0
    for j in range(n):
        on[j] = own[j] if on[j] > 0.0 else 0.0
        total += on[j] * own_bias[j]
    tangent[n_observations] = total
    for i in range(n_observations):
        row = bent[i, first:]
        total = 0.0
        for j in range(n):
            total += on[j] * row[j]
        tangent[i] = total


@_compile
def _best_mixture(above: Array, mixtures: Array) -> float:
    """The lowest that the highest of a mixture of two rows (2, V) is."""
    best = np.inf
    for share in mixtures:
        highest = -np.inf
        for v in range(above.shape[1]):
            value = (1.0 - share) * above[0, v] + share * above[1, v]
            highest = np.inf if np.isnan(value) else max(highest, value)
        best = min(best, highest)
    return best
