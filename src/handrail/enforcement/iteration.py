"""Make the real network obey, exactly: linearise, solve, step, measure; repeat.

Each iteration asks for the smallest change that the first-order model says is enough, takes it, and
measures what it did. Smallest is the change of the policy elsewhere, where that is known, else that
of the network. A probability is asked to move in its log-odds: they are unbounded and nearly linear
in the weights, so the model holds for far larger steps than that of the probability itself, and a
saturated action can be moved at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from torch import Tensor

from handrail._types import Array
from handrail.constraints import Rows, counted, html_table, listed
from handrail.enforcement.conflict import (
    Choices,
    Contradiction,
    impossible_at_one_state,
    nearest_opposite,
)
from handrail.enforcement.elsewhere import Elsewhere, Influence
from handrail.enforcement.linearisation import Linearisation, Position, Targets
from handrail.enforcement.program import (
    Geometry,
    LeastChange,
    LeastInfluence,
    ProgramSolution,
    Solver,
    hard_solver,
    solve_program,
    strict_solver,
)
from handrail.errors import UnsatisfiedConstraints
from handrail.policies import Policy
from handrail.proof import Certificate
from handrail.tangent import (
    MAY_MATTER,
    Gradient,
    Unevenness,
    descend,
    distance,
    restore,
    snapshot,
    take_step,
    unchanged_on_failure,
)

MAX_ITERATIONS = 50

_HALVINGS = 12

# As long as the policy elsewhere matters: the most that is asked of a row at once (as a part of
# what is asked where it does not), more of what is meant to reach far. References stand in the way
# when a step must be cut to less than this part, or when so many iterations were not enough.
_GENTLY, _LESS_GENTLY, _SHORT, _PATIENCE = 0.25, 0.5, 0.3, 10

# What is left of what was asked, as a part of it, up to which the same gradients will do once more:
# they have changed as little, and to take them anew is most of the work.
_LITTLE = 0.01

# Other alternatives are tried so often where a constraint leaves a choice.
_MOST_TRIES = 10

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
    active: tuple[str, ...]  # names of the rows that held the step


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
        influence: on the policy elsewhere, at its reference states, if any were known.
        reason: why it failed; empty if it did not.
        regions: how many were held as well, by the states that a search found.
        rounds: in which states of regions were added.
        certificates: of the constraints on regions, where a proof was asked for; not all of them
            certify if what could not be proven was to be kept.
        measured: names of the constraints that have no certificate though a proof was asked for:
            those at points, and relations between states.
        unevenness: sizes of observations that may be why it failed; None if they are alike.
        fences: how many regions were held by units of the network that are on nowhere else.
    """

    satisfied: bool
    worst_violation: float
    tolerance: float
    history: tuple[Iteration, ...]
    parameter_change: float
    reason: str
    influence: Influence | None = None
    regions: int = 0
    rounds: int = 0
    certificates: tuple[Certificate, ...] = ()
    measured: tuple[str, ...] = ()
    unevenness: Unevenness | None = None
    fences: int = 0

    @property
    def iterations(self) -> int:
        """Linearisations that were needed."""
        return len(self.history)

    @property
    def active(self) -> tuple[str, ...]:
        """Names of the rows that held the last step."""
        return self.history[-1].active if self.history else ()

    @property
    def proven(self) -> bool:
        """Whether every region has a certificate."""
        return bool(self.certificates) and all(one.certified for one in self.certificates)

    @property
    def not_proven(self) -> str:
        """What is not proven though a proof was asked for, in words; empty if all is."""
        parts = [
            f"Not proven, though it holds on every state that was tried: {one}"
            for one in self.certificates
            if not one.certified
        ]
        if self.measured:
            parts.append(
                f"Not proven, but measured at each of their states: {listed(self.measured)}. A "
                "proof is about regions; for points there is certify, for relations none."
            )
        return " ".join(parts)

    def __str__(self) -> str:
        if not self.satisfied:
            return f"Not every constraint could be held; the policy is as it was. {self.reason}"
        parts = [self._verdict()]
        if self.influence is not None and self.parameter_change:
            parts.append(str(self.influence))
        if self.regions:
            parts.append(f"{self._regions_held()}.")
        return " ".join(filter(None, (*parts, self.not_proven)))

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
        if self.influence is not None:
            rows += self.influence.as_rows()
        if self.regions:
            rows.append(("regions", self._regions_held()))
        if self.fences:
            rows.append(("fences in the network", f"{self.fences}"))
        if self.measured:
            rows.append(("not proven, but measured", listed(self.measured)))
        return html_table("Every constraint holds.", rows)

    def _regions_held(self) -> str:
        regions = counted(self.regions, "region")
        if self.proven:
            return f"Proven at every state of {regions}"
        certified = sum(one.certified for one in self.certificates)
        if certified:
            return f"{certified} of {regions} proven, the others by search"
        return f"{regions} by search, not by proof"

    def _verdict(self) -> str:
        worst = f"worst violation {self.worst_violation:+.1e}"
        if self.worst_violation > 0.0:
            worst += f" of {self.tolerance:g} allowed"
        if not self.parameter_change:
            return f"Every constraint held already: {worst}."
        took = f"after {counted(self.iterations, 'iteration')}"
        if self.fences:
            took = f"by {counted(self.fences, 'fence')} in the network"
        return (
            f"Every constraint holds {took}: {worst}, the weights moved by "
            f"{self.parameter_change:.3g}."
        )

    def with_remedy(self, observations: Sequence[str] = ()) -> Enforcement:
        """The same; where sizes of observations may be the reason, it says so, by their names."""
        if self.unevenness is None:
            return self
        unevenness = self.unevenness.named(observations)
        return replace(self, reason=f"{self.reason} {unevenness}", unevenness=unevenness)

    def raise_if_unsatisfied(self) -> Enforcement:
        """Itself, or `UnsatisfiedConstraints` with the reason."""
        if not self.satisfied:
            raise UnsatisfiedConstraints(self.reason)
        return self


