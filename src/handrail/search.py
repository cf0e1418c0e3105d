"""States of a region where a constraint is in danger: measured on a sample, then climbed from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from handrail.arrays import Array, Indices
from handrail.expansion import Regional
from handrail.policies import Policy
from handrail.rows import Rows

# Chosen states of one region are at least this far apart, as a fraction of its size.
_APART = 0.15
_CLIMB_STEPS = 8
# Of the region's size: the first step of the climb, and the step of its differences.
_FIRST_STEP, _DIFFERENCE = 0.1, 1e-5


@final
@dataclass(frozen=True)
class Scored:
    """States (n, n_coordinates) of a region and how much each violates (n,)."""

    states: Array
    violations: Array

    @property
    def highest(self) -> float:
        """The largest violation."""
        return float(self.violations.max())

    @property
    def violated(self) -> Array:
        """The states that violate."""
        return self.states[self.violations > 0.0]


@final
@dataclass(frozen=True)
class Sample:
    """A fixed sample of one region.

    Attributes:
        regional: the constraint there.
        states: (n, n_coordinates).
    """

    regional: Regional
    states: Array

    @cached_property
    def scale(self) -> Array:
        """The region's size along each coordinate; 1 where it is fixed."""
        low, high = self.regional.region.bounds
        return np.where(high > low, high - low, 1.0)

    @cached_property
    def rows(self) -> Rows:
        """Of all its states: they are the same every time, and many."""
        return self.regional.rows_at(self.states)

    def measure(self, policy: Policy) -> Scored:
        """The violation at every state of the sample."""
        return Scored(self.states, _violations(policy, self.rows, len(self.states)))

    def worst(self, scored: Scored, count: int) -> Scored:
        """The worst states, no two of them close together: at most `count`."""
        chosen = self.worst_apart(scored.states, scored.violations, count)
        return Scored(scored.states[chosen], scored.violations[chosen])

    def worst_apart(self, states: Array, scores: Array, count: int) -> Indices:
        """Indices of the highest scores, no two of whose states are close together."""
        order = np.argsort(-scores, kind="stable")
        scaled = states / self.scale
        chosen: list[int] = []
        open_ = np.ones(len(states), dtype=bool)
        for index in order:
            if not open_[index]:
                continue
            chosen.append(int(index))
            if len(chosen) == count:
                break
            open_ &= np.abs(scaled - scaled[index]).max(axis=1) >= _APART
        return np.array(chosen, dtype=np.intp)

    def climb(self, policy: Policy, starts: Array) -> Scored:
        """Projected-gradient ascent of the violation, from several states at once."""
        region = self.regional.region
        low, high = region.bounds
        varying = np.flatnonzero(high > low)
        best = Scored(starts, violations_at(policy, self.regional, starts))
        step = _FIRST_STEP
        for _ in range(_CLIMB_STEPS):
            slope = self._slope(policy, best.states, varying)
            size = np.linalg.norm(slope, axis=1, keepdims=True)
            direction = slope / np.maximum(size, np.finfo(np.float64).tiny)
            moved = best.states.copy()
            moved[:, varying] += step * direction * self.scale[varying]
            moved = region.project(moved)
            violations = violations_at(policy, self.regional, moved)
            better = violations > best.violations
            best = Scored(
                np.where(better[:, None], moved, best.states),
                np.where(better, violations, best.violations),
            )
            step /= 2.0
        return best

    def _slope(self, policy: Policy, states: Array, varying: Indices) -> Array:
        """Central differences of the violation (n, n_varying), per region's size.

        By differences rather than derivatives: the same for constraints that relate states.
        """
        n = len(states)
        shifts = np.zeros((2, len(varying), 1, states.shape[1]))
        for k, coordinate in enumerate(varying):
            shifts[0, k, 0, coordinate] = _DIFFERENCE * self.scale[coordinate]
        shifts[1] = -shifts[0]
        around = (states + shifts).reshape(-1, states.shape[1])
        violations = violations_at(policy, self.regional, around).reshape(2, len(varying), n)
        slope: Array = (violations[0] - violations[1]).T / (2.0 * _DIFFERENCE)
        return slope


def violations_at(policy: Policy, regional: Regional, states: Array) -> Array:
    """(n,) at states (n, n_coordinates) of the region: of the worst row of each."""
    return _violations(policy, regional.rows_at(states), len(states))


def _violations(policy: Policy, rows: Rows, n_states: int) -> Array:
    violations = rows.violations(rows.values(policy.outputs(rows.states)))
    result: Array = violations.reshape(n_states, -1).max(axis=1)
    return result
