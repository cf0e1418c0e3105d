"""The vertex bound of one hidden ReLU layer on many cells, compiled (optional: needs numba).

What `vertex_bound` computes with NumPy, without an array of all units at all vertices. Cells
beside each other are taken together: a unit whose sign is the same on all of them is affine there,
and of thousands of units only some hundreds are left to be computed at their vertices.

Shapes: `inward` (n_observations, n_hidden) is the transposed weight, `biases` (n_hidden,), and
`factors` (n_hidden,) are what units are multiplied with, those above zero in front.
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
def _in_fours(points: Array) -> Array:
    """With zeros behind (n, m, d), so many that m and d are multiples of four."""
    n, m, d = points.shape
    result = np.zeros((n, -(-m // 4) * 4, -(-d // 4) * 4))
    result[:, :m, :d] = points
    return result


@_compile
def _set_units(units: Array, biases: Array, point: Array, rows: Array, first: int) -> None:
    """Biases + point · rows, of the units from the first on; four coordinates a pass.

    A row that is not there is multiplied with a zero behind the point: any other one will do.
    """
    n, end = units.shape[0], rows.shape[0] - 1
    last = first + n
    own = biases[first:last]
    for q in range(0, point.shape[0], 4):
        p0, p1, p2, p3 = point[q], point[q + 1], point[q + 2], point[q + 3]
        r0, r1 = rows[q, first:last], rows[min(q + 1, end), first:last]
        r2, r3 = rows[min(q + 2, end), first:last], rows[min(q + 3, end), first:last]
        if q == 0:
            for j in range(n):
                units[j] = own[j] + ((p0 * r0[j] + p1 * r1[j]) + (p2 * r2[j] + p3 * r3[j]))
        else:
            for j in range(n):
                units[j] += (p0 * r0[j] + p1 * r1[j]) + (p2 * r2[j] + p3 * r3[j])


@_compile
def _set_reach(reach: Array, radii: Array, rows: Array, first: int) -> None:
    """Radii · |rows|, of the units from the first on: how far they are from their middle."""
    n, end = reach.shape[0], rows.shape[0] - 1
    last = first + n
    for q in range(0, radii.shape[0], 4):
        p0, p1, p2, p3 = radii[q], radii[q + 1], radii[q + 2], radii[q + 3]
        r0, r1 = rows[q, first:last], rows[min(q + 1, end), first:last]
        r2, r3 = rows[min(q + 2, end), first:last], rows[min(q + 3, end), first:last]
        for j in range(n):
            own = 0.0 if q == 0 else reach[j]
            own += (p0 * abs(r0[j]) + p1 * abs(r1[j])) + (p2 * abs(r2[j]) + p3 * abs(r3[j]))
            reach[j] = own


@_compile
def _set_units_of_four(
    units: Array, n: int, biases: Array, points: Array, k: int, rows: Array, first: int
) -> None:
    """The same at four points, from the k-th on: what is read once serves sixteen products."""
    last, end = first + n, rows.shape[0] - 1
    u0, u1, u2, u3 = units[0, :n], units[1, :n], units[2, :n], units[3, :n]
    own = biases[first:last]
    for q in range(0, points.shape[1], 4):
        r0, r1 = rows[q, first:last], rows[min(q + 1, end), first:last]
        r2, r3 = rows[min(q + 2, end), first:last], rows[min(q + 3, end), first:last]
        a, b, c, d = points[k, q:], points[k + 1, q:], points[k + 2, q:], points[k + 3, q:]
        a0, a1, a2, a3 = a[0], a[1], a[2], a[3]
        b0, b1, b2, b3 = b[0], b[1], b[2], b[3]
        c0, c1, c2, c3 = c[0], c[1], c[2], c[3]
        d0, d1, d2, d3 = d[0], d[1], d[2], d[3]
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


@_compile
def _add_row_sums(totals: Array, factors: Array, rows: Array, first: int) -> None:
    """totals_i += rows[i, first:] · factors, four rows a pass."""
    n, end = factors.shape[0], rows.shape[0] - 1
    last = first + n
    for q in range(0, rows.shape[0], 4):
        r0, r1 = rows[q, first:last], rows[min(q + 1, end), first:last]
        r2, r3 = rows[min(q + 2, end), first:last], rows[min(q + 3, end), first:last]
        t0 = t1 = t2 = t3 = 0.0
        for j in range(n):
            t0 += r0[j] * factors[j]
            t1 += r1[j] * factors[j]
            t2 += r2[j] * factors[j]
            t3 += r3[j] * factors[j]
        totals[q] += t0
        if q + 1 <= end:
            totals[q + 1] += t1
        if q + 2 <= end:
            totals[q + 2] += t2
        if q + 3 <= end:
            totals[q + 3] += t3


@_compile
def order_of_neighbours(points: Array) -> Indices:
    """Of points (n, d) an order (n,) in which neighbours are taken together.

    They are halved where they extend most, until no more are left than are taken together.
    """
    n, d = points.shape
    order = np.arange(n)
    pending = [(0, n)]
    while len(pending) > 0:
        first, last = pending.pop()
        n_groups = -(-(last - first) // _CELLS_TOGETHER)
        if n_groups < 2:
            continue
        some = order[first:last].copy()
        along, widest = 0, -1.0
        for i in range(d):
            low = high = points[some[0], i]
            for point in some:
                low, high = min(low, points[point, i]), max(high, points[point, i])
            if high - low > widest:
                along, widest = i, high - low
        values = np.empty(len(some))
        for k in range(len(some)):
            values[k] = points[some[k], along]
        order[first:last] = some[np.argsort(values, kind="mergesort")]
        middle = first + n_groups // 2 * _CELLS_TOGETHER
        pending.append((first, middle))
        pending.append((middle, last))
    return order


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
        order: (n,) of the cells, as `order_of_neighbours` makes it.
        mixtures: (m,) shares of the tangent at the worst vertex, in that at the centre.
    """
    n_cells, n_vertices, n_observations = vertices.shape
    n_hidden = inward.shape[1]
    # Of each cell the vertices, and behind them the centre.
    points = np.empty((n_cells, n_vertices + 1, n_observations))
    points[:, :n_vertices], points[:, n_vertices] = vertices, centres
    points = _in_fours(points)
    result = np.empty((n_cells, 2))
    units, block = np.empty(n_hidden), np.empty((4, _BLOCK))
    # Units that bend, convex ones in front: weights, biases, factors.
    bent, bent_bias = np.empty((n_observations, n_hidden)), np.empty(n_hidden)
    bent_factors = np.empty(n_hidden)
    plane, tangent = np.empty(n_observations + 1), np.empty((2, n_observations + 1))
    fixed, above = np.empty(points.shape[1]), np.empty((2, n_vertices))
    for start in range(0, n_cells, _CELLS_TOGETHER):
        some = order[start : start + _CELLS_TOGETHER]
        plane[:n_observations] = slope
        plane[n_observations] = intercept
        n_convex, n_bent = _fold(
            inward, biases, factors, points, n_vertices, some, plane, bent, bent_bias, bent_factors
        )
        for cell in some:
            corners, centre = points[cell], points[cell, n_vertices]
            _set_convex(fixed, bent, bent_bias, bent_factors, n_convex, corners, block)
            for v in range(n_vertices + 1):
                fixed[v] += _at(plane, corners[v])
            on = units[: n_bent - n_convex]
            _set_tangent(tangent[0], bent, bent_bias, bent_factors, n_convex, centre, on)
            for v in range(n_vertices):
                above[0, v] = fixed[v] + _at(tangent[0], corners[v])
            worst = np.argmax(above[0])
            _set_tangent(tangent[1], bent, bent_bias, bent_factors, n_convex, corners[worst], on)
            for v in range(n_vertices):
                above[1, v] = fixed[v] + _at(tangent[1], corners[v])
            result[cell, 0] = _best_mixture(above, mixtures)
            at_centre = fixed[n_vertices] + _at(tangent[0], centre)
            result[cell, 1] = max(at_centre, above[1, worst])  # a tangent touches where it is taken
    return result


