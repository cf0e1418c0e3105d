"""Regions measured on fresh random states: an estimate that owes nothing to how they were held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from handrail.constraints import Constraint
from handrail.expansion import expand
from handrail.policies import Policy
from handrail.search import violations_at

_STATES_AT_ONCE = 20_000


@final
@dataclass(frozen=True)
class FreshMeasurement:
    """Violations on fresh states.

    Attributes:
        states: how many there were, over all regions.
        violated: how many of them are violated, by however little.
        worst_violation: the largest; -inf if there is no region.
    """

    states: int
    violated: int
    worst_violation: float

    def __str__(self) -> str:
        if not self.states:
            return "There is no region to measure on fresh states."
        share = self.violated / self.states
        return (
            f"On {self.states:,} fresh states of the regions: {self.violated:,} violated "
            f"({share:.2%}), worst violation {self.worst_violation:+.1e}."
        )


def measure_fresh(
    policy: Policy, constraints: Sequence[Constraint], count: int, seed: int
) -> FreshMeasurement:
    """Measure on `count` uniformly random states, the same number for every sub-region."""
    regional = expand(constraints, policy).regional
    rng = np.random.default_rng([seed, count])
    states = violated = 0
    worst = -np.inf
    for one in regional:
        left = count // len(regional)
        while left > 0:
            sample = one.region.sample(min(left, _STATES_AT_ONCE), rng)
            violations = violations_at(policy, one, sample)
            states += len(sample)
            violated += int((violations > 0.0).sum())
            worst = max(worst, float(violations.max()))
            left -= len(sample)
    return FreshMeasurement(states, violated, worst)
