"""Constraints that relate the policy at several states: weighted sums, and mirror symmetry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike
from typing_extensions import override

from handrail._types import Array
from handrail.constraints.amount import check_number
from handrail.constraints.checks import (
    check_action,
    check_known_action,
    check_linear_bounds,
    check_priority,
    check_where,
)
from handrail.constraints.constraint import (
    Constraint,
    Mean,
    PlacedConstraint,
    action_sum,
    make_rows,
    mapping_from,
    quantity_of,
    set_default_name,
)
from handrail.constraints.rows import Rows
from handrail.errors import InvalidConstraint
from handrail.policies import PROBABILITY, Quantity
from handrail.regions import Place, Points

MIRRORED_MEANS = (
    "Of mean actions, relate a state and its mirror image yourself: Linear([Term(state, Mean(0)), "
    "Term(mirrored, Mean(0))], lower=-0.01, upper=0.01) makes one the negative of the other."
)


@final
@dataclass(frozen=True)
class Term:
    """weight · π(action | state), one summand of a `Linear` constraint.

    Of continuous actions, `Mean(dimension)` instead of an action.
    """

    state: ArrayLike
    action: int | Mean
    weight: float = 1.0

    def __post_init__(self) -> None:
        points = Points(self.state)
        if len(points) != 1:
            raise InvalidConstraint(
                f"A Term is about one state, but got {len(points)}. Write one Term per state."
            )
        check_action(self.index)
        check_number(self.weight, "The weight of a Term")
        object.__setattr__(self, "state", points.states[0])

    @property
    def index(self) -> Any:
        """Of the action, or of its dimension."""
        return self.action.dimension if isinstance(self.action, Mean) else self.action


@final
@dataclass(frozen=True)
class Linear(Constraint):
    """lower ≤ Σ weight · π(action | state) ≤ upper over terms at one or several states.

    Args:
        terms: the summands.
        lower: -inf for none.
        upper: +inf for none.
        name: for tables and messages.
        priority: how much more than others this one matters when constraints are soft.
    """

    terms: Sequence[Term]
    lower: float = -np.inf
    upper: float = np.inf
    name: str = ""
    priority: float = 1.0

    def __post_init__(self) -> None:
        check_priority(self.priority)
        if not self.terms:
            raise InvalidConstraint("Linear needs at least one Term, but `terms` is empty.")
        wrong = [term for term in self.terms if not isinstance(term, Term)]
        if wrong:
            raise InvalidConstraint(f"Linear takes Term objects, but got {wrong[0]!r}.")
        shapes = [np.shape(term.state) for term in self.terms]
        if len(set(shapes)) > 1:
            raise InvalidConstraint(
                f"Linear: states of different shapes: {', '.join(map(str, sorted(set(shapes))))}."
            )
        if not any(term.weight for term in self.terms):
            raise InvalidConstraint("Linear: all weights are zero, so nothing is constrained.")
        if len({quantity_of(term.action) for term in self.terms}) > 1:
            raise InvalidConstraint(
                "Linear: some terms are about probabilities, others about mean actions; a policy "
                "has only one of the two."
            )
        check_linear_bounds(self.lower, self.upper, *self._range())
        set_default_name(self, self._in_words())

    @property
    def quantity(self) -> Quantity:
        """As the terms say."""
        return quantity_of(self.terms[0].action)

    @property
    def states(self) -> Array:
        """The states of the terms."""
        return np.stack([np.asarray(term.state, dtype=np.float64) for term in self.terms])

    def rows(self, n_actions: int) -> Rows:
        """A single row; terms at the same state share a sample."""
        samples: dict[bytes, tuple[Array, Array]] = {}
        for term in self.terms:
            check_known_action(self.name, term.index, n_actions)
            state = np.asarray(term.state, dtype=np.float64)
            _, weights = samples.setdefault(state.tobytes(), (state, np.zeros(n_actions)))
            weights[term.index] += term.weight
        states, weights_by_state = zip(*samples.values(), strict=True)
        return make_rows(
            self,
            np.stack(states),
            np.stack(weights_by_state),
            rows=np.zeros(len(states), dtype=np.intp),
            lower=self.lower,
            upper=self.upper,
        )

    def _range(self) -> tuple[float, float]:
        """What the sum can reach at all: at each state a mixture of its weights and 0."""
        by_state: dict[bytes, dict[int, float]] = {}
        for term in self.terms:
            weights = by_state.setdefault(np.asarray(term.state).tobytes(), {})
            weights[term.index] = weights.get(term.index, 0.0) + term.weight
        spans = [self.quantity.span(weights.values()) for weights in by_state.values()]
        return sum(lowest for lowest, _ in spans), sum(highest for _, highest in spans)

    def _in_words(self) -> str:
        total = " + ".join(f"{term.weight:g}·{action_sum(term.action)}" for term in self.terms)
        low = f"{self.lower:g} <= " if np.isfinite(self.lower) else ""
        high = f" <= {self.upper:g}" if np.isfinite(self.upper) else ""
        return f"{low}{total}{high}"


@final
@dataclass(frozen=True)
class Symmetric(PlacedConstraint):
    """π(a | s) = π(swap(a) | mirror·s): mirrored states, swapped discrete actions.

    Args:
        where: the states s, one of each mirrored pair; or a region, with `within` above 0.
        mirror: the factor of each coordinate, e.g. [-1, -1, -1, -1] for Cartpole.
        swap: {0: 1, 1: 0} exchanges actions 0 and 1; actions left out stay themselves.
        within: the largest difference allowed.
        name: for tables and messages.
        priority: how much more than others this one matters when constraints are soft.
    """

    where: Place
    mirror: ArrayLike
    swap: Mapping[int, int]
    within: float = 0.0
    name: str = ""
    priority: float = 1.0
    _factors: Array = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_where(self.where)
        check_priority(self.priority)
        factors = np.asarray(self.mirror, dtype=np.float64)
        shape = self._own_states().shape[1:]
        if factors.shape != shape:
            raise InvalidConstraint(
                f"Symmetric: `mirror` has shape {factors.shape} but the states have "
                f"{shape}. Give one factor per coordinate."
            )
        if not np.all(np.isfinite(factors)):
            raise InvalidConstraint(f"Symmetric: `mirror` is not finite: {factors.tolist()}.")
        for action in (*self.swap.keys(), *self.swap.values()):
            if isinstance(action, Mean):
                raise InvalidConstraint(f"Symmetric swaps discrete actions. {MIRRORED_MEANS}")
            check_action(action)
        if sorted(self.swap.keys()) != sorted(self.swap.values()):
            raise InvalidConstraint(
                f"Symmetric: `swap` must be a permutation of the actions it names, but got "
                f"{dict(self.swap)}. To exchange 0 and 1 write {{0: 1, 1: 0}}."
            )
        check_number(self.within, "Symmetric: `within`")
        if not 0.0 <= self.within < 1.0:
            raise InvalidConstraint(f"Symmetric: `within` must be in [0, 1), not {self.within:g}.")
        object.__setattr__(self, "_factors", factors)
        if isinstance(self.where, Points):
            self._refuse_both_of_a_pair(self.where)
        elif self.within == 0.0:
            raise InvalidConstraint(
                "Symmetric: a network cannot be exactly symmetric on all the states of a region. "
                "Allow a difference with `within`, or use Points."
            )
        set_default_name(self, "symmetric")

    @property
    def quantity(self) -> Quantity:
        """Probabilities; of mean actions, `Linear` relates two states."""
        return PROBABILITY

    @property
    def states(self) -> Array:
        """Of `where`, and their mirror images."""
        own = self._own_states()
        return np.concatenate([own, own * self._factors])

    def rows(self, n_actions: int) -> Rows:
        """Of the states of `where`, without their images."""
        return self.rows_at(self._own_states(), n_actions)

    def rows_at(self, states: Array, n_actions: int) -> Rows:
        """n_actions - 1 rows per state (the last follows from Σπ = 1), two samples each."""
        for action in self.swap:
            check_known_action(self.name, action, n_actions)
        pairs, weights = [], []
        for state, mirrored in zip(states, states * self._factors, strict=True):
            for action in range(n_actions - 1):
                image = self.swap.get(action, action)
                difference = np.zeros((2, n_actions))
                difference[0, action] += 1.0
                difference[1, image] -= 1.0
                pairs.append(np.stack([state, mirrored]))
                weights.append(difference)
        return make_rows(
            self,
            np.concatenate(pairs),
            np.concatenate(weights),
            rows=np.repeat(np.arange(len(pairs)), 2),
            lower=-self.within,
            upper=self.within,
        )

    @classmethod
    @override
    def from_description(cls, values: Mapping[str, Any]) -> Self:
        return cls(**{**values, "swap": mapping_from(values["swap"])})

    def _own_states(self) -> Array:
        return super().states

    def _refuse_both_of_a_pair(self, where: Points) -> None:
        flat = where.states.reshape(len(where), -1)
        mirrored = (where.states * self._factors).reshape(len(where), -1)
        first, second = np.nonzero((flat[:, None] == mirrored[None]).all(axis=2))
        for i, j in zip(first, second, strict=True):
            if i == j:
                raise InvalidConstraint(
                    f"Symmetric: state {i} is its own mirror image: {flat[i].tolist()}. Use "
                    "Equal or Linear for a state on the axis of symmetry."
                )
            raise InvalidConstraint(
                f"Symmetric: states {min(i, j)} and {max(i, j)} are mirror images of each other. "
                "List one of them."
            )
