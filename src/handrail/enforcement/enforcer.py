"""What a learner obeys: constraints at points, chosen states of regions, or whole regions.

Three kinds of rules, one interface: which rows the next step is solved for, how the rules are held
exactly, and how far a policy is from obeying them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from handrail._types import Array
from handrail.constraints import (
    Expansion,
    Rows,
    Violations,
    expand,
    measure_rows,
    violations_at,
)
from handrail.enforcement.candidates import Candidates, Sample, Scored
from handrail.enforcement.exchange import Exchange, Found
from handrail.enforcement.iteration import Enforcement, enforce_rows
from handrail.errors import InvalidArgument
from handrail.policies import Layers, Policy
from handrail.proof import Budget, Certificate, KnownCells
from handrail.rulebook import AnyConstraints, constraints_of
from handrail.settings import (
    Everywhere,
    MaximumDeviation,
    MaximumReturn,
    Selection,
    chosen_selection,
)
from handrail.tangent import PolicyGradient

Memory = dict[str, NDArray[Any]]


class Rules(ABC):
    """What a learner obeys, and what it remembers of it from update to update."""

    @abstractmethod
    def step_rows(self, policy: Policy, gradient: PolicyGradient, step_size: float) -> Rows:
        """The rows that the next step is solved for."""

    @abstractmethod
    def hold(self, policy: Policy, tolerance: float, values: Array | None = None) -> Enforcement:
        """Make the policy obey, in place; on failure it is as it was.

        Args:
            policy: changed as little as possible.
            tolerance: the largest violation allowed.
            values: of the rows of the last step (n_rows,), if they are known already.
        """

    @abstractmethod
    def violation(self, policy: Policy, values: Array | None = None) -> float:
        """The worst, of the policy as it is; `values` as for `hold`."""

    @abstractmethod
    def measure(self, policy: Policy) -> Violations:
        """Row by row, worst first; regions on a sample."""

    @abstractmethod
    def memory(self) -> Memory:
        """What `recall` needs to go on exactly from here."""

    @abstractmethod
    def recall(self, memory: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what was remembered."""

    @property
    @abstractmethod
    def stars(self) -> tuple[Array, ...]:
        """The states of regions that are constrained at present, for pictures."""


@final
class FixedRules(Rules):
    """Constraints at points: always the same rows."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def step_rows(self, policy: Policy, gradient: PolicyGradient, step_size: float) -> Rows:
        """All of them."""
        del policy, gradient, step_size
        return self._rows

    def hold(self, policy: Policy, tolerance: float, values: Array | None = None) -> Enforcement:
        """By relinearising."""
        if values is not None:
            violation = float(self._rows.violations(values).max())
            if violation <= tolerance:
                return Enforcement(True, violation, (), 0.0, None, "")
        return enforce_rows(policy, self._rows, tolerance)

    def violation(self, policy: Policy, values: Array | None = None) -> float:
        """Of all rows."""
        if values is None:
            values = self._rows.values(policy.outputs(self._rows.states))
        return float(self._rows.violations(values).max())

    def measure(self, policy: Policy) -> Violations:
        """All rows."""
        return measure_rows(policy, self._rows)

    def memory(self) -> Memory:
        """Nothing."""
        return {}

    def recall(self, memory: Mapping[str, NDArray[Any]]) -> None:
        """Nothing."""

    @property
    def stars(self) -> tuple[Array, ...]:
        """None: points are drawn as such."""
        return ()


def pack_states(prefix: str, blocks: Sequence[Array]) -> Memory:
    """States of several regions, by their numbers."""
    return {f"{prefix}.{number}": np.array(block) for number, block in enumerate(blocks)}


def unpack_states(prefix: str, memory: Mapping[str, NDArray[Any]]) -> tuple[Array, ...]:
    """What `pack_states` packed."""
    count = sum(key.startswith(f"{prefix}.") for key in memory)
    return tuple(memory[f"{prefix}.{number}"] for number in range(count))


@final
class ChosenStates(Rules):
    """The paper's dynamic constraints: a few states of each discretised region at a time."""

    def __init__(self, expansion: Expansion, selection: MaximumReturn | MaximumDeviation) -> None:
        self._expansion = expansion
        self._candidates = Candidates(expansion, selection)
        self._watched = expansion.rows_with([self._candidates.rows])
        self._exchange = Exchange(expansion, margin=0.0)
        self._stars: tuple[Array, ...] = ()

    def step_rows(self, policy: Policy, gradient: PolicyGradient, step_size: float) -> Rows:
        """The constraints at points, and the states with the highest scores."""
        scores = self._candidates.scores(policy, gradient, step_size)
        chosen = self._candidates.choose(scores)
        pairs = zip(self._candidates.samples, chosen, strict=True)
        self._stars = tuple(sample.states[indices] for sample, indices in pairs)
        return self._expansion.rows_with(self._candidates.rows_at(chosen))

    def hold(self, policy: Policy, tolerance: float, values: Array | None = None) -> Enforcement:
        """All points of all regions, by exchange: violated ones enter by the strategy's score."""
        del values

        def find(policy: Policy) -> Found:
            violations = self._candidates.violations(policy)
            worst = max(float(one.max()) for one in violations)
            if worst <= tolerance:
                return Found([sample.states[:0] for sample in self._candidates.samples], worst)
            scores = self._candidates.scores(policy, None, 1.0)
            # Among the violated only: the highest score of a state that obeys helps nobody.
            masked = [
                np.where(violation > tolerance, score, -np.inf)
                for score, violation in zip(scores, violations, strict=True)
            ]
            chosen = self._candidates.choose(masked)
            return Found(
                [
                    sample.states[indices[np.isfinite(score[indices])]]
                    for sample, indices, score in zip(
                        self._candidates.samples, chosen, masked, strict=True
                    )
                ],
                worst,
            )

        result = self._exchange.hold(policy, find, tolerance)
        self._stars = self._exchange.working
        return result

    def violation(self, policy: Policy, values: Array | None = None) -> float:
        """Of all points."""
        del values
        rows = self._watched
        return float(rows.violations(rows.values(policy.outputs(rows.states))).max())

    def measure(self, policy: Policy) -> Violations:
        """All points."""
        return measure_rows(policy, self._watched)

    def memory(self) -> Memory:
        """The working states, and those that are drawn."""
        return {
            **pack_states("working", self._exchange.working),
            **pack_states("stars", self._stars),
        }

    def recall(self, memory: Mapping[str, NDArray[Any]]) -> None:
        """Both."""
        self._exchange.working = unpack_states("working", memory)
        self._stars = unpack_states("stars", memory)

    @property
    def stars(self) -> tuple[Array, ...]:
        """Of the last update."""
        return self._stars


