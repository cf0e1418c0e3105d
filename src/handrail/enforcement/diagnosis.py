"""What a set of constraints asks of a policy, before anything is changed.

`measure` says what is violated. `diagnose` says why that may be hard to mend, the same analysis
that a failing program would report, without raising: conflicts, rows that say nothing new, states
that nearly coincide, the condition of the kernel, and which rows are the hard ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.spatial import KDTree

from handrail._minimum_norm import MinimumNorm, solve_minimum_norm
from handrail._types import Array, Indices
from handrail.constraints import (
    Rows,
    Violations,
    counted,
    expand,
    html_table,
    listed,
    measure_rows,
)
from handrail.enforcement.conflict import (
    Choices,
    Conflict,
    demands,
    describe,
    exist_together,
    find_conflict,
    impossible_at_one_state,
    seen_states,
)
from handrail.enforcement.linearisation import Linearisation, Targets
from handrail.enforcement.program import LeastChange, solve_program
from handrail.policies import Policy
from handrail.rulebook import AnyConstraints, constraints_of

# States closer than this, relative to the largest coordinate of any, nearly coincide.
_NEARLY_COINCIDE = 1e-3

# Of the rows among which conflicts are sought, and whose condition is told.
_ROWS_AT_ONCE = 400

_MOST_CONFLICTS = 10

# Of conflicts that only the linear model shows: to search for each takes seconds.
_MOST_SEARCHED = 3

# Of states that nearly coincide; beyond, the radius is narrowed.
_MOST_PAIRS, _NARROWINGS = 200_000, 8

# Each costs a small linear program, a few milliseconds.
_MOST_PAIRS_OF_DEMANDS = 200

# Of one kind of finding, and of the hardest rows.
_SHOWN = 10

_Neighbours = tuple[int, int, float]  # two rows, and the distance of their states


@final
@dataclass(frozen=True, repr=False)
class Diagnosis:
    """What stands in the way of a set of constraints, and what does not.

    Attributes:
        conflicts: disjoint sets of rows that contradict each other, the clearest first.
        redundant: rows that are violated now but hold by themselves once the others do.
        dominated: (weaker, stronger) rows at the same state: the weaker says nothing new.
        nearly_coinciding: (row, row, distance) of different states that are almost the same, in
            the network's own units: scaled, where it scales what it observes.
        kernel_condition: of the tangent kernel, rows scaled to unit length.
        multipliers: {row: multiplier} of the rows that hold the solution, hardest first; the price
            of the row's last bit, in ‖Δθ‖² per unit of its bound.
        n_rows: how many rows there are.
    """

    conflicts: tuple[Conflict, ...]
    redundant: tuple[str, ...]
    dominated: tuple[tuple[str, str], ...]
    nearly_coinciding: tuple[tuple[str, str, float], ...]
    kernel_condition: float
    multipliers: dict[str, float]
    n_rows: int

    @property
    def feasible(self) -> bool:
        """Whether no conflict was found."""
        return not self.conflicts

    def __str__(self) -> str:
        return "\n".join([self._headline(), *self._findings()])

    def __repr__(self) -> str:
        return f"<Diagnosis: {self._headline()}>"

    def _repr_html_(self) -> str:
        hardest = list(self.multipliers.items())[:_SHOWN]
        rows = [(name, f"{multiplier:.3g}") for name, multiplier in hardest]
        caption = "\n".join([self._headline(), *self._findings()])
        return html_table(caption, rows, ("hardest rows", "multiplier") if rows else ())

    def _headline(self) -> str:
        rows, conflicts = counted(self.n_rows, "row"), len(self.conflicts)
        verdict = counted(conflicts, "conflict") if conflicts else "no conflict"
        return f"{rows}, kernel condition {self.kernel_condition:.1e}: {verdict}"

    def _findings(self) -> list[str]:
        """A line each; of many of a kind, the first ones."""
        lines = [f"conflict: {conflict}" for conflict in self.conflicts]
        lines += _first([f"{weak!r} says less than {strong!r}" for weak, strong in self.dominated])
        near = [f"{a!r} and {b!r} are {d:.2g} apart" for a, b, d in self.nearly_coinciding]
        lines += _first(near)
        if self.redundant:
            violated = counted(len(self.redundant), "violated row")
            lines.append(f"{violated} will hold once the others do")
        if self.multipliers:
            hardest = listed(list(self.multipliers))
            lines.append(f"the work is done by {hardest}, the hardest first")
        return lines


def _first(lines: list[str]) -> list[str]:
    left = len(lines) - _SHOWN
    return lines if left <= 0 else [*lines[:_SHOWN], f"and {left:,} more like these"]


def measure(policy: Policy, constraints: AnyConstraints) -> Violations:
    """Evaluate every constraint with the real network, regions at 1000 states each.

    A sample can miss what is violated in between; `certify` does not.

    Args:
        policy: stays as it is.
        constraints: a list, a `Rulebook`, or the path or bundled name of a constraint file.
    """
    expansion = expand(constraints_of(constraints, policy), policy)
    return measure_rows(policy, expansion.rows(per_region=1000))


def diagnose(policy: Policy, constraints: AnyConstraints) -> Diagnosis:
    """Analyse constraints at the policy's present weights, which are not changed.

    Args:
        policy: stays as it is.
        constraints: a list, a `Rulebook`, or the path or bundled name of a constraint file.
    """
    expansion = expand(constraints_of(constraints, policy), policy)
    rows = Choices(expansion.rows(), policy).rows
    n_points = 0 if expansion.fixed is None else len(Choices(expansion.fixed, policy).rows)
    outputs = rows.outputs_of(policy)
    model = Linearisation(policy, rows, outputs)
    neighbours = _nearly_coinciding(rows, seen_states(rows, policy), n_points)
    conflicts = _conflicts(model, rows, _asked(policy, rows, outputs), neighbours)
    multipliers, change = np.zeros(len(rows)), np.zeros(len(rows))
    if not conflicts:
        lower, upper = _asked(policy, rows, outputs)
        solution = solve_program(model, LeastChange(model), lower, upper, _hard)
        multipliers, change = solution.multipliers, solution.change
    violated = rows.violations(model.values) > 0.0
    redundant = np.flatnonzero(violated & (multipliers == 0.0) & (change != 0.0))
    hardest = sorted(np.flatnonzero(multipliers), key=lambda i: -abs(multipliers[i]))
    return Diagnosis(
        conflicts=tuple(conflicts),
        redundant=tuple(rows.labels[i] for i in redundant),
        dominated=tuple(_dominated(rows)),
        nearly_coinciding=tuple((rows.labels[i], rows.labels[j], d) for i, j, d in neighbours),
        kernel_condition=_condition(model),
        multipliers={rows.labels[i]: float(multipliers[i]) for i in hardest},
        n_rows=len(rows),
    )


def _hard(matrix: Array, lower: Array, upper: Array, indices: Indices) -> MinimumNorm:
    del indices  # names are not needed: conflicts were looked for before
    return solve_minimum_norm(matrix, lower, upper)


def _asked(policy: Policy, rows: Rows, outputs: Array) -> tuple[Array, Array]:
    """The change that each row needs, to first order."""
    targets = Targets(rows, tolerance=1e-6, coordinates=policy.coordinates)
    return targets.change_in_values(rows.values(outputs), trust=np.inf)


def _conflicts(
    model: Linearisation,
    rows: Rows,
    asked: tuple[Array, Array],
    neighbours: list[_Neighbours],
) -> list[Conflict]:
    """Conflicts one after the other, each without the rows of those before."""
    impossible = impossible_at_one_state(rows)
    found = [impossible] if impossible is not None else []
    known = {i for conflict in found for i in conflict.rows}
    found += _opposite(rows, model.policy, neighbours, known)
    lower, upper = asked
    known_rows = np.array([i for c in found for i in c.rows], dtype=np.intp)
    left = np.setdiff1d(np.arange(len(rows)), known_rows)
    for _ in range(min(_MOST_SEARCHED, _MOST_CONFLICTS - len(found))):
        if not len(left):
            break
        chosen = left
        if len(left) > _ROWS_AT_ONCE:
            # Conflicts live among rows that are violated or nearly so.
            need = np.maximum(lower, -upper)[left]
            chosen = left[np.argsort(-need, kind="stable")[:_ROWS_AT_ONCE]]
        matrix = LeastChange(model).matrix(chosen)
        if not solve_minimum_norm(matrix, lower[chosen], upper[chosen]).contradictory:
            break
        found.append(
            find_conflict(matrix, lower[chosen], upper[chosen], chosen, rows, model.policy)
        )
        left = np.setdiff1d(left, found[-1].rows)
    return found


def _opposite(
    rows: Rows, policy: Policy, neighbours: list[_Neighbours], known: set[int]
) -> list[Conflict]:
    """Nearly the same state, but what no policy does at one: the nearest pairs, disjoint.

    The linear model knows that probabilities add up to 1, not that they are positive: it sees no
    contradiction in two actions of three that are both wanted, a hair's breadth apart.
    """
    simple, taken, found = rows.is_about_one_state(), set(known), list[Conflict]()
    # Few different demands make many pairs of neighbours: each pair of demands is solved once.
    asked = demands(rows)
    possible: dict[frozenset[bytes], bool] = {}
    for i, j, _ in sorted(neighbours, key=lambda pair: pair[2]):
        if len(found) >= _MOST_CONFLICTS or len(possible) >= _MOST_PAIRS_OF_DEMANDS:
            break
        if {i, j} & taken or not (simple[i] and simple[j]):
            continue
        pair = frozenset((asked[i], asked[j]))
        if pair not in possible:
            possible[pair] = exist_together([i, j], rows)
        if not possible[pair]:
            found.append(describe(np.array([i, j]), rows, policy))
            taken |= {i, j}
    return found


def _dominated(rows: Rows) -> list[tuple[str, str]]:
    """Rows of the same functional whose interval contains another row's."""
    groups: dict[bytes, list[int]] = {}
    for i, samples in enumerate(rows.samples):
        parts = (rows.states[samples], rows.weights[samples], rows.raw[samples])
        groups.setdefault(b"".join(part.tobytes() for part in parts), []).append(i)
    return [
        (rows.labels[weak], rows.labels[strong])
        for group in groups.values()
        for weak in group
        for strong in group
        if weak != strong
        and rows.lower[weak] <= rows.lower[strong]
        and rows.upper[weak] >= rows.upper[strong]
    ]


