"""What was measured: how far a policy is from obeying, row by row, worst first.

Rows come from points, or from states that stand for a region. `measure_fresh` asks at other states
of the regions than those that anything was held at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from typing import final

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from handrail._text import visible
from handrail._types import Array
from handrail.constraints.constraint import Constraint, Violated
from handrail.constraints.expansion import Regional, expand
from handrail.constraints.rows import Rows
from handrail.constraints.words import bound_in_words, counted, html_table, state_in_words
from handrail.policies import Policy

_COLUMNS = ("constraint", "state", "bound", "value", "violation")

_STATES_AT_ONCE = 20_000

# Of a table that nobody asked to be longer.
_SHOWN = 20


@final
@dataclass(frozen=True, repr=False)
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

    def broken(self, tolerance: float = 0.0) -> int:
        """How many rows are violated by more."""
        return int((self.violations > tolerance).sum())

    def table(self, at_most: int = _SHOWN) -> Table:
        """A rich table of the worst rows; what was met several times, as corners are, once."""
        table = Table(title=self._headline(), title_justify="left")
        for column in _COLUMNS:
            table.add_column(column, justify="left" if column == "constraint" else "right")
        shown = self._different(at_most)
        for i in shown:
            style = "red" if self.violations[i] > 0.0 else None
            cells = (Text(visible(cell)) for cell in self._cells(i))  # names are no markup
            table.add_row(*cells, style=style)
        table.caption = self._rest(len(shown)) or None
        return table

    def __str__(self) -> str:
        text = StringIO()
        Console(file=text, width=110, color_system=None).print(self.table())
        return text.getvalue().rstrip()

    def __repr__(self) -> str:
        return f"<Violations: {self._headline()}>"

    def _repr_html_(self) -> str:
        rows = [self._cells(i) for i in self._different(_SHOWN)]
        return html_table(self._headline(), rows, _COLUMNS, self._rest(len(rows)))

    def _headline(self) -> str:
        rows, worst = counted(len(self), "constraint row"), self.worst_violation
        if worst > 0.0:
            return f"{self.broken()} of {rows} beyond their bounds, by up to {worst:.2g}"
        return f"{rows} within their bounds, the nearest by {-worst:.2g}"

    def _different(self, at_most: int) -> list[int]:
        """The first rows of which no two say the same of one state."""
        seen: dict[tuple[object, ...], int] = {}
        for i, label in enumerate(self.labels):
            bounds = float(self.lower[i]), float(self.upper[i])
            seen.setdefault((label.partition(" [")[0], self.states[i].tobytes(), *bounds), i)
            if len(seen) == at_most:
                break
        return list(seen.values())

    def _rest(self, shown: int) -> str:
        left = len(self) - shown
        return f"{counted(left, 'further row')} no worse" if left > 0 else ""

    def _cells(self, i: int) -> tuple[str, ...]:
        return (
            self.labels[i],
            state_in_words(self.states[i]),
            bound_in_words(self.lower[i], self.upper[i]),
            f"{self.values[i]:.6f}",
            f"{self.violations[i]:+.2e}",
        )


def measure_rows(policy: Policy, rows: Rows) -> Violations:
    """Evaluate every row with the real network."""
    values = rows.values(rows.outputs_of(policy))
    violations = rows.violations(values)
    order = np.argsort(-violations, kind="stable")
    order = order[violations[order] > -np.inf]  # not of alternatives that are further away
    return Violations(
        labels=tuple(rows.labels[i] for i in order),
        states=rows.first_states[order],
        values=values[order],
        lower=rows.lower[order],
        upper=rows.upper[order],
        violations=violations[order],
    )


def violations_at(policy: Policy, regional: Regional, states: Array) -> Array:
    """(n,) at states (n, n_coordinates) of the region: of the worst row of each."""
    return violations_together(policy, [regional], [states])[0]


def violations_together(
    policy: Policy, regional: Sequence[Regional], blocks: Sequence[Array]
) -> list[Array]:
    """`violations_at` for states (n > 0, n_coordinates) of each of several regions, in one pass."""
    pairs = list(zip(regional, blocks, strict=True))
    # What is about one state at a time needs no rows, with a name each.
    said = [one.violated_at(states) or one.rows_at(states) for one, states in pairs]
    inputs = [
        one.states if isinstance(one, Rows) else states
        for one, states in zip(said, blocks, strict=True)
    ]
    ends = np.cumsum([len(states) for states in inputs])
    outputs = np.split(policy.outputs(np.concatenate(inputs)), ends[:-1])
    return [
        _worst_of_each(policy, one, part, len(states))
        for one, part, states in zip(said, outputs, blocks, strict=True)
    ]


def _worst_of_each(policy: Policy, said: Violated | Rows, outputs: Array, n_states: int) -> Array:
    """(n_states,) from the outputs at all that is looked at."""
    if not isinstance(said, Rows):
        return said(outputs)
    values = said.values(said.with_chords(policy, outputs))
    worst: Array = said.violations(values).reshape(n_states, -1).max(axis=1)
    return worst


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
            f"On {counted(self.states, 'fresh state')} of the regions: {self.violated:,} violated "
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
