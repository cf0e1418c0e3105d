"""Constraints as the user writes them: what must hold, at which states, and how it is called.

Everything that cannot be meant is refused here, when it is written down. What a constraint turns
out to be worth for a given policy is measured elsewhere (violations.py). A kind of constraint is
known by the name of its class from the moment it is defined, so that saved ones can be read again.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, ClassVar, Self, final

import numpy as np
from typing_extensions import override

from handrail._types import Array, Indices
from handrail.constraints.rows import Rows
from handrail.errors import ActionSum, InvalidConstraint, Phrase
from handrail.policies import MEAN, PROBABILITY, Quantity
from handrail.regions import Place, Points, Region, region_from


@final
@dataclass(frozen=True)
class Mean:
    """The mean of a continuous action, wherever a constraint takes an action.

    Args:
        dimension: of the action: an index, or {dimension: weight} for a weighted sum.
    """

    dimension: int | Mapping[int, float]


Action = int | Mapping[int, float] | Mean


def quantity_of(action: Action) -> Quantity:
    """The mean of a continuous action where it says so, else the probability of a discrete one."""
    return MEAN if isinstance(action, Mean) else PROBABILITY


def action_about(quantity: Quantity, plain: int | Mapping[int, float]) -> Action:
    """An action, or a weighted sum of some, as a constraint on this quantity takes it."""
    return Mean(plain) if quantity == MEAN else plain


def as_mapping(action: Action) -> Mapping[int, float]:
    """One action or several, as {action: weight}."""
    plain = action.dimension if isinstance(action, Mean) else action
    return plain if isinstance(plain, Mapping) else {plain: 1.0}


def action_sum(action: Action) -> ActionSum:
    """For messages: 'action 1', '0.5·action 0 + action 2', 'mean action 0'."""
    noun = "mean action" if isinstance(action, Mean) else "action"
    return ActionSum(as_mapping(action), noun)


# States that stand for a region where a few have to: in messages, pictures, and diagnosis.
_STAND_INS = 100

# Every kind of constraint by the name of its class, as files call it.
_KINDS: dict[str, type[Constraint]] = {}


class Constraint(ABC):
    """Something the policy must obey. `name` is what every message and table calls it."""

    name: str
    priority: float

    def __init_subclass__(cls) -> None:
        known = _KINDS.setdefault(cls.__name__, cls)
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(
                f"A constraint called {cls.__name__} exists already, in {known.__module__}: saved "
                "ones would be mixed up. Choose another name."
            )
        _KINDS[cls.__name__] = cls  # of a class that is defined again, such as in a notebook

    @property
    @abstractmethod
    def states(self) -> Array:
        """The states it speaks of (n, *observation_shape); of a region, some that stand for it."""

    @property
    @abstractmethod
    def quantity(self) -> Quantity:
        """What it is about: probabilities of actions, or mean actions."""

    @abstractmethod
    def rows(self, n_actions: int) -> Rows:
        """The constraint at `states`, as linear functionals of the policy's outputs (H1)."""


class PlacedConstraint(Constraint):
    """A constraint that says the same at every state of a place: points, or a region."""

    where: Place

    @property
    def region(self) -> Region | None:
        """The place, if it is a region."""
        return self.where if isinstance(self.where, Region) else None

    @property
    def states(self) -> Array:
        """The points, or states that stand for the region."""
        return self.where.states if isinstance(self.where, Points) else self.where.cover(_STAND_INS)

    def rows(self, n_actions: int) -> Rows:
        """The rows at `states`."""
        return self.rows_at(self.states, n_actions)

    def moved_to(self, where: Place, name: str) -> Self:
        """The same constraint at another place, such as a part of its own."""
        other = copy(self)
        object.__setattr__(other, "where", where)
        object.__setattr__(other, "name", name)
        return other

    @abstractmethod
    def rows_at(self, states: Array, n_actions: int) -> Rows:
        """What it says at these states (n, *observation_shape)."""

    def describe(self) -> dict[str, Any]:
        """Plain values that JSON can hold and `constraint_from` reads.

        `InvalidConstraint` where there are none: for points, or a curve that is a Python function.
        """
        if self.region is None:
            raise InvalidConstraint(f"{self.name!r} is not on a region: its rows say all of it.")
        own = [one.name for one in fields(self) if one.init]  # type: ignore[arg-type]
        values = {name: _plain(getattr(self, name)) for name in own if name != "where"}
        return {**values, "kind": type(self).__name__, "where": self.region.describe()}

    @classmethod
    def from_description(cls, values: Mapping[str, Any]) -> Self:
        """From what `describe` said of every argument but for `where`, which is a region again."""
        return cls(**values)


