"""Constraints that relate the policy at several states: weighted sums, and mirror symmetry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike
from typing_extensions import override

from handrail._types import Array
from handrail.constraints.amount import check_number
from handrail.constraints.checks import (
    check_action,
    check_actions,
    check_known_action,
    check_linear_bounds,
    check_priority,
    check_where,
)
from handrail.constraints.constraint import (
    Constraint,
    Mean,
    action_sum,
    as_mapping,
    make_rows,
    mapping_from,
    quantity_of,
    set_default_name,
)
from handrail.constraints.pair import Difference, Paired, Twin, one_of
from handrail.constraints.rows import Rows
from handrail.errors import InvalidConstraint
from handrail.policies import MeanAndStd, Policy, Quantity
from handrail.regions import Place, Points

SWAPPED = (
    "Of mean actions, say what each is at the mirrored state: swap={0: Mean({0: -1})} for the "
    "negative, {0: Mean(0)} for the same."
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
class Symmetric(Paired):
    """π(a | s) = π(swap(a) | mirror·s): mirrored states, swapped actions; or the same of means.

    Args:
        where: the states s, one of each mirrored pair; or a region, with `within` above 0: no
            network is exactly symmetric on infinitely many states.
        mirror: the factor of each coordinate, e.g. [-1, -1, -1, -1] for Cartpole; or a matrix
            (n_coordinates, n_coordinates), if coordinates change places.
        swap: {0: 1, 1: 0} exchanges discrete actions 0 and 1. Of continuous actions, what each is
            at the mirrored state: {0: Mean({0: -1})} for the negative, {0: Mean(1), 1: Mean(0)}
            for two that change places. Actions left out stay themselves.
        within: the largest difference allowed, in probabilities or in units of the action.
        name: for tables and messages.
        priority: how much more than others this one matters when constraints are soft.
    """

    where: Place
    mirror: ArrayLike
    swap: Mapping[int, int] | Mapping[int, Mean]
    within: float = 0.0
    name: str = ""
    priority: float = 1.0
    _matrix: Array = field(init=False, repr=False, compare=False)
    _noises: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        check_where(self.where)
        check_priority(self.priority)
        object.__setattr__(self, "_matrix", _matrix(self.mirror, self._own_states().shape[1:]))
        self._check_swap()
        check_number(self.within, "Symmetric: `within`")
        highest = np.inf if self.quantity.is_continuous else 1.0
        if not 0.0 <= self.within < highest:
            raise InvalidConstraint(
                f"Symmetric: `within` must be in [0, {highest:g}), not {self.within:g}."
            )
        if isinstance(self.where, Points):
            self._refuse_both_of_a_pair(self.where)
        elif self.within == 0.0:
            raise InvalidConstraint(
                "Symmetric: a network cannot be exactly symmetric on all the states of a region. "
                "Allow a difference with `within`, or use Points."
            )
        set_default_name(self, "symmetric")

    def _check_swap(self) -> None:
        for action, image in self.swap.items():
            if isinstance(action, Mean):
                raise InvalidConstraint(f"Symmetric: {action!r} is no key of `swap`. {SWAPPED}")
            check_action(action)
            check_actions(image)
        if len({isinstance(image, Mean) for image in self.swap.values()}) > 1:
            raise InvalidConstraint(
                f"Symmetric: `swap` mixes probabilities and means: {dict(self.swap)}. {SWAPPED}"
            )
        if self.quantity.is_continuous:
            for weight in (w for one in self._images.values() for w in as_mapping(one).values()):
                check_number(weight, "Symmetric: a weight of `swap`")
        elif set(self._images.keys()) != set(self._images.values()):
            raise InvalidConstraint(
                f"Symmetric: `swap` must be a permutation of the actions it names, but got "
                f"{dict(self.swap)}. To exchange 0 and 1 write {{0: 1, 1: 0}}."
            )

    @property
    def _images(self) -> dict[int, int | Mean]:
        return dict(self.swap.items())

    @property
    @override
    def quantity(self) -> Quantity:
        """As `swap` says."""
        return quantity_of(next(iter(self._images.values()), 0))

    @property
    @override
    def largest(self) -> float:
        return self.within

    @property
    @override
    def twin(self) -> Twin:
        return Twin(matrix=self._matrix)

    @override
    def differences(self, n_actions: int) -> list[Difference]:
        """One for each action; but for the last of probabilities, if it follows from the others.

        They add up to 1, so the last is equal if all others are, and as far apart if there is only
        one other.
        """
        follows = self.quantity.adds_up and (n_actions == 2 or self.within == 0.0)
        return [
            self._difference(one, n_actions) for one in range(n_actions - follows - self._noises)
        ]

    @override
    def for_policy(self, policy: Policy) -> Constraint:
        """Of means alone, where standard deviations are behind them."""
        if not isinstance(policy.quantity, MeanAndStd):
            return self
        of_means = copy(self)
        object.__setattr__(of_means, "_noises", policy.quantity.dimensions)
        return of_means

    def _difference(self, action: int, n_actions: int) -> Difference:
        image = self._images.get(action, action)
        other = np.zeros(n_actions)
        for index, weight in as_mapping(image).items():
            check_known_action(self.name, index, n_actions)
            other[index] = float(weight)  # type: ignore[arg-type]
        return Difference(one_of(action, n_actions), other)

    @property
    @override
    def states(self) -> Array:
        """Of `where`, and their mirror images."""
        own = self._own_states()
        return np.concatenate([own, self.twin.image(own)])

    @override
    def rows(self, n_actions: int) -> Rows:
        """Of the states of `where`, without their images."""
        return self.rows_at(self._own_states(), n_actions)

    @override
    def rows_at(self, states: Array, n_actions: int) -> Rows:
        """A row per state and difference, two samples each."""
        for action in self.swap:
            check_known_action(self.name, action, n_actions)
        found = self.differences(n_actions)
        weights = np.stack([[one.own, -one.other] for one in found]).reshape(-1, n_actions)
        pairs = np.stack([states, self.twin.image(states)], axis=1)
        n_rows = len(states) * len(found)
        return make_rows(
            self,
            np.repeat(pairs, len(found), axis=0).reshape(2 * n_rows, *states.shape[1:]),
            np.tile(weights, (len(states), 1)),
            rows=np.repeat(np.arange(n_rows), 2),
            lower=-self.within,
            upper=self.within,
        )

    @override
    def comparison(self) -> dict[str, Any]:
        """As they were given."""
        return {"mirror": self._matrix.tolist(), "swap": self._plain_swap()}

    @override
    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "swap": self._plain_swap()}

    def _plain_swap(self) -> list[Any]:
        images = self._images.items()
        return [
            [action, list(as_mapping(one).items()) if isinstance(one, Mean) else one]
            for action, one in images
        ]

    @classmethod
    @override
    def from_description(cls, values: Mapping[str, Any]) -> Self:
        swap = {
            action: Mean(mapping_from(one)) if isinstance(one, list) else one
            for action, one in values["swap"]
        }
        return cls(**{**values, "swap": swap})

    def _own_states(self) -> Array:
        return super().states

    def _refuse_both_of_a_pair(self, where: Points) -> None:
        flat = where.states.reshape(len(where), -1)
        mirrored = self.twin.image(where.states).reshape(len(where), -1)
        first, second = np.nonzero((flat[:, None] == mirrored[None]).all(axis=2))
        for i, j in zip(first, second, strict=True):
            if i == j:
                raise InvalidConstraint(
                    "state {state} is its own mirror image: {values}. Leave a state on the axis of "
                    "symmetry out, or bound it.",
                    about="Symmetric",
                    state=i,
                    values=flat[i].tolist(),
                )
            raise InvalidConstraint(
                "states {first} and {second} are mirror images of each other. List one of them.",
                about="Symmetric",
                first=min(i, j),
                second=max(i, j),
            )


def _matrix(mirror: ArrayLike, shape: tuple[int, ...]) -> Array:
    """From flat states of this shape to their images."""
    given = np.asarray(mirror, dtype=np.float64)
    size = int(np.prod(shape))
    if given.shape not in (shape, (size, size)):
        raise InvalidConstraint(
            f"Symmetric: `mirror` has shape {given.shape} but the states have {shape}. Give one "
            f"factor per coordinate, or a matrix ({size}, {size})."
        )
    if not np.all(np.isfinite(given)):
        raise InvalidConstraint(f"Symmetric: `mirror` is not finite: {given.tolist()}.")
    return np.diag(given.ravel()) if given.shape == shape else given
