"""Make a policy obey: at points, on regions, with a proof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from handrail.chosen_states import ChosenStates
from handrail.constraints import Constraint
from handrail.enforcement import Enforcement
from handrail.errors import InvalidArgument
from handrail.expansion import Expansion, expand
from handrail.layers import Layers
from handrail.policies import Policy
from handrail.rules import FixedRules, Rules
from handrail.selections import Everywhere, Selection, chosen_selection
from handrail.whole_regions import WholeRegions


def enforce(
    policy: Policy,
    constraints: Sequence[Constraint],
    tolerance: float = 1e-6,
    reference_states: ArrayLike | None = None,
    selection: Selection | str | None = None,
    prove: bool = False,
) -> Enforcement:
    """Change the policy's weights, as little as possible, until every constraint holds.

    Args:
        policy: changed in place; left exactly as it was on failure.
        constraints: all of them must hold; those on regions at every state that a search finds,
            or, with a proof, at every state there is.
        tolerance: the largest violation allowed at points. States of regions have none.
        reference_states: (n, *observation_shape), where to measure how much else has changed.
        selection: how regions are held, or the name of a way; by default `Everywhere()`.
        prove: end with a certificate for every region, as `Everywhere(prove=True)` does.
    """
    if not (np.isfinite(tolerance) and tolerance > 0.0):
        raise InvalidArgument(f"The tolerance must be positive and finite, not {tolerance!r}.")
    chosen = chosen_selection(selection, prove)
    expansion = expand(constraints, policy)
    rules = make_rules(expansion, chosen, policy)
    before = None if reference_states is None else policy.outputs(reference_states)
    result = rules.hold(policy, tolerance)
    if before is None or reference_states is None:
        return result
    change = np.abs(policy.outputs(reference_states) - before).max()
    return replace(result, policy_change=float(change))


def make_rules(expansion: Expansion, selection: Selection, policy: Policy) -> Rules:
    """The rules of a set of constraints; what can never be proven is refused now."""
    if not expansion.regional:
        assert expansion.fixed is not None  # there is at least one constraint
        return FixedRules(expansion.fixed)
    if not isinstance(selection, Everywhere):
        return ChosenStates(expansion, selection)
    if selection.prove:
        Layers.of(policy)
        for one in expansion.regional:
            one.region.covers()
    return WholeRegions(expansion, selection)
