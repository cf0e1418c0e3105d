"""One update of the policy under constraints, in the three ways there are.

Whatever goes wrong inside, the policy comes back as it was: an update happens whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, final

import numpy as np

from handrail._types import Array
from handrail.enforcement import Enforcement, Enforcer, Rail, predict_step, solve_returns
from handrail.errors import Diverged
from handrail.policies import GaussianPolicy, Policy
from handrail.settings import LearnerSettings
from handrail.tangent import Batch, Gradient, policy_gradient, take_step, unchanged_on_failure


@final
@dataclass(frozen=True)
class Timing:
    """Seconds that the parts of an update took."""

    predicting: float = 0.0
    solving: float = 0.0
    updating: float = 0.0


@final
@dataclass(frozen=True)
class Update:
    """What one update did. Entries are None where nothing was to be measured.

    Attributes:
        batch_loss: -Σ_k G_k log π(a_k|s_k) before the update.
        safe_loss: the same of the safe returns.
        violation_before: the worst one of the policy that acted.
        violation_after: the worst one of the policy that came out.
        predicted_change: the largest change of a constrained value that the step promised.
        measured_change: the largest change that it made.
        prediction_error: the largest difference of the two, over the constraint rows.
        iterations: linearisations that exact enforcement needed after the step.
        influence: the mean change that these made elsewhere, at reference states.
        largest_influence: the largest change that they made there.
        safe_return_size: √ΣG², the size of the safe returns.
        active: names of the rows that held the step.
    """

    batch_loss: float | None = None
    safe_loss: float | None = None
    violation_before: float | None = None
    violation_after: float | None = None
    predicted_change: float | None = None
    measured_change: float | None = None
    prediction_error: float | None = None
    iterations: int = 0
    influence: float | None = None
    largest_influence: float | None = None
    safe_return_size: float | None = None
    active: tuple[str, ...] = ()


def _nothing() -> None:
    """Else to do."""


def apply_update(
    policy: Policy,
    rail: Rail | None,
    batch: Batch,
    settings: LearnerSettings,
    renew: Callable[[], None] = _nothing,
) -> tuple[Update, Timing]:
    """Update the policy in place as the settings ask for, or leave it exactly as it was.

    Args:
        policy: that played the batch.
        rail: of what it obeys, if anything.
        batch: what it learns from; with several episodes an update, returns divided by how many.
        settings: of the learner.
        renew: what else of the policy changes now, such as the statistics it normalises by. What is
            exact learns by the policy that played, and is held as it acts next; all others, whose
            effects are predicted and measured, are renewed first.
    """
    clock = _Clock()
    with unchanged_on_failure(policy), learning_noise(policy, batch, settings.step_size):
        if rail is not None and settings.enforcement == "exact":
            return _exact(policy, rail, batch, settings, clock, renew), clock.timing()
        renew()
        if rail is None:
            update = _plain(policy, batch, settings, clock)
        elif settings.enforcement == "none":
            update = _unconstrained(policy, rail.enforcer, batch, settings, clock)
        else:
            update = _one_step(policy, rail.enforcer, batch, settings, clock)
    return update, clock.timing()


def no_update(policy: Policy, enforcer: Enforcer | None) -> Update:
    """What is to be said of a policy that no longer learns."""
    if enforcer is None:
        return Update()
    violation = enforcer.violation(policy)
    return Update(violation_before=violation, violation_after=violation)


def _plain(policy: Policy, batch: Batch, settings: LearnerSettings, clock: _Clock) -> Update:
    """REINFORCE without constraints."""
    with clock.at("predicting"):
        gradient = policy_gradient(policy, batch)
    with clock.at("updating"):
        _step(policy, gradient.direction, settings.step_size)
    return Update(batch_loss=gradient.loss)


def _unconstrained(
    policy: Policy,
    enforcer: Enforcer,
    batch: Batch,
    settings: LearnerSettings,
    clock: _Clock,
) -> Update:
    """A plain step whose effect on the constraints is predicted and measured, but not held."""
    violation = enforcer.violation(policy)
    with clock.at("predicting"):
        gradient = policy_gradient(policy, batch)
        rows = enforcer.step_rows(policy, gradient, settings.step_size)
        step = predict_step(policy, gradient, rows, settings.step_size)
    with clock.at("updating"):
        _step(policy, gradient.direction, settings.step_size)
    values = rows.values(rows.outputs_of(policy))
    return Update(
        batch_loss=gradient.loss,
        violation_before=violation,
        violation_after=enforcer.violation(policy, values),
        **_changes(step.model.values, step.drift, values),
    )


def _one_step(
    policy: Policy,
    enforcer: Enforcer,
    batch: Batch,
    settings: LearnerSettings,
    clock: _Clock,
) -> Update:
    """The paper's Algorithm 2: one program, one step, and what it did."""
    with clock.at("predicting"):
        gradient = policy_gradient(policy, batch)
        rows = enforcer.step_rows(policy, gradient, settings.step_size)
        step = predict_step(policy, gradient, rows, settings.step_size)
        before = enforcer.violation(policy, step.model.values)
    with clock.at("solving"):
        returns = solve_returns(step, settings.objective, settings.soft)
    with clock.at("updating"):
        _step(policy, returns.gradient, settings.step_size)
    values = rows.values(rows.outputs_of(policy))
    return Update(
        batch_loss=returns.batch_loss,
        safe_loss=returns.safe_loss,
        violation_before=before,
        violation_after=enforcer.violation(policy, values),
        **_changes(returns.before, returns.predicted, values),
        safe_return_size=float(np.linalg.norm(returns.values)),
        active=returns.active,
    )


