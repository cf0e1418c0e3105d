"""Checks shared by every kind of constraint; each failure has a message of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from handrail.errors import InvalidConstraint
from handrail.quantities import Mean, Quantity
from handrail.regions import Points, Region

Action = int | Mapping[int, float] | Mean


def quantity_of(action: Action) -> Quantity:
    """The mean of a continuous action where it says so, else the probability of a discrete one."""
    return Quantity.MEAN if isinstance(action, Mean) else Quantity.PROBABILITY


def as_mapping(action: Action) -> Mapping[int, float]:
    """One action or several, as {action: weight}."""
    plain = action.dimension if isinstance(action, Mean) else action
    return plain if isinstance(plain, Mapping) else {plain: 1.0}


def in_words(action: Action) -> str:
    """'action 1', '0.5·action 0 + action 2', 'mean action 0'."""
    kind = "mean action" if isinstance(action, Mean) else "action"
    parts = [
        f"{kind} {index}" if weight == 1.0 else f"{weight:g}·{kind} {index}"
        for index, weight in as_mapping(action).items()
    ]
    return " + ".join(parts)


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
    if quantity_of(action) is Quantity.MEAN:
        return
    weights = as_mapping(action).values()
    lowest, highest = min(0.0, *weights), max(0.0, *weights)
    if bound in (lowest, highest):
        inside = lowest + 0.001 if bound == lowest else highest - 0.001
        raise InvalidConstraint(
            f"A softmax never reaches a probability of exactly 0 or 1, so {in_words(action)} "
            f"cannot be bounded by {bound:g}. Use {inside:g} instead."
        )
    if not lowest < bound < highest:
        # 95 was meant in percent; 1.5 hardly.
        percent = bound > 2.0 and lowest < bound / 100 < highest
        meant = (
            f"Did you mean {bound / 100:g}?"
            if percent
            else "A continuous action is bounded through its mean: Mean(0), in a file a range "
            "of it."
        )
        raise InvalidConstraint(
            f"The probability of {in_words(action)} is always between {lowest:g} and {highest:g}, "
            f"but the bound is {bound:g}. {meant}"
        )


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
