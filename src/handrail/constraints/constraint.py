"""Constraints as the user writes them: what must hold, at which states, and how it is called.

Everything that cannot be meant is refused here, when it is written down. What a constraint turns
out to be worth for a given policy is measured elsewhere (violations.py). A kind of constraint is
known by the name of its class from the moment it is defined, so that saved ones can be read again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields
from typing import Any, Self, final

import numpy as np

from handrail._types import Array, Indices
from handrail.constraints.amount import Amount, Asked, Demand
from handrail.constraints.rows import Rows
from handrail.errors import ActionSum, InvalidConstraint
from handrail.formulas import StateFunction, function_from
from handrail.policies import MEAN, PROBABILITY, STD, BranchProbability, Policy, Quantity, sizes_of
from handrail.regions import Place, Points, Region, region_from


@final
@dataclass(frozen=True)
class Mean:
    """The mean of a continuous action, wherever a constraint takes an action.

    Args:
        dimension: of the action: an index, or {dimension: weight} for a weighted sum; a weight may
            depend on the state.
    """

    dimension: int | Mapping[int, Amount]


@final
@dataclass(frozen=True)
class Std:
    """The standard deviation of a continuous action, wherever a bound takes an action.

    In the units of the action, of a policy whose noise depends on the state
    (`VaryingGaussianPolicy`).

    Args:
        dimension: of the action: an index, or {dimension: weight} for a weighted sum; a weight may
            depend on the state.
    """

    dimension: int | Mapping[int, Amount]


@final
@dataclass(frozen=True)
class Branch:
    """An action of one branch of MultiDiscrete or MultiBinary actions, wherever one is taken.

    Args:
        space: the action space, or how many actions each branch has, such as (3, 2).
        branch: its index.
        action: an index in the branch, or {action: weight} for a weighted sum of its actions; a
            weight may depend on the state.
    """

    space: Any
    branch: int
    action: int | Mapping[int, Amount]

    def __post_init__(self) -> None:
        object.__setattr__(self, "space", sizes_of(self.space))
        if isinstance(self.branch, bool) or not 0 <= self.branch < len(self.space):
            raise InvalidConstraint(
                f"Branch: there are {len(self.space)} branches, 0 to {len(self.space) - 1}, but "
                f"got {self.branch!r}."
            )
        size = self.space[self.branch]
        for one in plain_actions(self):
            if isinstance(one, int) and one >= size:
                raise InvalidConstraint(
                    f"Branch: branch {self.branch} has {size} actions, 0 to {size - 1}, but got "
                    f"action {one}."
                )

    @property
    def first(self) -> int:
        """Where the branch begins among all actions of all branches."""
        return sum(self.space[: self.branch])


Action = int | Mapping[int, Amount] | Mean | Std | Branch


def quantity_of(action: Action) -> Quantity:
    """What the action says it is of; else the probability of a discrete one."""
    if isinstance(action, Branch):
        return BranchProbability(action.space)
    if isinstance(action, Std):
        return STD
    return MEAN if isinstance(action, Mean) else PROBABILITY


def action_about(quantity: Quantity, plain: int | Mapping[int, Amount]) -> Action:
    """An action, or a weighted sum of some, as a constraint on this quantity takes it.

    Of branches, by their index among all; of one branch.
    """
    if isinstance(quantity, BranchProbability):
        return _in_branch(quantity, plain)
    if quantity == STD:
        return Std(plain)
    return Mean(plain) if quantity == MEAN else plain


def _in_branch(quantity: BranchProbability, plain: int | Mapping[int, Amount]) -> Branch:
    indices = list(plain) if isinstance(plain, Mapping) else [plain]
    for number, branch in enumerate(quantity.slices()):
        if all(branch.start <= index < branch.stop for index in indices):
            own: int | Mapping[int, Amount] = indices[0] - branch.start
            if isinstance(plain, Mapping):
                own = {index - branch.start: weight for index, weight in plain.items()}
            return Branch(quantity.sizes, number, own)
    raise InvalidConstraint(
        f"Actions {indices} are of several branches, of {quantity.sizes} actions: a constraint is "
        "about one of them."
    )


def plain_action(action: Action) -> int | Mapping[int, Amount]:
    """As it was written, without what it is of."""
    if isinstance(action, Branch):
        return action.action
    return action.dimension if isinstance(action, Mean | Std) else action


def plain_actions(action: Action) -> Mapping[int, Amount]:
    """The same as {action: weight}."""
    plain = plain_action(action)
    return plain if isinstance(plain, Mapping) else {plain: 1.0}


def with_weights(action: Action, weights: Mapping[int, Amount]) -> Action:
    """The same with other weights of its actions, as they are written."""
    if isinstance(action, Branch):
        return Branch(action.space, action.branch, weights)
    if isinstance(action, Std):
        return Std(weights)
    return Mean(weights) if isinstance(action, Mean) else weights


def as_mapping(action: Action) -> Mapping[int, Amount]:
    """One action or several, as {action: weight}; of a branch, by their index among all."""
    if isinstance(action, Std):
        raise InvalidConstraint(
            "A standard deviation can be bounded, by AtLeast, AtMost, Equal and Between; Std "
            "stands nowhere else."
        )
    first = action.first if isinstance(action, Branch) else 0
    return {first + index: weight for index, weight in plain_actions(action).items()}


def action_sum(action: Action) -> ActionSum:
    """For messages: 'action 1', '0.5·action 0 + action 2', 'mean action 0', 'branch 1 action 0'."""
    if isinstance(action, Branch):
        return ActionSum(plain_actions(action), f"branch {action.branch} action", action.first)
    if isinstance(action, Std):
        return ActionSum(plain_actions(action), "std of action", of_name="{}.std")
    noun = "mean action" if isinstance(action, Mean) else "action"
    return ActionSum(as_mapping(action), noun)


# Outputs (n, n_actions) at some states -> how far each is from what was asked there (n,).
Violated = Callable[[Array], Array]

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

    def for_policy(self, policy: Policy) -> Constraint:
        """What it asks of this policy as it is now: itself, unless that depends on the policy.

        On its noise, say, or on whether its actions have probabilities or values.
        """
        del policy
        return self


@final
@dataclass(frozen=True)
class _Jointly:
    """All that is asked at some states."""

    asked: tuple[Asked, ...]

    def __call__(self, outputs: Array) -> Array:
        """The worst violation at each (n,)."""
        first, *others = (one.violations(outputs) for one in self.asked)
        for one in others:
            first = np.maximum(first, one)
        return first


class PlacedConstraint(Constraint):
    """A constraint on every state of a place: points, or a region."""

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

    @property
    def depends_on_state(self) -> bool:
        """Whether it says something else at one state than at another."""
        return False

    def margin_unit(self, scale: Array) -> float:
        """In which margins are told, of a policy whose outputs have this scale (n_actions,)."""
        rows = self.rows_at(self.states, len(scale))
        return max(self.quantity.unit(one, scale) for one in np.unique(rows.weights, axis=0))

    def demands(self, n_actions: int) -> Sequence[Demand] | None:
        """What it says at every state, all of it; None if it relates several of them."""
        del n_actions
        return None

    def asked_of_actions(self, n_actions: int) -> Sequence[Demand] | None:
        """What a single action must meet not to go against it; None if it relates several states.

        In the outputs of a policy that always takes the action.
        """
        return self.demands(n_actions)

    @property
    def left_to_chance(self) -> float | None:
        """The share of draws that may go against it, where it says so itself."""
        return None

    def violated_at(self, states: Array, n_actions: int) -> Violated | None:
        """How far outputs at each of these states are from it; None if it relates several."""
        demands = self.demands(n_actions)
        return None if demands is None else _Jointly(tuple(one.at(states) for one in demands))

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
    if isinstance(value, Std):
        return {"std": _plain(value.dimension)}
    if isinstance(value, Branch):
        return {"branch": value.branch, "of": list(value.space), "action": _plain(value.action)}
    if isinstance(value, StateFunction):
        return {"function": value.describe()}
    if isinstance(value, Mapping):
        return [[key, _plain(weight)] for key, weight in value.items()]
    return value.tolist() if isinstance(value, np.ndarray) else value


def mapping_from(plain: Any) -> Any:
    """A list of pairs as a mapping again; anything else as it is."""
    return {key: amount_from(one) for key, one in plain} if isinstance(plain, list) else plain


def action_from(plain: Any) -> Action:
    """An action as `describe` told it."""
    if isinstance(plain, Mapping) and "branch" in plain:
        return Branch(plain["of"], plain["branch"], mapping_from(plain["action"]))
    if isinstance(plain, Mapping) and "std" in plain:
        return Std(mapping_from(plain["std"]))
    if isinstance(plain, Mapping):
        return Mean(mapping_from(plain["mean"]))
    action: Action = mapping_from(plain)
    return action


def amount_from(plain: Any) -> Any:
    """A function of the state again; anything else as it is."""
    if isinstance(plain, Mapping) and "function" in plain:
        return function_from(plain["function"])
    return plain


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
    lower: Array | float,
    upper: Array | float,
    *,
    raw: bool = False,
) -> Rows:
    """Rows of one constraint: `rows` says which row each sample (state, weights) belongs to."""
    n = int(rows[-1]) + 1
    labels = [constraint.name] if n == 1 else [f"{constraint.name} [{k}]" for k in range(n)]
    return Rows(
        states=states,
        weights=weights,
        row_of_sample=rows,
        lower=np.broadcast_to(lower, n).astype(np.float64),
        upper=np.broadcast_to(upper, n).astype(np.float64),
        priority=np.full(n, constraint.priority),
        labels=tuple(labels),
        quantity=constraint.quantity,
        raw=np.full(len(states), raw),
        choice=np.full(n, -1),
        alternative=np.zeros(n, dtype=np.intp),
    )


def rows_of_demands(constraint: PlacedConstraint, states: Array, demands: Sequence[Demand]) -> Rows:
    """A row per state and demand, all demands of the first state first."""
    asked, n, each = [one.at(states) for one in demands], len(states), len(demands)
    known = [np.broadcast_to(one.weights, (n, one.weights.shape[1])) for one in asked]
    lower, upper = (
        np.stack([np.broadcast_to(side, n) for side in sides], axis=1).ravel()
        for sides in ([one.lower for one in asked], [one.upper for one in asked])
    )
    return make_rows(
        constraint,
        np.repeat(states, each, axis=0),
        np.stack(known, axis=1).reshape(n * each, -1),
        np.arange(n * each),
        lower,
        upper,
        raw=demands[0].raw,
    )
