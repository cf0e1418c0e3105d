"""How a policy meets its constraints, as plain values that fit into a file's metadata."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from handrail.arrays import Array
from handrail.constraints import Constraint
from handrail.expansion import Regional, expand
from handrail.policies import Policy
from handrail.violations import Violations, measure_rows

_STATES_PER_REGION = 1000
_LARGEST_STATE = 100  # numbers; of larger ones, the shape must do


def constraint_report(
    policy: Policy, constraints: Sequence[Constraint], tolerance: float
) -> dict[str, Any]:
    """Every row at points, and of every region the worst state of a sample.

    Returns:
        `rows` and `regions` (each: name, state, lower, upper, value, violation; of a region, also
        how many states were measured), `worst_violation` (None without constraints), `tolerance`,
        and `satisfied`: whether no violation exceeds it (None without constraints).
    """
    rows: list[dict[str, Any]] = []
    regions: list[dict[str, Any]] = []
    if constraints:
        expansion = expand(constraints, policy)
        if expansion.fixed is not None:
            found = measure_rows(policy, expansion.fixed)
            rows = [_entry(found, i, found.labels[i]) for i in range(len(found))]
        regions = [_worst_of(policy, one) for one in expansion.regional]
    violations = [one["violation"] for one in (*rows, *regions)]
    worst = max(violations) if violations else None
    return {
        "rows": rows,
        "regions": regions,
        "worst_violation": worst,
        "tolerance": tolerance,
        "satisfied": None if worst is None else worst <= tolerance,
    }


def _worst_of(policy: Policy, one: Regional) -> dict[str, Any]:
    states = one.region.cover(_STATES_PER_REGION)
    found = measure_rows(policy, one.rows_at(states))
    return {**_entry(found, 0, one.name), "states_measured": len(states)}


def _entry(found: Violations, i: int, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "state": _plain(found.states[i]),
        "lower": _finite(found.lower[i]),
        "upper": _finite(found.upper[i]),
        "value": float(found.values[i]),
        "violation": float(found.violations[i]),
    }


def _plain(state: Array) -> Any:
    return state.tolist() if state.size <= _LARGEST_STATE else f"array {state.shape}"


def _finite(bound: float) -> float | None:
    return float(bound) if np.isfinite(bound) else None