def constraint_from(described: Mapping[str, Any]) -> PlacedConstraint:
    """The constraint that `describe` described."""
    values = dict(described)
    name, where = values.pop("kind"), region_from(values.pop("where"))
    kind = _KINDS.get(name)
    if kind is None or not issubclass(kind, PlacedConstraint):
        raise InvalidConstraint(
            f"There is no constraint called {name!r}. If it is one of your own, import the module "
            "that defines it first."
        )
    return kind.from_description({**values, "where": where})


def _plain(value: Any) -> Any:
    """A mapping as a list of pairs: JSON knows texts as keys only."""
    if isinstance(value, Mean):
        return {"mean": _plain(value.dimension)}
    if isinstance(value, Mapping):
        return [[key, weight] for key, weight in value.items()]
    return value.tolist() if isinstance(value, np.ndarray) else value


def mapping_from(plain: Any) -> Any:
    """A list of pairs as a mapping again; anything else as it is."""
    return dict(plain) if isinstance(plain, list) else plain


class Bounded(PlacedConstraint):
    """lower ≤ output ≤ upper, of one action or of a weighted sum of actions."""

    action: Action

    _lower: ClassVar[str | None]
    """The field that is the lower bound, if there is one."""
    _upper: ClassVar[str | None]
    """The field that is the upper bound, if there is one."""

    @property
    def bounds(self) -> tuple[float, float]:
        """(lower, upper); -inf and inf for none."""
        lower = -math.inf if self._lower is None else getattr(self, self._lower)
        upper = math.inf if self._upper is None else getattr(self, self._upper)
        return lower, upper

    def __post_init__(self) -> None:
        check_where(self.where)
        check_priority(self.priority)
        check_actions(self.action)
        for field_name in dict.fromkeys((self._lower, self._upper)):
            if field_name is not None:
                check_bound(getattr(self, field_name), self.action)
        lower, upper = self.bounds
        check_order(lower, upper)
        if lower == upper and isinstance(self.where, Region):
            raise InvalidConstraint(
                "a network cannot keep a {noun} at one value on all the states of a region. "
                "{remedy}",
                about=type(self).__name__,
                noun=self.quantity.noun,
                remedy=Phrase.TWO_BOUNDS,
            )
        set_default_name(self, _bounded_in_words(str(action_sum(self.action)), lower, upper))

    @property
    @override
    def quantity(self) -> Quantity:
        """As the action says."""
        return quantity_of(self.action)

    @override
    def rows_at(self, states: Array, n_actions: int) -> Rows:
        """One row per state."""
        weights = np.zeros(n_actions)
        for index, weight in as_mapping(self.action).items():
            check_known_action(self.name, index, n_actions)
            weights[index] = weight
        self.quantity.check_weights(weights, self.bounds, self.name)
        n = len(states)
        return make_rows(self, states, np.tile(weights, (n, 1)), np.arange(n), *self.bounds)

    @classmethod
    @override
    def from_description(cls, values: Mapping[str, Any]) -> Self:
        action = values["action"]
        if isinstance(action, Mapping):
            return cls(**{**values, "action": Mean(mapping_from(action["mean"]))})
        return cls(**{**values, "action": mapping_from(action)})


@final
@dataclass(frozen=True)
class AtLeast(Bounded):
    """π(action | s) ≥ bound at every state of `where`; with a `Mean`, the mean action ≥ bound.

    Args:
        bound: strictly between 0 and 1 for the probability of one action; any for a mean action.
        action: an index, or {action: weight} for a weighted sum over actions; `Mean` of either for
            continuous actions.
        where: the states: Points, or a region (Box, Ball, Polytope, Curve, Union).
        name: for tables and messages; made from the other fields when left out.
        priority: how much more than others this one matters when constraints are soft.
    """

    bound: float
    action: Action
    where: Place
    name: str = ""
    priority: float = 1.0

    _lower: ClassVar[str | None] = "bound"
    _upper: ClassVar[str | None] = None


@final
@dataclass(frozen=True)
class AtMost(Bounded):
    """π(action | s) ≤ bound at every state of `where`; arguments as for `AtLeast`."""

    bound: float
    action: Action
    where: Place
    name: str = ""
    priority: float = 1.0

    _lower: ClassVar[str | None] = None
    _upper: ClassVar[str | None] = "bound"


@final
@dataclass(frozen=True)
class Equal(Bounded):
    """π(action | s) = bound at every state of `where`, points; arguments as for `AtLeast`."""

    bound: float
    action: Action
    where: Place
    name: str = ""
    priority: float = 1.0

    _lower: ClassVar[str | None] = "bound"
    _upper: ClassVar[str | None] = "bound"


@final
@dataclass(frozen=True)
class Between(Bounded):
    """lower ≤ π(action | s) ≤ upper at every state of `where`; arguments as for `AtLeast`."""

    lower: float
    upper: float
    action: Action
    where: Place
    name: str = ""
    priority: float = 1.0

    _lower: ClassVar[str | None] = "lower"
    _upper: ClassVar[str | None] = "upper"


