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

from handrail._types import Array, Indices, Mask
from handrail.constraints import (
    AnyOf,
    Expansion,
    Regional,
    Rows,
    concatenate,
    violations_at,
    violations_together,
)
from handrail.enforcement.linearisation import Linearisation
from handrail.policies import Policy
from handrail.settings import MaximumDeviation, MaximumReturn
from handrail.tangent import PolicyGradient

# Chosen states of one region are at least this far apart, as a fraction of its size.
_APART = 0.15

_CLIMB_STEPS = 12

# Of the region's size: how far half of a sample is pushed, at least and at most. A little brings
# states onto a face, a lot into edges and corners, where outputs are most extreme.
_PUSHED = 0.5, 8.0

# Of the region's size: how far states of other samples are moved.
_MOVED = 0.1

# Of the region's size: how far from it a state counts as right outside.
_BESIDE = 0.25

# Of the region's size: the first step of the climb, and the step of its differences.
_FIRST_STEP, _DIFFERENCE = 0.3, 1e-5

# Of how far inside their bounds states can be at all. Those within this part of it are climbed
# from: a compromise. From the worst states of a sample a climb gained less than that in the run it
# was chosen on, from others now and then more; what it misses, a proof finds.
_NEAR = 0.05

# Pairs of states at which other alternatives hold, and how often what is between them is halved.
_PAIRS, _HALVINGS = 64, 40


