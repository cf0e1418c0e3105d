"""Which drawn actions went against a constraint in its place, counted over steps that were played.

A constraint on probabilities leaves a part to chance, one on means leaves all of the noise. So a
policy that obeys exactly may still draw actions that nobody wanted, and how often it did is a
number of its own: an action goes against a bound if a policy that always took it would break it.
For P(left) ≤ 0.05 that is left, for P(left) ≥ 0.95 any other action; for a mean torque ≥ 0 it is a
torque below 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from handrail._types import Array, Indices, Mask
from handrail.constraints.amount import Asked, Demand
from handrail.constraints.any_of import AnyOf
from handrail.constraints.constraint import Constraint, PlacedConstraint
from handrail.constraints.rows import Rows
from handrail.constraints.words import counted
from handrail.policies import Policy
from handrail.regions import Points


@final
@dataclass(frozen=True)
class DrawnInPlace:
    """The actions that were drawn in the place of one constraint.

    Attributes:
        name: of the constraint.
        steps: in its place.
        against: so many of their actions went against it.
        allowed: the share that its bound leaves to chance, on average over the steps: 0.05 of
            P(left) ≥ 0.95. None of means, and of weighted sums.
    """

    name: str
    steps: int
    against: int
    allowed: float | None

    def __str__(self) -> str:
        share = f"{self.against / self.steps:.1%}"
        if self.allowed is not None:
            share += f", where its bound leaves {self.allowed:.1%} to chance"
        return f"{self.name}: {self.against:,} of {counted(self.steps, 'drawn action')} ({share})"


@final
@dataclass(frozen=True)
class DrawnActions:
    """The actions that were drawn in constrained places.

    Attributes:
        steps: in the place of a constraint that is about one action at a time.
        against: so many of their actions went against at least one that holds there.
        by_constraint: of those whose place was visited.
    """

    steps: int
    against: int
    by_constraint: tuple[DrawnInPlace, ...]

    @property
    def share(self) -> float | None:
        """Of the actions in constrained places; None if there was no such step."""
        return self.against / self.steps if self.steps else None

    def __str__(self) -> str:
        if self.share is None:
            return "no step was in a constrained place"
        drawn = counted(self.steps, "drawn action")
        return (
            f"{self.against:,} of {drawn} in constrained places went against a constraint there "
            f"({self.share:.1%})"
        )


def count_drawn(
    policy: Policy,
    constraints: Sequence[Constraint],
    states: Array,
    actions: NDArray[Any],
    tolerance: float = 0.0,
) -> DrawnActions | None:
    """How often drawn actions went against a constraint; None if none is about single actions.

    Not counted are constraints that relate several states, and bounds that no single action can
    meet, such as 0.4 ≤ P(left) ≤ 0.6.

    Args:
        policy: that drew them.
        constraints: in the units of the states.
        states: (n > 0, *observation_shape), in which they were drawn.
        actions: (n,) indices, or (n, n_actions) as the environment took them.
        tolerance: the violation that counts as none.
    """
    n_actions = policy.outputs(states[:1]).shape[1]  # and behind them maybe their deviations
    certain = policy.quantity.of_actions(actions, n_actions)
    visited = _Visited.by(states)
    places = [place for one in constraints for place in _places(one, visited, n_actions)]
    if not places:
        return None
    anywhere, against_any = np.zeros((2, len(states)), dtype=bool)
    found = []
    for place in places:
        steps, there = place.steps, states[place.steps]
        against = place.against(there, certain[steps], tolerance)
        anywhere[steps] = True
        against_any[steps] |= against
        if len(steps):
            counts = len(steps), int(against.sum())
            found.append(DrawnInPlace(place.name, *counts, place.allowed(there)))
    return DrawnActions(int(anywhere.sum()), int(against_any.sum()), tuple(found))


@final
@dataclass(frozen=True)
class _Visited:
    """The states that were visited.

    Attributes:
        flat: (n, n_coordinates).
        numbers: of the steps in each state, which is known by its float32 values: environments
            observe in float32, and a point is what somebody wrote down.
    """

    flat: Array
    numbers: dict[bytes, list[int]]

    @classmethod
    def by(cls, states: Array) -> _Visited:
        flat = states.reshape(len(states), -1)
        numbers: dict[bytes, list[int]] = {}
        for number, key in enumerate(_keys(flat)):
            numbers.setdefault(key, []).append(number)
        return cls(flat, numbers)

    def at(self, points: Array) -> Indices:
        """The steps at one of some points (n, *observation_shape)."""
        found = [self.numbers.get(key, []) for key in _keys(points.reshape(len(points), -1))]
        return np.array(sorted({number for numbers in found for number in numbers}), dtype=np.intp)


def _keys(states: Array) -> list[bytes]:
    return [one.tobytes() for one in states.astype(np.float32) + np.float32(0.0)]  # -0 is 0


@final
@dataclass(frozen=True)
class _Place:
    """What is asked of single actions at some of the states.

    Attributes:
        name: of the constraint.
        steps: in it, their numbers.
        alternatives: one of which must be met; each is all of its demands.
        left_to_chance: the share of actions that may meet none, where the constraint says so.
    """

    name: str
    steps: Indices
    alternatives: Sequence[Sequence[Demand]]
    left_to_chance: float | None = None

    def against(self, states: Array, certain: Array, tolerance: float) -> Mask:
        """Which outputs (n, n_actions) of certain actions meet no alternative (n,)."""
        broken = [
            np.any([_breaks(one.at(states), certain, tolerance) for one in demands], axis=0)
            for demands in self.alternatives
        ]
        result: Mask = np.all(broken, axis=0)
        return result

    def can_be_met(self, states: Array) -> bool:
        """Whether one action alone meets what is asked, at some of these states at least."""
        first = self.alternatives[0][0]
        if first.quantity.is_continuous:
            return True
        each = (np.tile(one, (len(states), 1)) for one in np.eye(len(first.weights)))
        return any(not self.against(states, certain, 0.0).all() for certain in each)

    def allowed(self, states: Array) -> float | None:
        """The share that a single bound on a sum of probabilities leaves to the other actions."""
        if self.left_to_chance is not None:
            return self.left_to_chance
        if len(self.alternatives) > 1 or len(self.alternatives[0]) > 1:
            return None
        asked = self.alternatives[0][0].at(states)
        if asked.raw or asked.quantity.is_continuous or not np.isin(asked.weights, (0, 1)).all():
            return None
        return float(np.mean(np.where(np.isfinite(asked.lower), 1.0 - asked.lower, asked.upper)))


def _places(constraint: Constraint, visited: _Visited, n_actions: int) -> list[_Place]:
    """Where it asks something that single actions meet or break; of points, if some were visited.

    Of most continuous environments no state is ever visited twice, and points say nothing.
    """
    if not isinstance(constraint, PlacedConstraint):
        return _places_of_rows(constraint.rows(n_actions), visited)
    parts = constraint.alternatives if isinstance(constraint, AnyOf) else [constraint]
    alternatives = [demands for one in parts if (demands := one.asked_of_actions(n_actions))]
    if len(alternatives) < len(parts):
        return []
    where = constraint.where
    is_region = not isinstance(where, Points)
    steps = (
        visited.at(where.states)
        if isinstance(where, Points)
        else np.flatnonzero(where.contains(visited.flat))
    )
    place = _Place(constraint.name, steps, alternatives, constraint.left_to_chance)
    return [place] if (is_region or len(steps)) and place.can_be_met(constraint.states) else []


def _places_of_rows(rows: Rows, visited: _Visited) -> list[_Place]:
    """Of constraints that are nothing but rows, as those of a saved learner are."""
    places, n_outputs = [], rows.weights.shape[1]
    for number, samples in enumerate(rows.samples):
        steps = visited.at(rows.states[samples])
        alone = samples.stop - samples.start == 1 and rows.choice[number] < 0
        drawn = not rows.weights[samples, rows.quantity.n_actions(n_outputs) :].any()
        if drawn and alone and len(steps):
            weights = tuple(rows.weights[samples.start].tolist())
            bounds = float(rows.lower[number]), float(rows.upper[number])
            raw = bool(rows.raw[samples.start])
            demand = Demand(weights, *bounds, rows.quantity, raw)
            place = _Place(rows.labels[number], steps, [[demand]])
            places += [place] if place.can_be_met(rows.states[samples]) else []
    return places


def _breaks(asked: Asked, certain: Array, tolerance: float) -> Mask:
    """Whether a policy that always took the action would break what is asked, at each state.

    Of a margin between logits only the sign is asked: an action by itself has no odds.
    """
    values = (asked.weights * certain).sum(axis=1)
    lower = np.minimum(asked.lower, 0.0) if asked.raw else asked.lower
    result: Mask = np.maximum(lower - values, values - asked.upper) > tolerance
    return result
