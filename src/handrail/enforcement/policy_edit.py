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
from handrail.constraints import (
    Constraint,
    Tolerance,
    Violations,
    counted,
    expand,
    html_table,
    state_in_words,
    within,
)
from handrail.enforcement.closeness import hold_closely
from handrail.enforcement.diagnosis import measure
from handrail.enforcement.elsewhere import Influence, influence_between
from handrail.enforcement.enforcer import make_enforcer
from handrail.enforcement.iteration import Enforcement
from handrail.enforcement.references import Constrained, References, references_from
from handrail.errors import ExcessiveInfluence, InvalidArgument, InvalidPolicy
from handrail.policies import CategoricalPolicy, Policy, action_limits
from handrail.regions import Region
from handrail.rulebook import AnyConstraints, constraints_of, observation_names
from handrail.settings import OnUnproven, Selection, chosen_selection
from handrail.tangent import Gradient, restore, unchanged_on_failure

# Where the reference states do not decide, the weights do.
_REACH = 1e-6


@final
@dataclass(frozen=True, repr=False)
class Edit:
    """What was asked of a policy, what was done, and what else changed.

    Attributes:
        enforcement: how it was made to obey.
        before: its violations before, worst first.
        after: the same after; of an edit that was refused for its influence, as it would have
            been; of one whose constraints could not be held, as before.
        influence: where else it changed; of an edit that was refused for them, would have
            changed; of one whose constraints could not be held, none.
        relative_change: ‖Δθ‖ / ‖θ‖ of the weights.
        max_change: the largest change that was allowed.
        tolerance: the violation that counts as none.
        reason: why it was refused, and the policy left as it was; empty if it was not.
        proven_change: no output changes by more at any state of `max_change_in`; None if that was
            not proven.
    """

    enforcement: Enforcement
    before: Violations
    after: Violations
    influence: Influence
    relative_change: float
    max_change: float | None
    tolerance: float
    reason: str
    proven_change: float | None = None

    @property
    def refused(self) -> bool:
        """Whether the policy was left as it was."""
        return bool(self.reason)

    @property
    def unchanged(self) -> bool:
        """Whether there was nothing to do."""
        return not self.refused and self.enforcement.parameter_change == 0.0

    def raise_if_refused(self) -> Edit:
        """Itself, or `UnsatisfiedConstraints` or `ExcessiveInfluence` with the reason."""
        self.enforcement.raise_if_unsatisfied()
        if self.refused:
            raise ExcessiveInfluence(self.reason)
        return self

    def __str__(self) -> str:
        if self.refused:
            return f"Refused, and the policy left as it was: {self.reason}"
        if self.unchanged:
            text = "Every constraint holds already: the policy was left as it was."
        else:
            before = self._broken_before()
            text = f"{before} violated before, {self._left()} now. {self.influence}"
            if self.proven_change is not None:
                text += (
                    f" In the region of max_change_in, by at most {self.proven_change:.2g}, proven."
                )
        return " ".join(filter(None, (text, self.enforcement.not_proven)))

    def __repr__(self) -> str:
        if self.refused or self.unchanged:
            return f"<Edit: {'refused' if self.refused else 'nothing to do'}, policy unchanged>"
        largest = f"largest change {self.influence.largest_change:.2g}"
        return f"<Edit: {self._broken_before()} violated before, {self._left()} now, {largest}>"

    def _repr_html_(self) -> str:
        if self.refused or self.unchanged:
            return html_table(str(self), [])
        worst = self.before.worst_violation, self.enforcement.worst_violation
        rows = [
            ("violated rows before", self._broken_before()),
            ("violated rows now", self._left()),
            ("worst violation", f"{worst[0]:+.1e} → {worst[1]:+.1e}"),
            ("iterations", f"{self.enforcement.iterations}"),
            ("change of the weights", f"{self.relative_change:.2%}"),
            *self.influence.as_rows(),
            *([("regions proven", "all")] if self.enforcement.proven else []),
            *([("proven change", f"{self.proven_change:.2g}")] if self.proven_change else []),
        ]
        return html_table(str(self), rows)

    def _broken_before(self) -> str:
        rows = counted(len(self.before), "constraint row")
        return f"{self.before.broken(self.tolerance)} of {rows}"

    def _left(self) -> str:
        return str(self.after.broken(self.tolerance) or "none")


