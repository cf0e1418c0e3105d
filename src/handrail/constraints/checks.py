"""What cannot be meant by a constraint, refused when it is written down."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from handrail.constraints.amount import as_amount, check_number
from handrail.constraints.constraint import (
    Action,
    action_sum,
    plain_action,
    plain_actions,
    quantity_of,
)
from handrail.errors import InvalidConstraint
from handrail.formulas import StateFunction
from handrail.regions import Points, Region


def check_actions(action: Action) -> None:
    """Every action an index, every weight a number, not all of them zero."""
    plain = plain_action(action)
    if not isinstance(plain, Mapping):
        check_action(plain)
    actions = plain_actions(action)
    if not actions:
        raise InvalidConstraint("The action mapping is empty: name at least one action.")
    for index, weight in actions.items():
        check_action(index)
        as_amount(weight, f"The weight of action {index}")
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


def check_bound(bound: Any, action: Action) -> None:
    """A number; strictly inside what a sum of probabilities can reach."""
    check_number(bound, "The bound")
    weights = [one for one in plain_actions(action).values() if not isinstance(one, StateFunction)]
    quantity_of(action).check_bound(bound, weights, action_sum(action))


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