# Violated states that enter at a time, of each region; from as many, worse ones are sought.
_STATES_A_ROUND = 8


@final
class WholeRegions(Rules):
    """Every state of every region, on a fine sample or proven."""

    def __init__(self, expansion: Expansion, selection: Everywhere) -> None:
        self._expansion = expansion
        self._selection = selection
        self._samples = tuple(
            Sample(one, one.region.cover(selection.sample)) for one in expansion.regional
        )
        self._proofs = tuple(
            KnownCells(one.constraint.moved_to(one.region, one.name)) for one in expansion.regional
        )
        self._exchange = Exchange(expansion, selection.margin)
        self._violation: float | None = None
        self._proven = False

    def step_rows(self, policy: Policy, gradient: PolicyGradient, step_size: float) -> Rows:
        """The constraints at points, and the working states."""
        del policy, gradient, step_size
        rows = self._exchange.rows()
        if rows is not None:
            return rows
        # A policy that obeyed from the beginning has none yet: one state stands for each region.
        return self._expansion.rows(per_region=1)

    def hold(self, policy: Policy, tolerance: float, values: Array | None = None) -> Enforcement:
        """By exchange."""
        del values
        result = self._exchange.hold(policy, self._find, tolerance)
        if result.satisfied:
            self._violation = result.worst_violation
            self._proven = self._selection.prove
        return result

    def _find(self, policy: Policy) -> Found:
        """Where it was proven before, a proof is the cheapest search; else a sample comes first."""
        if not self._proven:
            found = self._search(policy)
            return self._prove(policy) if found.nothing and self._selection.prove else found
        proof = self._prove(policy)
        if proof.nothing:
            return proof
        found = self._search(policy)  # a counterexample seldom comes alone
        return proof if found.nothing else found

    def _search(self, policy: Policy) -> Found:
        """On the sample, and uphill from its worst states."""
        violated, worst = [], -np.inf
        for sample in self._samples:
            measured = sample.measure(policy)
            climbed = sample.climb(policy, sample.worst(measured, _STATES_A_ROUND).states)
            worst = max(worst, measured.highest, climbed.highest)
            violated.append(sample.worst(climbed, _STATES_A_ROUND).violated)
        return Found(violated, worst)

    def _prove(self, policy: Policy) -> Found:
        budget = Budget(self._selection.cells, self._selection.seconds)
        certificates = tuple(one.certify(policy, budget) for one in self._proofs)
        unknown = [one for one in certificates if one.status == "unknown"]
        reason = ""
        if unknown:
            reason = (
                f"{unknown[0].name!r} holds on every state that was tried, but could not be "
                f"proven: {unknown[0].reason}. Allow more cells or seconds, or a larger margin."
            )
        violated = [
            sample.worst(_scored(policy, sample, one), _STATES_A_ROUND).violated
            for one, sample in zip(certificates, self._samples, strict=True)
        ]
        worst = max(one.worst_violation for one in certificates)
        return Found(violated, worst, certificates, reason)

    def violation(self, policy: Policy, values: Array | None = None) -> float:
        """As it was when the policy was last made to obey; else on the sample."""
        del values
        if self._violation is not None:
            return self._violation
        rows = self._watched
        return float(rows.violations(rows.values(policy.outputs(rows.states))).max())

    def measure(self, policy: Policy) -> Violations:
        """The constraints at points, and the regions' samples."""
        return measure_rows(policy, self._watched)

    @cached_property
    def _watched(self) -> Rows:
        return self._expansion.rows_with([sample.rows for sample in self._samples])

    def memory(self) -> Memory:
        """The working states, what was last measured, and the cells of the last proofs."""
        known = [] if self._violation is None else [self._violation]
        return {
            **pack_states("working", self._exchange.working),
            "violation": np.array(known, dtype=np.float64),
            "proven": np.array([self._proven]),
            **{
                f"cells.{number}.{key}": value
                for number, one in enumerate(self._proofs)
                for key, value in one.memory().items()
            },
        }

    def recall(self, memory: Mapping[str, NDArray[Any]]) -> None:
        """All of it."""
        self._exchange.working = unpack_states("working", memory)
        known = memory["violation"]
        self._violation = float(known[0]) if len(known) else None
        self._proven = bool(memory["proven"][0])
        for number, one in enumerate(self._proofs):
            prefix = f"cells.{number}."
            own = {
                key.removeprefix(prefix): memory[key] for key in memory if key.startswith(prefix)
            }
            one.recall(own)

    @property
    def stars(self) -> tuple[Array, ...]:
        """The working states."""
        return self._exchange.working