def _exact(
    policy: Policy,
    rail: Rail,
    batch: Batch,
    settings: LearnerSettings,
    clock: _Clock,
    renew: Callable[[], None],
) -> Update:
    """A plain step, as experience asks for; then whatever is needed to obey, and no more."""
    with clock.at("predicting"):
        before = rail.enforcer.violation(policy)
        gradient = policy_gradient(policy, batch)
    with clock.at("updating"):
        _step(policy, gradient.direction, settings.step_size)
    renew()
    with clock.at("solving"):
        rail.learned_from(batch.states)
        kept = rail.keep(policy)
        held = rail.hold(policy).raise_if_unsatisfied() if kept is None else kept
        mean, largest = _influence(rail, policy, held)
    return Update(
        batch_loss=gradient.loss,
        violation_before=before,
        violation_after=held.worst_violation,
        iterations=held.iterations,
        influence=mean,
        largest_influence=largest,
        active=held.active,
    )


def _influence(
    rail: Rail, policy: Policy, held: Enforcement
) -> tuple[float, float] | tuple[None, None]:
    """The mean and the largest change elsewhere; none where nobody knows what is elsewhere."""
    if held.influence is not None:
        return held.influence.mean_change, held.influence.largest_change
    return (0.0, 0.0) if rail.knows_elsewhere(policy) else (None, None)


def _changes(before: Array, predicted: Array, measured: Array) -> dict[str, Any]:
    """What the step promised to the constraint rows (n_rows,), and what it did."""
    return {
        "predicted_change": float(np.abs(predicted - before).max()),
        "measured_change": float(np.abs(measured - before).max()),
        "prediction_error": float(np.abs(measured - predicted).max()),
    }


def _step(policy: Policy, direction: Gradient, step_size: float) -> None:
    norm = direction.norm()
    if not np.isfinite(norm):
        raise Diverged(
            "The policy gradient is not finite, so the update was not made and the policy is as it "
            "was. Take smaller steps, or scale the environment's rewards."
        )
    take_step(policy, direction, step_size)


@contextmanager
def learning_noise(policy: Policy, batch: Batch, step_size: float) -> Iterator[None]:
    """Around an update of the weights: if it succeeds, noise that is learned takes its step, too.

    Constraints are about means, and those on drawn actions count with all noise that there may ever
    be (`GaussianPolicy.std_range`), so a policy that obeys still does.

    Args:
        policy: that played the batch; any but a Gaussian whose noise is learned is left alone.
        batch: what it learns from.
        step_size: of the update.
    """
    if not (isinstance(policy, GaussianPolicy) and policy.learns_std):
        yield
        return
    step = step_size * noise_gradient(policy, batch)  # by the policy that played
    if not np.isfinite(step).all():
        raise Diverged(
            "The gradient of the standard deviation is not finite, so the update was not made and "
            "the policy is as it was. Take smaller steps, or scale the environment's rewards."
        )
    yield
    policy.move_std(step)


def noise_gradient(policy: GaussianPolicy, batch: Batch) -> Array:
    """Σ_k G_k ∂ log π(a_k|s_k) / ∂ log σ (n_actions,), of which each is (a - mean)² / σ² - 1.

    Draws that lie further out than usual and turned out well widen the noise.
    """
    away = (np.asarray(batch.actions) - policy.outputs(batch.states)) / policy.std
    gradient: Array = np.asarray(batch.returns) @ (away**2 - 1.0)
    return gradient


@final
class _Clock:
    """Adds up the time spent under each name."""

    def __init__(self) -> None:
        self._seconds = {"predicting": 0.0, "solving": 0.0, "updating": 0.0}

    @contextmanager
    def at(self, name: str) -> Iterator[None]:
        start = perf_counter()
        yield
        self._seconds[name] += perf_counter() - start

    def timing(self) -> Timing:
        return Timing(**self._seconds)