def enforce_rows(
    policy: Policy, rows: Rows, tolerance: float, elsewhere: Elsewhere, beyond: float = 0.0
) -> Enforcement:
    """Change the policy's weights until every row holds, and as little as possible elsewhere.

    Args:
        policy: changed in place; left exactly as it was on failure.
        rows: all of them must hold; of every choice, one alternative.
        tolerance: the largest violation allowed.
        elsewhere: what should stay as it is.
        beyond: where something is violated, how far inside the bounds to aim (`Rows.units`). Only
            an aim: what obeys, obeys.
    """
    history: list[Iteration] = []
    choices = Choices(rows, policy)
    outcome: _Reading | _Failure | None = None
    with policy.still(), unchanged_on_failure(policy) as start:

        def attempt(inside: float = 0.0, begin: list[Tensor] = start) -> _Reading | _Failure:
            found = _relinearise(policy, choices.rows, tolerance, elsewhere, history, begin, inside)
            if isinstance(found, _Failure):
                restore(policy, start)
            return found

        if beyond:
            outcome = attempt(inside=beyond)
        for _ in range(0 if isinstance(outcome, _Reading) else _MOST_TRIES):
            outcome = attempt()
            if isinstance(outcome, _Failure) and elsewhere.matters:
                # Nothing that the shortest way can hold is given up.
                elsewhere.let_go()
                outcome = attempt()
            if isinstance(outcome, _Reading) or not choices.give_up(outcome.rows):
                break
        if isinstance(outcome, _Failure):
            for _ in choices.choose_alike():
                outcome = attempt()
                if isinstance(outcome, _Reading):
                    break
        if isinstance(outcome, _Failure) and outcome.is_stuck:
            # Of whatever cannot be held even so, what linearising found says why.
            targets = Targets.of(choices.rows, tolerance, policy.coordinates)
            if descend(policy, targets.energy):
                found = attempt(begin=snapshot(policy))
                outcome = found if isinstance(found, _Reading) else outcome
            else:
                restore(policy, start)
    failure = outcome if isinstance(outcome, _Failure) else None
    reason = "" if failure is None else failure.reason
    if failure is not None and len(choices.of(failure.rows)):
        reason += " Other alternatives could not be held, either."
    known = outcome if isinstance(outcome, _Reading) and not rows.has_choices else None
    return Enforcement(
        satisfied=failure is None,
        worst_violation=_Reading.of(policy, rows).worst if known is None else known.worst,
        tolerance=tolerance,
        history=tuple(history),
        parameter_change=distance(policy, start) if history else 0.0,
        reason=reason,
        unevenness=None if failure is None else failure.unevenness,
    )


