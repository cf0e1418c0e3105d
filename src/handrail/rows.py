"""What constraints expand to: linear functionals of the policy's outputs, with bounds (H1).

Row i is c_i = Σ_j w_ij · p(s_ij), where j runs over the *samples* of the row: the states it looks
at, each with a weight per action. Nearly every row has exactly one sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import final

import numpy as np

from handrail.arrays import Array, Indices, Mask


@final
@dataclass(frozen=True)
class Rows:
    """Constraint rows lower ≤ c ≤ upper.

    Attributes:
        states: (n_samples, *observation_shape).
        weights: (n_samples, n_actions), of each action's probability at that state.
        row_of_sample: (n_samples,), ascending; every row has at least one sample.
        lower: (n_rows,), -inf where there is no lower bound.
        upper: (n_rows,), +inf where there is no upper bound.
        priority: (n_rows,), the price of leaving a row unmet when constraints are soft.
        labels: (n_rows,), for people.
    """

    states: Array
    weights: Array
    row_of_sample: Indices
    lower: Array
    upper: Array
    priority: Array
    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.lower)

    @cached_property
    def first_states(self) -> Array:
        """The state that identifies each row to a person: (n_rows, *observation_shape)."""
        result: Array = self.states[self._starts()[:-1]]
        return result

    def sum_samples(self, per_sample: Array) -> Array:
        """Add what belongs to the same row: (n_samples, …) -> (n_rows, …)."""
        if len(per_sample) == len(self):
            return per_sample
        return np.add.reduceat(per_sample, self._starts()[:-1], axis=0)

    def _starts(self) -> Indices:
        """Where each row's samples begin, and the end of the last: (n_rows + 1,)."""
        return np.searchsorted(self.row_of_sample, np.arange(len(self) + 1))

    def values(self, probabilities: Array) -> Array:
        """C (n_rows,) from the probabilities (n_samples, n_actions) at the rows' states."""
        return self.sum_samples((self.weights * probabilities).sum(axis=1))

    def violations(self, values: Array) -> Array:
        """Positive means broken, negative or zero means satisfied (n_rows,)."""
        return np.maximum(self.lower - values, values - self.upper)

    def is_equality(self) -> Mask:
        """Rows whose two bounds coincide (n_rows,)."""
        result: Mask = self.lower == self.upper
        return result

    def is_about_one_state(self) -> Mask:
        """Rows that do not relate several states (n_rows,)."""
        result: Mask = np.bincount(self.row_of_sample, minlength=len(self)) == 1
        return result

    def is_sum_of_probabilities(self) -> Mask:
        """Rows that are the probability of a set of actions at one state (n_rows,).

        These have log-odds; a weighted difference of probabilities has none.
        """
        unit = ((self.weights == 0.0) | (self.weights == 1.0)).all(axis=1)
        units = self.sum_samples(unit.astype(np.float64))
        result: Mask = self.is_about_one_state() & (units == 1.0)
        return result

    def reach(self) -> tuple[Array, Array]:
        """The lowest and the highest value that any policy gives to each row (n_rows,)."""
        return self.sum_samples(self.weights.min(axis=1)), self.sum_samples(
            self.weights.max(axis=1)
        )

    def insets(self, log_odds: float) -> tuple[Array, Array]:
        """What this much of the log-odds is at the lower and at the upper bounds, to first order.

        Of the probability of one action: log_odds · bound · (1 - bound). 0 where there is no bound.
        """
        lowest, highest = self.reach()
        room = 0.25 * (self.upper - self.lower)

        def inset(bound: Array) -> Array:
            known = np.where(np.isfinite(bound), bound, lowest)
            share = (highest - known) * (known - lowest) / (highest - lowest)
            return np.minimum(log_odds * share, room)

        return inset(self.lower), inset(self.upper)

    def tightened(self, log_odds: float) -> Rows:
        """The same rows, their bounds moved inwards by their `insets`."""
        below, above = self.insets(log_odds)
        return replace(self, lower=self.lower + below, upper=self.upper - above)

    @cached_property
    def samples(self) -> list[slice]:
        """The samples of each row."""
        starts = self._starts()
        return [slice(a, b) for a, b in pairwise(starts.tolist())]

    def take(self, indices: Indices) -> Rows:
        """The chosen rows, in the chosen order."""
        by_row = self.samples
        samples = [by_row[i] for i in indices]
        chosen = np.concatenate([np.arange(s.start, s.stop) for s in samples])
        return Rows(
            states=self.states[chosen],
            weights=self.weights[chosen],
            row_of_sample=np.repeat(np.arange(len(samples)), [s.stop - s.start for s in samples]),
            lower=self.lower[indices],
            upper=self.upper[indices],
            priority=self.priority[indices],
            labels=tuple(self.labels[i] for i in indices),
        )


def concatenate(blocks: Sequence[Rows]) -> Rows:
    """All rows of several blocks, in order."""
    offsets = np.cumsum([0, *(len(block) for block in blocks)])
    return Rows(
        states=np.concatenate([block.states for block in blocks]),
        weights=np.concatenate([block.weights for block in blocks]),
        row_of_sample=np.concatenate(
            [block.row_of_sample + offset for block, offset in zip(blocks, offsets, strict=False)]
        ),
        lower=np.concatenate([block.lower for block in blocks]),
        upper=np.concatenate([block.upper for block in blocks]),
        priority=np.concatenate([block.priority for block in blocks]),
        labels=tuple(label for block in blocks for label in block.labels),
    )
