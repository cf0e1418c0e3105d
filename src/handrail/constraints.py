"""What the user declares: a quantity of the policy, a place, a bound, a name.

Everything that cannot be meant is refused here, when it is written down. What a constraint turns
out to be worth for a given policy is measured elsewhere (violations.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass
from typing import Self, final

import numpy as np

from handrail.arrays import Array, Indices
from handrail.checks import (
    Action,
    as_mapping,
    check_actions,
    check_bound,
    check_known_action,
    check_order,
    check_priority,
    check_where,
    in_words,
    quantity_of,
)
from handrail.errors import InvalidConstraint
from handrail.quantities import Quantity
from handrail.regions import Place, Points, Region
from handrail.rows import Rows

# States that stand for a region where a few have to: in messages, pictures, and diagnosis.
_STAND_INS = 100


class Constraint(ABC):
    """Something the policy must obey. `name` is what every message and table calls it."""

    name: str
    priority: float

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


class ActionConstraint(PlacedConstraint):
    """A bound on one action, or on a weighted sum of actions."""

    action: Action

    @property
    def quantity(self) -> Quantity:
        """As the action says."""
        return quantity_of(self.action)


@final
@dataclass(frozen=True)
class AtLeast(ActionConstraint):
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

    def __post_init__(self) -> None:
        check_where(self.where)
        check_priority(self.priority)
        check_actions(self.action)
        check_bound(self.bound, self.action)
        set_default_name(self, f"{in_words(self.action)} >= {self.bound:g}")

    def rows_at(self, states: Array, n_actions: int) -> Rows:
        """One row per state."""
        return _rows_at(self, self.action, states, n_actions, lower=self.bound)


@final
@dataclass(frozen=True)
class AtMost(ActionConstraint):
    """π(action | s) ≤ bound at every state of `where`; arguments as for `AtLeast`."""

    bound: float
    action: Action
    where: Place
    name: str = ""
    priority: float = 1.0

    def __post_init__(self) -> None:
        check_where(self.where)
        check_priority(self.priority)
        check_actions(self.action)
        check_bound(self.bound, self.action)
        set_default_name(self, f"{in_words(self.action)} <= {self.bound:g}")

    def rows_at(self, states: Array, n_actions: int) -> Rows:
        """One row per state."""
        return _rows_at(self, self.action, states, n_actions, upper=self.bound)


@final
@dataclass(frozen=True)
class Equal(ActionConstraint):
    """π(action | s) = bound at every state of `where`; arguments as for `AtLeast`."""

    bound: float
    action: Action
    where: Place
    name: str = ""
    priority: float = 1.0

    def __post_init__(self) -> None:
        check_where(self.where)
        _refuse_region(self)
        check_priority(self.priority)
        check_actions(self.action)
        check_bound(self.bound, self.action)
        set_default_name(self, f"{in_words(self.action)} == {self.bound:g}")

    def rows_at(self, states: Array, n_actions: int) -> Rows:
        """One row per state."""
        return _rows_at(self, self.action, states, n_actions, lower=self.bound, upper=self.bound)


@final
@dataclass(frozen=True)
class Between(ActionConstraint):
    """lower ≤ π(action | s) ≤ upper at every state of `where`; arguments as for `AtLeast`."""

    lower: float
    upper: float
    action: Action
    where: Place
    name: str = ""
    priority: float = 1.0

    def __post_init__(self) -> None:
        check_where(self.where)
        check_priority(self.priority)
        check_actions(self.action)
        check_bound(self.lower, self.action)
        check_bound(self.upper, self.action)
        check_order(self.lower, self.upper)
        if self.lower == self.upper:
            _refuse_region(self)
        set_default_name(self, f"{self.lower:g} <= {in_words(self.action)} <= {self.upper:g}")

    def rows_at(self, states: Array, n_actions: int) -> Rows:
        """One row per state."""
        return _rows_at(self, self.action, states, n_actions, lower=self.lower, upper=self.upper)


def _refuse_region(constraint: Equal | Between) -> None:
    if isinstance(constraint.where, Region):
        what = "probability" if constraint.quantity is Quantity.PROBABILITY else "mean action"
        raise InvalidConstraint(
            f"{type(constraint).__name__}: a network cannot keep a {what} at one value on all the "
            "states of a region. Use Between(lower, upper, …) there, or Points."
        )


def set_default_name(constraint: Constraint, default: str) -> None:
    """Name a constraint that the user did not name."""
    if not isinstance(constraint.name, str):
        raise InvalidConstraint(f"A name must be text, but got {constraint.name!r}.")
    if not constraint.name:
        object.__setattr__(constraint, "name", default)


def _rows_at(
    constraint: Constraint,
    action: Action,
    states: Array,
    n_actions: int,
    lower: float = -np.inf,
    upper: float = np.inf,
) -> Rows:
    weights = np.zeros(n_actions)
    for index, weight in as_mapping(action).items():
        check_known_action(constraint.name, index, n_actions)
        weights[index] = weight
    if quantity_of(action) is Quantity.PROBABILITY and np.ptp(weights) == 0.0:
        raise InvalidConstraint(
            f"{constraint.name!r} weighs all {n_actions} actions alike. Probabilities always add "
            "up to 1, so no policy can change this sum: leave an action out."
        )
    n = len(states)
    return make_rows(constraint, states, np.tile(weights, (n, 1)), np.arange(n), lower, upper)


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