@one_thread()
def edit(
    policy: Policy | nn.Module,
    constraints: AnyConstraints,
    references: ArrayLike | References | None = None,
    max_change: float | None = None,
    tolerance: float | None = None,
    selection: Selection | str | None = None,
    prove: bool = False,
    limits: tuple[ArrayLike, ArrayLike] | None = None,
    on_unproven: OnUnproven = "refuse",
    max_change_in: Region | None = None,
) -> Edit:
    """Change a policy as little as possible so that every constraint holds; it acts nowhere.

    Args:
        policy: changed in place; left exactly as it was if the edit is refused. A torch module is
            taken to map observations to logits.
        constraints: a list, a `Rulebook` or a constraint file; all of them must hold.
        references: (n, *observation_shape), where the policy should stay as it is: best those that
            it visits. By default random ones around the constrained states.
        max_change: refuse if a probability (or mean action) changes by more at any of them.
        tolerance: the largest violation allowed at points; by default 1e-6, of a policy in float32
            1e-5. States of regions have none.
        selection: how regions are held, or the name of a way; by default `Everywhere()`.
        prove: end with a certificate for every region, as `Everywhere(prove=True)` does.
        limits: (low, high) that the environment clips continuous actions to. Its influence is then
            counted on what acts: a mean that goes from 3 to 8 where 2 is the limit has not changed.
        on_unproven: what becomes of a policy that holds on every state that was tried, but could
            not be proven: "refuse" it, or "keep" it, without ever calling it proven.
        max_change_in: a region at every state of which `max_change` holds, too, as `within` says
            it: held with the constraints, and with `prove` proven. It should be clear of theirs.
    """
    policy = _as_policy(policy)
    _check_change(max_change)
    allowed, chosen = Tolerance(tolerance), chosen_selection(selection, prove, on_unproven)
    given, names = constraints_of(constraints, policy), observation_names(constraints)
    kept = [] if max_change_in is None else _kept(policy, max_change_in, max_change)
    expansion = expand([*given, *kept], policy)
    enforcer = make_enforcer(expansion, chosen, policy, allowed)
    known = references_from(references, given)
    asked = Constrained(expand(given, policy), known.states)
    before = measure(policy, given)
    clip = _clipping(policy, limits, known)
    outputs = clip(policy.outputs(known.states))
    with unchanged_on_failure(policy) as start:
        closely = replace(known, constrained=asked)
        enforcement = hold_closely(policy, closely, enforcer, _REACH).with_remedy(names)
        changed = clip(policy.outputs(known.states))
        effects = influence_between(known, outputs, changed, policy.quantity)
        after = measure(policy, given)
        reason = enforcement.reason or _excess(effects, max_change)
    if reason:
        restore(policy, start)
    length = Gradient(tuple(start)).norm()
    return Edit(
        enforcement=replace(enforcement, influence=effects),
        before=before,
        after=after,
        influence=effects,
        relative_change=enforcement.parameter_change / length if length else 0.0,
        max_change=max_change,
        tolerance=enforcer.tolerance,
        reason=reason,
        proven_change=None if reason else _proven_change(enforcement, kept),
    )


def _kept(policy: Policy, region: Region, max_change: float | None) -> list[Constraint]:
    if not max_change:
        raise InvalidArgument(
            f"`max_change_in` needs to know by how much outputs may change: max_change above 0, "
            f"not {max_change!r}."
        )
    return within(policy, max_change, region, name="max change")


def _proven_change(enforcement: Enforcement, kept: Sequence[Constraint]) -> float | None:
    names = {one.name for one in kept}
    found = [one for one in enforcement.certificates if one.name in names]
    if not found or not all(one.certified for one in found):
        return None
    return max(abs(end) for one in found for end in (one.lowest, one.highest) if end is not None)


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


def _check_change(max_change: float | None) -> None:
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
    n_outputs = policy.outputs(references.states[:1]).shape[1]
    n_actions = policy.quantity.n_actions(n_outputs)
    ends = (np.broadcast_to(one, n_actions) for one in action_limits(limits, n_actions))
    unlimited = np.full(n_outputs - n_actions, np.inf)  # noise is not clipped
    low, high = (np.append(*both) for both in zip(ends, (-unlimited, unlimited), strict=True))
    return lambda outputs: np.clip(outputs, low, high)


def _is_finite(value: Any) -> bool:
    """A number at all, and finite."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _excess(effects: Influence, max_change: float | None) -> str:
    """Why the influence is too large, in words; empty if they are not."""
    if max_change is None or effects.largest_change <= max_change:
        return ""
    return (
        f"Holding the constraints changes {effects.output_in_words} by "
        f"{effects.largest_change:.3g} at {state_in_words(effects.at)}, a reference state of which "
        f"no constraint speaks; at most {max_change:g} is allowed (max_change). Allow more, relax "
        "the constraints, or leave that state out if it does not matter."
    )
