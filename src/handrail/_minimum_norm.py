"""min ‖x‖² subject to lower ≤ A x ≤ upper, solved so that the answer can be believed.

The rules come from measurements on hundreds of such programs: scale the rows, eliminate equalities,
solve by a dual active-set method, polish on the active rows, and verify in the original units. A
solver's own word is never taken for it, so a guess may come first: mostly the hardest row is the
only one that holds the answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import final

import daqp
import numpy as np
import piqp
from scipy.linalg import qr
from scipy.optimize import nnls

from handrail._small_matrices import (
    Orthogonal,
    pivoted_qr,
    solve_upper,
    solve_upper_transposed,
)
from handrail._types import Array, Indices
from handrail.errors import SolverFailure

Signs = Array

_Method = Callable[[Array, Array, Array], Signs | None]

# ‖x‖ beyond this many times what the hardest row needs alone means contradiction: consistent
# programs gave at most 37, contradictory ones at least 1e4 (docs/explanation/concepts.md).
CONFLICT_RATIO = 1e3

_INFINITE = 1e30  # DAQP's idea of "no bound"

_RANK = 1e-12

# How much an answer may miss a bound, in the units of the bound; and how much of a multiplier of
# the wrong sign, relative to the largest, is rounding.
_ACCURACY = 1e-9


@final
@dataclass(frozen=True)
class MinimumNorm:
    """An answer that has been checked.

    Attributes:
        x: (n,), zero where there is no answer.
        multipliers: (m,) with x = Aᵀ · multipliers; positive holds a lower bound, negative an
            upper one, zero means not active.
        solved: whether x is verified.
        ratio: ‖x‖ over what the hardest row needs alone; inf where there is no answer.
        method: whose answer survived verification.
    """

    x: Array
    multipliers: Array
    solved: bool
    ratio: float
    method: str

    @property
    def contradictory(self) -> bool:
        """Whether there is no answer, or only one so large that rows must contradict each other."""
        return not self.solved or self.ratio > CONFLICT_RATIO


@final
@dataclass(frozen=True)
class ScaledRows:
    """Rows of unit length, bounds relative to what the hardest row needs alone.

    Scaling removes the 1/π blow-up of nearly impossible actions from the condition of the program.
    """

    matrix: Array  # (m, n)
    lower: Array
    upper: Array
    lengths: Array
    unit: float

    def in_original_units(self, scaled: Array) -> Array:
        """A quantity per row, such as a violation, in the units of the row's bounds."""
        return scaled * self.lengths * self.unit

    def violations(self, x: Array) -> Array:
        """Violations in original units (m,)."""
        values = self.matrix @ x
        return self.in_original_units(np.maximum(self.lower - values, values - self.upper))

    def rounding(self, x: Array) -> Array:
        """What floating point alone can make of a violation (m,), in original units."""
        rounding = _rounding(len(x), float(np.linalg.norm(x)))
        return self.in_original_units(np.full(len(self.lower), rounding))


def _rounding(n: int, size: float) -> float:
    """Of a product of a unit row with an answer (n,) of this size."""
    return 1e-14 * math.sqrt(n) * (1.0 + size)


def scale_rows(matrix: Array, lower: Array, upper: Array) -> ScaledRows:
    """Scale rows of non-zero length; at least one bound must exclude x = 0."""
    return _scaled(matrix, lower, upper, np.linalg.norm(matrix, axis=1))


def _scaled(matrix: Array, lower: Array, upper: Array, lengths: Array) -> ScaledRows:
    """By their lengths (m,)."""
    low, high = lower / lengths, upper / lengths
    unit = float(np.maximum(low, -high).max())
    return ScaledRows(matrix / lengths[:, None], low / unit, high / unit, lengths, unit)