@_compile
def _fold(
    inward: Array,
    biases: Array,
    factors: Array,
    points: Array,
    n_vertices: int,
    some: Indices,
    plane: Array,
    bent: Array,
    bent_bias: Array,
    bent_factors: Array,
) -> tuple[int, int]:
    """Units that are on all over some cells are added to the plane, those that bend are gathered.

    Returns how many of these are convex, and how many there are.
    """
    n_observations, n_hidden = inward.shape
    middle, radius = np.zeros(points.shape[2]), np.zeros(points.shape[2])
    for i in range(n_observations):
        low = high = points[some[0], 0, i]
        for cell in some:
            for v in range(n_vertices):
                low, high = min(low, points[cell, v, i]), max(high, points[cell, v, i])
        middle[i], radius[i] = 0.5 * (low + high), 0.5 * (high - low)
    block = np.empty((3, _BLOCK))
    # Numbers of units are written without asking, and kept by counting on: asking 5000 times what
    # cannot be foretold takes longer than all that is computed.
    numbers, bends = np.empty(n_hidden + 1, np.intp), np.empty(_BLOCK, np.intp)
    n_bent = 0
    for first in range(0, n_hidden, _BLOCK):
        n = min(_BLOCK, n_hidden - first)
        hidden, reach, on = block[0, :n], block[1, :n], block[2, :n]
        _set_units(hidden, biases, middle, inward, first)
        _set_reach(reach, radius, inward, first)
        own, own_bias = factors[first : first + n], biases[first : first + n]
        total = 0.0
        for j in range(n):
            on[j] = own[j] if hidden[j] >= reach[j] else 0.0
            bends[j] = 1 if abs(hidden[j]) < reach[j] else 0
            total += on[j] * own_bias[j]
        plane[n_observations] += total
        _add_row_sums(plane, on, inward, first)
        for j in range(n):
            numbers[n_bent] = first + j
            n_bent += bends[j]
    n_convex = 0
    for k in range(n_bent):
        number = numbers[k]
        bent_bias[k], bent_factors[k] = biases[number], factors[number]
        n_convex += int(factors[number] > 0.0)
    for i in range(n_observations):
        for k in range(n_bent):
            bent[i, k] = inward[i, numbers[k]]
    return n_convex, n_bent