def _bounded_in_words(what: str, lower: float, upper: float) -> str:
    if lower == upper:
        return f"{what} == {lower:g}"
    low = "" if math.isinf(lower) else f"{lower:g} <= "
    high = "" if math.isinf(upper) else f" <= {upper:g}"
    return f"{what} >= {lower:g}" if not high else f"{low}{what}{high}"


def set_default_name(constraint: Constraint, default: str) -> None:
    """Name a constraint that the user did not name."""
    if not isinstance(constraint.name, str):
        raise InvalidConstraint(f"A name must be text, but got {constraint.name!r}.")
    if not constraint.name:
        object.__setattr__(constraint, "name", default)


def make_rows(
    constraint: Constraint,
    states: Array,
    weights: Array,
    rows: Indices,
    lower: float,
    upper: float,
) -> Rows:
    """Rows of one constraint: `rows` says which row each sample (state, weights) belongs to."""
    n = int(rows[-1]) + 1
    labels = [constraint.name] if n == 1 else [f"{constraint.name} [{k}]" for k in range(n)]
    return Rows(
        states=states,
        weights=weights,
        row_of_sample=rows,
        lower=np.full(n, lower),
        upper=np.full(n, upper),
        priority=np.full(n, constraint.priority),
        labels=tuple(labels),
        quantity=constraint.quantity,
    )


def check_actions(action: Action) -> None:
    """Every action an index, every weight a number, not all of them zero."""
    plain = action.dimension if isinstance(action, Mean) else action
    if not isinstance(plain, Mapping):
        check_action(plain)
    actions = as_mapping(action)
    if not actions:
        raise InvalidConstraint("The action mapping is empty: name at least one action.")
    for index, weight in actions.items():
        check_action(index)
        check_number(weight, f"The weight of action {index}")
    if all(weight == 0.0 for weight in actions.values()):
        raise InvalidConstraint(f"All weights are zero in {dict(actions)}: nothing is constrained.")


def check_where(where: Any) -> None:
    """`where` must be a place."""
    if not isinstance(where, Points | Region):
        raise InvalidConstraint(
            f"`where` must be a place such as Points([[...]]) or Box(low, high), but got "
            f"{type(where).__name__}."
        )


def check_priority(priority: Any) -> None:
    """Positive."""
    check_number(priority, "The priority")
    if priority <= 0.0:
        raise InvalidConstraint(f"The priority must be positive, but got {priority:g}.")


def check_action(action: Any) -> None:
    """A non-negative integer."""
    if isinstance(action, bool) or not isinstance(action, Integral):
        raise InvalidConstraint(
            f"An action is an index 0, 1, 2, … (or a mapping {{index: weight}}, or a Mean of "
            f"either), but got {action!r}."
        )
    if action < 0:
        raise InvalidConstraint(f"Unknown action {action}: actions are numbered from 0.")


def check_known_action(name: str, action: int, n_actions: int) -> None:
    """An action that the policy has."""
    if action >= n_actions:
        raise InvalidConstraint(
            f"{name!r} names action {action}, but the policy has {n_actions} actions: "
            f"0 to {n_actions - 1}."
        )


def check_number(value: Any, what: str) -> None:
    """A finite real number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidConstraint(f"{what} must be a number, but got {value!r}.")
    if not math.isfinite(value):
        raise InvalidConstraint(f"{what} must be finite, but got {value}.")


def check_bound(bound: Any, action: Action) -> None:
    """A number; strictly inside what a sum of probabilities can reach."""
    check_number(bound, "The bound")
    quantity_of(action).check_bound(bound, as_mapping(action).values(), action_sum(action))


def check_order(lower: float, upper: float) -> None:
    """Lower ≤ upper."""
    if lower > upper:
        raise InvalidConstraint(
            f"The lower bound {lower:g} is above the upper bound {upper:g}. Swap them."
        )


def check_linear_bounds(lower: Any, upper: Any, lowest: float, highest: float) -> None:
    """At least one bound, in order, and reachable."""
    for value, what in ((lower, "lower"), (upper, "upper")):
        if isinstance(value, bool) or not isinstance(value, Real) or math.isnan(value):
            raise InvalidConstraint(f"Linear: `{what}` must be a number, but got {value!r}.")
    if math.isinf(lower) and math.isinf(upper):
        raise InvalidConstraint("Linear needs a finite `lower` or `upper` bound (or both).")
    check_order(lower, upper)
    if lower >= highest or upper <= lowest:
        raise InvalidConstraint(
            f"Linear: this sum always lies strictly between {lowest:g} and {highest:g}, so it "
            f"cannot be within [{lower:g}, {upper:g}]."
        )
