"""Which action is likeliest, or valued most: `Prefer`, a margin between logits or values.

Who acts greedily takes the likeliest action, however likely it is. The difference of two logits is
log π(a) - log π(b), so nothing needs the softmax: a margin is a plain difference of what the
network returns, in log-odds. A difference of probabilities is another thing, a weighted sum:
`AtLeast` of {a: 1, b: -1}; at 0 the two are the same, and this one says how far from it.

Of a policy that takes the action it values most (`GreedyPolicy`), the margin is between the two
values, in their units.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Literal, Self, final

import numpy as np
from typing_extensions import override

from handrail._types import Array
from handrail.constraints.amount import Amount, Demand, amount_in_words, amounts_at, as_amount
from handrail.constraints.checks import (
    check_action,
    check_known_action,
    check_priority,
    check_where,
)
from handrail.constraints.constraint import (
    Branch,
    Mean,
    PlacedConstraint,
    action_from,
    action_sum,
    amount_from,
    plain_action,
    quantity_of,
    rows_of_demands,
    set_default_name,
)
from handrail.constraints.output_bounds import looked_at
from handrail.constraints.rows import Rows
from handrail.constraints.words import state_in_words
from handrail.errors import InvalidConstraint
from handrail.formulas import StateFunction
from handrail.policies import PROBABILITY, VALUE, Policy, Quantity
from handrail.regions import Place


@final
@dataclass(frozen=True)
class Prefer(PlacedConstraint):
    """log π(action | s) - log π(over | s) ≥ by at every state of `where`.

    Of a `GreedyPolicy`: value(action | s) - value(over | s) ≥ by, which must be above 0.

    Args:
        action: the one that is preferred, an index; or a `Branch`, among the actions of which it
            is preferred.
        over: another one, by its index (of a `Branch`, in it), or "all" others: then it is the
            likeliest.
        by: the margin between the two logits, in log-odds: with 1, an action is e times as likely
            as the other; of values, in their units. A number, an `Affine` or a `Formula` of the
            state, or a Python function of states.
        where: the states: Points, or a region (Box, Ball, Polytope, Curve, Union).
        name: for tables and messages; made from the other fields when left out.
        priority: how much more than others this one matters when constraints are soft.
    """

    action: int | Branch
    over: int | Literal["all"] = "all"
    by: Amount = 0.0
    where: Place = field(kw_only=True)
    name: str = field(default="", kw_only=True)
    priority: float = field(default=1.0, kw_only=True)
    _compared: Quantity = field(default=PROBABILITY, init=False, repr=False)

    def __post_init__(self) -> None:
        check_where(self.where)
        check_priority(self.priority)
        for one in (self.action, self.over):
            if isinstance(one, Mean):
                raise InvalidConstraint(
                    "Prefer is about discrete actions, which have logits. Of mean actions, bound "
                    "the difference: AtLeast(by, Mean({0: 1, 1: -1}), where)."
                )
        check_action(self._index)
        if isinstance(self.over, str) and self.over != "all":
            raise InvalidConstraint(
                f'Prefer: `over` is the index of another action, or "all", but got {self.over!r}.'
            )
        if self.over != "all":
            check_action(self.over)
            if self.over == self._index:
                raise InvalidConstraint(
                    f"Prefer: {action_sum(self.action)} cannot be preferred over itself. Name "
                    'another one, or over="all".'
                )
        object.__setattr__(self, "by", as_amount(self.by, "The margin `by`"))
        if isinstance(self.by, StateFunction):
            _refuse_infinite(self.by, looked_at(self.where))
        over = "all others" if self.over == "all" else f"action {self.over}"
        by = f" by {amount_in_words(self.by)}" if self.by != 0.0 else ""
        set_default_name(self, f"{action_sum(self.action)} over {over}{by}")

    @property
    def _index(self) -> Any:
        """Of the action; of a branch, in it."""
        return plain_action(self.action)

    @property
    @override
    def quantity(self) -> Quantity:
        """Of policies that choose among actions: by chance, or by their values."""
        return quantity_of(self.action) if isinstance(self.action, Branch) else self._compared

    @override
    def for_policy(self, policy: Policy) -> Self:
        """The margin of values, of a policy that has these."""
        if policy.quantity != VALUE or isinstance(self.action, Branch):
            return self
        _refuse_ties(self)
        other = copy(self)
        object.__setattr__(other, "_compared", VALUE)
        return other

    @property
    @override
    def depends_on_state(self) -> bool:
        """Whether the margin does."""
        return isinstance(self.by, StateFunction)

    @override
    def demands(self, n_actions: int) -> list[Demand]:
        """One for every other action that competes with it."""
        first, among = 0, n_actions
        if isinstance(self.action, Branch):
            first, among = self.action.first, self.action.space[self.action.branch]
        others = [one for one in range(among) if one != self._index]
        if self.over != "all":
            check_known_action(self.name, self.over, among)
            others = [self.over]
        check_known_action(self.name, self._index, among)
        check_known_action(self.name, first + self._index, n_actions)
        unit = np.eye(n_actions)[first : first + among]
        return [
            Demand(tuple(unit[self._index] - unit[one]), self.by, np.inf, self.quantity, raw=True)
            for one in others
        ]

    @override
    def rows_at(self, states: Array, n_actions: int) -> Rows:
        """One row per state and other action."""
        return rows_of_demands(self, states, self.demands(n_actions))

    @classmethod
    @override
    def from_description(cls, values: Mapping[str, Any]) -> Self:
        action = action_from(values["action"])
        return cls(**{**values, "action": action, "by": amount_from(values["by"])})


def _refuse_ties(asked: Prefer) -> None:
    """Of equal values the first is taken, whichever that is, and rounding makes the order."""
    least = amounts_at(asked.by, looked_at(asked.where)).min()
    if not least > 0.0:
        raise InvalidConstraint(
            f"{asked.name!r} asks for a margin of {least:g} between two values, but a policy that "
            "takes the highest value needs one above 0: equal values decide nothing. Say by how "
            f"much, in units of the values: Prefer({asked.action}, by=0.1, …)."
        )


def _refuse_infinite(by: StateFunction, states: Array) -> None:
    values = amounts_at(by, states)
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        raise InvalidConstraint(
            f"Prefer: at {state_in_words(states[wrong[0]])}, {by} is {values[wrong[0]]:g}. Bound "
            "it there with min(…) or max(…), or leave such states out."
        )
