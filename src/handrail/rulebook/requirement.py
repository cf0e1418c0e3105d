"""What a file requires of its actions: `right >= 0.95`, and the constraint that it becomes.

Or of drawn actions, noise included: `P(torque >= 0) >= 0.99`; or of the noise: `torque.std <= 0.1`.
Or what it prefers: `right`, `right over left`, `right over left by 1 + phi`.

A requirement is bounds on a weighted sum of actions, read by the same parser as every formula. Both
may depend on the observations: `force >= -12*phi - 3*phi_dot`. What no policy can do is refused
when it is read, in the file's own names.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np

from handrail.constraints import (
    ActionRange,
    Amount,
    AnyOf,
    AtLeast,
    AtMost,
    BarrierCondition,
    Between,
    Branch,
    Equal,
    LikelyWithin,
    PlacedConstraint,
    Prefer,
    action_about,
    is_bound,
)
from handrail.errors import InvalidConstraint
from handrail.formulas import (
    Formula,
    InvalidFormula,
    UnknownName,
    parse_bounds,
    parse_state_bounds,
)
from handrail.policies import MEAN, PROBABILITY, STD, BranchProbability, Quantity
from handrail.regions import Place, Points
from handrail.rulebook.findings import file_words, unknown
from handrail.rulebook.schema import BarrierEntry

_FORM = (
    "A requirement reads like: right >= 0.95, 0.2 <= left <= 0.4, 0.5*left + right <= 0.8, "
    "force >= 2*phi - 1."
)

_LIKELY = re.compile(r"P\s*\((?P<range>.*[<>=].*)\)\s*(?P<sign>[<>]=?|=+)\s*(?P<probability>.+)")

_CHOSEN = re.compile(r"\bP\s*\(\s*(?P<action>[\w.]+)\s*\)")
_LIKELY_FORM = (
    "What is required of drawn actions reads like: P(torque >= 0) >= 0.99, P(-1 <= torque <= 1) >= "
    "0.9, P(torque <= 0) <= 0.01."
)

_PREFERENCE = re.compile(r"(?P<action>\S+)(?:\s+over\s+(?P<over>\S+))?(?:\s+by\s+(?P<by>\S.*))?")

_PREFERENCES = "A preference reads like: right, right over left, right over left by 1."

ALL = "all"


@final
@dataclass(frozen=True)
class DeclaredActions:
    """What the policy decides on.

    Attributes:
        names: in the environment's order; of branches, such as gear.low.
        ranges: (from, to) of each continuous action; None if actions are discrete.
        branches: how many of the names each branch has; None if there is a single choice.
    """

    names: tuple[str, ...]
    ranges: tuple[tuple[float, float], ...] | None = None
    branches: tuple[int, ...] | None = None

    @classmethod
    def of(cls, declared: Sequence[str] | Mapping[str, Sequence[Any]]) -> DeclaredActions:
        """As a file declares them."""
        if not isinstance(declared, Mapping):
            return cls(tuple(declared))
        if not any(isinstance(one, str) for given in declared.values() for one in given):
            return cls(tuple(declared), tuple((low, high) for low, high in declared.values()))
        names = tuple(f"{branch}.{one}" for branch, given in declared.items() for one in given)
        return cls(names, branches=tuple(map(len, declared.values())))

    @property
    def quantity(self) -> Quantity:
        """What requirements are about."""
        if self.branches is not None:
            return BranchProbability(self.branches)
        return MEAN if self.ranges else PROBABILITY

    @property
    def range(self) -> ActionRange | None:
        """What continuous actions are clipped to."""
        if self.ranges is None:
            return None
        low, high = np.transpose(np.array(self.ranges, dtype=np.float64))
        return ActionRange(low, high)

    @property
    def by_branch(self) -> dict[str, tuple[str, ...]]:
        """The names of each branch's actions, without its own; {} if there is a single choice."""
        split = [name.partition(".") for name in self.names] if self.branches else []
        names = dict.fromkeys(branch for branch, _, _ in split)
        return {one: tuple(action for branch, _, action in split if branch == one) for one in names}

    def refuse_several_branches(self, indices: Iterable[int], text: str) -> None:
        """Every branch chooses for itself, so a requirement is about one of them."""
        if self.branches is None:
            return
        named = list(dict.fromkeys(self.names[one].partition(".")[0] for one in indices))
        if len(named) > 1:
            raise InvalidConstraint(
                f"{text!r} is about several branches, {' and '.join(named)}, each of which chooses "
                "for itself. Write a requirement for each."
            )

    def __len__(self) -> int:
        return len(self.names)

    def __str__(self) -> str:
        if self.branches is not None:
            pairs = self.by_branch.items()
            return ", ".join(f"{branch} ({', '.join(names)})" for branch, names in pairs)
        if not self.ranges:
            return ", ".join(self.names)
        ends = zip(self.names, self.ranges, strict=True)
        return ", ".join(f"{name} from {low:g} to {high:g}" for name, (low, high) in ends)