def solve_minimum_norm(matrix: Array, lower: Array, upper: Array) -> MinimumNorm:
    """Solve for matrix (m, n) and bounds (m,), infinite where there is none, lower ≤ upper."""
    m, n = matrix.shape
    needed = np.maximum(lower, -upper) > 0.0
    if not needed.any():
        return MinimumNorm(np.zeros(n), np.zeros(m), True, 0.0, "nothing to do")
    lengths = np.linalg.norm(matrix, axis=1)
    none = MinimumNorm(np.zeros(n), np.zeros(m), False, np.inf, "none")
    if not np.isfinite(lengths).all() and not np.isfinite(matrix).all():
        return none
    movable = lengths > 0.0
    if movable.all():
        return _solve_scaled(matrix, lower, upper, lengths) or none
    if needed[~movable].any():
        return none
    found = _solve_scaled(matrix[movable], lower[movable], upper[movable], lengths[movable])
    if found is None:
        return none
    multipliers = np.zeros(m)
    multipliers[movable] = found.multipliers
    return replace(found, multipliers=multipliers)


def likely_active(matrix: Array, lower: Array, upper: Array) -> Indices:
    """Rows that hold the answer if a solver is right, which nobody verifies; maybe none.

    Of rows (m, n) of non-zero length, at least one of which excludes x = 0.
    """
    rows = scale_rows(matrix, lower, upper)
    signs = _daqp_active(rows.matrix, rows.lower, rows.upper)
    return np.flatnonzero(signs) if signs is not None else np.zeros(0, dtype=np.intp)


def _solve_scaled(matrix: Array, lower: Array, upper: Array, lengths: Array) -> MinimumNorm | None:
    """Of rows of non-zero length (m,), by the first method whose answer survives verification."""
    basis, reduced = _within_row_space(matrix)
    rows = (
        scale_rows(reduced, lower, upper)
        if basis is not None
        else _scaled(reduced, lower, upper, lengths)
    )
    for name, method in (
        ("one row", _hardest_active),
        ("daqp", _daqp_active),
        ("nnls", _nnls_active),
    ):
        signs = _active_signs(rows, method)
        if signs is None:
            continue
        x, multipliers = _on_active_rows(rows, signs)
        # Of a guess only rounding may be missing: near a bound, tolerance would take any for true.
        if not _is_optimal(rows, x, multipliers, 0.0 if method is _hardest_active else _ACCURACY):
            continue
        solution = basis @ x if basis is not None else x
        return MinimumNorm(
            solution * rows.unit,
            multipliers * rows.unit / rows.lengths,
            True,
            float(np.linalg.norm(x)),
            name,
        )
    return None


def _within_row_space(matrix: Array) -> tuple[Array | None, Array]:
    """The minimum-norm answer lies in the span of the rows: work there when that is smaller."""
    m, n = matrix.shape
    if n <= 2 * m:
        return None, matrix
    q, r = qr(matrix.T, mode="economic")
    return q, np.ascontiguousarray(r.T)


def _active_signs(rows: ScaledRows, method: _Method) -> Signs | None:
    """+1 / -1 for rows held at their lower / upper bound, 0 for the rest; None if infeasible."""
    equal = rows.lower == rows.upper
    if not equal.any():
        return method(rows.matrix, rows.lower, rows.upper)
    if method is _hardest_active:
        return None
    signs = np.zeros(len(rows.lower))
    inequalities = np.flatnonzero(~equal)
    matrix = rows.matrix[inequalities]
    held = np.flatnonzero(equal)
    q, _, independent = _independent(rows.matrix[held])
    signs[held[independent]] = 1.0
    x_equal, _ = _on_active_rows(rows, signs)
    if rows.violations(x_equal)[held].max() > _ACCURACY + rows.rounding(x_equal)[held].max():
        return None  # the equalities contradict each other
    # Project twice: once is not orthogonal enough when a row nearly is an equality.
    for _ in range(2):
        matrix = matrix - (matrix @ q) @ q.T
    shift = rows.matrix[inequalities] @ x_equal
    lengths = np.linalg.norm(matrix, axis=1)
    free = lengths > _RANK * np.sqrt(matrix.shape[1])
    fixed = inequalities[~free]
    if len(fixed) and rows.violations(x_equal)[fixed].max() > _ACCURACY:
        return None  # an inequality that the equalities decide, the wrong way
    if free.any():
        chosen = inequalities[free]
        low = (rows.lower[chosen] - shift[free]) / lengths[free]
        high = (rows.upper[chosen] - shift[free]) / lengths[free]
        found = method(matrix[free] / lengths[free, None], low, high)
        if found is None:
            return None
        signs[chosen] = found
    return signs