@final
@dataclass(frozen=True)
class _Reading:
    """A policy, as it is, at the rows.

    Attributes:
        outputs: (n_samples, n_actions) at their states.
        violations: (n_rows,).
        worst: of them.
    """

    outputs: Array
    violations: Array
    worst: float

    @classmethod
    def of(cls, policy: Policy, rows: Rows) -> _Reading:
        outputs = rows.outputs_of(policy)
        violations = rows.violations(rows.values(outputs))
        return cls(outputs, violations, float(violations.max()))

    def is_done(self, rows: Rows, tolerance: float) -> bool:
        """Whether nothing is violated by more than the tolerance, and no inequality at all."""
        if self.worst <= min(tolerance, 0.0):
            return True
        inside = self.violations[rows.inequalities] <= 0.0
        return self.worst <= tolerance and bool(inside.all())


@final
@dataclass(frozen=True)
class _Failure:
    """Why rows could not be held.

    Attributes:
        reason: in words.
        rows: to blame.
        unevenness: sizes of observations that may be why.
        is_stuck: whether there was a direction at every step, and yet in the end no way on.
    """

    reason: str
    rows: Sequence[int]
    unevenness: Unevenness | None = None
    is_stuck: bool = False


def _relinearise(
    policy: Policy,
    rows: Rows,
    tolerance: float,
    elsewhere: Elsewhere,
    history: list[Iteration],
    start: list[Tensor],
    inside: float = 0.0,
) -> _Reading | _Failure:
    """Step until satisfied, and where that is; or why it is not.

    Args:
        policy: changed in place.
        rows: that must hold.
        tolerance: the largest violation allowed.
        elsewhere: what should stay as it is.
        history: is added to.
        start: the policy's weights as they are now.
        inside: how far inside their bounds to aim (`Rows.units`).
    """
    here = _Reading.of(policy, rows)
    if here.worst <= tolerance:
        return here
    impossible = impossible_at_one_state(rows)
    if impossible is not None:
        return _Failure(f"{impossible}. Relax one of them.", impossible.rows)
    elsewhere.begin(policy)
    further = inside * rows.units(policy.scale(here.outputs)) if inside else None
    targets = Targets.of(rows, tolerance, policy.coordinates, further)
    trust = 1.0
    for number in range(MAX_ITERATIONS):
        if number and number % _PATIENCE == 0:
            elsewhere.give_way()
        gently = elsewhere.matters
        asked = _asked_gently(elsewhere) if gently else trust
        model = Linearisation(policy, rows, here.outputs)
        position = targets.position(here.outputs)
        try:
            program, solution = _smallest_change(model, targets, position, asked, elsewhere)
        except Contradiction as contradiction:
            conflict = contradiction.conflict(rows, policy)
            found = f"No step satisfies all {len(rows)} constraint rows. {conflict}. {REMEDY}"
            return _Failure(found, conflict.rows, _unevenness(policy, rows))
        before = targets.shortfall(position)
        direction = program.geometry.direction(solution.coefficients)
        saved = snapshot(policy) if number else start
        step, here = _line_search(policy, rows, targets, direction, here, before, saved)
        if step == 1.0 and not here.is_done(rows, tolerance):
            here = _refined(policy, rows, targets, program, position, before, here)
        predicted = rows.violations(targets.predicted_values(position, step * solution.change))
        active = tuple(rows.labels[i] for i in np.flatnonzero(solution.multipliers))
        history.append(Iteration(float(predicted.max()), here.worst, step, active))
        # Within the tolerance, one more iteration brings inequalities to the right side of it.
        polished = len(history) > 1 and history[-2].measured_violation <= tolerance
        if (here.worst <= tolerance and polished) or here.is_done(rows, tolerance):
            return here
        if gently:
            _stay_elsewhere(elsewhere, step, targets.is_far(position, asked))
        elif step == 0.0:
            break
        else:
            trust *= 2.0 if step == 1.0 else step
    if here.worst <= tolerance:
        return here
    return _unimproved(policy, rows, here.violations, tolerance, len(history))


def _asked_gently(elsewhere: Elsewhere) -> float:
    return _LESS_GENTLY if elsewhere.reaches_far else _GENTLY