class Required(ABC):
    """What an entry asks for, whichever key it stands under."""

    text: str
    """For people."""

    @property
    @abstractmethod
    def key(self) -> tuple[object, ...]:
        """Equal for those that say the same."""

    @abstractmethod
    def at(self, where: Place, name: str, priority: float) -> PlacedConstraint:
        """The same at a place, as one of the library's constraints."""


@final
@dataclass(frozen=True)
class Requirement(Required):
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
        return (self.quantity.name, *sorted(self.weights.items()), self.lower, self.upper)

    def at(self, where: Place, name: str, priority: float) -> PlacedConstraint:
        """The requirement at these states, as one of the library's constraints."""
        weights, lower, upper = self.weights, self.lower, self.upper
        alone = next(iter(weights)) if list(weights.values()) == [1.0] else None
        action = action_about(self.quantity, weights if alone is None else alone)
        if lower == upper:
            return Equal(lower, action, where, name, priority)
        if not is_bound(upper):
            return AtLeast(lower, action, where, name, priority)
        if not is_bound(lower):
            return AtMost(upper, action, where, name, priority)
        return Between(lower, upper, action, where, name, priority)


@final
@dataclass(frozen=True)
class LikelyRequirement(Required):
    """P(low ≤ Σ weight · drawn action ≤ high) ≥ probability.

    Attributes:
        weights: of each action that has one, by its index.
        low: -inf for none.
        high: +inf for none.
        probability: the least.
        text: as it was written.
    """

    weights: Mapping[int, float]
    low: float
    high: float
    probability: float
    text: str = field(compare=False)

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for requirements that say the same."""
        return ("likely", *sorted(self.weights.items()), self.low, self.high, self.probability)

    def at(self, where: Place, name: str, priority: float) -> PlacedConstraint:
        """The requirement at these states, as one of the library's constraints."""
        alone = next(iter(self.weights)) if list(self.weights.values()) == [1.0] else None
        action = self.weights if alone is None else alone
        return LikelyWithin(self.probability, action, where, self.low, self.high, name, priority)


@final
@dataclass(frozen=True)
class Preference(Required):
    """One action over another, or over all others.

    Attributes:
        quantity: what it is about.
        action: its index.
        over: that of the other one; None for all.
        by: the margin, in log-odds.
        text: as it was written.
    """

    quantity: Quantity
    action: int
    over: int | None
    by: Amount
    text: str = field(compare=False)

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for preferences that say the same."""
        return ("prefer", self.action, self.over, self.by)

    def at(self, where: Place, name: str, priority: float) -> PlacedConstraint:
        """The preference at these states, as one of the library's constraints."""
        action = action_about(self.quantity, self.action)
        assert isinstance(action, int | Branch)  # no mean is preferred
        first = action.first if isinstance(action, Branch) else 0
        return Prefer(
            action,
            "all" if self.over is None else self.over - first,
            self.by,
            where=where,
            name=name,
            priority=priority,
        )


