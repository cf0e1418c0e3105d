"""What was measured: how far a policy is from obeying, row by row, worst first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from typing import final

import numpy as np
from rich.console import Console
from rich.table import Table

from handrail._types import Array
from handrail.constraints.constraint import Constraint
from handrail.constraints.expansion import Regional, expand
from handrail.constraints.rows import Rows
from handrail.policies import Policy


@final
@dataclass(frozen=True)
class Violations:
    """The rows of a set of constraints as a policy meets them, worst first.

    Attributes:
        labels: (n_rows,) names.
        states: (n_rows, *observation_shape); of a relation between states, the first.
        values: (n_rows,) measured.
        lower: (n_rows,) bounds.
        upper: (n_rows,) bounds.
        violations: (n_rows,), positive means broken.
    """

    labels: tuple[str, ...]
    states: Array
    values: Array
    lower: Array
    upper: Array
    violations: Array

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def worst_violation(self) -> float:
        """The largest violation; negative or zero when every row holds."""
        return float(self.violations[0])

    @property
    def satisfied(self) -> bool:
        """Whether every row holds exactly."""
        return self.worst_violation <= 0.0

    def table(self, at_most: int = 20) -> Table:
        """A rich table of the worst rows."""
        table = Table(title=f"{(self.violations > 0.0).sum()} of {len(self)} rows above 0")
        for column in ("constraint", "state", "bound", "value", "violation"):
            table.add_column(column, justify="left" if column == "constraint" else "right")
        for i in range(min(at_most, len(self))):
            style = "red" if self.violations[i] > 0.0 else None
            table.add_row(
                self.labels[i],
                state_in_words(self.states[i]),
                bound_in_words(self.lower[i], self.upper[i]),
                f"{self.values[i]:.6f}",
                f"{self.violations[i]:+.2e}",
                style=style,
            )
        if len(self) > at_most:
            table.caption = f"{len(self) - at_most} further rows are no worse"
        return table

    def __str__(self) -> str:
        text = StringIO()
        Console(file=text, width=110, color_system=None).print(self.table())
        return text.getvalue()


def measure_rows(policy: Policy, rows: Rows) -> Violations:
    """Evaluate every row with the real network."""
    values = rows.values(policy.outputs(rows.states))
    violations = rows.violations(values)
    order = np.argsort(-violations, kind="stable")
    return Violations(
        labels=tuple(rows.labels[i] for i in order),
        states=rows.first_states[order],
        values=values[order],
        lower=rows.lower[order],
        upper=rows.upper[order],
        violations=violations[order],
    )


def bound_in_words(lower: float, upper: float) -> str:
    """≥ 0.95, ≤ 0.05, = 0.5 or 0.2 … 0.4."""
    if lower == upper:
        return f"= {lower + 0.0:g}"  # not -0
    if np.isinf(upper):
        return f"≥ {lower:g}"
    return f"≤ {upper:g}" if np.isinf(lower) else f"{lower:g} … {upper:g}"


def state_in_words(state: Array) -> str:
    """(0, 0, 0.25, 0.05); of a large observation only its shape."""
    if state.ndim > 1 or state.size > 12:
        return f"array {state.shape}"
    return "(" + ", ".join(f"{value:g}" for value in state) + ")"


def violations_at(policy: Policy, regional: Regional, states: Array) -> Array:
    """(n,) at states (n, n_coordinates) of the region: of the worst row of each."""
    return _violations(policy, regional.rows_at(states), len(states))


def _violations(policy: Policy, rows: Rows, n_states: int) -> Array:
    violations = rows.violations(rows.values(policy.outputs(rows.states)))
    result: Array = violations.reshape(n_states, -1).max(axis=1)
    return result


_STATES_AT_ONCE = 20_000


@final
@dataclass(frozen=True)
class FreshMeasurement:
    """Violations on fresh states.

    Attributes:
        states: how many there were, over all regions.
        violated: how many of them are violated, by however little.
        worst_violation: the largest; -inf if there is no region.
    """

    states: int
    violated: int
    worst_violation: float

    def __str__(self) -> str:
        if not self.states:
            return "There is no region to measure on fresh states."
        share = self.violated / self.states
        return (
            f"On {self.states:,} fresh states of the regions: {self.violated:,} violated "
            f"({share:.2%}), worst violation {self.worst_violation:+.1e}."
        )


def measure_fresh(
    policy: Policy, constraints: Sequence[Constraint], count: int, seed: int
) -> FreshMeasurement:
    """Measure on `count` uniformly random states, the same number for every sub-region."""
    regional = expand(constraints, policy).regional
    rng = np.random.default_rng([seed, count])
    states = violated = 0
    worst = -np.inf
    for one in regional:
        left = count // len(regional)
        while left > 0:
            sample = one.region.sample(min(left, _STATES_AT_ONCE), rng)
            violations = violations_at(policy, one, sample)
            states += len(sample)
            violated += int((violations > 0.0).sum())
            worst = max(worst, float(violations.max()))
            left -= len(sample)
    return FreshMeasurement(states, violated, worst)
