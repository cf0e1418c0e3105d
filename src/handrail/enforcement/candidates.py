"""States of a region where a constraint is in danger.

Two ways to find them. A `Sample` of a region is measured, and its worst states are climbed from.
`Candidates` are the paper's (section 3.3): every region cut into points, of which a strategy
chooses those with the highest score. Scores are computed for all states of all regions at once: one
forward-mode pass, one pass for the diagonal of the kernel, no loop over states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from handrail._types import Array, Indices
from handrail.constraints import (
    Expansion,
    Regional,
    Rows,
    concatenate,
    violations_at,
)
from handrail.enforcement.linearisation import Linearisation
from handrail.policies import Policy
from handrail.settings import MaximumDeviation, MaximumReturn
from handrail.tangent import PolicyGradient

# Chosen states of one region are at least this far apart, as a fraction of its size.
_APART = 0.15

_CLIMB_STEPS = 8

# Of the region's size: how far half of a sample is pushed towards the border.
_PUSHED = 0.5

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

    @classmethod
    def of(cls, regional: Regional, count: int) -> Sample:
        """About so many states: half of them spread inside, half of them on the border.

        What is held nowhere but at some states bends most at the border, of which a sample of the
        inside has little.
        """
        region = regional.region
        inside = region.cover(max(count // 2, 1))
        sample = cls(regional, inside)
        anywhere = np.random.default_rng(0).normal(size=inside.shape)
        anywhere /= np.linalg.norm(anywhere, axis=1, keepdims=True)
        border = region.project(inside + _PUSHED * anywhere * sample.scale)
        return cls(regional, np.concatenate([inside, border]))

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
        return Scored(self.states, self.rows.worst_by_state(policy, len(self.states)))

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


@final
class Candidates:
    """Regions cut into points, and the strategy that chooses among them.

    Args:
        expansion: the constraints.
        selection: the strategy, how many points, and how many of them at a time.
    """

    def __init__(self, expansion: Expansion, selection: MaximumReturn | MaximumDeviation) -> None:
        self._selection = selection
        self.samples = tuple(
            Sample(one, one.region.cover(selection.points)) for one in expansion.regional
        )
        blocks = [sample.rows for sample in self.samples]
        self.rows = concatenate(blocks)
        self._rows_per_state = [
            len(block) // len(sample.states)
            for block, sample in zip(blocks, self.samples, strict=True)
        ]
        self._ends = np.cumsum([len(block) for block in blocks])

    def scores(
        self, policy: Policy, gradient: PolicyGradient | None, step_size: float
    ) -> Sequence[Array]:
        """What the strategy compares, for the states of each region (n_states,)."""
        if isinstance(self._selection, MaximumReturn):
            flat = required_returns(policy, self.rows, gradient, step_size)
        else:
            flat = self.rows.violations_of(policy)
        return self._by_state(flat)

    def violations(self, policy: Policy) -> Sequence[Array]:
        """Of the states of each region (n_states,)."""
        return self._by_state(self.rows.violations_of(policy))

    def choose(self, scores: Sequence[Array]) -> list[Indices]:
        """The states with the highest scores, of each region."""
        pairs = zip(self.samples, scores, strict=True)
        return [
            sample.worst_apart(sample.states, score, self._selection.states)
            for sample, score in pairs
        ]

    def rows_at(self, chosen: Sequence[Indices]) -> list[Rows]:
        """The rows of the chosen states, region by region."""
        pairs = zip(self.samples, chosen, strict=True)
        return [sample.regional.rows_at(sample.states[indices]) for sample, indices in pairs]

    def _by_state(self, flat: Array) -> Sequence[Array]:
        parts = np.split(flat, self._ends[:-1])
        pairs = zip(parts, self._rows_per_state, strict=True)
        return [part.reshape(-1, rows).max(axis=1) for part, rows in pairs]


def required_returns(
    policy: Policy, rows: Rows, gradient: PolicyGradient | None, step_size: float
) -> Array:
    """The safe return that each row would need if it were the only one (n_rows,).

    (H3) with the scalar kernel: (bound - c - α J g) · scale / (α K_ii). Negative means that it
    would hold anyway; for an upper bound the sign is turned, so that larger is always worse.

    Args:
        policy: at its present weights.
        rows: of all states.
        gradient: of the batch that the step learns from; None for a step on nothing else.
        step_size: α.
    """
    model = Linearisation(policy, rows, policy.outputs(rows.states))
    drift = model.values
    if gradient is not None:
        drift = drift + step_size * model.effect(gradient.direction)
    per_return = np.maximum(
        step_size * model.kernel_diagonal() / model.scale, np.finfo(np.float64).tiny
    )
    return rows.violations(drift) / per_return
