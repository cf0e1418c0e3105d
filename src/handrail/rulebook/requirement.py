"""What a file requires of its actions: `right >= 0.95`, and the constraint that it becomes.

A requirement is bounds on a weighted sum of actions, read by the same parser as every formula. Both
may depend on the observations: `force >= -12*phi - 3*phi_dot`. What no policy can do is refused
when it is read, in the file's own names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from handrail.constraints import (
    Amount,
    AtLeast,
    AtMost,
    BarrierCondition,
    Between,
    Equal,
    PlacedConstraint,
    action_about,
    is_bound,
    looked_at,
    state_in_words,
)
from handrail.errors import InvalidConstraint
from handrail.formulas import (
    Formula,
    InvalidFormula,
    UnknownName,
    parse_bounds,
    parse_state_bounds,
)
from handrail.policies import MEAN, PROBABILITY, Quantity
from handrail.regions import Place, Points
from handrail.rulebook.findings import file_words
from handrail.rulebook.schema import BarrierEntry

_FORM = (
    "A requirement reads like: right >= 0.95, 0.2 <= left <= 0.4, 0.5*left + right <= 0.8, "
    "force >= 2*phi - 1."
)


@final
@dataclass(frozen=True)
class DeclaredActions:
    """What the policy decides on.

    Attributes:
        names: in the environment's order.
        ranges: (from, to) of each continuous action; None if actions are discrete.
    """

    names: tuple[str, ...]
    ranges: tuple[tuple[float, float], ...] | None

    @classmethod
    def of(cls, declared: list[str] | Mapping[str, list[float]]) -> DeclaredActions:
        """As a file declares them."""
        if isinstance(declared, Mapping):
            return cls(tuple(declared), tuple((low, high) for low, high in declared.values()))
        return cls(tuple(declared), None)

    @property
    def quantity(self) -> Quantity:
        """What requirements are about."""
        return MEAN if self.ranges else PROBABILITY

    def __len__(self) -> int:
        return len(self.names)

    def __str__(self) -> str:
        if not self.ranges:
            return ", ".join(self.names)
        pairs = zip(self.names, self.ranges, strict=True)
        return ", ".join(f"{name} from {low:g} to {high:g}" for name, (low, high) in pairs)


@final
@dataclass(frozen=True)
class Requirement:
    """lower ≤ Σ weight · action ≤ upper, of probabilities or of mean actions.

    Attributes:
        quantity: what it is about.
        weights: of each action that has one, by its index.
        lower: -inf for none.
        upper: +inf for none.
        text: as it was written.
        level: h of a barrier, which the requirement keeps at 0 or above.
    """

    quantity: Quantity
    weights: Mapping[int, Amount]
    lower: Amount
    upper: Amount
    text: str = field(compare=False)
    level: Formula | None = field(default=None, compare=False)

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for requirements that say the same."""
        return (*sorted(self.weights.items()), self.lower, self.upper)


def parse_requirement(
    text: str, actions: DeclaredActions, observations: Sequence[str] = ()
) -> Requirement:
    """A requirement on these actions, which may depend on the observations.

    Raises:
        InvalidConstraint: if it cannot be read, or asks for what no policy can do.
    """
    written = set(re.findall(r"[^\W\d]\w*(?!\w|\s*\()", text)) - set(actions.names)
    if written & set(observations):
        return _depending_on_state(text, actions, observations)
    requirement = _of_numbers(text, actions)
    _refuse_impossible(requirement, actions)
    return requirement


def _of_numbers(text: str, actions: DeclaredActions) -> Requirement:
    """The same at every state."""
    try:
        bounds = parse_bounds(text, actions.names, "action")
    except UnknownName:
        raise
    except InvalidFormula as error:
        raise InvalidConstraint(f"{error} {_FORM}") from None
    return Requirement(
        quantity=actions.quantity,
        weights={index: float(one) for index, one in enumerate(bounds.weights) if one != 0.0},
        lower=bounds.lower,
        upper=bounds.upper,
        text=" ".join(text.split()),
    )