@final
@dataclass(frozen=True)
class Scored:
    """States (n, n_coordinates) of a region and how much each violates (n,)."""

    states: Array
    violations: Array

    @property
    def highest(self) -> float:
        """The largest violation; -inf if there is no state."""
        return float(self.violations.max(initial=-np.inf))

    @property
    def violated(self) -> Array:
        """The states that violate."""
        return self.states[self.violations > 0.0]

    @property
    def is_highest(self) -> Mask:
        """Which states have the largest violation."""
        result: Mask = self.violations == self.highest
        return result

    def among(self, chosen: Mask) -> Scored:
        """The chosen ones."""
        return Scored(self.states[chosen], self.violations[chosen])

    def together_with(self, other: Scored) -> Scored:
        """One behind the other."""
        return Scored(
            np.concatenate([self.states, other.states]),
            np.concatenate([self.violations, other.violations]),
        )

    def or_better(self, states: Array, violations: Array) -> Scored:
        """Of every state and one that it could be instead, the one that violates more."""
        better = violations > self.violations
        return Scored(
            np.where(better[:, None], states, self.states),
            np.where(better, violations, self.violations),
        )


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
        inside = cls(regional, regional.region.cover(max(count // 2, 1)))
        return inside._and_border(np.random.default_rng(0))

    def moved(self, seed: int) -> Sample:
        """As many other states: those inside are moved by chance, those on the border drawn anew.

        Of a sample that `of` made.
        """
        chance, inside = np.random.default_rng(seed), self.states[: len(self.states) // 2]
        by = chance.uniform(-_MOVED, _MOVED, inside.shape) * self.scale
        moved = Sample(self.regional, self.regional.region.project(inside + by))
        return moved._and_border(chance)

    def _and_border(self, chance: np.random.Generator) -> Sample:
        """Together with as many states on the border: faces, edges and corners."""
        anywhere = chance.normal(size=self.states.shape)
        anywhere /= np.linalg.norm(anywhere, axis=1, keepdims=True)
        least, most = (float(np.log(one)) for one in _PUSHED)
        far = np.exp(chance.uniform(least, most, (len(anywhere), 1)))
        border = self.regional.region.project(self.states + far * anywhere * self.scale)
        return Sample(self.regional, np.concatenate([self.states, border]))

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
        return Scored(self.states, violations_at(policy, self.regional, self.states))

    @cached_property
    def nearness(self) -> float:
        """States that violate by more than this, which is negative, are near their bounds."""
        room = self.regional.room
        return -_NEAR * (room if np.isfinite(room) else 1.0)

    def is_near(self, scored: Scored) -> Mask:
        """Which states are so near to their bounds, or beyond, that a climb may lead out."""
        result: Mask = scored.violations > self.nearness
        return result

    @cached_property
    def odds(self) -> Rows | None:
        """What the constraint says, if it is about the log-odds of some actions."""
        row = self.regional.row
        alike = row is not None and row.quantity.adds_up and set(row.weights.flat) == {0.0, 1.0}
        return row if alike else None

    def beside(self, states: Array | None) -> Array:
        """The states of the region that are nearest to those right outside of it (n, …), if any.

        Where one of these is to stay as it is while the region moves, a network bends sharply.
        """
        if states is None or states[0].size != len(self.scale):
            return self.states[:0]
        flat = states.reshape(len(states), -1)
        # No nearer than the box around the region, which rules out nearly all of them.
        low, high = self.regional.region.bounds
        outside = np.maximum(low - flat, flat - high) / self.scale
        flat = flat[outside.max(axis=1) <= _BESIDE]
        if not len(flat):
            return self.states[:0]
        nearest = self.regional.region.project(flat)
        close: Mask = (np.abs(nearest - flat) / self.scale).max(axis=1) <= _BESIDE
        found: Array = nearest[close]
        return found

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

    @cached_property
    def varying(self) -> Indices:
        """The coordinates in which the region extends."""
        low, high = self.regional.region.bounds
        return np.flatnonzero(high > low)

    def around(self, states: Array) -> Array:
        """A little further from each state along each varying coordinate: one after the other."""
        shifts = np.zeros((len(self.varying), 1, states.shape[1]))
        for k, coordinate in enumerate(self.varying):
            shifts[k, 0, coordinate] = _DIFFERENCE * self.scale[coordinate]
        return (states + shifts).reshape(-1, states.shape[1])

    def uphill(self, scored: Scored, around: Array, step: float) -> Array:
        """The states, moved along their slopes by a part of the region's size, inside of it.

        By differences rather than derivatives: the same for constraints that relate states.

        Args:
            scored: where they are.
            around: the violations at the states `around` them.
            step: part of the region's size.
        """
        varying = self.varying
        slope = (around.reshape(len(varying), len(scored.states)) - scored.violations).T
        size = np.linalg.norm(slope, axis=1, keepdims=True)
        direction = slope / np.maximum(size, np.finfo(np.float64).tiny)
        moved = scored.states.copy()
        moved[:, varying] += step * direction * self.scale[varying]
        return self.regional.region.project(moved)


def climb(policy: Policy, starts: Sequence[tuple[Sample, Scored]]) -> list[Scored]:
    """Projected-gradient ascent of the violation from some states of each region, all at once."""
    if not starts:
        return []
    samples, best = [sample for sample, _ in starts], [scored for _, scored in starts]
    regional = [sample.regional for sample in samples]
    around = [sample.around(one.states) for sample, one in zip(samples, best, strict=True)]
    slopes = violations_together(policy, regional, around)
    for number in range(_CLIMB_STEPS):
        step = _FIRST_STEP / 2.0**number
        moved = [
            sample.uphill(one, slope, step)
            for sample, one, slope in zip(samples, best, slopes, strict=True)
        ]
        around = [sample.around(states) for sample, states in zip(samples, moved, strict=True)]
        # There and around it in one pass, for should it be better, the next step is from there.
        pairs = zip(moved, around, strict=True)
        reached = violations_together(policy, regional, [np.concatenate(pair) for pair in pairs])
        for index, (states, found) in enumerate(zip(moved, reached, strict=True)):
            there, slope = np.split(found, [len(states)])
            better = there > best[index].violations
            slopes[index] = np.where(
                np.tile(better, len(slope) // len(better)), slope, slopes[index]
            )
            best[index] = best[index].or_better(states, there)
    return best


def between_alternatives(policy: Policy, sample: Sample) -> Array:
    """States of a region (n, n_coordinates) where another alternative takes over; none of others.

    On the way from where one alternative holds to where another does, the choice changes hands.
    There neither may hold, and however steep a network is there, halving the way finds it.
    """
    constraint, n_actions = sample.regional.constraint, sample.regional.n_actions
    if not isinstance(constraint, AnyOf):
        return sample.states[:0]

    def choice(states: Array) -> Indices:
        outputs = policy.outputs(states)
        parts = [one.violated_at(states, n_actions) for one in constraint.alternatives]
        violations = [one(outputs) for one in parts if one is not None]  # each is about a state
        which: Indices = np.argmin(violations, axis=0)
        return which

    some = sample.states[:: max(1, len(sample.states) // (4 * _PAIRS))]
    chosen, scaled = choice(some), some / sample.scale
    apart = np.linalg.norm(scaled[:, None] - scaled[None], axis=2)
    apart[chosen[:, None] == chosen] = np.inf
    first = np.flatnonzero(np.isfinite(apart).any(axis=1))
    first = first[:: max(1, len(first) // _PAIRS)]
    one, other, held = some[first], some[apart[first].argmin(axis=1)], chosen[first]
    for _ in range(_HALVINGS if len(first) else 0):
        between = sample.regional.region.project(0.5 * (one + other))
        same = (choice(between) == held)[:, None]
        one, other = np.where(same, between, one), np.where(same, other, between)
    return np.concatenate([one, other])


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
    model = Linearisation(policy, rows, rows.outputs_of(policy))
    drift = model.values
    if gradient is not None:
        drift = drift + step_size * model.effect(gradient.direction)
    per_return = np.maximum(
        step_size * model.kernel_diagonal() / model.scale, np.finfo(np.float64).tiny
    )
    return rows.violations(drift) / per_return
