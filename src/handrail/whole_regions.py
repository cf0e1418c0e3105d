"""Constraints on every state of a region: measured on a fine sample and uphill of it, or proven."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from handrail.arrays import Array
from handrail.batches import PolicyGradient
from handrail.certification import Certificate
from handrail.enforcement import Enforcement
from handrail.exchange import Exchange, Found
from handrail.expansion import Expansion
from handrail.known_cells import KnownCells
from handrail.policies import Policy
from handrail.proofs import Budget
from handrail.rows import Rows
from handrail.rules import Memory, Rules, pack_states, unpack_states
from handrail.search import Sample, Scored, violations_at
from handrail.selections import Everywhere
from handrail.violations import Violations, measure_rows

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
