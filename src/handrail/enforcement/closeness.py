"""How far a policy has moved on reference states, and steps that take most of it back.

The policy is held the shortest way of the weights first. What that did is taken back wherever no
constraint asked for it, step by step, and after every step the policy is made to obey again (the
Levenberg-Marquardt method): further than steps that are each the least elsewhere come, for a
network bends on the way. The distance of the weights θ from those they started from, θ₀, is

    f(θ) = Σ_j (y_j(θ) - y_j(θ₀))² + ρ ‖θ - θ₀‖²,

with y and ρ as in `elsewhere`: the weights themselves count just enough to decide where the
reference states do not. To first order around the present weights, with J the gradients of y,
d = y(θ) - y(θ₀) and D = θ - θ₀, a step Δ that keeps the constraints solves

    min ‖d + JΔ‖² + ρ ‖D + Δ‖² + μ ‖Δ‖²   subject to   lower ≤ A Δ ≤ upper.

Complete the square with M = JᵀJ + σI and σ = ρ + μ: Δ = z - m with m = M⁻¹(Jᵀd + ρD), and z is the
shortest vector in the norm of M that meets the bounds moved by A m. Woodbury's identity turns every
M⁻¹ into kernels of as many rows as there are outputs and constraints, however many the weights.

A network that has not learned anything yet, and in which a box can be fenced off, needs none of
that: what is asked for is added inside the fence, and nothing moves elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from torch import Tensor

from handrail._minimum_norm import solve_minimum_norm
from handrail._types import Array, Mask
from handrail.constraints import Expansion, Regional, Rows
from handrail.enforcement.conflict import Choices
from handrail.enforcement.elsewhere import Anchor, Elsewhere
from handrail.enforcement.enforcer import Enforcer
from handrail.enforcement.iteration import Enforcement
from handrail.enforcement.linearisation import Linearisation, Targets
from handrail.enforcement.program import factor_of
from handrail.enforcement.references import References
from handrail.errors import InvalidPolicy, SolverFailure
from handrail.policies import FenceBuilder, Fences, Policy
from handrail.regions import Box
from handrail.settings import ADVICE
from handrail.tangent import (
    Gradient,
    distance,
    restore,
    snapshot,
    take_step,
    unchanged_on_failure,
)

# References, and coordinates of them: the cost of a step grows with their square. Of a policy that
# has been somewhere as many of the space besides: what was never visited is larger.
_COORDINATES = 256

# Constraint rows that enter: those nearest to their bounds. The others are held by what follows.
_ROWS = 400

# Damping of the first step, in units of a coordinate's squared gradient, and what failure makes of
# it; success does the opposite.
_DAMPING, _DAMPED_BY = 1.0, 4.0

_MAX_STEPS, _MAX_FAILURES = 60, 6

# Linearisations, attempts that failed included: what cannot come closer should not take minutes.
_MAX_EFFORT = 2000

# Two steps in a row that gain less than this part of the distance are the last.
_WORTH_IT = 0.01

# What is added inside a fence is found at so many states of it, and may be at most so much; updates
# break what is held a little inside its bounds less often (in log-odds, and at most as much again).
_INSIDE_FENCE, _HIGHEST, _BEYOND = 256, 60.0, 1.0

# Halvings of the interval in which the push is looked for, and which part of the largest that any
# state of a region needs all others must need as well.
_HALVINGS, _ALIKE = 40, 0.5

# Units that become a fence meant nothing if the rest of the policy has moved by no more than this
# (root mean square of its coordinates y: of a probability of one half, by half as much).
_UNMOVED = 0.05


def hold_closely(
    policy: Policy, references: References, enforcer: Enforcer, reach: float
) -> Enforcement:
    """Make the policy obey, and take back what that changed elsewhere; on failure it is as it was.

    Slower than to hold it the least way at once, and closer: for policies that are held once.

    Args:
        policy: changed in place.
        references: where it should stay as it is.
        enforcer: of the constraints. Proofs take longer than searches, and only the last policy
            needs one.
        reach: how much the weights themselves count (ρ).
    """
    closeness, searching = Closeness(policy, references, reach), enforcer.without_proof()
    with unchanged_on_failure(policy) as start:
        parts = [searching.hold(policy, closeness.elsewhere)]
        if parts[0].satisfied:
            parts += _come_closer(policy, closeness, searching)
            if searching is not enforcer:
                parts.append(enforcer.hold(policy, closeness.elsewhere))
        if not parts[-1].satisfied:
            restore(policy, start)
    return replace(
        parts[-1],
        history=tuple(iteration for part in parts for iteration in part.history),
        rounds=sum(part.rounds for part in parts),
        parameter_change=distance(policy, start),
    )


def hold_by_fences(
    policy: Policy, references: References, enforcer: Enforcer, expansion: Expansion, reach: float
) -> tuple[Enforcement, Fences] | None:
    """Make the policy obey inside fences, where that leaves all else as it was; and which they are.

    What is asked at points is held closely besides. None, and the policy as it was, if there are no
    fences for what is asked of it, or in this network, or if their units meant something.

    Args:
        policy: changed in place.
        references: where it should stay as it is.
        enforcer: of the constraints.
        expansion: the same constraints.
        reach: how much the weights themselves count (ρ), for points.
    """
    layers = policy.layers()
    if layers is None or not FenceBuilder.can_have_fences(layers):
        return None
    asked = [(one.region, _push_within(policy, one)) for one in expansion.regional]
    needed = [(region, push) for region, push in asked if push is None or push.any()]
    if not needed:
        return None
    covers = [region.cover(_INSIDE_FENCE) for region, _ in needed]
    shape = references.states.shape[1:]
    states = np.concatenate(
        [references.kept(_COORDINATES), *(c.reshape(-1, *shape) for c in covers)]
    )
    before, builder = policy.quantity.raw_of(policy.outputs(states)), FenceBuilder(layers)
    with unchanged_on_failure(policy) as start:
        held = None
        built = all(push is not None and builder.add(*r.bounds, push) for r, push in needed)
        if built and _is_as_before(policy, states, before + builder.added(states)):
            held = hold_closely(policy, references, enforcer, reach)
        if held is None or not held.satisfied:
            restore(policy, start)
            return None
    change = distance(policy, start)
    return replace(held, parameter_change=change, fences=len(needed)), builder.fences


def _is_as_before(policy: Policy, states: Array, expected: Array) -> bool:
    """Whether units that became fences meant nothing: all is as it was, but for what they add.

    Args:
        policy: as it is.
        states: (n, *observation_shape).
        expected: raw outputs (n, n_actions) there; NaN where they are not known.
    """
    known = ~np.isnan(expected).any(axis=1)
    now, _ = policy.natural(policy.outputs(states[known]))
    then, _ = policy.natural(policy.head(expected[known]))
    return bool(known.any()) and float(np.sqrt(((now - then) ** 2).mean())) <= _UNMOVED


def _push_within(policy: Policy, regional: Regional) -> Array | None:
    """What to add to the raw outputs (n_actions,) at every state of a region, so that it obeys.

    0 where it does already. None if it is no box with one bound on probabilities, or if states of
    it need very different pushes: what the policy says there would be lost to the largest.
    """
    row = regional.row
    if row is None or not isinstance(regional.region, Box) or not row.quantity.adds_up:
        return None
    bounds = np.concatenate([row.lower, row.upper])
    if row.raw.any() or row.has_choices or np.isfinite(bounds).sum() != 1:
        return None
    direction = row.weights[0] if np.isfinite(row.lower[0]) else -row.weights[0]
    direction = direction / np.abs(direction).max()
    states = regional.region.cover(_INSIDE_FENCE).reshape(-1, *regional.constraint.states.shape[1:])
    raw = row.quantity.raw_of(policy.outputs(states))

    def is_enough(push: Array) -> Mask:
        values = policy.head(raw + push[:, None] * direction) @ row.weights[0]
        result: Mask = (values >= bounds[0]) & (values <= bounds[1])
        return result

    low, high = np.zeros(len(raw)), np.full(len(raw), _HIGHEST)
    if is_enough(low).all():
        return np.zeros(len(direction))
    if not is_enough(high).all():
        return None
    high = np.where(is_enough(low), 0.0, high)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        enough = is_enough(middle)
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    most = float(high.max())
    if high.min() < _ALIKE * most:
        return None
    push: Array = (most + min(_BEYOND, most)) * direction
    return push


def _come_closer(policy: Policy, closeness: Closeness, enforcer: Enforcer) -> list[Enforcement]:
    """Take back, step by step, what was changed, with all constraints held after each.

    Args:
        policy: obeys; changed in place.
        closeness: to what it was.
        enforcer: of the constraints.

    Returns:
        How it was held after every step that was taken.
    """
    taken: list[Enforcement] = []
    far = closeness.distance()
    if far == 0.0:  # it obeyed from the beginning
        return taken
    damping, failures, idle, effort, failed = _DAMPING, 0, 0, 0, False
    # Those that are held at present are too few: once a step has brought the others inside, the
    # next would not know of them, leave at one of them, and be taken back. Attempts that failed
    # have found some, too.
    seen = _together(enforcer.active_states, enforcer.active_states)
    rows = enforcer.rows_at(seen)
    around: Neighbourhood | None = None
    anchor: Anchor | None = None
    for _ in range(_MAX_STEPS):
        if failures == _MAX_FAILURES or idle == 2 or effort > _MAX_EFFORT:
            break
        if around is None:
            around = closeness.neighbourhood(rows, enforcer.tolerance, anchor)
        step = around.step(damping)
        held, spent = (
            (None, 0) if step is None else _attempt(policy, closeness, enforcer, step, far)
        )
        effort += spent
        seen = _together(seen, enforcer.active_states)
        known, rows = len(rows), enforcer.rows_at(seen)
        # Of weights that were taken back to, the references are known.
        anchor = around.anchor if held is None else None
        if held is not None or len(rows) > known:
            around = None
        if held is None:
            damping, failures, failed = damping * _DAMPED_BY, failures + 1, True
            continue
        taken.append(held)
        if not failed:  # what has just been too long is not tried again at once
            damping /= _DAMPED_BY
        failures, failed = 0, False
        closer = closeness.distance()
        idle = idle + 1 if closer > (1.0 - _WORTH_IT) * far else 0
        far = closer
    return taken


def _attempt(
    policy: Policy, closeness: Closeness, enforcer: Enforcer, step: Gradient, far: float
) -> tuple[Enforcement | None, int]:
    """Take a step and obey again; None, and go back, if that does not lead nearer than this far.

    And how many linearisations that took.
    """
    spent = 0
    try:
        with unchanged_on_failure(policy) as here:
            take_step(policy, step, 1.0)
            if closeness.distance() < far:
                held = enforcer.hold(policy, closeness.elsewhere)
                spent = held.iterations
                if held.satisfied and closeness.distance() < far:
                    return held, spent
            restore(policy, here)
    except (InvalidPolicy, SolverFailure):  # so long a step that the network overflows
        pass
    return None, spent


def _together(some: Sequence[Array], others: Sequence[Array]) -> tuple[Array, ...]:
    """The states of each region, each once."""
    pairs = zip(some, others, strict=True)
    return tuple(np.unique(np.concatenate(pair), axis=0) for pair in pairs)


@final
class Closeness:
    """How far a policy is from what it was when this was made.

    Args:
        policy: may change from now on.
        references: where it should not.
        reach: how much the weights themselves count (ρ).

    Attributes:
        elsewhere: the references, for whoever holds the policy the shortest way.
    """

    def __init__(self, policy: Policy, references: References, reach: float) -> None:
        self.elsewhere = Elsewhere(references, ADVICE)
        self._policy = policy
        self._start = snapshot(policy)
        self._most = _COORDINATES if references.unvisited is None else 2 * _COORDINATES
        self._states = references.kept(self._most)
        self._unasked = references.unasked(policy)
        self._first = self._anchor(policy.in_float64(self._states))
        self._ridge = self._first.ridge(reach)

    def distance(self) -> float:
        """Of the present weights: f."""
        moved = (self._first.values_of(self._policy) - self._first.values).ravel()
        return float(moved @ moved) + self._ridge * self._displacement().norm() ** 2

    def neighbourhood(
        self, rows: Rows, tolerance: float, anchor: Anchor | None = None
    ) -> Neighbourhood:
        """The first-order model around the present weights, which satisfy the rows.

        Args:
            rows: of the constraints.
            tolerance: the largest violation allowed.
            anchor: of the references at the same weights, if it is known.
        """
        rows = _nearest(Choices(rows, self._policy).rows, self._policy)
        outputs = rows.outputs_of(self._policy)
        model = Linearisation(self._policy, rows, outputs)
        anchor = anchor or self._anchor(model.policy)
        moved = (anchor.values - self._first.values).ravel()
        drift = _Drift(moved, self._displacement(), self._ridge, self._first.unit)
        targets = Targets(rows, tolerance, self._policy.coordinates)
        asked = (
            targets.change_in_coordinates(targets.position(outputs), trust=1.0),
            targets.change_in_values(model.values, trust=1.0),
        )
        return Neighbourhood(model, anchor, drift, asked)

    def _anchor(self, policy: Policy) -> Anchor:
        return Anchor(policy, self._states, self._most, unasked=self._unasked)

    def _displacement(self) -> Gradient:
        pairs = zip(self._policy.parameters, self._start, strict=True)
        return Gradient(tuple(_difference(now, then) for now, then in pairs))


@final
@dataclass(frozen=True)
class _Drift:
    """How far the policy has moved.

    Attributes:
        moved: d (n_coordinates,).
        displacement: D.
        ridge: ρ.
        unit: the squared length of a coordinate's gradient, on average.
    """

    moved: Array
    displacement: Gradient
    ridge: float
    unit: float


@final
class Neighbourhood:
    """The program of one step.

    Args:
        model: of the constraint rows.
        anchor: of the references, at the same weights.
        drift: how far the policy has moved already.
        asked: intervals of the rows' changes, those to be tried first in front.

    Attributes:
        anchor: the same.
    """

    def __init__(
        self,
        model: Linearisation,
        anchor: Anchor,
        drift: _Drift,
        asked: Sequence[tuple[Array, Array]],
    ) -> None:
        everything = np.arange(len(model))
        self._model, self.anchor, self._drift, self._asked = model, anchor, drift, asked
        self._kernel = model.kernel(everything)
        self._cross = model.cross(everything, anchor.functionals)
        # A D and J D
        self._along = model.effect(drift.displacement), anchor.effect(drift.displacement)

    def step(self, damping: float) -> Gradient | None:
        """Δ for μ = damping · |∇y|²; None if there is none to first order."""
        drift, cross = self._drift, self._cross
        sigma = drift.ridge + damping * drift.unit
        share = drift.ridge / sigma
        try:
            solved = self.anchor.damped(sigma)
        except np.linalg.LinAlgError:  # the rounding of a network that insists on float32
            return None
        of_rows, of_references = self._along
        # m = share · D - Jᵀ back
        back = solved.solve(share * of_references - drift.moved)
        shift = share * of_rows - cross @ back
        metric = (self._kernel - cross @ solved.solve(cross.T)) / sigma  # A M⁻¹ Aᵀ
        multipliers = self._multipliers(factor_of(metric), shift)
        if multipliers is None:
            return None
        behind = back - solved.solve(cross.T @ multipliers) / sigma
        forward = self._model.direction(multipliers / sigma) + self.anchor.direction(behind)
        pairs = zip(forward.parts, drift.displacement.parts, strict=True)
        return Gradient(tuple(part - share * other for part, other in pairs))

    def _multipliers(self, matrix: Array, shift: Array) -> Array | None:
        """Of the shortest z within the moved bounds: in log-odds if possible, as `enforce` asks."""
        for lower, upper in self._asked:
            answer = solve_minimum_norm(matrix, lower + shift, upper + shift)
            if not answer.contradictory:
                return answer.multipliers
        return None


def _nearest(rows: Rows, policy: Policy) -> Rows:
    """The rows nearest to their bounds, if there are too many."""
    if len(rows) <= _ROWS:
        return rows
    violations = rows.violations_of(policy)
    return rows.take(np.sort(np.argsort(-violations, kind="stable")[:_ROWS]))


def _difference(now: Tensor, then: Tensor) -> Tensor:
    return now.detach().double() - then.double()