def _nearly_coinciding(rows: Rows, states: Array, n_points: int) -> list[_Neighbours]:
    """Pairs of different states (n_rows, n_observations) that a smooth network hardly tells apart.

    Not those that stand for regions (after the points) and ask for the same: these are meant to.
    """
    largest = float(np.abs(states).max())
    if not largest:
        return []  # all of them are the origin
    # In units of the largest coordinate, or squares of distances overflow.
    pairs = _close_pairs(states / largest)
    relative = np.linalg.norm((states[pairs[:, 0]] - states[pairs[:, 1]]) / largest, axis=1)
    distances = largest * relative
    bounds = np.stack([rows.lower, rows.upper], axis=1)
    same = (bounds[pairs[:, 0]] == bounds[pairs[:, 1]]).all(axis=1)
    meant = same & (pairs >= n_points).all(axis=1) & (distances > 0.0)
    told = (distances > 0.0) & ~meant
    return [
        (i, j, float(d)) for (i, j), d in zip(pairs[told].tolist(), distances[told], strict=True)
    ]


def _close_pairs(states: Array) -> Indices:
    """Pairs (n, 2) of states that nearly coincide; where these are too many, the closest."""
    tree, radius = KDTree(states), _NEARLY_COINCIDE
    for _ in range(_NARROWINGS):
        # Every state is its own neighbour, and every pair counts twice.
        if (int(tree.count_neighbors(tree, radius)) - len(states)) // 2 <= _MOST_PAIRS:
            return np.asarray(tree.query_pairs(radius, output_type="ndarray"), dtype=np.intp)
        radius /= 10.0
    return np.empty((0, 2), dtype=np.intp)


def _condition(model: Linearisation) -> float:
    """Condition of the kernel on at most a working set of rows, scaled to a unit diagonal."""
    step = -(-len(model) // _ROWS_AT_ONCE)
    kernel = model.kernel(np.arange(0, len(model), step))
    lengths = np.sqrt(np.diag(kernel))
    if not lengths.all():
        return float("inf")
    return float(np.linalg.cond(kernel / lengths[:, None] / lengths))