@_compile
def _at(plane: Array, point: Array) -> float:
    """Of slopes and an offset behind them."""
    n = plane.shape[0] - 1
    total = 0.0
    for i in range(n):
        total += plane[i] * point[i]
    return float(total + plane[n])


@_compile
def _set_convex(
    totals: Array,
    bent: Array,
    bent_bias: Array,
    bent_factors: Array,
    n_units: int,
    points: Array,
    block: Array,
) -> None:
    """Σ factor · max(unit, 0) over the first units, at points in fours."""
    totals[:] = 0.0
    u0, u1, u2, u3 = block[0], block[1], block[2], block[3]
    for first in range(0, n_units, _BLOCK):
        n = min(_BLOCK, n_units - first)
        own = bent_factors[first : first + n]
        for k in range(0, points.shape[0], 4):
            _set_units_of_four(block, n, bent_bias, points, k, bent, first)
            t0 = t1 = t2 = t3 = 0.0
            for j in range(n):
                x = own[j]
                t0 += x * (0.0 if u0[j] < 0.0 else u0[j])
                t1 += x * (0.0 if u1[j] < 0.0 else u1[j])
                t2 += x * (0.0 if u2[j] < 0.0 else u2[j])
                t3 += x * (0.0 if u3[j] < 0.0 else u3[j])
            totals[k] += t0
            totals[k + 1] += t1
            totals[k + 2] += t2
            totals[k + 3] += t3


@_compile
def _set_tangent(
    tangent: Array,
    bent: Array,
    bent_bias: Array,
    bent_factors: Array,
    first: int,
    point: Array,
    on: Array,
) -> None:
    """Of Σ factor · max(unit, 0) over n units from the first on: a unit that is 0 is off.

    What is written to `on` (n,) is of no interest to anybody else.
    """
    n_observations, n = bent.shape[0], on.shape[0]
    _set_units(on, bent_bias, point, bent, first)
    own, own_bias = bent_factors[first : first + n], bent_bias[first : first + n]
    total = 0.0
    for j in range(n):
        on[j] = own[j] if on[j] > 0.0 else 0.0
        total += on[j] * own_bias[j]
    tangent[:n_observations] = 0.0
    tangent[n_observations] = total
    _add_row_sums(tangent, on, bent, first)


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
