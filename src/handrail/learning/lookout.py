"""A quick look at a policy that was held: is there anything to do?

Learners that are held after every step of their optimiser change little from one holding to the
next, and mostly nothing is violated. To ask again at all states of all regions would take longer
than such a step.
"""

from __future__ import annotations

from typing import final

import numpy as np

from handrail._types import Array, Indices
from handrail.constraints import Rows
from handrail.enforcement import Enforcer
from handrail.policies import Policy

# Rows that are looked at: the nearest to their bounds, and of the others so many that a policy
# which changes in some part of a region changes at one of them. (With 32 of them, 77 of 2,659
# policies of SAC that a look let pass broke a bound somewhere, by up to the range of the action.)
_NEAREST, _OTHERS = 64, 936

# What is not looked at may have moved this much further than all that is.
_FURTHER = 2.0


@final
class Lookout:
    """Looks at a few of the rows at which a policy was made to obey.

    All rows of constraints at points are looked at if they are few. Of more, those nearest to their
    bounds, and others by chance: while none of these has moved half as far as what is not looked at
    was from its bounds, that is taken to obey. It is no proof, and neither was the search before.
    Rows of alternatives belong together, so all of them are looked at.

    Args:
        policy: as it is when it obeys.
        enforcer: that has just held it.
    """

    def __init__(self, policy: Policy, enforcer: Enforcer) -> None:
        rows, allowed = enforcer.looked_at()
        violations = rows.violations_of(policy)
        left = allowed - violations
        looked_at, others = _chosen(rows, left)
        self._rows, self._allowed = rows.take(looked_at), allowed[looked_at]
        self._then = violations[looked_at]
        self._left = float(left[others].min(initial=np.inf))

    def look(self, policy: Policy) -> tuple[float, bool]:
        """The worst violation of what is looked at, and whether there is nothing to do."""
        violations = self._rows.violations_of(policy)
        with np.errstate(invalid="ignore"):  # alternatives that do not count have -inf
            moved = float(np.nanmax(violations - self._then, initial=0.0))
        obeys = bool((violations <= self._allowed).all()) and _FURTHER * moved < self._left
        return float(violations.max()), obeys


def _chosen(rows: Rows, left: Array) -> tuple[Indices, Indices]:
    """Which rows are looked at and which are not, by how far (n_rows,) they are from trouble."""
    by_nearness = np.argsort(left, kind="stable")
    if rows.has_choices:
        return np.arange(len(rows)), by_nearness[:0]
    nearest, others = np.split(by_nearness, [_NEAREST])
    others = np.random.default_rng(0).permutation(others)
    return np.concatenate([nearest, others[:_OTHERS]]), others[_OTHERS:]
