"""What the user declares: a quantity of the policy, a place, a bound, a name.

Everything that cannot be meant is refused here, when it is written down. What a constraint turns
out to be worth for a given policy is measured elsewhere (violations.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

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
)
from handrail.errors import InvalidConstraint
from handrail.regions import Points
from handrail.rows import Rows


class Constraint(ABC):
    """Something the policy must obey. `name` is what every message and table calls it."""

    name: str
    priority: float

    @property
    @abstractmethod
    def states(self) -> Array:
        """The states it speaks of (n, *observation_shape)."""

    @abstractmethod
    def rows(self, n_actions: int) -> Rows:
        """The constraint as linear functionals of the action probabilities (H1)."""


@final
@dataclass(frozen=True)
class AtLeast(Constraint):
    """π(action | s) ≥ bound at every state of `where`.

    Args:
        bound: strictly between 0 and 1 for one action.
        action: an index, or {action: weight} for a weighted sum over actions.
        where: the states.
        name: for tables and messages; made from the other fields when left out.
        priority: how much more than others this one matters when constraints are soft.
    """

    bound: float
    action: Action
    where: Points
    name: str = ""
    priority: float = 1.0

    def __post_init__(self) -> None:
        check_where(self.where)
        check_priority(self.priority)
        check_actions(self.action)
        check_bound(self.bound, self.action)
        set_default_name(self, f"{in_words(self.action)} >= {self.bound:g}")

    @property
    def states(self) -> Array:
        """The states of `where`."""
        return self.where.states

    def rows(self, n_actions: int) -> Rows:
        """One row per state."""
        return _rows_at_points(self, self.action, self.where, n_actions, lower=self.bound)


@final
@dataclass(frozen=True)
class AtMost(Constraint):
    """π(action | s) ≤ bound at every state of `where`; arguments as for `AtLeast`."""

    bound: float
    action: Action
    where: Points
    name: str = ""
    priority: float = 1.0

    def __post_init__(self) -> None:
        check_where(self.where)
        check_priority(self.priority)
        check_actions(self.action)
        check_bound(self.bound, self.action)
        set_default_name(self, f"{in_words(self.action)} <= {self.bound:g}")

    @property
    def states(self) -> Array:
        """The states of `where`."""
        return self.where.states

    def rows(self, n_actions: int) -> Rows:
        """One row per state."""
        return _rows_at_points(self, self.action, self.where, n_actions, upper=self.bound)


@final
@dataclass(frozen=True)
class Equal(Constraint):
    """π(action | s) = bound at every state of `where`; arguments as for `AtLeast`."""

    bound: float
    action: Action
    where: Points
    name: str = ""
    priority: float = 1.0

    def __post_init__(self) -> None:
        check_where(self.where)
        check_priority(self.priority)
        check_actions(self.action)
        check_bound(self.bound, self.action)
        set_default_name(self, f"{in_words(self.action)} == {self.bound:g}")

    @property
    def states(self) -> Array:
        """The states of `where`."""
        return self.where.states

    def rows(self, n_actions: int) -> Rows:
        """One row per state."""
        return _rows_at_points(
            self, self.action, self.where, n_actions, lower=self.bound, upper=self.bound
        )


@final
@dataclass(frozen=True)
class Between(Constraint):
    """lower ≤ π(action | s) ≤ upper at every state of `where`; arguments as for `AtLeast`."""

    lower: float
    upper: float
    action: Action
    where: Points
    name: str = ""
    priority: float = 1.0

    def __post_init__(self) -> None:
        check_where(self.where)
        check_priority(self.priority)
        check_actions(self.action)
        check_bound(self.lower, self.action)
        check_bound(self.upper, self.action)
        check_order(self.lower, self.upper)
        set_default_name(self, f"{self.lower:g} <= {in_words(self.action)} <= {self.upper:g}")

    @property
    def states(self) -> Array:
        """The states of `where`."""
        return self.where.states

    def rows(self, n_actions: int) -> Rows:
        """One row per state."""
        return _rows_at_points(
            self, self.action, self.where, n_actions, lower=self.lower, upper=self.upper
        )


def set_default_name(constraint: Constraint, default: str) -> None:
    """Name a constraint that the user did not name."""
    if not isinstance(constraint.name, str):
        raise InvalidConstraint(f"A name must be text, but got {constraint.name!r}.")
    if not constraint.name:
        object.__setattr__(constraint, "name", default)


def _rows_at_points(
    constraint: Constraint,
    action: Action,
    where: Points,
    n_actions: int,
    lower: float = -np.inf,
    upper: float = np.inf,
) -> Rows:
    weights = np.zeros(n_actions)
    for index, weight in as_mapping(action).items():
        check_known_action(constraint.name, index, n_actions)
        weights[index] = weight
    if np.ptp(weights) == 0.0:
        raise InvalidConstraint(
            f"{constraint.name!r} weighs all {n_actions} actions alike. Probabilities always add "
            "up to 1, so no policy can change this sum: leave an action out."
        )
    n = len(where)
    return make_rows(constraint, where.states, np.tile(weights, (n, 1)), np.arange(n), lower, upper)


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
    )
