"""Where a state lies with respect to knowledge on regions, for whoever is told so at run time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from handrail._types import Array, Mask
from handrail.constraints import Constraint, PlacedConstraint
from handrail.constraints.constraint import as_mapping
from handrail.constraints.output_bounds import Bounded
from handrail.errors import InvalidArgument

# What more than half of the probability must or must not do is a command.
_COMMAND = 0.5

# As a rail allows on a model in float32.
_TOLERANCE = 1e-5


@final
@dataclass(frozen=True)
class Places:
    """The regions of some constraints, and what they say there.

    Attributes:
        constraints: those on regions; what is said of points is nowhere a visited state lies.
        n_actions: of the policy.
    """

    constraints: tuple[PlacedConstraint, ...]
    n_actions: int

    @classmethod
    def of(cls, constraints: Sequence[Constraint], n_actions: int) -> Places:
        """Of those on regions."""
        placed = [one for one in constraints if isinstance(one, PlacedConstraint)]
        return cls(tuple(one for one in placed if one.region is not None), n_actions)

    def inside(self, states: Array) -> Mask:
        """Whether each of the states (n, n_observations) lies in any place (n,)."""
        found = np.zeros(len(states), dtype=bool)
        for one in self.constraints:
            found |= _contains(one, states)
        return found

    def forbidden(self, states: Array) -> Mask:
        """Actions (n, n_actions) that go against a constraint at the states."""
        found = np.zeros((len(states), self.n_actions), dtype=bool)
        for one in self.constraints:
            found |= _contains(one, states)[:, None] & against(one, self.n_actions)
        return found

    def broken(self, states: Array, probabilities: Array) -> Mask:
        """Whether the probabilities (n, n_actions) break a bound at their state (n,)."""
        found = np.zeros(len(states), dtype=bool)
        for one in self.constraints:
            where = np.flatnonzero(_contains(one, states))
            if len(where):
                rows = one.rows_at(states[where], self.n_actions)
                found[where] |= rows.violations(rows.values(probabilities[where])) > _TOLERANCE
        return found

    def samples(self, per_place: int, seed: int) -> tuple[Array, Mask]:
        """Random states (n, n_observations) of all places, and what is forbidden there."""
        rng = np.random.default_rng(seed)
        regions = [one.region for one in self.constraints if one.region is not None]
        states = np.concatenate([region.sample(per_place, rng) for region in regions])
        return states, self.forbidden(states)


def _contains(constraint: PlacedConstraint, states: Array) -> Mask:
    assert constraint.region is not None  # `of` left the others out
    return constraint.region.contains(states)


def against(constraint: Constraint, n_actions: int) -> Mask:
    """The actions (n_actions,) that a bound on their probability all but rules out."""
    if not isinstance(constraint, Bounded):
        raise InvalidArgument(f"{constraint.name!r} names no actions to do or to leave.")
    named = np.zeros(n_actions, dtype=bool)
    named[list(as_mapping(constraint.action))] = True
    lower, upper = constraint.bounds
    assert isinstance(lower, float)  # no set of the study depends on the state
    assert isinstance(upper, float)
    if lower > _COMMAND:
        return ~named
    if upper < _COMMAND:
        return named
    raise InvalidArgument(f"{constraint.name!r} leaves the choice open: nothing is ruled out.")