def _hardest_active(matrix: Array, lower: Array, upper: Array) -> Signs:  # noqa: ARG001
    """The row that needs most alone, and no other: right more often than not, and no solver."""
    needed = np.maximum(lower, -upper)
    hardest = int(needed.argmax())
    signs = np.zeros(len(lower))
    signs[hardest] = 1.0 if lower[hardest] == needed[hardest] else -1.0
    return signs


def _daqp_active(matrix: Array, lower: Array, upper: Array) -> Signs | None:
    """Dual active-set method. H = f = None is its (undocumented) minimum-norm form."""
    sense = np.zeros(len(lower), dtype=np.int32)
    _, _, status, info = daqp.solve(
        None,
        None,
        np.ascontiguousarray(matrix),
        np.minimum(upper, _INFINITE),
        np.maximum(lower, -_INFINITE),
        sense,
        primal_tol=1e-11,
        dual_tol=1e-13,
        iter_limit=10_000 + 20 * len(lower),
    )
    return -np.sign(info["lam"]) if status == 1 else None


def _nnls_active(matrix: Array, lower: Array, upper: Array) -> Signs | None:
    """Lawson and Hanson's least-distance program: slower, but hard to break."""
    from_below, from_above = np.isfinite(lower), np.isfinite(upper)
    stacked = np.concatenate([matrix[from_below], -matrix[from_above]])
    right = np.concatenate([lower[from_below], -upper[from_above]])
    target = np.zeros(matrix.shape[1] + 1)
    target[-1] = 1.0
    found = nonnegative_least_squares(np.vstack([stacked.T, right]), target)
    if found is None:
        return None
    dual, residual = found
    if residual <= _RANK:
        return None  # zero distance: the dual is a proof of infeasibility
    signs = np.zeros(len(lower))
    signs[from_below] += np.sign(dual[: from_below.sum()])
    signs[from_above] -= np.sign(dual[from_below.sum() :])
    return signs


def nonnegative_least_squares(matrix: Array, target: Array) -> tuple[Array, float] | None:
    """X ≥ 0 (n,) that minimises ‖matrix x - target‖, and that; None if it was not found in time.

    By SciPy, but not of a matrix without columns, of which it frees its memory twice; nor is what
    it says is left taken from it, which may be 0 where it is not (scipy#25389).
    """
    n = matrix.shape[1]
    if not n:
        return np.zeros(0), float(np.linalg.norm(target))
    try:
        x, _ = nnls(matrix, target, maxiter=100 * n)
    except RuntimeError:
        return None
    return x, float(np.linalg.norm(matrix @ x - target))


def _independent(matrix: Array) -> Orthogonal:
    """Rows (rank,) that span all of them, in an order, and an orthonormal basis of their span."""
    q, r, order = pivoted_qr(matrix.T)
    diagonal = np.abs(np.diag(r))
    rank = int((diagonal > _RANK * diagonal[0]).sum())
    return Orthogonal(q[:, :rank], r[:rank, :rank], order[:rank])


