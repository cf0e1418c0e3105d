"""How far a policy has moved on reference states, and steps that take most of it back.

`enforce` takes the shortest way of the weights. That need not be the least change of the policy: a
small change of the weights can move the policy everywhere. So what it did is taken back wherever no
constraint asked for it, step by step, and after every step the policy is made to obey again (the
Levenberg-Marquardt method). The distance of the weights θ from those they started from, θ₀, is

    f(θ) = Σ_j (y_j(θ) - y_j(θ₀))² + ρ ‖θ - θ₀‖²,

with y the policy's outputs at the reference states: the weights themselves count just enough to
decide where the reference states do not. To first order around the present weights, with J the
gradients of y, d = y(θ) - y(θ₀) and D = θ - θ₀, a step Δ that keeps the constraints solves

    min ‖d + JΔ‖² + ρ ‖D + Δ‖² + μ ‖Δ‖²   subject to   lower ≤ A Δ ≤ upper.

Complete the square with M = JᵀJ + σI and σ = ρ + μ: Δ = z - m with m = M⁻¹(Jᵀd + ρD), and z is the
shortest vector in the norm of M that meets the bounds moved by A m. Woodbury's identity turns every
M⁻¹ into kernels of as many rows as there are outputs and constraints, however many the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve
from torch import Tensor

from handrail._minimum_norm import solve_minimum_norm
from handrail._types import Array
from handrail.constraints import Rows, concatenate
from handrail.enforcement.enforcer import Enforcer
from handrail.enforcement.iteration import Enforcement
from handrail.enforcement.linearisation import Linearisation
from handrail.enforcement.program import factor_of
from handrail.enforcement.targets import Targets
from handrail.errors import InvalidPolicy, SolverFailure
from handrail.policies import Policy
from handrail.tangent import Gradient, restore, snapshot, take_step, unchanged_on_failure

# ρ, as a part of the squared length of an output's gradient, per output.
_WEIGHTS_MATTER = 1e-6

# Outputs that enter the kernel: the cost of a step grows with their square.
_OUTPUTS = 600

# Constraint rows that enter: those nearest to their bounds. The others are held by what follows.
_ROWS = 400

# Damping of the first step, in units of an output's squared gradient, and what failure makes of it;
# success does the opposite.
_DAMPING, _DAMPED_BY = 1.0, 4.0

_MAX_STEPS, _MAX_FAILURES = 60, 6

# Two steps in a row that gain less than this part of the distance are the last.
_WORTH_IT = 0.01


def come_closer(policy: Policy, closeness: Closeness, enforcer: Enforcer) -> list[Enforcement]:
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
    damping, failures, idle = _DAMPING, 0, 0
    # Those that are held at present are too few: once a step has brought the others inside, the
    # next would not know of them, leave at one of them, and be taken back. Attempts that failed
    # have found some, too.
    seen = _together(enforcer.active_states, enforcer.active_states)
    rows = enforcer.rows_at(seen)
    around = closeness.neighbourhood(rows, enforcer.tolerance)
    for _ in range(_MAX_STEPS):
        if failures == _MAX_FAILURES or idle == 2:
            break
        step = around.step(damping)
        held = None if step is None else _attempt(policy, closeness, enforcer, step, far)
        seen = _together(seen, enforcer.active_states)
        known, rows = len(rows), enforcer.rows_at(seen)
        if held is not None or len(rows) > known:
            around = closeness.neighbourhood(rows, enforcer.tolerance)
        if held is None:
            damping, failures = damping * _DAMPED_BY, failures + 1
            continue
        taken.append(held)
        damping, failures = damping / _DAMPED_BY, 0
        closer = closeness.distance()
        idle = idle + 1 if closer > (1.0 - _WORTH_IT) * far else 0
        far = closer
    return taken


def _attempt(
    policy: Policy, closeness: Closeness, enforcer: Enforcer, step: Gradient, far: float
) -> Enforcement | None:
    """Take a step and obey again; None, and go back, if that does not lead nearer than this far."""
    try:
        with unchanged_on_failure(policy) as here:
            take_step(policy, step, 1.0)
            if closeness.distance() < far:
                held = enforcer.hold(policy)
                if held.satisfied and closeness.distance() < far:
                    return held
            restore(policy, here)
    except (InvalidPolicy, SolverFailure):  # so long a step that the network overflows
        pass
    return None


def _together(some: Sequence[Array], others: Sequence[Array]) -> tuple[Array, ...]:
    """The states of each region, each once."""
    pairs = zip(some, others, strict=True)
    return tuple(np.unique(np.concatenate(pair), axis=0) for pair in pairs)


@final
class Closeness:
    """How far a policy is from what it was when this was made.

    Args:
        policy: may change from now on.
        states: (n, *observation_shape), where it should not; a random part of them is used.
    """

    def __init__(self, policy: Policy, states: ArrayLike) -> None:
        self._policy = policy
        self._start = snapshot(policy)
        self._rows = _outputs(policy, np.asarray(states))
        self._outputs = self._present()
        outputs = policy.outputs(self._rows.states)
        lengths = Linearisation(policy, self._rows, outputs).kernel_diagonal()
        # Saturated everywhere, nothing has a gradient: any positive number will do.
        self._unit = float(lengths.mean()) or 1.0
        self._ridge = _WEIGHTS_MATTER * len(self._rows) * self._unit

    def distance(self) -> float:
        """Of the present weights: f."""
        moved = self._present() - self._outputs
        return float(moved @ moved) + self._ridge * self._displacement().norm() ** 2

    def neighbourhood(self, rows: Rows, tolerance: float) -> Neighbourhood:
        """The first-order model around the present weights, which satisfy the rows."""
        moved, displacement = self._present() - self._outputs, self._displacement()
        drift = _Drift(self._rows, moved, displacement, self._ridge, self._unit)
        return Neighbourhood(self._policy, _nearest(rows, self._policy), drift, tolerance)

    def _present(self) -> Array:
        return self._rows.values(self._policy.outputs(self._rows.states))

    def _displacement(self) -> Gradient:
        pairs = zip(self._policy.parameters, self._start, strict=True)
        return Gradient(tuple(_difference(now, then) for now, then in pairs))


@final
@dataclass(frozen=True)
class _Drift:
    """How far the policy has moved.

    Attributes:
        outputs: y, as rows without bounds.
        moved: d (n_outputs,).
        displacement: D.
        ridge: ρ.
        unit: the squared length of an output's gradient, on average.
    """

    outputs: Rows
    moved: Array
    displacement: Gradient
    ridge: float
    unit: float


@final
class Neighbourhood:
    """The program of one step: constraint rows in front, outputs at the reference states behind."""

    def __init__(self, policy: Policy, rows: Rows, drift: _Drift, tolerance: float) -> None:
        both = concatenate([rows, drift.outputs])
        values = policy.outputs(both.states)
        self._n = len(rows)
        self._model = Linearisation(policy, both, values)
        self._kernel = self._model.kernel(np.arange(len(both)))
        self._along = self._model.effect(drift.displacement)  # (A; J) D
        self._drift = drift
        targets = Targets(rows, tolerance)
        here = values[: len(rows.states)]
        self._asked = (
            targets.change_in_coordinates(targets.position(here), trust=1.0),
            targets.change_in_values(rows.values(here), trust=1.0),
        )

    def step(self, damping: float) -> Gradient | None:
        """Δ for μ = damping · |∇y|²; None if there is none to first order."""
        n, drift = self._n, self._drift
        sigma = drift.ridge + damping * drift.unit
        share = drift.ridge / sigma
        cross, square = self._kernel[:n, n:], self._kernel[n:, n:]
        try:
            solved = cho_factor(square + sigma * np.eye(len(square)))
        except np.linalg.LinAlgError:  # the rounding of a network that insists on float32
            return None
        # m = share · D - Jᵀ back
        back = cho_solve(solved, share * self._along[n:] - drift.moved)
        shift = share * self._along[:n] - cross @ back
        metric = (self._kernel[:n, :n] - cross @ cho_solve(solved, cross.T)) / sigma  # A M⁻¹ Aᵀ
        multipliers = self._multipliers(factor_of(metric), shift)
        if multipliers is None:
            return None
        on_outputs = back - cho_solve(solved, cross.T @ multipliers) / sigma
        forward = self._model.direction(np.concatenate([multipliers / sigma, on_outputs]))
        pairs = zip(forward.parts, drift.displacement.parts, strict=True)
        return Gradient(tuple(part - share * other for part, other in pairs))

    def _multipliers(self, matrix: Array, shift: Array) -> Array | None:
        """Of the shortest z within the moved bounds: in log-odds if possible, as `enforce` asks."""
        for lower, upper in self._asked:
            answer = solve_minimum_norm(matrix, lower + shift, upper + shift)
            if not answer.contradictory:
                return answer.multipliers
        return None


def _outputs(policy: Policy, states: Array) -> Rows:
    """The output of every action (of two probabilities, one says it all) at some of the states."""
    n_actions = policy.outputs(states[:1]).shape[1]
    weights = np.eye(n_actions)[: 1 if policy.quantity.one_says_all(n_actions) else n_actions]
    count = _OUTPUTS // len(weights)
    if len(states) > count:
        states = states[np.random.default_rng(0).choice(len(states), count, replace=False)]
    n = len(states) * len(weights)
    return Rows(
        states=np.repeat(states, len(weights), axis=0),
        weights=np.tile(weights, (len(states), 1)),
        row_of_sample=np.arange(n),
        lower=np.full(n, -np.inf),
        upper=np.full(n, np.inf),
        priority=np.ones(n),
        labels=("reference",) * n,
        quantity=policy.quantity,
    )


def _nearest(rows: Rows, policy: Policy) -> Rows:
    """The rows nearest to their bounds, if there are too many."""
    if len(rows) <= _ROWS:
        return rows
    violations = rows.violations_of(policy)
    return rows.take(np.sort(np.argsort(-violations, kind="stable")[:_ROWS]))


def _difference(now: Tensor, then: Tensor) -> Tensor:
    return now.detach().double() - then.double()