@final
@dataclass(frozen=True)
class Alternatives(Required):
    """At least one of them, at every state."""

    parts: tuple[Requirement | Preference, ...]
    text: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", " or ".join(one.text for one in self.parts))

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for choices between the same, in whatever order."""
        return ("any of", frozenset(one.key for one in self.parts))

    def at(self, where: Place, name: str, priority: float) -> PlacedConstraint:
        """The choice at these states, as one of the library's constraints."""
        return AnyOf([one.at(where, one.text, priority) for one in self.parts], name, priority)


def parse_requirement(
    text: str, actions: DeclaredActions, observations: Sequence[str] = ()
) -> Requirement:
    """A requirement on these actions, which may depend on the observations.

    Raises:
        InvalidConstraint: if it cannot be read, or asks for what no policy can do.
    """
    chosen = _CHOSEN.search(text)
    if chosen is not None:
        action = chosen["action"]
        raise InvalidConstraint(
            f"P({action}) is no range: P(…) is about draws of continuous actions, such as "
            f"P(torque >= 0) >= 0.99. The probability of an action is its name: {action} >= 0.95."
        )
    written = set(re.findall(r"[^\W\d][\w.]*(?![\w.]|\s*\()", text)) - set(actions.names)
    noises = [] if actions.ranges is None else _noises(actions.names, written - set(observations))
    names = (*actions.names, *noises)
    if written & set(observations):
        requirement = _depending_on_state(text, names, actions.quantity, observations)
    else:
        requirement = _of_numbers(text, names, actions.quantity)
    requirement = _about_noise(requirement, actions) if noises else requirement
    actions.refuse_several_branches(requirement.weights, requirement.text)
    if not written & set(observations):
        _refuse_impossible(requirement, actions)
    return requirement


def _noises(actions: Sequence[str], written: set[str]) -> list[str]:
    """What standard deviations are called, if one is written: torque.std, or of one action std."""
    if len(actions) == 1 and "std" in written:
        return ["std"]
    names = [f"{name}.std" for name in actions]
    return names if written & set(names) else []


def _about_noise(requirement: Requirement, actions: DeclaredActions) -> Requirement:
    """Of weights of actions, and behind them of their standard deviations."""
    n = len(actions)
    if any(index < n for index in requirement.weights):
        raise InvalidConstraint(
            f"{requirement.text!r} mixes actions and their standard deviations. Bound one at a "
            f"time; or require where actions are drawn: P({actions.names[0]} >= 0) >= 0.99."
        )
    weights = {index - n: one for index, one in requirement.weights.items()}
    return replace(requirement, quantity=STD, weights=weights)


def _of_numbers(text: str, names: Sequence[str], quantity: Quantity) -> Requirement:
    """The same at every state."""
    try:
        bounds = parse_bounds(text, names, "action")
    except UnknownName:
        raise
    except InvalidFormula as error:
        raise InvalidConstraint(f"{error} {_FORM}") from None
    return Requirement(
        quantity=quantity,
        weights={index: float(one) for index, one in enumerate(bounds.weights) if one != 0.0},
        lower=bounds.lower,
        upper=bounds.upper,
        text=" ".join(text.split()),
    )


def _depending_on_state(
    text: str, names: Sequence[str], quantity: Quantity, observations: Sequence[str]
) -> Requirement:
    try:
        bounds = parse_state_bounds(text, names, observations, "action")
    except UnknownName:
        raise
    except InvalidFormula as error:
        raise InvalidConstraint(f"{error} {_FORM}") from None
    weights = {index: _amount(one) for index, one in enumerate(bounds.weights)}
    return Requirement(
        quantity=quantity,
        weights={index: one for index, one in weights.items() if one != 0.0},
        lower=-math.inf if bounds.lower is None else _amount(bounds.lower),
        upper=math.inf if bounds.upper is None else _amount(bounds.upper),
        text=" ".join(text.split()),
    )


def is_about_draws(text: str) -> bool:
    """Whether a requirement speaks of the probability of a range."""
    return _LIKELY.fullmatch(_in_ascii(text)) is not None


