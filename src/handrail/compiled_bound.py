"""The vertex bound of one cell after the other, compiled (optional: needs numba).

The same as `VertexBound.bounds`, but units whose sign is known in a cell cost next to nothing: of
thousands only a few hundred change sign within a small cell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

from handrail.arrays import Array, Indices

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _compile(function: _Function) -> _Function:
    # Sums may be reordered (the allowance for rounding does not mind), NaN must stay NaN.
    decorate: Any = numba.njit(
        cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy"
    )
    compiled: _Function = decorate(function)
    return compiled


@_compile
def differences_above(
    inward: Array,
    inward_bias: Array,
    outward: Array,
    slope: Array,
    offset: Array,
    centres: Array,
    middles: Array,
    radii: Array,
    vertices: Array,
    mixtures: Array,
) -> Array:
    """Convex functions above the differences of logits, at the vertices: (n_cells, n, V).

    Args:
        inward: (d, m) weights of the hidden units, by coordinate.
        inward_bias: (m,).
        outward: (n, m) of each difference.
        slope: (n, d) and
        offset: (n,) of the affine parts of the differences.
        centres: (n_cells, d), where the first tangent is taken.
        middles: (n_cells, d) and
        radii: (n_cells, d) of the boxes around the cells.
        vertices: (n_cells, V, d).
        mixtures: shares of the second tangent to try.
    """
    m = inward.shape[1]
    n = len(offset)
    n_cells, n_vertices, _ = vertices.shape
    result = np.empty((n_cells, n, n_vertices))
    active = np.empty(m)
    undecided = np.empty(m, np.int64)
    at_vertices, at_centre = np.empty((m, n_vertices)), np.empty((m, 1))
    for cell in range(n_cells):
        count = _classify(active, undecided, inward, inward_bias, middles[cell], radii[cell])
        units = undecided[:count]
        _evaluate(at_vertices, inward, inward_bias, units, vertices[cell])
        _evaluate(at_centre, inward, inward_bias, units, centres[cell : cell + 1])
        for b in range(n):
            fixed, q = result[cell, b], outward[b]
            _set_decided(fixed, active, inward, inward_bias, q, slope[b], offset[b], vertices[cell])
            _add_convex(fixed, at_vertices, units, q)
            first, second = fixed.copy(), fixed.copy()
            _add_tangent(first, at_vertices, units, q, at_centre, 0)
            _add_tangent(second, at_vertices, units, q, at_vertices, int(np.argmax(first)))
            _mix(fixed, first, second, mixtures)
    return result


@_compile
def _classify(
    active: Array, undecided: Indices, inward: Array, bias: Array, middle: Array, radii: Array
) -> int:
    """Which units are active all over a cell (1 or 0 each), and which change sign: how many."""
    m = len(bias)
    hidden, reach = bias.copy(), np.zeros(m)
    for j in range(len(middle)):
        c, r = middle[j], radii[j]
        for u in range(m):
            hidden[u] += inward[j, u] * c
            reach[u] += abs(inward[j, u]) * r
    count = 0
    for u in range(m):
        active[u] = 1.0 if hidden[u] >= reach[u] else 0.0
        if abs(hidden[u]) < reach[u]:
            undecided[count] = u
            count += 1
    return count


@_compile
def _add_convex(values: Array, at_vertices: Array, units: Indices, q: Array) -> None:
    """The units that make the difference convex, as they are."""
    for i in range(len(units)):
        factor = q[units[i]]
        if factor > 0.0:
            for v in range(len(values)):
                values[v] += factor * max(at_vertices[i, v], 0.0)


@_compile
def _add_tangent(
    values: Array, at_vertices: Array, units: Indices, q: Array, at: Array, column: int
) -> None:
    """The units that make it concave, by their tangent at a state: `at` is their value there."""
    for i in range(len(units)):
        factor = q[units[i]]
        if factor < 0.0 and at[i, column] > 0.0:
            for v in range(len(values)):
                values[v] += factor * at_vertices[i, v]


@_compile
def _evaluate(
    at_vertices: Array, inward: Array, bias: Array, units: Indices, vertices: Array
) -> None:
    """Hidden values of some units at the vertices of a cell: (len(units), V)."""
    for i in range(len(units)):
        u = units[i]
        for v in range(len(vertices)):
            total = bias[u]
            for j in range(len(inward)):
                total += inward[j, u] * vertices[v, j]
            at_vertices[i, v] = total


@_compile
def _set_decided(
    values: Array,
    active: Array,
    inward: Array,
    bias: Array,
    q: Array,
    slope: Array,
    offset: float,
    vertices: Array,
) -> None:
    """The affine part at the vertices: what it was, and the units that are active everywhere."""
    m = len(bias)
    constant = 0.0
    for u in range(m):
        constant += active[u] * q[u] * bias[u]
    values[:] = offset + constant
    for j in range(len(slope)):
        part = 0.0
        for u in range(m):
            part += active[u] * q[u] * inward[j, u]
        for v in range(len(values)):
            values[v] += (slope[j] + part) * vertices[v, j]


@_compile
def _mix(result: Array, first: Array, second: Array, mixtures: Array) -> None:
    """The mixture of two tangents whose maximum is lowest."""
    best, share = np.inf, 0.0
    for t in mixtures:
        highest = -np.inf
        for v in range(len(first)):
            value = (1.0 - t) * first[v] + t * second[v]
            # A NaN must not be lost in a comparison.
            highest = value if not value <= highest else highest
        if highest < best:
            best, share = highest, t
    for v in range(len(first)):
        result[v] = (1.0 - share) * first[v] + share * second[v]
