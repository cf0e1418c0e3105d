"""Which constraints contradict each other, in words.

A program that has no answer, or only an absurd one, is reduced to the smallest set of rows that
already has none. Pairs have a closed form; larger sets are found by leaving rows out one by one.
Before any network is asked, rows at one state (of points, or where regions overlap) are compared
with what outputs there are at all. Where a constraint leaves a choice, alternatives that contradict
what else is asked are left alone (`Choices`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any, final

import numpy as np
from scipy.optimize import linprog

from handrail._minimum_norm import CONFLICT_RATIO, scale_rows, solve_minimum_norm
from handrail._types import Array, Indices
from handrail.constraints import Expansion, Rows, concatenate, html_table, listed
from handrail.enforcement.linearisation import Targets
from handrail.policies import Policy, Quantity
from handrail.regions import Box

# Each solves a program of all rows that are left: with 400, a twentieth of a second.
_MOST_TRIES = 100

# Each costs a small linear program, a few milliseconds.
_MOST_DEMANDS = 200

# Of alternatives of several choices at one state; beyond, what is nearest is taken.
_MOST_COMBINATIONS = 64

# Differences of logits from here on are as good as any: of probabilities, 0 or 1.
_LARGE = 30.0

# Of each region, to look for states that other regions contain, too; and of what the bounds of two
# regions share, for so many pairs.
_STATES = 256
_SHARED_STATES, _MOST_PAIRS = 64, 2000


@final
@dataclass(frozen=True, repr=False)
class Conflict:
    """Rows that cannot all be satisfied; leaving out any one of them would do.

    Attributes:
        rows: indices into the constraint rows.
        labels: what the user calls them.
        distance: the largest distance between their states, in the network's own units: scaled,
            where it scales what it observes.
        at_one_state: whether no policy at all could satisfy them (not even another network).
        quantity: what they are about.
        however_chosen: whether other alternatives, where there is a choice, conflict as well.
    """

    rows: tuple[int, ...]
    labels: tuple[str, ...]
    distance: float
    at_one_state: bool
    quantity: Quantity
    however_chosen: bool = False

    def __str__(self) -> str:
        names = listed(self.labels)
        if len(self.rows) == 1:
            return (
                f"{names} cannot be moved: the network's output no longer depends on its weights "
                "there (units that are off; an output that a hardtanh clips, which a tanh is not)"
            )
        if self.at_one_state:
            what = self.quantity.plural
            also = ", whichever alternative is chosen" if self.however_chosen else ""
            return f"{names} ask for {what} that do not exist together at the same state{also}"
        if len(self.rows) == 2:
            where = f"{self.distance:.3g} apart, which this network can hardly tell apart"
            return f"{names} ask opposite things {where}"
        return f"{names} cannot hold together (their states lie within {self.distance:.3g})"

    def __repr__(self) -> str:
        return f"<Conflict: {self}>"

    def _repr_html_(self) -> str:
        return html_table(f"{self}.", [])


@final
class Contradiction(Exception):
    """A program without an answer, not explained yet: that costs more than finding out."""

    def __init__(self, matrix: Array, lower: Array, upper: Array, indices: Indices) -> None:
        super().__init__("the rows of the program contradict each other")
        self._program = matrix, lower, upper, indices

    def conflict(self, rows: Rows, policy: Policy) -> Conflict:
        """The smallest conflicting set among the given constraint rows."""
        return find_conflict(*self._program, rows, policy)


def find_conflict(
    matrix: Array, lower: Array, upper: Array, indices: Indices, rows: Rows, policy: Policy
) -> Conflict:
    """The smallest set of rows of an infeasible program that is infeasible by itself."""
    lengths = np.linalg.norm(matrix, axis=1)
    stuck = np.flatnonzero((lengths == 0.0) & (np.maximum(lower, -upper) > 0.0))
    if len(stuck):
        return describe(indices[stuck[:1]], rows, policy)
    movable = np.flatnonzero(lengths > 0.0)
    program = matrix[movable], lower[movable], upper[movable]
    pair = _conflicting_pair(*program)
    chosen = pair if pair is not None else _smallest_set(*program)
    return describe(indices[movable[chosen]], rows, policy)


def describe(indices: Indices, rows: Rows, policy: Policy) -> Conflict:
    """A conflict between the given rows, with names and distance."""
    states = seen_states(rows.take(indices), policy)
    distances = np.linalg.norm(states[:, None] - states[None], axis=2)
    return _named(indices, rows, float(distances.max()), at_one_state=False)


def _named(indices: Indices, rows: Rows, distance: float, at_one_state: bool) -> Conflict:
    return Conflict(
        rows=tuple(int(i) for i in indices),
        labels=tuple(rows.labels[i] for i in indices),
        distance=distance,
        at_one_state=at_one_state,
        quantity=rows.quantity,
    )


def seen_states(rows: Rows, policy: Policy) -> Array:
    """The first state of each row (n_rows, n_observations), in the network's own units.

    As they are, of a network that is not looked into.
    """
    seen = policy.seen(rows.first_states)
    return rows.first_states.reshape(len(rows), -1) if seen is None else seen


def impossible_at_one_state(rows: Rows) -> Conflict | None:
    """Rows at the same state that no policy satisfies, such as π₀ ≥ 0.6 and π₁ ≥ 0.6.

    The linear model does not see these when there are three or more actions: it knows that
    probabilities add up to 1, not that they are positive.
    """
    if "impossible" not in rows.notes:
        rows.notes["impossible"] = _find_impossible(rows)
    found: Conflict | None = rows.notes["impossible"]
    return found


def _find_impossible(rows: Rows) -> Conflict | None:
    for group in rows.by_state:
        if _ask_differently(group, rows) and not exist_together(group, rows):
            smallest = list(group)
            for row in group:
                rest = [i for i in smallest if i != row]
                if rest and not exist_together(rest, rows):
                    smallest = rest
            return _named(np.array(smallest), rows, distance=0.0, at_one_state=True)
    return None


@final
class Choices:
    """Which alternative of every choice is held: the nearest one, of those that are possible.

    An alternative that has failed is given up for good, so that nothing is tried twice.

    Args:
        rows: of all alternatives.
        policy: from which it is near or far.
    """

    def __init__(self, rows: Rows, policy: Policy) -> None:
        self._rows = rows
        self._far = np.zeros((0, 1))  # (n_choices, n_alternatives), inf of what was given up
        self._distances = np.zeros(0)
        if rows.has_choices:
            outputs = rows.outputs_of(policy)
            self._distances = Targets(rows, 0.0, policy.coordinates).distances(
                outputs, policy.scale(outputs)
            )
            self._far = rows.worst_of_alternatives(self._distances)
        self._chosen = self._nearest()

    @property
    def rows(self) -> Rows:
        """Those of the alternatives that are chosen, all of which must hold."""
        return self._rows.with_chosen(self._chosen) if self._rows.has_choices else self._rows

    def of(self, some: Sequence[int]) -> Indices:
        """The choices that some of the rows belong to."""
        if not self._rows.has_choices:
            return np.zeros(0, dtype=np.intp)
        kept = np.flatnonzero(self._rows.counting(self._chosen))
        found: Indices = np.unique(self._rows.choice[kept[list(some)]])
        return found[found >= 0]

    def give_up(self, blamed: Sequence[int]) -> bool:
        """Choose others instead of those that some of the rows belong to; False if none is left."""
        guilty = self.of(blamed)
        if not len(guilty):
            return False
        left = np.isfinite(self._far[guilty]).sum(axis=1) > 1
        self._far[guilty[left], self._chosen[guilty[left]]] = np.inf
        self._chosen = self._nearest()
        return bool(left.any())

    def choose_alike(self) -> Iterator[None]:
        """The same alternative wherever there is one, those that are nearest together first.

        The nearest at each state may be another one next door, which a network cannot follow.
        """
        if not len(self._far):
            return
        distances = self._rows.worst_of_alternatives(self._distances)
        common = np.flatnonzero(np.isfinite(distances).all(axis=0))
        for which in common[np.argsort(distances[:, common].sum(axis=0), kind="stable")]:
            self._chosen = np.full(len(distances), which)
            yield

    def _nearest(self) -> Indices:
        chosen: Indices = self._far.argmin(axis=1)
        if not len(chosen):
            return chosen
        for group in self._rows.by_state:
            here = np.unique(self._rows.choice[group])
            if len(here) > 1:  # there is something else than one choice
                self._settle(chosen, group, here[here >= 0])
        return chosen

    def _settle(self, chosen: Indices, group: list[int], here: Indices) -> None:
        """The nearest alternatives of the choices at one state that exist together, if any do."""
        ways = [np.flatnonzero(np.isfinite(self._far[one])) for one in here]
        combinations = list(islice(product(*ways), _MOST_COMBINATIONS))
        for combination in sorted(combinations, key=lambda one: self._far[here, one].max()):
            tried = chosen.copy()
            tried[here] = combination
            counting = self._rows.counting(tried)
            if exist_together([row for row in group if counting[row]], self._rows):
                chosen[here] = combination
                return


def _ask_differently(group: list[int], rows: Rows) -> bool:
    """Whether there are two demands among them: neighbouring regions make one at shared corners."""
    if len(group) == 1:
        return False
    asked = demands(rows.take(np.array(group)))
    return len(set(asked)) > 1


def exist_together(group: list[int], rows: Rows) -> bool:
    """Whether some outputs would satisfy all these rows if their states were the same."""
    chosen = rows.take(np.array(group))
    weights, bounds = _one_sided(chosen)
    raw = np.concatenate([chosen.raw[np.isfinite(end)] for end in (chosen.lower, chosen.upper)])
    n_actions = weights.shape[1]
    if raw.any():
        # Differences of logits for themselves: as probabilities, all of them could be 0.
        if not _is_possible(weights[raw], bounds[raw], {"bounds": (None, None)}):
            return False
        weights[raw], bounds[raw] = _of_probabilities(weights[raw], bounds[raw])
    return _is_possible(weights, bounds, rows.quantity.possible_outputs(n_actions))


def _one_sided(rows: Rows) -> tuple[Array, Array]:
    """Rows about one state each, as weights · x ≤ bounds: lower bounds first."""
    from_below, from_above = np.isfinite(rows.lower), np.isfinite(rows.upper)
    weights = np.concatenate([-rows.weights[from_below], rows.weights[from_above]])
    return weights, np.concatenate([-rows.lower[from_below], rows.upper[from_above]])


def _of_probabilities(weights: Array, bounds: Array) -> tuple[Array, Array]:
    """z_b - z_a ≤ k is π_b ≤ e^k π_a: the same about differences of two logits each."""
    half = np.exp(0.5 * np.clip(bounds, -_LARGE, _LARGE))[:, None]
    return np.where(weights > 0.0, weights / half, weights * half), np.zeros(len(bounds))


def _is_possible(weights: Array, bounds: Array, outputs: dict[str, Any]) -> bool:
    result = linprog(np.zeros(weights.shape[1]), A_ub=weights, b_ub=bounds, **outputs)
    return bool(result.status == 0)


def demands(rows: Rows) -> list[bytes]:
    """Equal for rows that ask for the same, wherever they do."""
    bounds = np.stack([rows.lower, rows.upper], axis=1)
    pairs = zip(rows.samples, bounds, strict=True)
    return [
        rows.weights[samples].tobytes() + rows.raw[samples].tobytes() + bound.tobytes()
        for samples, bound in pairs
    ]


def nearest_opposite(row: int, rows: Rows, policy: Policy) -> Conflict | None:
    """The nearest row that no policy would satisfy together with this one if it were here."""
    simple = rows.is_about_one_state()
    if not simple[row]:
        return None
    states = seen_states(rows, policy)
    order = np.argsort(np.linalg.norm(states - states[row], axis=1), kind="stable")
    asked, possible = demands(rows), set[bytes]()
    for other in order[simple[order] & (order != row)]:
        if asked[other] in possible:
            continue
        if not exist_together([row, int(other)], rows):
            return describe(np.array([row, other]), rows, policy)
        possible.add(asked[other])
        if len(possible) >= _MOST_DEMANDS:
            break
    return None


def _conflicting_pair(matrix: Array, lower: Array, upper: Array) -> Indices | None:
    """The pair of rows that needs the longest answer, if that is absurdly long.

    For unit rows â and bounds b̂ both held, ‖x‖² = (b̂ᵢ² + b̂ⱼ² - 2c b̂ᵢb̂ⱼ)/(1 - c²), c = âᵢ·âⱼ. With a
    sign per row every bound reads âx ≥ b̂, and 1 + c is taken as ½‖âᵢ + âⱼ‖² so that nearly opposite
    rows keep their digits.
    """
    rows = scale_rows(matrix, lower, upper)
    from_below, from_above = np.isfinite(rows.lower), np.isfinite(rows.upper)
    units = np.concatenate([rows.matrix[from_below], -rows.matrix[from_above]])
    bounds = np.concatenate([rows.lower[from_below], -rows.upper[from_above]])
    owners = np.concatenate([np.flatnonzero(from_below), np.flatnonzero(from_above)])
    worst, pair = CONFLICT_RATIO**2, None
    for i in range(len(bounds)):
        one_plus_c = 0.5 * ((units[i] + units) ** 2).sum(axis=1)
        cosine = one_plus_c - 1.0
        # The other row conflicts only if the answer to one alone breaks the other.
        broken = (bounds > cosine * bounds[i]) & (bounds[i] > cosine * bounds)
        broken &= owners != owners[i]
        numerator = (bounds[i] + bounds) ** 2 - 2.0 * one_plus_c * bounds[i] * bounds
        with np.errstate(over="ignore"):  # of rows that say the same, which are not broken
            squared = numerator / np.maximum(one_plus_c * (1.0 - cosine), 1e-300)
        length = np.where(broken, squared, 0.0)
        j = int(np.argmax(length))
        if length[j] > worst:
            worst, pair = float(length[j]), np.array(sorted((owners[i], owners[j])))
    return pair


def _smallest_set(matrix: Array, lower: Array, upper: Array) -> Indices:
    """Deletion filter: leave out every row without which the program is still infeasible.

    Of hundreds of rows that all take part the set may stay larger than it must be.
    """

    def contradictory(rows: Indices) -> bool:
        return solve_minimum_norm(matrix[rows], lower[rows], upper[rows]).contradictory

    kept = np.arange(len(lower))
    # Large pieces first: most rows have nothing to do with the conflict.
    piece, tries = len(kept) // 2, 0
    while piece:
        start = 0
        while start < len(kept) and tries < _MOST_TRIES:
            tries += 1
            rest = np.delete(kept, slice(start, start + piece))
            if len(rest) and contradictory(rest):
                kept = rest
            else:
                start += piece
        piece //= 2
    return kept


def impossible_overlap(expansion: Expansion) -> tuple[Conflict, Array] | None:
    """A conflict where regions overlap, and a state (n_coordinates,) at which it is one."""
    states = [one.region.cover(_STATES) for one in expansion.regional]
    states += _shared_bounds(expansion)
    if expansion.fixed is not None:
        points = expansion.fixed.first_states
        states.append(points.reshape(len(points), -1))
    together = np.concatenate(states)
    inside = np.stack([one.region.contains(together) for one in expansion.regional], axis=1)
    if expansion.fixed is not None:
        at_point = np.zeros((len(together), 1), dtype=bool)
        at_point[-len(expansion.fixed) :] = True
        inside = np.concatenate([inside, at_point], axis=1)
    # One state of every combination of regions that occurs, and every point.
    _, first = np.unique(inside, axis=0, return_index=True)
    chosen = {int(index) for index in first}
    if expansion.fixed is not None:
        chosen |= set(range(len(together) - len(expansion.fixed), len(together)))
    for index in sorted(chosen):
        if inside[index].sum() > 1:
            conflict = _impossible_however_chosen(_rows_at(expansion, together[index]))
            if conflict is not None:
                return conflict, together[index]
    return None


def _impossible_however_chosen(rows: Rows) -> Conflict | None:
    """A conflict at one state that no alternative avoids: that of the first ones."""
    if not rows.has_choices:
        return impossible_at_one_state(rows)
    pairs = zip(rows.choice, rows.alternative, strict=True)
    known = sorted({(int(choice), int(which)) for choice, which in pairs if choice >= 0})
    ways = [[which for one, which in known if one == k] for k in range(known[-1][0] + 1)]
    found = None
    for number, combination in enumerate(product(*ways)):
        conflict = impossible_at_one_state(rows.with_chosen(np.array(combination)))
        if conflict is None or number == _MOST_COMBINATIONS:
            return None
        found = found or replace(conflict, however_chosen=True)
    return found


def _shared_bounds(expansion: Expansion) -> list[Array]:
    """States where the bounds of two regions overlap: thin overlaps lie between those of covers."""
    low, high = (
        np.stack(side)
        for side in zip(*(one.region.bounds for one in expansion.regional), strict=True)
    )
    shared = []
    for i in range(len(low) - 1):
        first, last = np.maximum(low[i], low[i + 1 :]), np.minimum(high[i], high[i + 1 :])
        overlaps = np.flatnonzero((first <= last).all(axis=1))
        shared += [Box(first[j], last[j]).cover(_SHARED_STATES) for j in overlaps]
        if len(shared) >= _MOST_PAIRS:
            break
    return shared


def _rows_at(expansion: Expansion, state: Array) -> Rows:
    """Everything that is asked at one state (n_coordinates,)."""
    blocks = [
        one.rows_at(state[None])
        for one in expansion.regional
        if one.region.contains(state[None])[0]
    ]
    fixed = expansion.fixed
    if fixed is not None:
        points = fixed.first_states.reshape(len(fixed), -1)
        here = np.flatnonzero((points == state).all(axis=1))
        if len(here):
            blocks.append(fixed.take(here))
    return concatenate(blocks)