def _on_active_rows(rows: ScaledRows, signs: Signs) -> tuple[Array, Array]:
    """The shortest x with the active rows exactly at their bounds, and its multipliers."""
    active = np.flatnonzero(signs)
    multipliers = np.zeros(len(signs))
    if not len(active):
        return np.zeros(rows.matrix.shape[1]), multipliers
    if len(active) == 1:  # of unit length, and the most frequent case by far
        end = rows.lower if signs[active[0]] > 0 else rows.upper
        multipliers[active] = end[active]
        return multipliers[active[0]] * rows.matrix[active[0]], multipliers
    q, r, independent = _independent(rows.matrix[active])
    active = active[independent]
    matrix = rows.matrix[active]
    target = np.where(signs[active] > 0, rows.lower[active], rows.upper[active])
    x = q @ solve_upper_transposed(r, target)
    x += q @ solve_upper_transposed(r, target - matrix @ x)  # one refinement
    multipliers[active] = solve_upper(r, q.T @ x)
    return x, multipliers


def _is_optimal(rows: ScaledRows, x: Array, multipliers: Array, accuracy: float) -> bool:
    """Verify bounds (in original units), signs and stationarity; NaN fails every test.

    Bounds may be missed by the accuracy, and by what rounding can do.
    """
    active = np.flatnonzero(multipliers)
    held, size = multipliers[active], float(np.linalg.norm(x))
    if not (np.isfinite(size) and np.isfinite(held).all()):
        return False
    values, units = rows.matrix @ x, rows.lengths * rows.unit
    missed = np.maximum(rows.lower - values, values - rows.upper)
    if not (missed * units <= accuracy + _rounding(len(x), size) * units).all():
        return False
    # Of equalities, both bounds are the same; no multiplier holds a bound that is not there.
    bound = np.where(held > 0.0, rows.lower[active], rows.upper[active])
    sizes = np.abs(held)
    at_bound = np.abs(values[active] - bound) <= 1e-7 * (1.0 + size)
    negligible = sizes <= _ACCURACY * sizes.max(initial=0.0)
    equal = rows.lower[active] == rows.upper[active]
    residual = np.linalg.norm(x - held @ rows.matrix[active])
    stationary = residual <= 1e-9 * (1.0 + size) + 1e-13 * sizes.sum()
    return bool((at_bound | negligible | equal).all() and stationary)


# The L1 price is exact: a row whose multiplier stays below its price is met as if it were hard; a
# row that contradicts others gives way by just as much as it must.


# Price of missing the largest shortfall whole, relative to the cost of the return that the hardest
# row needs alone. Equal to CONFLICT_RATIO: what a hard program would call contradictory gives way.
SOFT_PRICE = 1e3

_GAP = 1e-6


def solve_soft(matrix: Array, lower: Array, upper: Array, priority: Array) -> MinimumNorm:
    """Solve for matrix (m, n), bounds and priorities (m,).

    In units: minimise ½ ‖x‖²/unit² + SOFT_PRICE Σ priority · slack / shortfall, where unit is the
    ‖x‖ that the hardest row needs alone and shortfall the largest distance from a bound at x = 0.
    Rows that even `unit` would not move by `shortfall` pay relative to how far it does move them:
    else a small shortfall at a nearly saturated state would always be cheaper to leave.
    """
    m, n = matrix.shape
    shortfall = float(np.maximum(lower, -upper).max())
    lengths = np.linalg.norm(matrix, axis=1)
    movable = lengths > 0.0
    if shortfall <= 0.0 or not movable.any():
        return MinimumNorm(np.zeros(n), np.zeros(m), True, 0.0, "nothing to do")
    if not (np.maximum(lower, -upper)[movable] > 0.0).any():
        return MinimumNorm(np.zeros(n), np.zeros(m), True, 0.0, "nothing to do")
    q, r = qr(matrix[movable].T, mode="economic")
    rows = scale_rows(np.ascontiguousarray(r.T), lower[movable], upper[movable])
    price = SOFT_PRICE * priority[movable] * np.maximum(rows.lengths * rows.unit / shortfall, 1.0)
    z, multipliers = _solve(rows, price)
    original = np.zeros(m)
    original[movable] = multipliers * rows.unit / rows.lengths
    return MinimumNorm((q @ z) * rows.unit, original, True, float(np.linalg.norm(z)), "piqp")


