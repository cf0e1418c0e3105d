"""Bounds on the policy's outputs, one state at a time: `AtLeast`, `AtMost`, `Equal`, `Between`.

Bounds and weights are numbers, or functions of the state: what an engineer knows about a plant
depends on where it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, final

import numpy as np
from typing_extensions import override

from handrail._types import Array, Mask
from handrail.constraints.amount import (
    Amount,
    Asked,
    Demand,
    amount_in_words,
    amounts_at,
    as_amount,
)
from handrail.constraints.checks import (
    check_actions,
    check_bound,
    check_known_action,
    check_order,
    check_priority,
    check_where,
)
from handrail.constraints.constraint import (
    Action,
    Constraint,
    PlacedConstraint,
    Std,
    action_from,
    action_sum,
    amount_from,
    as_mapping,
    plain_action,
    plain_actions,
    quantity_of,
    rows_of_demands,
    set_default_name,
    with_weights,
)
from handrail.constraints.rows import Rows
from handrail.constraints.words import state_in_words
from handrail.errors import InvalidConstraint, Phrase
from handrail.formulas import StateFunction
from handrail.policies import STD, GaussianPolicy, Policy, Quantity
from handrail.regions import Place, Region

# States of a region at which a function of the state is looked at before anything is held to it.
_LOOKED_AT = 2000


class Bounded(PlacedConstraint):
    """lower ≤ output ≤ upper, of one action or of a weighted sum of actions."""

    action: Action

    _lower: ClassVar[str | None]
    """The field that is the lower bound, if there is one."""
    _upper: ClassVar[str | None]
    """The field that is the upper bound, if there is one."""

    @property
    def bounds(self) -> tuple[Amount, Amount]:
        """(lower, upper); -inf and inf for none."""
        lower = -math.inf if self._lower is None else getattr(self, self._lower)
        upper = math.inf if self._upper is None else getattr(self, self._upper)
        return lower, upper

    @property
    @override
    def depends_on_state(self) -> bool:
        """Whether a bound or a weight does."""
        amounts = (*self.bounds, *plain_actions(self.action).values())
        return any(isinstance(one, StateFunction) for one in amounts)

    def __post_init__(self) -> None:
        check_where(self.where)
        check_priority(self.priority)
        check_actions(self.action)
        object.__setattr__(self, "action", _settled(self.action))
        for field_name in dict.fromkeys((self._lower, self._upper)):
            if field_name is not None:
                bound = as_amount(getattr(self, field_name), "The bound")
                object.__setattr__(self, field_name, bound)
        lower, upper = self.bounds
        if self.depends_on_state:
            self._check_at(looked_at(self.where))
        else:
            for bound in (lower, upper):
                if math.isfinite(bound):  # type: ignore[arg-type]
                    check_bound(bound, self.action)
            check_order(lower, upper)  # type: ignore[arg-type]
        if lower == upper and isinstance(self.where, Region):
            raise InvalidConstraint(
                "a network cannot keep a {noun} at one value on all the states of a region. "
                "{remedy}",
                about=type(self).__name__,
                noun=self.quantity.noun,
                remedy=Phrase.TWO_BOUNDS,
            )
        set_default_name(self, _bounded_in_words(str(action_sum(self.action)), lower, upper))

    def _check_at(self, states: Array) -> None:
        """What it says at some states must be possible there."""
        known = [amounts_at(one, states) for one in plain_actions(self.action).values()]
        lower, upper = (amounts_at(one, states) for one in self.bounds)
        # The first is the weight of all actions that are not named.
        weights = np.stack(np.broadcast_arrays(np.zeros(len(states)), *known), axis=1)
        self._refuse_where(
            ~np.isfinite(weights).all(axis=1), states, "a weight is {weight}", weight=weights.sum(1)
        )
        for bound, values in zip(self.bounds, (lower, upper), strict=True):
            if isinstance(bound, StateFunction):
                self._refuse_where(
                    ~np.isfinite(values), states, f"{bound} is {{bound}}", bound=values
                )
        lowest, highest = self.quantity.reach(weights)
        for bound, values in zip(self.bounds, (lower, upper), strict=True):
            if amount_in_words(bound) not in ("inf", "-inf"):
                self._refuse_where(
                    (values <= lowest) | (values >= highest),
                    states,
                    f"{amount_in_words(bound)} is {{bound}}, but what it bounds is always between "
                    "{lowest} and {highest}",
                    bound=values,
                    lowest=lowest,
                    highest=highest,
                )
        self._refuse_where(
            lower > upper,
            states,
            "the lower bound {lower} is above the upper bound {upper}",
            lower=lower,
            upper=upper,
        )

    def _refuse_where(self, wrong: Mask, states: Array, message: str, **values: Array) -> None:
        """With the first state where it is wrong."""
        if not wrong.any():
            return
        at = int(np.broadcast_to(wrong, len(states)).argmax())
        numbers = {name: f"{one[at if len(one) > 1 else 0]:g}" for name, one in values.items()}
        raise InvalidConstraint(
            f"at {state_in_words(states[at])}, {message.format(**numbers)}. Bound it there with "
            "min(…) or max(…), or leave such states out.",
            about=type(self).__name__,
        )

    @property
    @override
    def quantity(self) -> Quantity:
        """As the action says."""
        return quantity_of(self.action)

    @override
    def demands(self, n_actions: int) -> tuple[Demand]:
        """A single one."""
        actions = self._columns(n_actions)
        weights = tuple(actions.get(index, 0.0) for index in range(n_actions))
        demand = Demand(weights, *self.bounds, self.quantity)
        if not self.depends_on_state:
            numbers = np.array(weights, dtype=np.float64)
            self.quantity.check_weights(numbers, self.bounds, self.name)  # type: ignore[arg-type]
        return (demand,)

    def _columns(self, n_outputs: int) -> Mapping[int, Amount]:
        """Its weights, by the output that each is of; standard deviations are behind all means."""
        n_actions = n_outputs // 2 if isinstance(self.action, Std) else n_outputs
        first = n_outputs - n_actions
        actions = plain_actions(self.action) if first else as_mapping(self.action)
        for index in actions:
            check_known_action(self.name, index, n_actions)
        return {first + index: weight for index, weight in actions.items()}

    @override
    def for_policy(self, policy: Policy) -> Constraint:
        """Itself; of noise that is the same at every state, refused if it is not kept anyway."""
        if self.quantity != STD or policy.quantity.answers(STD):
            return self
        if isinstance(policy, GaussianPolicy):
            self._check_kept(policy)
        elif policy.quantity.is_continuous:
            raise InvalidConstraint(
                f"{self.name!r} is about the standard deviation of drawn actions, but a "
                f"{type(policy).__name__} has none in units of the action: TD3 draws nothing, and "
                "SAC before its tanh. Bound the mean instead: Mean(0), with room for the noise."
            )
        return self

    def _check_kept(self, policy: GaussianPolicy) -> None:
        """By every standard deviation that the policy can come to, at every state for certain."""
        of_all = max(plain_actions(self.action)) + 1  # one number may stand for all dimensions
        least, most = (
            np.broadcast_to(one, one.size if one.ndim else of_all) for one in policy.std_range
        )
        asked = self.demands(2 * len(least))[0].at(self.states)
        weights = asked.weights[:, len(least) :]
        lowest = np.minimum(weights * least, weights * most).sum(axis=1)
        highest = np.maximum(weights * least, weights * most).sum(axis=1)
        broken = np.maximum(asked.lower - lowest, highest - asked.upper) > 0.0
        if not broken.any() and not (self.depends_on_state and self.region is not None):
            return
        known = (
            f"{most.tolist()}"
            if (least == most).all()
            else (f"anything from {least.tolist()} to {most.tolist()}")
        )
        raise InvalidConstraint(
            f"{self.name!r} is about the standard deviation, which is the same at every state of "
            f"this policy: {known}. Let it depend on the state, by a VaryingGaussianPolicy (in a "
            "file `network: {std_varies: true}`), or declare one that keeps the bound everywhere."
        )

    @override
    def asked_of_actions(self, n_actions: int) -> Sequence[Demand] | None:
        """Nothing, if it is about noise: a single action has none."""
        return None if self.quantity == STD else self.demands(n_actions)

    def asked_at(self, states: Array, n_actions: int) -> Asked:
        """In numbers, at each of these states; once, if it is the same everywhere."""
        return self.demands(n_actions)[0].at(states)

    @override
    def rows_at(self, states: Array, n_actions: int) -> Rows:
        """One row per state."""
        return rows_of_demands(self, states, self.demands(n_actions))

    @classmethod
    @override
    def from_description(cls, values: Mapping[str, Any]) -> Self:
        given = {name: amount_from(one) for name, one in values.items()}
        return cls(**{**given, "action": action_from(values["action"])})


def noise_range(constraints: Sequence[Constraint], n_actions: int) -> tuple[Array, Array] | None:
    """(least, most) that one standard deviation for all states must keep, (n_actions,) each.

    By bounds that are numbers, on one dimension each; None if there are none.
    """
    least, most = np.zeros(n_actions), np.full(n_actions, np.inf)
    for one in constraints:
        if isinstance(one, Bounded) and one.quantity == STD and not one.depends_on_state:
            actions = plain_actions(one.action)
            index = max(actions)
            if list(actions.values()) == [1.0] and index < n_actions:
                lower, upper = one.bounds
                least[index] = max(least[index], float(lower))  # type: ignore[arg-type]
                most[index] = min(most[index], float(upper))  # type: ignore[arg-type]
    if not (least > 0.0).any() and not np.isfinite(most).any():
        return None
    if (least > most).any():
        at = int((least > most).argmax())
        raise InvalidConstraint(
            f"Constraints ask for a standard deviation of action {at} of at least {least[at]:g} "
            f"and of at most {most[at]:g}, but it is the same at every state of this policy. Leave "
            "one of them out."
        )
    return least, most


def _settled(action: Action) -> Action:
    """With Python functions among the weights as functions of the state."""
    plain = plain_action(action)
    if not isinstance(plain, Mapping):
        return action
    return with_weights(action, {index: as_amount(one, "A weight") for index, one in plain.items()})


def looked_at(where: Place) -> Array:
    """All points; of a region many states, and its corners."""
    if not isinstance(where, Region):
        return where.states
    corners = [cover.cells.vertices().reshape(-1, where.n_coordinates) for cover in where.covers()]
    known = [one[where.contains(one)] for one in corners]
    return np.concatenate([*known, where.cover(_LOOKED_AT)])


@final
@dataclass(frozen=True)
class AtLeast(Bounded):
    """π(action | s) ≥ bound at every state of `where`; with a `Mean`, the mean action ≥ bound.

    Args:
        bound: strictly between 0 and 1 for the probability of one action; any for a mean action. A
            number, an `Affine` or a `Formula` of the state, or a Python function of states
            (n, n_coordinates) that returns (n,) numbers.
        action: an index, or {action: weight} for a weighted sum over actions; of continuous
            actions `Mean` of either, or `Std` for how widely they are drawn. Weights may depend on
            the state as the bound does.
        where: the states: Points, or a region (Box, Ball, Polytope, Curve, Union).
        name: for tables and messages; made from the other fields when left out.
        priority: how much more than others this one matters when constraints are soft.
    """

    bound: Amount
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

    bound: Amount
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

    bound: Amount
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

    lower: Amount
    upper: Amount
    action: Action
    where: Place
    name: str = ""
    priority: float = 1.0

    _lower: ClassVar[str | None] = "lower"
    _upper: ClassVar[str | None] = "upper"


def _bounded_in_words(what: str, lower: Amount, upper: Amount) -> str:
    low, high = amount_in_words(lower), amount_in_words(upper)
    if lower == upper:
        return f"{what} == {low}"
    if high == "inf":
        return f"{what} >= {low}"
    return f"{what} <= {high}" if low == "-inf" else f"{low} <= {what} <= {high}"