def _stay_elsewhere(elsewhere: Elsewhere, step: float, far: bool) -> None:
    """After a step of this part of what was asked, with the rows far from their bounds or near."""
    if step < _SHORT:
        elsewhere.give_way()
    if far:
        elsewhere.renew()


def _unimproved(
    policy: Policy, rows: Rows, violations: Array, tolerance: float, tried: int
) -> _Failure:
    """What is still violated, what might help, and what asks the opposite nearby."""
    worst = int(violations.argmax())
    found = (
        f"After {counted(tried, 'linearisation')} the worst violation is {violations[worst]:.2g}, "
        f"of {rows.labels[worst]!r}, above the tolerance of {tolerance:g}, and no further step "
        "improves it."
    )
    nearly = violations[worst] < _NEARLY * tolerance
    remedy = "raise the tolerance" if nearly else _RESCALE
    opposite = None if nearly else nearest_opposite(worst, rows, policy)
    against, blamed = "", np.flatnonzero(violations > tolerance).tolist()
    if opposite is not None:
        blamed += opposite.rows
        against = (
            f" The nearest that asks the opposite is {opposite.labels[1]!r}, "
            f"{opposite.distance:.3g} away: relax one of the two, or move them apart."
        )
    text = f"{found} Use a wider network, relax the constraints, or {remedy}.{against}"
    return _Failure(text, blamed, None if nearly else _unevenness(policy, rows), is_stuck=True)


def _unevenness(policy: Policy, rows: Rows) -> Unevenness | None:
    return Unevenness.of(policy, rows.first_states, MAY_MATTER)


@final
@dataclass(frozen=True)
class _Program:
    """Rows to first order, what "smallest" means, and who solves that."""

    model: Linearisation
    geometry: Geometry
    solver: Solver

    def solved(self, targets: Targets, position: Position, trust: float) -> ProgramSolution:
        """Ask for log-odds; where these contradict each other to first order, for outputs."""
        try:
            asked = targets.change_in_coordinates(position, trust)
            return solve_program(self.model, self.geometry, *asked, self.solver)
        except Contradiction:
            asked = targets.change_in_values(self.model.values, trust)
            return solve_program(self.model, self.geometry, *asked, self.solver)


def _smallest_change(
    model: Linearisation,
    targets: Targets,
    position: Position,
    trust: float,
    elsewhere: Elsewhere,
) -> tuple[_Program, ProgramSolution]:
    """What is enough to first order, and least elsewhere, as far as that can stay."""
    while elsewhere.matters:
        geometry = LeastInfluence(model, elsewhere.anchor(model), elsewhere.reach)
        program = _Program(model, geometry, strict_solver)
        try:
            return program, program.solved(targets, position, trust)
        except Contradiction:
            elsewhere.give_way()
    program = _Program(model, LeastChange(model), hard_solver(model))
    return program, program.solved(targets, position, trust)


def _refined(
    policy: Policy,
    rows: Rows,
    targets: Targets,
    program: _Program,
    begin: Position,
    asked: float,
    here: _Reading,
) -> _Reading:
    """Where only a little is left after a step from `begin`, the same gradients do away with it.

    Of `asked`, which was the shortfall there.
    """
    position = targets.position(here.outputs)
    left = targets.shortfall(position)
    if left > _LITTLE * asked:
        return here
    # What is nearly linear in the weights is the coordinate: its slope goes with the gradients.
    bounds = targets.change_in_coordinates(Position(position.coordinate, begin.slope), 1.0)
    try:
        solution = solve_program(program.model, program.geometry, *bounds, program.solver)
    except Contradiction:
        return here
    direction = program.geometry.direction(solution.coefficients)
    return _line_search(policy, rows, targets, direction, here, left, snapshot(policy))[1]


def _line_search(
    policy: Policy,
    rows: Rows,
    targets: Targets,
    direction: Gradient,
    here: _Reading,
    before: float,
    saved: list[Tensor],
) -> tuple[float, _Reading]:
    """Take the largest halved step that brings the worst row nearer to its target than before.

    From the weights that are saved. Returns its length (0 if there is none), and where it ends.
    """
    step = 1.0
    for _ in range(_HALVINGS):
        take_step(policy, direction, step)
        moved = _Reading.of(policy, rows)
        if targets.shortfall(targets.position(moved.outputs)) < before:
            return step, moved
        restore(policy, saved)
        step /= 2.0
    return 0.0, here
