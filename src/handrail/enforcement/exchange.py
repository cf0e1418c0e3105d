"""The exchange method: hold infinitely many constraints by the few states that need it.

Working states are held exactly, a little inside their bounds. Whatever finds a state that is
violated nevertheless hands it in; states that are far from their bounds leave. Repeated until
nothing is found (semi-infinite programming).

A search finds them. Where a few cells prove a region, there is nothing to be found: that takes less
than to look, and overlooks nothing. Elsewhere a sample is measured, another one if it obeys, and
what is beside reference states; from the worst of them a climb goes uphill.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np
from torch import Tensor

from handrail._types import Array
from handrail.constraints import (
    Expansion,
    Regional,
    Rows,
    counted,
    state_in_words,
    violations_together,
)
from handrail.enforcement.candidates import Sample, Scored, between_alternatives, climb
from handrail.enforcement.conflict import impossible_overlap
from handrail.enforcement.elsewhere import Elsewhere
from handrail.enforcement.iteration import Enforcement, Iteration, enforce_rows
from handrail.enforcement.screen import Screen, Turns
from handrail.policies import Policy
from handrail.proof import Certificate, FewCells, Renewal
from handrail.tangent import distance, restore, unchanged_on_failure

MAX_ROUNDS = 60

# Part of the margin by which working states are aimed further inside.
_BEYOND = 0.1

# A working state leaves when it is further inside than this part of all there is, and than so many
# times the margin that it is held at: else it would leave as soon as it has come, and come again.
_FAR_INSIDE, _FAR_MARGINS = 0.6, 1.5

# Violated states that enter at a time, of each region; from as many, worse ones are sought then.
STATES_A_ROUND = 8

# Once none of a sample violates, a climb begins at more: what it misses now, nobody finds.
_CLIMBED_FROM = 32


@final
@dataclass(frozen=True)
class Found:
    """What a search for violated states came back with.

    Attributes:
        violated: for each region, states (n, n_coordinates) that are violated.
        worst_violation: the largest of any region; proven if there are certificates.
        certificates: of every region, if the search was a proof.
        reason: why nothing could be found out; empty if it could.
        acceptable: whether the policy may be kept all the same.
    """

    violated: Sequence[Array]
    worst_violation: float
    certificates: tuple[Certificate, ...] = ()
    reason: str = ""
    acceptable: bool = False

    @property
    def refusal(self) -> str:
        """Why the policy cannot be kept; empty if it can."""
        return "" if self.acceptable else self.reason

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
        self._last_rows: dict[int, tuple[Array, Rows]] = {}  # of a region: its states, their rows
        self._last_together: tuple[list[Rows], Rows] | None = None

    @property
    def working(self) -> tuple[Array, ...]:
        """The working states (n, n_coordinates) of each region."""
        return tuple(self._working)

    @working.setter
    def working(self, states: Sequence[Array]) -> None:
        self._working = list(states)

    def rows_at(self, states: Sequence[Array]) -> Rows | None:
        """Of the constraints at points and at these states (n, n_coordinates) of each region.

        As far inside their bounds as working states are held; None if there are none.
        """
        blocks = [self._rows_in(index, some) for index, some in enumerate(states) if len(some)]
        if self._expansion.fixed is None and not blocks:
            return None
        known = self._last_together
        if known is None or list(map(id, known[0])) != list(map(id, blocks)):
            # What rows find out about themselves they know from then on.
            known = self._last_together = blocks, self._expansion.rows_with(blocks)
        return known[1]

    def _rows_in(self, index: int, states: Array) -> Rows:
        """Of one region: the last ones while its states are the same, as they mostly are."""
        known = self._last_rows.get(index)
        if known is None or not np.array_equal(known[0], states):
            one = self._expansion.regional[index]
            known = states.copy(), one.inside_rows_at(states, self._margin)
            self._last_rows[index] = known
        return known[1]

    def _exactness(self, tolerance: float) -> float:
        """How exactly the working states must be held for the bounds themselves to hold."""
        return min(tolerance, 0.5 * self._least_inset) if self._margin else tolerance

    @cached_property
    def _insets(self) -> list[Array]:
        """By which bounds are tightened, of each region."""
        pairs = [(one, one.stand_in_rows()) for one in self._expansion.regional]
        return [np.concatenate(rows.insets(self._margin * one.units(rows))) for one, rows in pairs]

    @cached_property
    def _least_inset(self) -> float:
        """The least of them; infinite if there is none."""
        # Of bounds so close to 0 or 1 that no margin is left inside them, there is none.
        return float(min(inset[inset > 0.0].min(initial=np.inf) for inset in self._insets))

    @cached_property
    def _contradiction(self) -> str:
        """In words, sought once before any work: rounds of it would find out only in the end."""
        return contradiction(self._expansion)

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
        held = [index for index, states in enumerate(self._working) if len(states)]
        if not held:
            return
        regional = [self._expansion.regional[index] for index in held]
        violations = violations_together(policy, regional, [self._working[i] for i in held])
        for index, one, of_states in zip(held, regional, violations, strict=True):
            margin = float(self._insets[index].max())
            far = max(_FAR_INSIDE * one.unit * one.room, _FAR_MARGINS * margin)
            self._working[index] = self._working[index][of_states > -far]

    def hold(
        self, policy: Policy, find: Find, tolerance: float, elsewhere: Elsewhere
    ) -> Enforcement:
        """Enforce and search until nothing is violated; on failure the policy is as it was."""
        working, result = self.working, None
        try:
            with unchanged_on_failure(policy) as start:
                result = self._hold(policy, find, tolerance, elsewhere, start)
                if not result.satisfied:
                    restore(policy, start)
        finally:
            if result is None or not result.satisfied:
                self.working = working
        return result

    def _hold(
        self,
        policy: Policy,
        find: Find,
        tolerance: float,
        elsewhere: Elsewhere,
        start: list[Tensor],
    ) -> Enforcement:
        exactly = self._exactness(tolerance)
        history: list[Iteration] = []
        rounds = 0

        def ended(worst: float, reason: str, found: Found) -> Enforcement:
            return Enforcement(
                satisfied=not reason,
                worst_violation=worst,
                tolerance=tolerance,
                history=tuple(history),
                parameter_change=distance(policy, start),
                reason=reason,
                regions=len(self._expansion.regional),
                rounds=rounds,
                certificates=found.certificates,
            )

        found = Found([], np.inf)
        for rounds in range(MAX_ROUNDS):  # noqa: B007 (told at the end)
            rows = self.rows_at(self._working)
            at_points = -np.inf
            if rows is not None:
                # Between updates, aimed a little further inside than must be: one step will do.
                beyond = _BEYOND * self._margin if elsewhere.matters else 0.0
                step = enforce_rows(policy, rows, exactly, elsewhere, beyond)
                history += step.history
                at_points = step.worst_violation
                if not step.satisfied:
                    impossible = self._contradiction
                    failed = ended(at_points, impossible or step.reason, Found([], np.inf))
                    return failed if impossible else replace(failed, unevenness=step.unevenness)
            self.drop(policy)
            found = find(policy)
            if not found.nothing and self._contradiction:
                worst = max(found.worst_violation, at_points)
                return ended(worst, self._contradiction, Found([], np.inf))
            if found.nothing:
                worst = max(found.worst_violation, self._worst_at_points(policy, at_points))
                return ended(worst, found.refusal, found)
            if not self.add(found):
                break
        if found.reason:  # held as well as can be, and still not proven
            return ended(found.worst_violation, found.refusal, found)
        pairs = zip(self._expansion.regional, found.violated, strict=True)
        where = [f"{one.name!r} at {state_in_words(s[0])}" for one, s in pairs if len(s)]
        reason = (
            f"After {counted(rounds + 1, 'round')} {' and '.join(where[:2])} is still violated, by "
            f"up to {found.worst_violation:.2g}. Use a wider network, or relax the constraints."
        )
        return ended(found.worst_violation, reason, Found([], np.inf))

    def _worst_at_points(self, policy: Policy, known: float) -> float:
        """Of the constraints at points, by their own bounds."""
        fixed = self._expansion.fixed
        if fixed is None:
            return -np.inf
        if not any(map(len, self._working)):
            return known
        return float(fixed.violations_of(policy).max())


@final
class RegionSearch:
    """For states of regions that are violated.

    Args:
        regional: the constraints.
        count: the states of a sample.
        proofs: of the constraints.
        cells: how many may be bounded before a region is looked at.

    Attributes:
        samples: of each region.
    """

    def __init__(
        self, regional: Sequence[Regional], count: int, proofs: Renewal, cells: int
    ) -> None:
        self.samples = tuple(Sample.of(one, count) for one in regional)
        self._proofs, self._cells = proofs, cells
        self._screen = Screen(self.samples)
        self._turns = Turns(self._screen)
        self._references: Array | None = None
        self._beside: dict[int, Array] = {}  # of regions that were looked at since

    def look_beside(self, references: Array | None) -> None:
        """At the states of regions right beside these (n, …), too, from now on."""
        self._references, self._beside = references, {}

    def of_few_cells(self, policy: Policy) -> FewCells:
        """What is proven of some regions, and where others seem to be violated."""
        return self._proofs.of_few_cells(policy, self._cells)

    def find(
        self,
        policy: Policy,
        known: Mapping[int, Certificate],
        suspects: Mapping[int, Array],
        *,
        again: bool,
    ) -> Found:
        """On samples and beside references, and uphill from the worst states.

        Args:
            policy: as it is.
            known: what is proven of some regions, by number: they are not looked at.
            suspects: states of others (n, n_coordinates): if some of them are violated, a sample of
                the region need not be looked at.
            again: look at another sample, too, if one obeys.
        """
        violated = [sample.states[:0] for sample in self.samples]
        worst = max((one.worst_violation for one in known.values()), default=-np.inf)
        asked = [index for index in range(len(self.samples)) if index not in known]
        if asked:
            found = self._climbed(policy, self._looked_at(policy, asked, suspects, again=again))
            for index, scored in found.items():
                violated[index] = self.samples[index].worst(scored, STATES_A_ROUND).violated
                worst = max(worst, scored.highest)
        return Found(violated, worst)

    def _looked_at(
        self, policy: Policy, asked: Sequence[int], suspects: Mapping[int, Array], *, again: bool
    ) -> dict[int, Scored]:
        """What is near the bounds of some regions."""
        met = self._measured(policy, {i: one for i, one in suspects.items() if i in asked})
        found = {index: scored for index, scored in met.items() if scored.highest > 0.0}
        left = [index for index in asked if index not in found]
        if left:
            found |= self._near(policy, left, again=again and not found)
        return found

    def _near(self, policy: Policy, asked: Sequence[int], *, again: bool) -> dict[int, Scored]:
        """The states of samples and beside references that are near the bounds."""
        found = self._screen.near(policy, asked)
        for index, scored in self._measured(policy, self._states_beside(asked)).items():
            found[index] = found[index].together_with(scored)
        if again and max(one.highest for one in found.values()) <= 0.0:
            others = self._turns.next().near(policy, asked)
            found = {index: one.together_with(others[index]) for index, one in found.items()}
            between = {index: between_alternatives(policy, self.samples[index]) for index in asked}
            met = self._measured(
                policy, {i: states for i, states in between.items() if len(states)}
            )
            found |= {index: found[index].together_with(scored) for index, scored in met.items()}
        return found

    def _states_beside(self, asked: Sequence[int]) -> dict[int, Array]:
        """Of the regions that have some, by number."""
        for index in asked:
            if index not in self._beside:
                self._beside[index] = self.samples[index].beside(self._references)
        return {index: self._beside[index] for index in asked if len(self._beside[index])}

    def _measured(self, policy: Policy, states: Mapping[int, Array]) -> dict[int, Scored]:
        """Of some regions, by number."""
        if not states:
            return {}
        regional = [self.samples[index].regional for index in states]
        violations = violations_together(policy, regional, list(states.values()))
        pairs = zip(states.items(), violations, strict=True)
        return {index: Scored(own, found) for (index, own), found in pairs}

    def _climbed(self, policy: Policy, found: Mapping[int, Scored]) -> dict[int, Scored]:
        """Uphill from the worst states of the regions that have some near their bounds."""
        obeys = max(scored.highest for scored in found.values()) <= 0.0
        count = _CLIMBED_FROM if obeys else STATES_A_ROUND
        starts = {
            index: (self.samples[index], self.samples[index].worst(scored, count))
            for index, scored in found.items()
            if self.samples[index].is_near(scored).any()
        }
        climbed = climb(policy, list(starts.values()))
        return {**found, **dict(zip(starts, climbed, strict=True))}

    @property
    def turn(self) -> int:
        """The number of the last of the other samples."""
        return self._turns.turn

    @turn.setter
    def turn(self, number: int) -> None:
        self._turns.turn = number


def contradiction(expansion: Expansion) -> str:
    """Where regions ask for what no policy can do, in words; empty if nowhere."""
    found = impossible_overlap(expansion) if expansion.regional else None
    if found is None:
        return ""
    conflict, state = found
    return f"{conflict}, for example at {state_in_words(state)}. Relax one of them."
