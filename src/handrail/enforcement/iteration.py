"""Make the real network obey, exactly: linearise, solve, step, measure; repeat.

Each iteration asks for the smallest change of the network that the first-order model says is enough
(objective "parameters"), takes it, and measures what it did. A probability is asked to move in its
log-odds: they are unbounded and nearly linear in the weights, so the model holds for far larger
steps than that of the probability itself, and a saturated action can be moved at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from handrail._types import Array
from handrail.constraints import Rows, counted, html_table, listed
from handrail.enforcement.conflict import (
    Contradiction,
    impossible_at_one_state,
    nearest_opposite,
)
from handrail.enforcement.linearisation import Linearisation
from handrail.enforcement.program import LeastChange, ProgramSolution, hard_solver, solve_program
from handrail.enforcement.targets import Position, Targets
from handrail.errors import UnsatisfiedConstraints
from handrail.policies import Policy
from handrail.proof import Certificate
from handrail.tangent import (
    Gradient,
    distance,
    restore,
    snapshot,
    take_step,
    unchanged_on_failure,
)

MAX_ITERATIONS = 50

_HALVINGS = 12

# A violation of so many tolerances is a matter of rounding; beyond, no tolerance is meant.
_NEARLY = 100.0

_RESCALE = "rescale the observations so that they vary alike"

REMEDY = (
    "Relax one of them, move their states apart, or rescale the observations so that such states "
    "differ more."
)


@final
@dataclass(frozen=True)
class Iteration:
    """What one linearisation promised and what the network did."""

    predicted_violation: float
    measured_violation: float
    step: float  # the fraction of the solved step that was taken
    active: int  # rows that held the step


@final
@dataclass(frozen=True, repr=False)
class Enforcement:
    """How a policy was made to obey.

    Attributes:
        satisfied: whether every row is within the tolerance. If not, the policy is as it was.
        worst_violation: of the policy that came out; positive means broken.
        tolerance: the largest violation that was allowed at points.
        history: one entry per iteration.
        parameter_change: ‖Δθ‖.
        policy_change: the largest change of any output on the reference states, if given.
        reason: why it failed; empty if it did not.
        regions: how many were held as well, by the states that a search found.
        rounds: in which states of regions were added.
        certificates: of the constraints on regions, where these were proven.
        measured: names of the constraints that have no certificate though a proof was asked for:
            those at points, and relations between states.
    """

    satisfied: bool
    worst_violation: float
    tolerance: float
    history: tuple[Iteration, ...]
    parameter_change: float
    policy_change: float | None
    reason: str
    regions: int = 0
    rounds: int = 0
    certificates: tuple[Certificate, ...] = ()
    measured: tuple[str, ...] = ()

    @property
    def iterations(self) -> int:
        """Linearisations that were needed."""
        return len(self.history)

    @property
    def proven(self) -> bool:
        """Whether every region has a certificate."""
        return bool(self.certificates) and all(one.certified for one in self.certificates)

    @property
    def not_proven(self) -> str:
        """What has no certificate though a proof was asked for, in words; empty if all has."""
        if not self.measured:
            return ""
        return (
            f"Not proven, but measured at each of their states: {listed(self.measured)}. A proof "
            "is about regions; for points there is certify, for relations none."
        )

    def __str__(self) -> str:
        if not self.satisfied:
            return f"Not every constraint could be held; the policy is as it was. {self.reason}"
        parts = [self._verdict()]
        if self.policy_change is not None:
            parts.append(f"On the reference states no output moved by more than {self._moved()}.")
        if self.regions:
            parts.append(f"{self._regions_held()}.")
        if self.measured:
            parts.append(self.not_proven)
        return " ".join(parts)

    def __repr__(self) -> str:
        held = "satisfied" if self.satisfied else "not satisfied"
        took = counted(self.iterations, "iteration")
        return f"<Enforcement: {held} after {took}, worst violation {self.worst_violation:+.1e}>"

    def _repr_html_(self) -> str:
        if not self.satisfied:
            return html_table(str(self), [])
        rows = [
            ("worst violation", f"{self.worst_violation:+.1e}"),
            ("tolerance at points", f"{self.tolerance:g}"),
            ("iterations", f"{self.iterations}"),
            ("change of the weights ‖Δθ‖", f"{self.parameter_change:.3g}"),
        ]
        if self.policy_change is not None:
            rows.append(("largest change on reference states", self._moved()))
        if self.regions:
            rows.append(("regions", self._regions_held()))
        if self.measured:
            rows.append(("not proven, but measured", listed(self.measured)))
        return html_table("Every constraint holds.", rows)

    def _moved(self) -> str:
        return f"{self.policy_change:.2g}"

    def _regions_held(self) -> str:
        regions = counted(self.regions, "region")
        if self.proven:
            return f"Proven at every state of {regions}"
        return f"{regions} by search, not by proof"

    def _verdict(self) -> str:
        worst = f"worst violation {self.worst_violation:+.1e}"
        if self.worst_violation > 0.0:
            worst += f" of {self.tolerance:g} allowed"
        if not self.parameter_change:
            return f"Every constraint held already: {worst}."
        took = counted(self.iterations, "iteration")
        return (
            f"Every constraint holds after {took}: {worst}, the weights moved by "
            f"{self.parameter_change:.3g}."
        )

    def raise_if_unsatisfied(self) -> Enforcement:
        """Itself, or `UnsatisfiedConstraints` with the reason."""
        if not self.satisfied:
            raise UnsatisfiedConstraints(self.reason)
        return self


def enforce_rows(
    policy: Policy,
    rows: Rows,
    tolerance: float,
) -> Enforcement:
    """Change the policy's weights, as little as possible, until every row holds.

    Args:
        policy: changed in place; left exactly as it was on failure.
        rows: all of them must hold.
        tolerance: the largest violation allowed.
    """
    history: list[Iteration] = []
    with unchanged_on_failure(policy) as start:
        reason = _relinearise(policy, rows, tolerance, history)
    if reason:
        restore(policy, start)
    return Enforcement(
        satisfied=not reason,
        worst_violation=float(rows.violations_of(policy).max()),
        tolerance=tolerance,
        history=tuple(history),
        parameter_change=distance(policy, start),
        policy_change=None,
        reason=reason,
    )


def _relinearise(policy: Policy, rows: Rows, tolerance: float, history: list[Iteration]) -> str:
    """Step until satisfied; the reason why not, or nothing."""
    outputs = policy.outputs(rows.states)
    if _worst(rows, outputs) <= tolerance:
        return ""
    impossible = impossible_at_one_state(rows)
    if impossible is not None:
        return f"{impossible}. Relax one of them."
    targets = Targets(rows, tolerance)
    trust = 1.0
    for _ in range(MAX_ITERATIONS):
        model = Linearisation(policy, rows, outputs)
        position = targets.position(outputs)
        try:
            solution = _smallest_change(model, targets, position, trust)
        except Contradiction as contradiction:
            return (
                f"No step satisfies all {len(rows)} constraint rows. "
                f"{contradiction.conflict(rows)}. {REMEDY}"
            )
        direction = model.direction(solution.coefficients)
        step, outputs = _line_search(policy, rows, targets, direction, outputs)
        predicted = rows.violations(targets.predicted_values(position, step * solution.change))
        measured = _worst(rows, outputs)
        active = int(np.count_nonzero(solution.multipliers))
        history.append(Iteration(float(predicted.max()), measured, step, active))
        # Within the tolerance, one more iteration brings inequalities to the right side of it.
        polished = len(history) > 1 and history[-2].measured_violation <= tolerance
        if measured <= tolerance and (polished or _all_inside(rows, outputs)):
            return ""
        if step == 0.0:
            break
        trust *= 2.0 if step == 1.0 else step
    if _worst(rows, outputs) <= tolerance:
        return ""
    return _unimproved(rows, outputs, tolerance, len(history))


def _unimproved(rows: Rows, outputs: Array, tolerance: float, tried: int) -> str:
    """What is still violated, what might help, and what asks the opposite nearby."""
    violations = rows.violations(rows.values(outputs))
    worst = int(violations.argmax())
    found = (
        f"After {counted(tried, 'linearisation')} the worst violation is {violations[worst]:.2g}, "
        f"of {rows.labels[worst]!r}, above the tolerance of {tolerance:g}, and no further step "
        "improves it."
    )
    nearly = violations[worst] < _NEARLY * tolerance
    remedy = "raise the tolerance" if nearly else _RESCALE
    opposite = None if nearly else nearest_opposite(worst, rows)
    against = ""
    if opposite is not None:
        against = (
            f" The nearest that asks the opposite is {opposite.labels[1]!r}, "
            f"{opposite.distance:.3g} away: relax one of the two, or move them apart."
        )
    return f"{found} Use a wider network, relax the constraints, or {remedy}.{against}"


def _smallest_change(
    model: Linearisation, targets: Targets, position: Position, trust: float
) -> ProgramSolution:
    """Ask for log-odds; where these contradict each other to first order, for outputs."""
    geometry, solver = LeastChange(model), hard_solver(model)
    try:
        asked = targets.change_in_coordinates(position, trust)
        return solve_program(model, geometry, *asked, solver)
    except Contradiction:
        asked = targets.change_in_values(model.values, trust)
        return solve_program(model, geometry, *asked, solver)


def _line_search(
    policy: Policy,
    rows: Rows,
    targets: Targets,
    direction: Gradient,
    outputs: Array,
) -> tuple[float, Array]:
    """Take the largest halved step that brings the worst row nearer to its target.

    Returns its length (0 if there is none), and the outputs at the rows' states after it.
    """
    before = targets.shortfall(targets.position(outputs))
    start = snapshot(policy)
    step = 1.0
    for _ in range(_HALVINGS):
        take_step(policy, direction, step)
        moved = policy.outputs(rows.states)
        if targets.shortfall(targets.position(moved)) < before:
            return step, moved
        restore(policy, start)
        step /= 2.0
    return 0.0, outputs


def _worst(rows: Rows, outputs: Array) -> float:
    return float(rows.violations(rows.values(outputs)).max())


def _all_inside(rows: Rows, outputs: Array) -> bool:
    """Whether no inequality is violated at all."""
    violations = rows.violations(rows.values(outputs))
    return bool((violations[~rows.is_equality()] <= 0.0).all())
