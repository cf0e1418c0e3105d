"""What bounds and weights of a constraint are: numbers, or amounts that depend on the state.

A `Demand` is made of them; at given states it is `Asked` in numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, final

import numpy as np

from handrail._types import Array
from handrail.errors import InvalidConstraint
from handrail.formulas import PythonFunction, StateFunction
from handrail.policies import Quantity

Amount = float | StateFunction


@final
@dataclass(frozen=True)
class Asked:
    """lower ≤ Σ weight · output ≤ upper at each of n states; what is the same everywhere, once.

    Attributes:
        weights: (n or 1, n_actions).
        lower: (n or 1,).
        upper: (n or 1,).
        quantity: what the outputs are.
        raw: whether it is raw outputs that are summed up.
    """

    weights: Array
    lower: Array
    upper: Array
    quantity: Quantity
    raw: bool

    def violations(self, outputs: Array) -> Array:
        """Positive means broken (n,), from the policy's outputs (n, n_actions)."""
        summed = self.quantity.raw_of(outputs) if self.raw else outputs
        values = (self.weights * summed).sum(axis=1)
        result: Array = np.maximum(self.lower - values, values - self.upper)
        return result


@final
@dataclass(frozen=True)
class Demand:
    """lower ≤ Σ weight · output ≤ upper at every state, by itself.

    Attributes:
        weights: (n_actions,).
        lower: -inf for none.
        upper: +inf for none.
        quantity: what the outputs are.
        raw: whether it is raw outputs that are summed up, such as logits. Their weights add up to
            0, as only differences of logits mean anything.
    """

    weights: tuple[Amount, ...]
    lower: Amount
    upper: Amount
    quantity: Quantity
    raw: bool = False

    @property
    def depends_on_state(self) -> bool:
        """Whether a bound or a weight does."""
        amounts = (self.lower, self.upper, *self.weights)
        return any(isinstance(one, StateFunction) for one in amounts)

    def at(self, states: Array) -> Asked:
        """At states (n, *observation_shape)."""
        weights = np.stack(
            np.broadcast_arrays(*(amounts_at(one, states) for one in self.weights)), axis=1
        )
        lower, upper = amounts_at(self.lower, states), amounts_at(self.upper, states)
        return Asked(weights, lower, upper, self.quantity, self.raw)


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
        flat = states.reshape(len(states), math.prod(states.shape[1:]))  # there may be none
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
