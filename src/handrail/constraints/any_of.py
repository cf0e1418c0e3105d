"""This or that: at every state at least one of several constraints holds.

Which one is nobody's business but the policy's: it may be another one at every state. "Not both
engines at full thrust" is y₁ ≤ 0 or y₂ ≤ 0, which no single bound says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, final

import numpy as np
from typing_extensions import override

from handrail._types import Array
from handrail.constraints.checks import check_priority
from handrail.constraints.constraint import (
    PlacedConstraint,
    Violated,
    constraint_from,
    set_default_name,
)
from handrail.constraints.rows import Rows, concatenate
from handrail.errors import InvalidConstraint
from handrail.policies import Quantity
from handrail.regions import Place, Points


@final
@dataclass(frozen=True)
class AnyOf(PlacedConstraint):
    """At every state at least one of the alternatives holds; its violation is the least of theirs.

    Args:
        alternatives: two or more of AtLeast, AtMost, Between, Equal and Prefer, all of the same
            place.
        name: for tables and messages; made from the alternatives when left out.
        priority: how much more than others this one matters when constraints are soft.

    Attributes:
        where: the states, those of all alternatives.
    """

    alternatives: Sequence[PlacedConstraint]
    name: str = ""
    priority: float = 1.0
    where: Place = field(init=False)

    def __post_init__(self) -> None:
        check_priority(self.priority)
        object.__setattr__(self, "alternatives", tuple(self.alternatives))
        if len(self.alternatives) < 2:
            raise InvalidConstraint(
                f"AnyOf is a choice between two alternatives at least, but got "
                f"{len(self.alternatives)}."
            )
        for one in self.alternatives:
            _refuse_other_kinds(one)
        first, *others = self.alternatives
        object.__setattr__(self, "where", first.where)
        for one in others:
            if one.quantity != first.quantity:
                raise InvalidConstraint(
                    f"AnyOf: {first.name!r} is about {first.quantity.subject}, but {one.name!r} "
                    f"about {one.quantity.subject}; a policy has only one of the two."
                )
            if not _is_same(one.where, first.where):
                raise InvalidConstraint(
                    f"AnyOf: {first.name!r} and {one.name!r} are about different states. Give all "
                    "alternatives the same `where`."
                )
        names = [one.name for one in self.alternatives]
        if len(set(names)) < len(names):
            raise InvalidConstraint(
                f"AnyOf: two alternatives are called {max(names, key=names.count)!r}. Give each a "
                "name of its own, or leave out what is there twice."
            )
        set_default_name(self, " or ".join(names))

    @property
    @override
    def quantity(self) -> Quantity:
        """That of all alternatives."""
        return self.alternatives[0].quantity

    @property
    @override
    def depends_on_state(self) -> bool:
        """Whether an alternative does."""
        return any(one.depends_on_state for one in self.alternatives)

    @override
    def violated_at(self, states: Array, n_actions: int) -> Violated:
        parts = [one.violated_at(states, n_actions) for one in self.alternatives]

        def least(outputs: Array) -> Array:
            violations = [one(outputs) for one in parts if one is not None]  # each is about a state
            result: Array = np.min(violations, axis=0)
            return result

        return least

    @override
    def rows_at(self, states: Array, n_actions: int) -> Rows:
        """All rows of all alternatives, a choice for every state."""
        blocks = [one.rows_at(states, n_actions) for one in self.alternatives]
        rows, n = concatenate(blocks), len(states)
        choice = np.concatenate([np.repeat(np.arange(n), len(one) // n) for one in blocks])
        which = np.concatenate([np.full(len(one), k) for k, one in enumerate(blocks)])
        chosen = replace(
            rows,
            choice=choice,
            alternative=which,
            labels=tuple(f"{self.name}: {label}" for label in rows.labels),
            priority=np.full(len(rows), self.priority),
        )
        return chosen.take(np.argsort(choice, kind="stable"))

    @override
    def moved_to(self, where: Place, name: str) -> Self:
        moved = super().moved_to(where, name)
        parts = tuple(one.moved_to(where, one.name) for one in self.alternatives)
        object.__setattr__(moved, "alternatives", parts)
        return moved

    @override
    def describe(self) -> dict[str, Any]:
        described = [one.describe() for one in self.alternatives]
        return {
            "kind": type(self).__name__,
            "where": described[0]["where"],
            "name": self.name,
            "priority": self.priority,
            "alternatives": described,
        }

    @classmethod
    @override
    def from_description(cls, values: Mapping[str, Any]) -> Self:
        parts = [constraint_from(one) for one in values["alternatives"]]
        return cls(parts, values["name"], values["priority"]).moved_to(
            values["where"], values["name"]
        )


def _refuse_other_kinds(one: Any) -> None:
    if isinstance(one, AnyOf):
        raise InvalidConstraint(
            f"AnyOf: {one.name!r} is itself a choice. List all alternatives in one AnyOf."
        )
    if not isinstance(one, PlacedConstraint) or type(one).demands is PlacedConstraint.demands:
        raise InvalidConstraint(
            "AnyOf: an alternative is about one state at a time (AtLeast, AtMost, Between, Equal, "
            f"Prefer), but got {type(one).__name__}."
        )


def _is_same(one: Place, other: Place) -> bool:
    if one is other:
        return True
    if isinstance(one, Points) and isinstance(other, Points):
        return np.array_equal(one.states, other.states)
    if isinstance(one, Points) or isinstance(other, Points):
        return False
    try:
        return bool(one.describe() == other.describe())
    except InvalidConstraint:  # a curve that is a Python function
        return False