def _depending_on_state(
    text: str, actions: DeclaredActions, observations: Sequence[str]
) -> Requirement:
    try:
        bounds = parse_state_bounds(text, actions.names, observations, "action")
    except UnknownName:
        raise
    except InvalidFormula as error:
        raise InvalidConstraint(f"{error} {_FORM}") from None
    weights = {index: _amount(one) for index, one in enumerate(bounds.weights)}
    return Requirement(
        quantity=actions.quantity,
        weights={index: one for index, one in weights.items() if one != 0.0},
        lower=-math.inf if bounds.lower is None else _amount(bounds.lower),
        upper=math.inf if bounds.upper is None else _amount(bounds.upper),
        text=" ".join(text.split()),
    )


def barrier_requirement(
    barrier: BarrierEntry, actions: DeclaredActions, observations: Sequence[str]
) -> Requirement:
    """A barrier condition as a requirement on continuous actions.

    Raises:
        InvalidConstraint: if it cannot be read, or is none.
    """
    if actions.ranges is None:
        raise InvalidConstraint(
            "a barrier is a condition on continuous actions, but those of this file are discrete: "
            f"{', '.join(actions.names)}."
        )
    if barrier.step:
        condition = BarrierCondition.sampled(
            barrier.h, barrier.step, barrier.rate, observations, actions.names, barrier.disturbance
        )
    else:
        condition = BarrierCondition.continuous(
            barrier.h, barrier.drift, barrier.gain, barrier.rate, observations, barrier.disturbance
        )
    if len(condition.weights) != len(actions):
        raise InvalidConstraint(
            f"`gain` has {len(condition.weights)} expressions for each observation, but there are "
            f"{len(actions)} actions: {', '.join(actions.names)}. Give a list with one for each."
        )
    return Requirement(
        quantity=actions.quantity,
        weights={index: one for index, one in enumerate(condition.weights) if one != 0.0},
        lower=condition.bound,
        upper=math.inf,
        text=f"keep {barrier.h} >= 0 (barrier, rate {barrier.rate:g})",
        level=Formula(str(barrier.h), observations),
    )


def _amount(formula: Formula) -> Amount:
    """A number, if it is one."""
    return formula if formula.number is None else formula.number


def constrain(
    requirement: Requirement, where: Place, name: str, priority: float
) -> PlacedConstraint:
    """The requirement at these states, as one of the library's constraints."""
    weights, lower, upper = requirement.weights, requirement.lower, requirement.upper
    alone = next(iter(weights)) if list(weights.values()) == [1.0] else None
    action = action_about(requirement.quantity, weights if alone is None else alone)
    if lower == upper:
        return Equal(lower, action, where, name, priority)
    if not is_bound(upper):
        return AtLeast(lower, action, where, name, priority)
    if not is_bound(lower):
        return AtMost(upper, action, where, name, priority)
    return Between(lower, upper, action, where, name, priority)


def _refuse_impossible(requirement: Requirement, actions: DeclaredActions) -> None:
    """What the library itself refuses, said with names; one state is enough to find out."""
    try:
        probe = constrain(requirement, Points([0.0]), requirement.text, priority=1.0)
        probe.rows(len(actions))
    except InvalidConstraint as error:
        raise InvalidConstraint(error.told(file_words(actions=actions.names))) from None


def refuse_out_of_range(
    requirement: Requirement, constraint: PlacedConstraint, actions: DeclaredActions
) -> None:
    """A mean beyond what the environment lets through could be had, but never done."""
    if actions.ranges is None:
        return
    states = looked_at(constraint.where)
    asked = constraint.asked_at(states, len(actions))
    assert asked is not None  # a requirement is about one state at a time
    ends = np.stack([asked.weights * side for side in np.transpose(actions.ranges)])
    lowest, highest = ends.min(axis=0).sum(axis=1), ends.max(axis=0).sum(axis=1)
    wrong = np.broadcast_to((asked.lower > highest) | (asked.upper < lowest), len(states))
    if wrong.any():
        at = int(wrong.argmax())
        low, high = (float(np.broadcast_to(one, len(states))[at]) for one in (lowest, highest))
        where = f" at {state_in_words(states[at])}" if constraint.depends_on_state else ""
        raise InvalidConstraint(
            f"{requirement.text!r} is out of range{where}: with the ranges of the actions it is "
            f"between {low:g} and {high:g}."
        )
