"""Safe returns: what the constrained states must be worth for the next step to obey (H3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from handrail._minimum_norm import MinimumNorm, solve_soft
from handrail._types import Array, Indices
from handrail.constraints import Rows, counted, expand, html_table
from handrail.enforcement.candidates import Candidates
from handrail.enforcement.conflict import Choices, Contradiction, impossible_at_one_state
from handrail.enforcement.linearisation import Linearisation, Targets
from handrail.enforcement.program import (
    Geometry,
    LeastChange,
    LeastReturns,
    Solver,
    hard_solver,
    solve_program,
)
from handrail.errors import InfeasibleConstraints, InvalidArgument
from handrail.policies import Policy
from handrail.rulebook import AnyConstraints, constraints_of
from handrail.settings import Everywhere, MaximumDeviation, Objective, Selection
from handrail.tangent import Batch, Gradient, PolicyGradient, policy_gradient, take_step

# A predicted violation below this is rounding.
TOLERANCE = 1e-8

# Rows of a table, those with the largest returns.
_SHOWN = 20


@final
@dataclass(frozen=True, repr=False)
class SafeReturns:
    """The returns of the constrained states that make one gradient step obey, as predicted.

    A prediction is first order. Far from the bounds the step it asks for is large and the
    prediction poor (even above 1): measure what the step did, or `enforce`.

    Attributes:
        values: (n_rows,) safe returns G^s.
        gradient: g + Σ G^s_i v_i (H2): the direction of the constrained step.
        step_size: of that step; the answer holds for no other.
        multipliers: (n_rows,). Positive holds a lower bound, negative an upper one.
        before: (n_rows,) measured values c of the rows.
        predicted: (n_rows,) values after the step, to first order.
        residuals: (n_rows,) predicted violations; positive means broken.
        batch_loss: -Σ_k G_k log π(a_k|s_k) before the step.
        safe_loss: the same of the safe returns, -Σ_i G^s_i log c_i.
        labels: (n_rows,) names of the rows.
        method: the solver whose answer survived verification.
    """

    values: Array
    gradient: Gradient
    step_size: float
    multipliers: Array
    before: Array
    predicted: Array
    residuals: Array
    batch_loss: float
    safe_loss: float
    labels: tuple[str, ...]
    method: str

    @property
    def active(self) -> tuple[str, ...]:
        """Names of the rows with a multiplier.

        A non-zero safe return does not mean active: the kernel couples rows.
        """
        return tuple(self.labels[i] for i in np.flatnonzero(self.multipliers))

    @property
    def worst_violation(self) -> float:
        """The largest predicted violation."""
        return float(self.residuals.max())

    @property
    def satisfied(self) -> bool:
        """Whether the step is predicted to satisfy every row."""
        return self.worst_violation <= TOLERANCE

    def __str__(self) -> str:
        predicted = (
            "every row is predicted to hold"
            if self.satisfied
            else f"the worst row is predicted to be violated by {self.worst_violation:.2g}"
        )
        holding = counted(len(self.active), "row")
        return (
            f"{counted(len(self.values), 'safe return')} for a step of {self.step_size:g}, the "
            f"largest {self.values[self._largest()[0]]:.3g}: {predicted}, {holding} active."
        )

    def __repr__(self) -> str:
        rows, active = counted(len(self.values), "row"), len(self.active)
        worst = f"worst predicted violation {self.worst_violation:+.1e}"
        return f"<SafeReturns: {rows}, {active} active, {worst}>"

    def _repr_html_(self) -> str:
        rows = [
            (
                self.labels[i],
                f"{self.values[i]:.4g}",
                f"{self.before[i]:.6f}",
                f"{self.predicted[i]:.6f}",
                f"{self.residuals[i]:+.2e}",
            )
            for i in self._largest()
        ]
        left = len(self.values) - len(rows)
        note = f"{counted(left, 'further row')} with smaller returns" if left else ""
        columns = ("row", "safe return", "before", "predicted", "violation")
        return html_table(str(self), rows, columns, note)

    def _largest(self) -> Indices:
        return np.argsort(-np.abs(self.values), kind="stable")[:_SHOWN]


def safe_returns(
    policy: Policy,
    batch: Batch,
    constraints: AnyConstraints,
    step_size: float,
    objective: Objective = "returns",
    soft: bool = False,
    selection: Selection | None = None,
) -> SafeReturns:
    """Solve for the safe returns of one constrained policy-gradient step.

    Args:
        policy: at its present weights, which are not changed.
        batch: what the step learns from.
        constraints: a list, a `Rulebook` or a constraint file; equalities and inequalities, mixed
            as you like.
        step_size: of the step that will be taken; it appears in both terms of (H3).
        objective: "returns" (the paper) keeps Σ G² small, "parameters" the change of the network.
        soft: let constraints that contradict each other give way, dearer ones last, instead of
            raising `InfeasibleConstraints`.
        selection: which states of regions enter; by default `MaximumDeviation()`.
    """
    _check(step_size, objective)
    expansion = expand(constraints_of(constraints, policy), policy)
    gradient = policy_gradient(policy, batch)
    blocks = []
    if expansion.regional:
        if isinstance(selection, Everywhere):
            raise InvalidArgument(
                "safe_returns are those of a single step, which Everywhere does not choose states "
                "for: use MaximumDeviation or MaximumReturn, or enforce the whole region."
            )
        candidates = Candidates(expansion, selection or MaximumDeviation())
        scores = candidates.scores(policy, gradient, step_size)
        blocks = candidates.rows_at(candidates.choose(scores))
    rows = Choices(expansion.rows_with(blocks), policy).rows
    impossible = None if soft else impossible_at_one_state(rows)
    if impossible is not None:
        raise InfeasibleConstraints(f"{impossible}. Relax one of them, or use soft=True.")
    return solve_returns(predict_step(policy, gradient, rows, step_size), objective, soft)


@final
@dataclass(frozen=True)
class PredictedStep:
    """What a plain step on a batch would do to the constraint rows: (H3) without safe returns.

    Attributes:
        rows: the constraint rows.
        model: their linearisation at the present weights.
        outputs: (n_samples, n_actions) at the rows' states.
        gradient: of the batch.
        step_size: of the step.
        drift: (n_rows,) values c + α J g after the step.
    """

    rows: Rows
    model: Linearisation
    outputs: Array
    gradient: PolicyGradient
    step_size: float
    drift: Array


def predict_step(
    policy: Policy, gradient: PolicyGradient, rows: Rows, step_size: float
) -> PredictedStep:
    """Predict what the plain step on a batch does to the rows: one forward-mode pass."""
    outputs = rows.outputs_of(policy)
    model = Linearisation(policy, rows, outputs)
    drift = model.values + step_size * model.effect(gradient.direction)
    return PredictedStep(rows, model, outputs, gradient, step_size, drift)


def solve_returns(step: PredictedStep, objective: Objective, soft: bool) -> SafeReturns:
    """The safe returns that bring the predicted step within the bounds."""
    rows, model, drift = step.rows, step.model, step.drift
    hard = hard_solver(model, lambda: _change_in_coordinates(step))
    solver = _soft_solver(rows) if soft else hard
    geometry = _geometry(model, objective, step.step_size)
    try:
        solution = solve_program(model, geometry, rows.lower - drift, rows.upper - drift, solver)
    except Contradiction as contradiction:
        conflict = contradiction.conflict(rows, model.policy)
        raise InfeasibleConstraints(
            f"No step satisfies all {len(rows)} constraint rows. {conflict}. "
            "Relax one of them, move their states apart, rescale the observations so that such "
            "states differ more, or use soft=True."
        ) from None
    predicted = drift + solution.change
    values = solution.coefficients * model.scale / step.step_size
    correction = model.direction(solution.coefficients / step.step_size)
    return SafeReturns(
        values=values,
        gradient=step.gradient.direction + correction,
        step_size=step.step_size,
        multipliers=solution.multipliers,
        before=model.values,
        predicted=predicted,
        residuals=rows.violations(predicted),
        batch_loss=step.gradient.loss,
        safe_loss=-float(values @ model.log_likelihood),
        labels=rows.labels,
        method=solution.method,
    )


def _change_in_coordinates(step: PredictedStep) -> tuple[Array, Array]:
    """What the rows ask for, in log-odds."""
    targets = Targets(step.rows, TOLERANCE, step.model.policy.coordinates)
    return targets.change_in_coordinates(targets.position(step.outputs), trust=np.inf)


def update(policy: Policy, returns: SafeReturns) -> None:
    """Take the constrained step θ ← θ + α (g + Σ G^s_i v_i) of (H2), in place, once."""
    take_step(policy, returns.gradient, returns.step_size)


def _geometry(model: Linearisation, objective: Objective, step_size: float) -> Geometry:
    if objective == "returns":
        return LeastReturns(model, step_size)
    return LeastChange(model)


def _soft_solver(rows: Rows) -> Solver:
    def solve(matrix: Array, lower: Array, upper: Array, indices: Indices) -> MinimumNorm:
        return solve_soft(matrix, lower, upper, rows.priority[indices])

    return solve


def _check(step_size: float, objective: str) -> None:
    if not (np.isfinite(step_size) and step_size > 0.0):
        raise InvalidArgument(f"The step size must be positive and finite, but got {step_size!r}.")
    if objective not in ("returns", "parameters"):
        raise InvalidArgument(
            f"Unknown objective {objective!r}. Choose 'returns' (the paper: small safe returns) or "
            "'parameters' (least change of the network)."
        )
