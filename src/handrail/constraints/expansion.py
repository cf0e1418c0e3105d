"""From a list of constraints and the policy they are for to rows (H1), and to regions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import final

import numpy as np

from handrail._types import Array, Indices
from handrail.constraints.checks import check_known_action
from handrail.constraints.constraint import Constraint, PlacedConstraint, Violated
from handrail.constraints.relation import SWAPPED, Symmetric
from handrail.constraints.rows import Rows, concatenate
from handrail.errors import InvalidConstraint, InvalidPolicy, ShapeMismatch
from handrail.policies import MEAN, STD, BranchProbability, GaussianPolicy, Policy
from handrail.regions import Region


@final
@dataclass(frozen=True)
class Regional:
    """A constraint on one region, or on one sub-region of a union.

    Attributes:
        name: of the constraint; with the number of the sub-region, if there are several.
        constraint: what must hold.
        region: where.
        n_actions: of the policy.
        unit: of a margin: 1 in log-odds; of mean actions, a standard deviation of what is bounded.
        scale: (n_actions,) of the policy.
    """

    name: str
    constraint: PlacedConstraint
    region: Region
    n_actions: int
    unit: float
    scale: Array

    def rows_at(self, states: Array) -> Rows:
        """What it says at these states (n, n_coordinates)."""
        rows = self.constraint.rows_at(states, self.n_actions)
        names = tuple(label.replace(self.constraint.name, self.name, 1) for label in rows.labels)
        return replace(rows, labels=names)

    @cached_property
    def row(self) -> Rows | None:
        """What it says at any state; None if it relates several, or depends on the state."""
        if self.constraint.depends_on_state:
            return None
        row = self.rows_at(self.constraint.states[:1])
        return row if len(row) == len(row.states) == 1 else None

    def violated_at(self, states: Array) -> Violated | None:
        """How far outputs at each of these states are from it; None if it relates several."""
        if self._depends_on_state:
            return self.constraint.violated_at(states, self.n_actions)
        return self._violated_anywhere

    @cached_property
    def _depends_on_state(self) -> bool:
        return self.constraint.depends_on_state

    @cached_property
    def _violated_anywhere(self) -> Violated | None:
        """Of one that says the same at every state, whatever states are asked about."""
        return self.constraint.violated_at(self.constraint.states[:1], self.n_actions)

    def stand_in_rows(self) -> Rows:
        """At one state, if it says the same at all of them, else at those that stand for it."""
        states = self.constraint.states
        return self.rows_at(states if self.constraint.depends_on_state else states[:1])

    @cached_property
    def room(self) -> float:
        """How far inside its bounds it can be at all (`Rows.room`)."""
        return float(self.stand_in_rows().room().min())

    def inside_rows_at(self, states: Array, margin: float) -> Rows:
        """The same, by a margin inside the bounds."""
        rows = self.rows_at(states)
        return rows.tightened(margin * self.units(rows))

    def units(self, rows: Rows) -> Array:
        """Of margins of rows of it (n_rows,): alternatives have one each."""
        if not rows.has_choices:
            return np.full(len(rows), self.unit)
        unit = rows.quantity.unit
        return np.array([unit(weights, self.scale) for weights in rows.weights])


@final
@dataclass(frozen=True)
class Expansion:
    """A set of constraints, checked against a policy.

    Attributes:
        fixed: rows of the constraints at points, if there are any.
        regional: those on regions, a sub-region each.
        at_points: names of the constraints at points, relations between states among them.
    """

    fixed: Rows | None
    regional: tuple[Regional, ...]
    at_points: tuple[str, ...]

    @property
    def on_regions(self) -> list[PlacedConstraint]:
        """The constraints on regions, unions in one piece."""
        return list({id(one.constraint): one.constraint for one in self.regional}.values())

    def rows_with(self, blocks: Sequence[Rows]) -> Rows:
        """The rows at points, and others."""
        if self.fixed is not None and not blocks:
            return self.fixed
        return concatenate([*([] if self.fixed is None else [self.fixed]), *blocks])

    def rows(self, per_region: int = 100) -> Rows:
        """All of it as rows: a region by this many states that stand for it."""
        covers = [one.rows_at(one.region.cover(per_region)) for one in self.regional]
        rows = self.rows_with(covers)
        return rows.take(_first_of_each(_keys(rows))) if covers else rows


def expand(constraints: Sequence[Constraint], policy: Policy) -> Expansion:
    """All constraints as rows and regions, checked to fit together and the policy."""
    if not isinstance(policy, Policy):
        raise InvalidPolicy(
            f"Expected a policy, but got {type(policy).__name__}. Wrap a torch module: "
            "CategoricalPolicy(module), or GaussianPolicy(module, std) for continuous actions; of "
            "a model of Stable-Baselines3, take handrail.sb3.policy_of(model)."
        )
    refuse_wrong_types(constraints)
    constraints = _without_kept([one.for_policy(policy) for one in constraints], policy)
    _refuse_repeated_names(constraints)
    _refuse_different_shapes(constraints)
    first = constraints[0]
    try:
        outputs = policy.outputs(first.states[:1])
    except ShapeMismatch as error:
        raise ShapeMismatch(f"{first.name!r} does not fit the policy. {error}") from error
    n_actions = outputs.shape[1]
    for one in constraints:
        refuse_other_quantity(one, n_actions, policy)
    at_points = [one for one in constraints if _region(one) is None]
    fixed = _without_repeats([one.rows(n_actions) for one in at_points]) if at_points else None
    if fixed is not None:
        refuse_beyond_range(fixed, policy)
    for one in constraints:
        if isinstance(one, PlacedConstraint) and _region(one) is not None:
            refuse_beyond_range(one.rows_at(one.states, n_actions), policy)
    scale = policy.margin_scale(outputs)
    regional = tuple(part for one in constraints for part in _sub_regions(one, scale))
    return Expansion(fixed, regional, tuple(one.name for one in at_points))


def is_kept_noise(constraint: Constraint, policy: Policy) -> bool:
    """Whether it bounds noise that is the same everywhere: `for_policy` refuses what is broken."""
    return constraint.quantity == STD and isinstance(policy, GaussianPolicy)


def _without_kept(constraints: Sequence[Constraint], policy: Policy) -> list[Constraint]:
    """Those that something is to be done for."""
    left = [one for one in constraints if not is_kept_noise(one, policy)]
    if not left:
        assert isinstance(policy, GaussianPolicy)  # of others, nothing is kept
        raise _noise_alone(constraints[0].name, policy)
    return left


def _noise_alone(name: str, policy: GaussianPolicy) -> InvalidConstraint:
    """No network decides on noise that is the same everywhere, so none can be changed for it."""
    subject = f"{name!r} is about the standard deviation, which is the same at every state of this"
    if policy.follows_std:
        return InvalidConstraint(
            f"{subject} model (its log_std): no network decides on it. Beside constraints on mean "
            "actions, which are held by the network, it is moved into its bounds, at all states at "
            "once, before every rollout; alone it is not, and may leave them. Add a constraint on "
            "a mean, or keep log_std in its bounds yourself; noise that depends on the state has a "
            "VaryingGaussianPolicy (of Reinforce)."
        )
    return InvalidConstraint(
        f"{subject} policy, and all that it can be keeps the bound: everywhere, not only where the "
        "constraint says. So there is nothing to hold. Leave it out, or let the noise depend on "
        "the state, by a VaryingGaussianPolicy (in a file `network: {std_varies: true}`)."
    )


def _region(constraint: Constraint) -> Region | None:
    return constraint.region if isinstance(constraint, PlacedConstraint) else None


def _sub_regions(constraint: Constraint, scale: Array) -> list[Regional]:
    """Its regions, for a policy whose outputs have this scale (n_actions,)."""
    region = _region(constraint)
    if region is None:
        return []
    assert isinstance(constraint, PlacedConstraint)  # others have no region
    parts = region.parts
    names = (
        [constraint.name]
        if len(parts) == 1
        else [f"{constraint.name}, part {k + 1}" for k in range(len(parts))]
    )
    unit = constraint.margin_unit(scale)  # actions that the policy does not have are refused here
    return [
        Regional(name, constraint, part, len(scale), unit, scale)
        for name, part in zip(names, parts, strict=True)
    ]


def refuse_wrong_types(constraints: Sequence[Constraint]) -> None:
    """A list of constraints, with at least one."""
    if not len(constraints):
        raise InvalidConstraint("The list of constraints is empty: there is nothing to obey.")
    for constraint in constraints:
        if not isinstance(constraint, Constraint):
            raise InvalidConstraint(
                "Expected constraints (AtLeast, AtMost, Equal, Between, Prefer, AnyOf, Monotone, "
                "Lipschitz, LikelyWithin, Linear, Symmetric), but got "
                f"{type(constraint).__name__}."
            )


def _refuse_repeated_names(constraints: Sequence[Constraint]) -> None:
    names = sorted(constraint.name for constraint in constraints)
    repeated = [name for name, following in pairwise(names) if name == following]
    if repeated:
        raise InvalidConstraint(
            f"Two constraints are called {repeated[0]!r}. Give each a name of its own, so that "
            "messages can tell them apart."
        )


def _refuse_different_shapes(constraints: Sequence[Constraint]) -> None:
    shape = constraints[0].states.shape[1:]
    for constraint in constraints:
        other = constraint.states.shape[1:]
        if other != shape:
            flat = math.prod(other) == math.prod(shape)
            raise InvalidConstraint(
                f"{constraint.name!r} speaks of states of shape {other}, but "
                f"{constraints[0].name!r} of shape {shape}. All constraints of a set must observe "
                f"the same quantities{', all of them flat: state.reshape(-1)' if flat else ''}."
            )


def refuse_other_quantity(constraint: Constraint, n_actions: int, policy: Policy) -> None:
    """A constraint on mean actions is none on probabilities, and the other way round."""
    if policy.quantity.answers(constraint.quantity):
        _refuse_noise_as_mean(constraint, n_actions, policy)
    else:
        if isinstance(constraint, Symmetric):
            branched = isinstance(policy.quantity, BranchProbability)
            remedy = "Bound its probability at both states." if branched else SWAPPED
            raise InvalidConstraint(
                f"{constraint.name!r} is about {constraint.quantity.subject}, but "
                f"{policy.quantity.request(n_actions)} {remedy}"
            )
        raise InvalidConstraint(
            f"{constraint.name!r} is about {constraint.quantity.subject}, but "
            f"{policy.quantity.request(n_actions)}"
        )


def _refuse_noise_as_mean(constraint: Constraint, n_outputs: int, policy: Policy) -> None:
    """Behind the means of a policy there may be standard deviations, which are no actions."""
    n_actions = policy.quantity.n_actions(n_outputs)
    if n_actions == n_outputs or constraint.quantity != MEAN:
        return
    beyond = np.flatnonzero(constraint.rows(n_outputs).weights[:, n_actions:].any(axis=0))
    for one in beyond:
        check_known_action(constraint.name, n_actions + int(one), n_actions)


def refuse_beyond_range(rows: Rows, policy: Policy) -> None:
    """What no weights can give, since the network bounds its own outputs."""
    ends = policy.output_range()
    if ends is None:
        return
    least, most = (rows.sum_samples(end) for end in weighted_range(rows.weights, *ends))
    for out, asked, end in (
        (rows.lower >= most, "at least {0:g}", most),
        (rows.upper <= least, "at most {0:g}", least),
    ):
        for k in np.flatnonzero(out):
            bound = rows.lower[k] if end is most else rows.upper[k]
            raise InvalidConstraint(
                f"{rows.labels[k]!r} asks for {asked.format(bound)}, but this network keeps it "
                f"between {least[k]:g} and {most[k]:g}, whatever its weights. Choose a bound "
                f"inside, or {_wider(rows)}."
            )


def _wider(rows: Rows) -> str:
    if rows.weights[:, rows.weights.shape[1] // 2 :].any() and rows.quantity != MEAN:
        return "another range of the standard deviation: `std_range`"
    return "a network without `bounded`"


def weighted_range(weights: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """The lowest and highest (n,) of sums with weights (n, n_actions) of outputs in a range."""
    with np.errstate(invalid="ignore"):  # of what has no end, and no weight
        ends = [np.where(weights == 0.0, 0.0, weights * end) for end in (low, high)]
    return np.minimum(*ends).sum(axis=1), np.maximum(*ends).sum(axis=1)


def _without_repeats(blocks: Sequence[Rows]) -> Rows:
    """The rows of all constraints, each once; a constraint that repeats another is refused.

    A part of them may be repeated: controllers that were sampled at the same states agree at some.
    """
    names: dict[frozenset[bytes], str] = {}
    keys = [_keys(block) for block in blocks]
    for block, own in zip(blocks, keys, strict=True):
        known = names.setdefault(frozenset(own), block.labels[0])
        if known != block.labels[0]:
            raise InvalidConstraint(
                f"{block.labels[0]!r} says exactly what {known!r} says already. Remove one of them."
            )
    rows = concatenate(blocks)
    first = _first_of_each(_keys(rows))
    return rows if len(first) == len(rows) else rows.take(first)


def _first_of_each(keys: Iterable[bytes]) -> Indices:
    """Rows without those that repeat an earlier one: neighbouring regions share corners."""
    first: dict[bytes, int] = {}
    for index, key in enumerate(keys):
        first.setdefault(key, index)
    return np.array(list(first.values()), dtype=np.intp)


def _keys(rows: Rows) -> list[bytes]:
    """Equal for rows that say the same; those of different choices never do."""
    bounds = np.stack([rows.lower, rows.upper, rows.choice, rows.alternative], axis=1)
    return [
        b"".join(
            part.tobytes() for part in (rows.states[s], rows.weights[s], rows.raw[s], bounds[i])
        )
        for i, s in enumerate(rows.samples)
    ]