def _solve(rows: ScaledRows, price: Array) -> tuple[Array, Array]:
    """(x, multipliers) of the scaled program; |multiplier| ≤ price."""
    m, k = rows.matrix.shape
    solver = piqp.DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_rel = 1e-10
    solver.settings.check_duality_gap = True
    solver.settings.eps_duality_gap_abs = solver.settings.eps_duality_gap_rel = 1e-9
    hessian = np.zeros((k + m, k + m), order="F")
    hessian[:k, :k] = np.eye(k)
    # The slack is measured in units of its price, so that both kinds of variables are of size one.
    slack = np.diag(1.0 / price)
    linear = np.concatenate([np.zeros(k), np.ones(m)])
    from_below, from_above = np.isfinite(rows.lower), np.isfinite(rows.upper)
    inequalities = np.vstack(
        [
            np.hstack([-rows.matrix, -slack])[from_below],
            np.hstack([rows.matrix, -slack])[from_above],
        ]
    )
    bounds = np.concatenate([-rows.lower[from_below], rows.upper[from_above]])
    solver.setup(
        P=hessian,
        c=linear,
        G=np.asfortranarray(inequalities),
        h_u=bounds,
        x_l=np.concatenate([np.full(k, -np.inf), np.zeros(m)]),
    )
    status = solver.solve()
    dual, distance = np.asarray(solver.result.z_u), np.asarray(solver.result.s_u)
    owners = np.concatenate([np.flatnonzero(from_below), np.flatnonzero(from_above)])
    signs = np.repeat([1.0, -1.0], [from_below.sum(), from_above.sum()])
    rough, held = np.zeros(m), np.zeros(m)
    np.add.at(rough, owners, signs * dual)
    # An interior point leaves every product dual · distance small: the larger factor tells which.
    np.add.at(held, owners, signs * dual * (dual > distance))
    candidates = [np.clip(rough, -price, price), _polished(rows, price, held)]
    best = min(candidates, key=lambda candidate: _gap(rows, price, candidate))
    gap = _gap(rows, price, best)
    if not gap <= _GAP:
        raise SolverFailure(
            f"The soft program of {m} rows was not solved: PIQP stopped with {status} and a "
            f"relative duality gap of {gap:.1e}. Remove rows that nearly repeat each other."
        )
    return rows.matrix.T @ best, best


def _polished(rows: ScaledRows, price: Array, held: Array) -> Array:
    """Rows at their price stay there; other rows that are held are put exactly at their bound."""
    at_price = np.abs(held) >= (1.0 - 1e-5) * price
    multipliers = np.where(at_price, np.sign(held) * price, 0.0)
    between = np.flatnonzero(~at_price & (held != 0.0))
    if len(between):
        matrix = rows.matrix[between]
        target = np.where(held[between] > 0, rows.lower[between], rows.upper[between])
        needed = target - matrix @ (rows.matrix.T @ multipliers)
        multipliers[between] = np.linalg.pinv(matrix.T) @ (np.linalg.pinv(matrix) @ needed)
    return np.clip(multipliers, -price, price)


def _gap(rows: ScaledRows, price: Array, multipliers: Array) -> float:
    """Relative gap between the program at x = Aᵀλ and its dual at λ: zero only at the optimum."""
    x = rows.matrix.T @ multipliers
    values = rows.matrix @ x
    slack = np.maximum(np.maximum(rows.lower - values, values - rows.upper), 0.0)
    primal = 0.5 * x @ x + price @ slack
    bound = np.where(multipliers > 0, rows.lower, np.where(multipliers < 0, rows.upper, 0.0))
    if not np.isfinite(bound).all():
        return np.inf
    dual = multipliers @ bound - 0.5 * x @ x
    return float((primal - dual) / (1.0 + abs(primal)))
