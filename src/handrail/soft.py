"""min ½‖x‖² + Σ price · slack subject to lower - slack ≤ A x ≤ upper + slack.

The L1 price is exact: a row whose multiplier stays below its price is met as if it were hard; a row
that contradicts others gives way by just as much as it must.
"""

from __future__ import annotations

import numpy as np
import piqp
from scipy.linalg import qr

from handrail.arrays import Array
from handrail.errors import SolverFailure
from handrail.minimum_norm import MinimumNorm, ScaledRows, scale_rows

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
