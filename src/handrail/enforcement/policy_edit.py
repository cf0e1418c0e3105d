"""Change a trained policy as little as possible so that constraints hold, and say what else did."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike
from torch import nn

from handrail._threads import one_thread
from handrail._types import Array
from handrail.constraints import Constraint, Violations, expand, state_in_words
from handrail.enforcement.closeness import Editor
from handrail.enforcement.diagnosis import measure
from handrail.enforcement.enforcer import make_rules
from handrail.enforcement.iteration import Enforcement
from handrail.enforcement.references import References, given_references, references_around
from handrail.enforcement.side_effects import SideEffects, compare
from handrail.errors import ExcessiveSideEffect, InvalidArgument, InvalidPolicy
from handrail.policies import CategoricalPolicy, Policy, action_limits
from handrail.rulebook import AnyConstraints, constraints_of
from handrail.settings import Selection, chosen_selection
from handrail.tangent import Gradient, restore, snapshot


@final
@dataclass(frozen=True)
class Edit:
    """What was asked of a policy, what was done, and what else changed.

    Attributes:
        enforcement: how it was made to obey.
        before: its violations before, worst first.
        after: the same after; of an edit that was refused for its side effects, as it would have
            been; of one whose constraints could not be held, as before.
        side_effects: where else it changed; of an edit that was refused for them, would have
            changed; of one whose constraints could not be held, none.
        relative_change: ‖Δθ‖ / ‖θ‖ of the weights.
        max_change: the largest side effect that was allowed.
        tolerance: the violation that counts as none.
        reason: why it was refused, and the policy left as it was; empty if it was not.
    """

    enforcement: Enforcement
    before: Violations
    after: Violations
    side_effects: SideEffects
    relative_change: float
    max_change: float | None
    tolerance: float
    reason: str

    @property
    def refused(self) -> bool:
        """Whether the policy was left as it was."""
        return bool(self.reason)

    @property
    def unchanged(self) -> bool:
        """Whether there was nothing to do."""
        return not self.refused and self.enforcement.parameter_change == 0.0

    def raise_if_refused(self) -> Edit:
        """Itself, or `UnsatisfiedConstraints` or `ExcessiveSideEffect` with the reason."""
        self.enforcement.raise_if_unsatisfied()
        if self.refused:
            raise ExcessiveSideEffect(self.reason)
        return self

    def __str__(self) -> str:
        if self.refused:
            return f"Refused, and the policy left as it was: {self.reason}"
        broken, left = (
            int((found.violations > self.tolerance).sum()) for found in (self.before, self.after)
        )
        if self.unchanged:
            return "Every constraint holds already: the policy was left as it was."
        return (
            f"{broken} of {len(self.before)} constraint rows were violated, {left} are. "
            f"{self.side_effects}"
        )


@one_thread()
def edit(
    policy: Policy | nn.Module,
    constraints: AnyConstraints,
    states: ArrayLike | References | None = None,
    max_change: float | None = None,
    tolerance: float = 1e-6,
    selection: Selection | str | None = None,
    prove: bool = False,
    limits: tuple[ArrayLike, ArrayLike] | None = None,
) -> Edit:
    """Change a policy as little as possible so that every constraint holds; it acts nowhere.

    Args:
        policy: changed in place; left exactly as it was if the edit is refused. A torch module is
            taken to map observations to logits.
        constraints: a list, a `Rulebook` or a constraint file; all of them must hold.
        states: (n, *observation_shape), where the policy should stay as it is: best those that it
            visits. By default random ones around the constrained states.
        max_change: refuse if a probability (or mean action) changes by more at any of them.
        tolerance: the largest violation allowed at points. States of regions have none.
        selection: how regions are held, or the name of a way; by default `Everywhere()`.
        prove: end with a certificate for every region, as `Everywhere(prove=True)` does.
        limits: (low, high) that the environment clips continuous actions to. Side effects are then
            counted on what acts: a mean that goes from 3 to 8 where 2 is the limit has not changed.
    """
    policy = _as_policy(policy)
    _check(max_change, tolerance)
    chosen = chosen_selection(selection, prove)
    given = constraints_of(constraints, policy)
    expansion = expand(given, policy)
    references = _references(states, given)
    held = make_rules(expansion, chosen, policy)
    start, before = snapshot(policy), measure(policy, given)
    clip = _clipping(policy, limits, references)
    outputs = clip(policy.outputs(references.states))
    try:
        enforcement = Editor(policy, expansion, chosen, references, tolerance).hold(held)
        changed = clip(policy.outputs(references.states))
        effects = compare(references, outputs, changed, policy.quantity)
        after = measure(policy, given)
        reason = enforcement.reason or _excess(effects, max_change)
    except BaseException:
        restore(policy, start)
        raise
    if reason:
        restore(policy, start)
    length = Gradient(tuple(start)).norm()
    return Edit(
        enforcement=replace(enforcement, policy_change=effects.largest_change),
        before=before,
        after=after,
        side_effects=effects,
        relative_change=enforcement.parameter_change / length if length else 0.0,
        max_change=max_change,
        tolerance=tolerance,
        reason=reason,
    )


def _as_policy(policy: Policy | nn.Module) -> Policy:
    if isinstance(policy, Policy):
        return policy
    if isinstance(policy, nn.Module):
        return CategoricalPolicy(policy)
    raise InvalidPolicy(
        f"Expected a policy or a torch module that maps observations to logits, but got "
        f"{type(policy).__name__}. Of a learner give its policy: agent.policy; of a model of "
        "Stable-Baselines3, handrail.sb3.policy_of(model)."
    )


def _check(max_change: float | None, tolerance: float) -> None:
    if not (_is_finite(tolerance) and tolerance > 0.0):
        raise InvalidArgument(f"The tolerance must be positive and finite, not {tolerance!r}.")
    if max_change is not None and not (_is_finite(max_change) and max_change >= 0.0):
        raise InvalidArgument(f"max_change must be a number from 0 on, not {max_change!r}.")


def _clipping(
    policy: Policy, limits: tuple[ArrayLike, ArrayLike] | None, references: References
) -> Callable[[Array], Array]:
    """From outputs (n, n_actions) to what of them acts."""
    if limits is None:
        return lambda outputs: outputs
    if not policy.quantity.is_continuous:
        raise InvalidArgument(
            f"limits are those of continuous actions; {policy.quantity.plural} have none."
        )
    low, high = action_limits(limits, policy.outputs(references.states[:1]).shape[1])
    return lambda outputs: np.clip(outputs, low, high)


def _is_finite(value: Any) -> bool:
    """A number at all, and finite."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _references(
    states: ArrayLike | References | None, constraints: Sequence[Constraint]
) -> References:
    if states is None:
        return references_around(constraints)
    return states if isinstance(states, References) else given_references(states, constraints)


def _excess(effects: SideEffects, max_change: float | None) -> str:
    """Why the side effects are too large, in words; empty if they are not."""
    if max_change is None or effects.largest_change <= max_change:
        return ""
    return (
        f"Holding the constraints changes {effects.output_in_words} by "
        f"{effects.largest_change:.3g} at {state_in_words(effects.at)}, a reference state of which "
        f"no constraint speaks; at most {max_change:g} is allowed (max_change). Allow more, relax "
        "the constraints, or leave that state out if it does not matter."
    )
