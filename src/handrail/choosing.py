"""The paper's dynamic constraints: which states of a discretised region enter the next update.

Both scores are computed for all states of all regions at once: one forward-mode pass, one pass for
the diagonal of the kernel, no loop over states (paper, section 3.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np

from handrail.arrays import Array, Indices
from handrail.batches import PolicyGradient
from handrail.expansion import Expansion
from handrail.linearise import Linearisation
from handrail.policies import Policy
from handrail.rows import Rows, concatenate
from handrail.search import Sample
from handrail.selections import MaximumDeviation, MaximumReturn


def deviations(policy: Policy, rows: Rows) -> Array:
    """How far each row is from its bound (n_rows,); positive means broken."""
    return rows.violations(rows.values(policy.outputs(rows.states)))


def required_returns(
    policy: Policy, rows: Rows, gradient: PolicyGradient | None, step_size: float
) -> Array:
    """The safe return that each row would need if it were the only one (n_rows,).

    (H3) with the scalar kernel: (bound - c - α J g) · scale / (α K_ii). Negative means that it
    would hold anyway; for an upper bound the sign is turned, so that larger is always worse.

    Args:
        policy: at its present weights.
        rows: of all states.
        gradient: of the batch that the step learns from; None for a step on nothing else.
        step_size: α.
    """
    model = Linearisation(policy, rows, policy.outputs(rows.states))
    drift = model.values
    if gradient is not None:
        drift = drift + step_size * model.effect(gradient.direction)
    per_return = np.maximum(
        step_size * model.kernel_diagonal() / model.scale, np.finfo(np.float64).tiny
    )
    return rows.violations(drift) / per_return


@final
class Candidates:
    """Regions cut into points, and the strategy that chooses among them.

    Args:
        expansion: the constraints.
        selection: the strategy, how many points, and how many of them at a time.
    """

    def __init__(self, expansion: Expansion, selection: MaximumReturn | MaximumDeviation) -> None:
        self._selection = selection
        self.samples = tuple(
            Sample(one, one.region.cover(selection.points)) for one in expansion.regional
        )
        blocks = [sample.rows for sample in self.samples]
        self.rows = concatenate(blocks)
        self._rows_per_state = [
            len(block) // len(sample.states)
            for block, sample in zip(blocks, self.samples, strict=True)
        ]
        self._ends = np.cumsum([len(block) for block in blocks])

    def scores(
        self, policy: Policy, gradient: PolicyGradient | None, step_size: float
    ) -> Sequence[Array]:
        """What the strategy compares, for the states of each region (n_states,)."""
        if isinstance(self._selection, MaximumReturn):
            flat = required_returns(policy, self.rows, gradient, step_size)
        else:
            flat = deviations(policy, self.rows)
        return self._by_state(flat)

    def violations(self, policy: Policy) -> Sequence[Array]:
        """Of the states of each region (n_states,)."""
        return self._by_state(deviations(policy, self.rows))

    def choose(self, scores: Sequence[Array]) -> list[Indices]:
        """The states with the highest scores, of each region."""
        pairs = zip(self.samples, scores, strict=True)
        return [
            sample.worst_apart(sample.states, score, self._selection.states)
            for sample, score in pairs
        ]

    def rows_at(self, chosen: Sequence[Indices]) -> list[Rows]:
        """The rows of the chosen states, region by region."""
        pairs = zip(self.samples, chosen, strict=True)
        return [sample.regional.rows_at(sample.states[indices]) for sample, indices in pairs]

    def _by_state(self, flat: Array) -> Sequence[Array]:
        parts = np.split(flat, self._ends[:-1])
        pairs = zip(parts, self._rows_per_state, strict=True)
        return [part.reshape(-1, rows).max(axis=1) for part, rows in pairs]
