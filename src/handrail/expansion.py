"""From a list of constraints and the policy they are for to one block of rows (H1)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from handrail.constraints import Constraint
from handrail.errors import InvalidConstraint, InvalidPolicy, ShapeMismatch
from handrail.policies import CategoricalPolicy
from handrail.rows import Rows, concatenate


def expand(constraints: Sequence[Constraint], policy: CategoricalPolicy) -> Rows:
    """The rows of all constraints, after checking that the set fits together and the policy."""
    if not isinstance(policy, CategoricalPolicy):
        raise InvalidPolicy(
            f"Expected a CategoricalPolicy, but got {type(policy).__name__}. Wrap a torch module: "
            "CategoricalPolicy(module)."
        )
    _refuse_wrong_types(constraints)
    _refuse_repeated_names(constraints)
    _refuse_different_shapes(constraints)
    first = constraints[0]
    try:
        n_actions = policy.probabilities(first.states[:1]).shape[1]
    except ShapeMismatch as error:
        raise ShapeMismatch(f"{first.name!r} does not fit the policy. {error}") from error
    rows = concatenate([constraint.rows(n_actions) for constraint in constraints])
    _refuse_repeated_rows(rows)
    return rows


def _refuse_wrong_types(constraints: Sequence[Constraint]) -> None:
    if isinstance(constraints, Constraint):
        raise InvalidConstraint(
            f"Expected a list of constraints, but got the single {type(constraints).__name__} "
            f"{constraints.name!r}. Write [constraint]."
        )
    if not isinstance(constraints, Sequence):
        raise InvalidConstraint(
            f"Expected a list of constraints, but got {type(constraints).__name__}."
        )
    if not len(constraints):
        raise InvalidConstraint("The list of constraints is empty: there is nothing to obey.")
    for constraint in constraints:
        if not isinstance(constraint, Constraint):
            raise InvalidConstraint(
                f"Expected constraints (AtLeast, AtMost, Equal, Between, Linear, Symmetric), but "
                f"got {type(constraint).__name__}."
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
        if constraint.states.shape[1:] != shape:
            raise InvalidConstraint(
                f"{constraint.name!r} speaks of states of shape {constraint.states.shape[1:]}, but "
                f"{constraints[0].name!r} of shape {shape}. All constraints of a set must observe "
                "the same quantities."
            )


def _refuse_repeated_rows(rows: Rows) -> None:
    seen: dict[bytes, str] = {}
    for i, (label, samples) in enumerate(zip(rows.labels, rows.samples, strict=True)):
        bounds = np.array([rows.lower[i], rows.upper[i]])
        parts = (rows.states[samples], rows.weights[samples], bounds)
        key = b"".join(part.tobytes() for part in parts)
        if key in seen:
            raise InvalidConstraint(
                f"{label!r} says exactly what {seen[key]!r} says already. Remove one of them."
            )
        seen[key] = label
