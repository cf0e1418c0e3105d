"""A number, or one that depends on the state: what bounds and weights of a constraint are."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from handrail._types import Array
from handrail.errors import InvalidConstraint
from handrail.formulas import PythonFunction, StateFunction

Amount = float | StateFunction


def as_amount(value: Any, what: str) -> Amount:
    """As a user gives it: a number, a function of the state, or a Python function of states."""
    if isinstance(value, StateFunction):
        return value
    if callable(value) and not isinstance(value, Real):
        return PythonFunction(value)
    check_number(value, what)
    return value  # type: ignore[no-any-return]


def amounts_at(amount: Amount, states: Array) -> Array:
    """Values at states (n, *observation_shape): (n,), or (1,) of a number."""
    if isinstance(amount, StateFunction):
        flat = states.reshape(len(states), -1)
        wanted = amount.n_coordinates
        if wanted is not None and wanted != flat.shape[1]:
            raise InvalidConstraint(
                f"{amount} is a function of {wanted} coordinates, but the states have "
                f"{flat.shape[1]}. Give a gain, or a name, for each of them."
            )
        return amount.at(flat)
    return np.array([amount], dtype=np.float64)


def is_bound(amount: Amount) -> bool:
    """Whether there is one: a bound that is infinite is none."""
    return isinstance(amount, StateFunction) or math.isfinite(amount)


def amount_in_words(amount: Amount) -> str:
    """0.95, or 0.5*dv - 1."""
    return str(amount) if isinstance(amount, StateFunction) else f"{amount + 0.0:g}"  # not -0


def check_number(value: Any, what: str) -> None:
    """A finite real number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidConstraint(f"{what} must be a number, but got {value!r}.")
    if not math.isfinite(value):
        raise InvalidConstraint(f"{what} must be finite, but got {value}.")
