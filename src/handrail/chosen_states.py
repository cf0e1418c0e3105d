"""The paper's dynamic constraints (section 3.3): states of regions, chosen for every update."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from handrail.arrays import Array
from handrail.batches import PolicyGradient
from handrail.choosing import Candidates
from handrail.enforcement import Enforcement
from handrail.exchange import Exchange, Found
from handrail.expansion import Expansion
from handrail.policies import Policy
from handrail.rows import Rows
from handrail.rules import Memory, Rules, pack_states, unpack_states
from handrail.selections import MaximumDeviation, MaximumReturn
from handrail.violations import Violations, measure_rows


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