def parse_likely(text: str, actions: DeclaredActions) -> LikelyRequirement:
    """A requirement on drawn actions.

    Raises:
        InvalidConstraint: if it cannot be read, or asks for what no policy can do.
    """
    read = _LIKELY.fullmatch(_in_ascii(text))
    assert read is not None  # or nobody asks for it
    if actions.ranges is None:
        raise InvalidConstraint(
            "P(…) of a range is about continuous actions, but those of this file are discrete: "
            f"{', '.join(actions.names)}. Bound the probability of one: {actions.names[0]} >= 0.9."
        )
    try:
        bounds = parse_bounds(read["range"], actions.names, "action")
    except UnknownName:
        raise
    except InvalidFormula as error:
        raise InvalidConstraint(f"{error} {_LIKELY_FORM}") from None
    probability = _probability(read["probability"])
    weights = {index: float(one) for index, one in enumerate(bounds.weights) if one != 0.0}
    low, high = bounds.lower, bounds.upper
    if read["sign"] == "<=":
        low, high, probability = _complement(low, high, probability)
    elif read["sign"] != ">=":
        raise InvalidConstraint(f"a probability is bounded by >= or <=. {_LIKELY_FORM}")
    return LikelyRequirement(weights, low, high, probability, " ".join(text.split()))


def _in_ascii(text: str) -> str:
    return " ".join(text.split()).replace("≥", ">=").replace("≤", "<=")


def _probability(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidConstraint(f"{text!r} is not a probability. {_LIKELY_FORM}") from None


def _complement(low: float, high: float, probability: float) -> tuple[float, float, float]:
    """P(a ≤ 0) ≤ 0.01 is P(a ≥ 0) ≥ 0.99: a single number is never drawn."""
    if math.isfinite(low) and math.isfinite(high):
        raise InvalidConstraint(
            "a range with two ends can be required, not ruled out: the rest of the numbers is on "
            f"both sides of it. {_LIKELY_FORM}"
        )
    return (
        high if math.isfinite(high) else -math.inf,
        low if math.isfinite(low) else math.inf,
        (1.0 - probability),
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


def parse_preference(
    text: str, actions: DeclaredActions, observations: Sequence[str]
) -> Preference:
    """A preference among these actions, whose margin may depend on the observations.

    Raises:
        InvalidConstraint: if it cannot be read, or is none.
    """
    if actions.ranges is not None:
        raise InvalidConstraint(
            "a preference is about discrete actions, but those of this file are continuous: "
            f"{', '.join(actions.names)}. Require something of them, such as {actions.names[0]} "
            ">= 1."
        )
    plain = " ".join(text.split())
    read = _PREFERENCE.fullmatch(plain)
    if read is None:
        raise InvalidConstraint(f"cannot read {plain!r}. {_PREFERENCES}")
    action, over = _index(read["action"], actions), None
    if read["over"] is not None and (read["over"] != ALL or ALL in actions.names):
        over = _index(read["over"], actions)
    if action == over:
        raise InvalidConstraint(f"{read['action']!r} cannot be preferred over itself.")
    actions.refuse_several_branches([action] if over is None else [action, over], plain)
    by = 0.0 if read["by"] is None else _amount(Formula(read["by"], observations))
    return Preference(actions.quantity, action, over, by, f"prefer {plain}")


def _index(name: str, actions: DeclaredActions) -> int:
    if name not in actions.names:
        raise InvalidConstraint(unknown("action", name, actions.names))
    return actions.names.index(name)


def _amount(formula: Formula) -> Amount:
    """A number, if it is one."""
    return formula if formula.number is None else formula.number


def _refuse_impossible(requirement: Requirement, actions: DeclaredActions) -> None:
    """What the library itself refuses, said with names; one state is enough to find out."""
    try:
        probe = requirement.at(Points([0.0]), requirement.text, priority=1.0)
        probe.rows(len(actions) * (2 if requirement.quantity == STD else 1))
    except InvalidConstraint as error:
        raise InvalidConstraint(error.told(file_words(actions=actions.names))) from None
