"""The exchange method: hold infinitely many constraints by the few states that need it.

Working states are held exactly, a little inside their bounds. Whatever finds a state that is
violated nevertheless hands it in; states that are far from their bounds leave. Repeated until
nothing is found (semi-infinite programming).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from handrail._types import Array
from handrail.constraints import Expansion, Rows, state_in_words
from handrail.enforcement.conflict import impossible_overlap
from handrail.enforcement.iteration import Enforcement, Iteration, distance, enforce_rows
from handrail.policies import Policy
from handrail.proof import Certificate
from handrail.tangent import restore, snapshot

MAX_ROUNDS = 60


# A working state leaves when it is further inside than this part of all there is.
_FAR_INSIDE = 0.6


@final
@dataclass(frozen=True)
class Found:
    """What a search for violated states came back with.

    Attributes:
        violated: for each region, states (n, n_coordinates) that are violated.
        worst_violation: the largest of any region; proven if there are certificates.
        certificates: of every region, if the search was a proof.
        reason: why nothing could be found out; empty if it could.
    """

    violated: Sequence[Array]
    worst_violation: float
    certificates: tuple[Certificate, ...] = ()
    reason: str = ""

    @property
    def nothing(self) -> bool:
        """Whether no state is violated."""
        return not any(len(states) for states in self.violated)


Find = Callable[[Policy], Found]


@final
class Exchange:
    """The working states of regions.

    Args:
        expansion: constraints at points and on regions.
        margin: how far inside their bounds working states are held, in units of each region.
    """

    def __init__(self, expansion: Expansion, margin: float) -> None:
        self._expansion = expansion
        self._margin = margin
        self._working: list[Array] = [
            np.zeros((0, one.region.n_coordinates)) for one in expansion.regional
        ]

    @property
    def working(self) -> tuple[Array, ...]:
        """The working states (n, n_coordinates) of each region."""
        return tuple(self._working)

    @working.setter
    def working(self, states: Sequence[Array]) -> None:
        self._working = list(states)

    def rows(self) -> Rows | None:
        """Of the constraints at points and of the working states; None if there are none."""
        blocks = self._blocks()
        if self._expansion.fixed is None and not blocks:
            return None
        return self._expansion.rows_with(blocks)

    def _blocks(self) -> list[Rows]:
        pairs = zip(self._expansion.regional, self._working, strict=True)
        return [one.inside_rows_at(states, self._margin) for one, states in pairs if len(states)]

    def _exactness(self, tolerance: float) -> float:
        """How exactly the working states must be held for the bounds themselves to hold."""
        if not self._margin:
            return tolerance
        insets = [
            np.concatenate(one.rows_at(one.constraint.states[:1]).insets(self._margin * one.unit))
            for one in self._expansion.regional
        ]
        return min([tolerance, *(0.5 * float(inset[inset > 0.0].min()) for inset in insets)])

    def add(self, found: Found) -> bool:
        """Take violated states in; False if all of them were there already."""
        before = sum(map(len, self._working))
        for index, states in enumerate(found.violated):
            if len(states):
                together = np.concatenate([self._working[index], states])
                _, first = np.unique(together, axis=0, return_index=True)
                self._working[index] = together[np.sort(first)]
        return sum(map(len, self._working)) > before

    def drop(self, policy: Policy) -> None:
        """Let states go that are far inside their bounds."""
        for index, regional in enumerate(self._expansion.regional):
            states = self._working[index]
            if len(states):
                rows = regional.rows_at(states)
                violations = rows.violations(rows.values(policy.outputs(rows.states)))
                near = violations > -_FAR_INSIDE * regional.unit * rows.room()
                self._working[index] = states[near.reshape(len(states), -1).any(axis=1)]

    def hold(self, policy: Policy, find: Find, tolerance: float) -> Enforcement:
        """Enforce and search until nothing is violated; on failure the policy is as it was."""
        saved, working = snapshot(policy), self.working
        try:
            result = self._hold(policy, find, tolerance)
        except BaseException:
            restore(policy, saved)
            self.working = working
            raise
        if not result.satisfied:
            restore(policy, saved)
            self.working = working
        return result

    def _hold(self, policy: Policy, find: Find, tolerance: float) -> Enforcement:
        exactly = self._exactness(tolerance)
        history: list[Iteration] = []
        start = snapshot(policy)
        found = Found([], np.inf)
        for rounds in range(MAX_ROUNDS):
            rows = self.rows()
            at_points = -np.inf
            if rows is not None:
                step = enforce_rows(policy, rows, exactly)
                history += step.history
                at_points = step.worst_violation
                if not step.satisfied:
                    reason = contradiction(self._expansion) or step.reason
                    return _ended(policy, start, history, rounds, step.worst_violation, reason)
            self.drop(policy)
            found = find(policy)
            worst = max(found.worst_violation, self._worst_at_points(policy, at_points))
            if found.nothing:
                return _ended(
                    policy, start, history, rounds, worst, found.reason, found.certificates
                )
            if not self.add(found):
                break
        pairs = zip(self._expansion.regional, found.violated, strict=True)
        where = [f"{one.name!r} at {state_in_words(s[0])}" for one, s in pairs if len(s)]
        reason = (
            f"After {rounds + 1} rounds {' and '.join(where[:2])} is still violated, by up to "
            f"{found.worst_violation:.2g}. Use a wider network, or relax the constraints."
        )
        return _ended(policy, start, history, rounds, found.worst_violation, reason)

    def _worst_at_points(self, policy: Policy, known: float) -> float:
        """Of the constraints at points, by their own bounds."""
        fixed = self._expansion.fixed
        if fixed is None:
            return -np.inf
        if not any(map(len, self._working)):
            return known
        return float(fixed.violations(fixed.values(policy.outputs(fixed.states))).max())


def contradiction(expansion: Expansion) -> str:
    """Where regions ask for what no policy can do, in words; empty if nowhere."""
    found = impossible_overlap(expansion) if expansion.regional else None
    if found is None:
        return ""
    conflict, state = found
    return f"{conflict}, for example at {state_in_words(state)}. Relax one of them."


def _ended(
    policy: Policy,
    start: list[Any],
    history: list[Iteration],
    rounds: int,
    worst: float,
    reason: str,
    certificates: tuple[Certificate, ...] = (),
) -> Enforcement:
    return Enforcement(
        satisfied=not reason,
        worst_violation=worst,
        history=tuple(history),
        parameter_change=distance(policy, start),
        policy_change=None,
        reason=reason,
        rounds=rounds,
        certificates=certificates,
    )