def _scored(policy: Policy, sample: Sample, certificate: Certificate) -> Scored:
    """The counterexamples of a certificate; none if there are none."""
    states = certificate.violated
    if states is None:
        return Scored(sample.states[:0], np.zeros(0))
    return Scored(states, violations_at(policy, sample.regional, states))


def enforce(
    policy: Policy,
    constraints: AnyConstraints,
    tolerance: float = 1e-6,
    reference_states: ArrayLike | None = None,
    selection: Selection | str | None = None,
    prove: bool = False,
) -> Enforcement:
    """Change the policy's weights, as little as possible, until every constraint holds.

    Args:
        policy: changed in place; left exactly as it was on failure.
        constraints: a list, a `Rulebook`, or the path or bundled name of a constraint file. All of
            them must hold; those on regions at every state that a search finds, or, with a proof,
            at every state there is.
        tolerance: the largest violation allowed at points. States of regions have none.
        reference_states: (n, *observation_shape), where to measure how much else has changed.
        selection: how regions are held, or the name of a way; by default `Everywhere()`.
        prove: end with a certificate for every region, as `Everywhere(prove=True)` does.
    """
    if not (np.isfinite(tolerance) and tolerance > 0.0):
        raise InvalidArgument(f"The tolerance must be positive and finite, not {tolerance!r}.")
    chosen = chosen_selection(selection, prove)
    expansion = expand(constraints_of(constraints, policy), policy)
    rules = make_rules(expansion, chosen, policy)
    before = None if reference_states is None else policy.outputs(reference_states)
    result = rules.hold(policy, tolerance)
    if before is None or reference_states is None:
        return result
    change = np.abs(policy.outputs(reference_states) - before).max()
    return replace(result, policy_change=float(change))


def make_rules(expansion: Expansion, selection: Selection, policy: Policy) -> Rules:
    """The rules of a set of constraints; what can never be proven is refused now."""
    if not expansion.regional:
        assert expansion.fixed is not None  # there is at least one constraint
        return FixedRules(expansion.fixed)
    if not isinstance(selection, Everywhere):
        return ChosenStates(expansion, selection)
    if selection.prove:
        Layers.of(policy.module)
        for one in expansion.regional:
            one.region.covers()
    return WholeRegions(expansion, selection)
