"""What constraints expand to: linear functionals of the policy's outputs, with bounds (H1).

Row i is c_i = Σ_j w_ij · p(s_ij), where j runs over the *samples* of the row: the states it looks
at, each with a weight per action. Nearly every row has exactly one sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, final

import numpy as np
import torch

from handrail._types import Array, Indices, Mask
from handrail.constraints.words import counted
from handrail.policies import MEAN, Coordinates, Policy, Quantity


@final
@dataclass(frozen=True, repr=False)
class Rows:
    """Constraint rows lower ≤ c ≤ upper.

    Attributes:
        states: (n_samples, *observation_shape).
        weights: (n_samples, n_actions), of each action's output at that state.
        row_of_sample: (n_samples,), ascending; every row has at least one sample.
        lower: (n_rows,), -inf where there is no lower bound.
        upper: (n_rows,), +inf where there is no upper bound.
        priority: (n_rows,), the price of leaving a row unmet when constraints are soft.
        labels: (n_rows,), for people.
        quantity: what the policy's outputs are.
        raw: (n_samples,), whose weights are those of raw outputs (of logits, say) instead; they add
            up to 0.
        choice: (n_rows,), the choice between alternatives that each is part of; -1 for none.
        alternative: (n_rows,), which of them. All rows of one alternative of every choice must
            hold.
    """

    states: Array
    weights: Array
    row_of_sample: Indices
    lower: Array
    upper: Array
    priority: Array
    labels: tuple[str, ...]
    quantity: Quantity
    raw: Mask
    choice: Indices
    alternative: Indices

    def __len__(self) -> int:
        return len(self.lower)

    def __repr__(self) -> str:
        return f"<Rows: {counted(len(self), 'row')} at {counted(len(self.states), 'state')}>"

    @cached_property
    def notes(self) -> dict[str, Any]:
        """What others have found out about these rows, which never change, and want to keep."""
        return {}

    @cached_property
    def first_states(self) -> Array:
        """The state that identifies each row to a person: (n_rows, *observation_shape)."""
        result: Array = self.states[self._starts[:-1]]
        return result

    def sum_samples(self, per_sample: Array) -> Array:
        """Add what belongs to the same row: (n_samples, …) -> (n_rows, …)."""
        if len(per_sample) == len(self):
            return per_sample
        return np.add.reduceat(per_sample, self._starts[:-1], axis=0)

    @cached_property
    def _starts(self) -> Indices:
        """Where each row's samples begin, and the end of the last: (n_rows + 1,)."""
        return np.searchsorted(self.row_of_sample, np.arange(len(self) + 1))

    def values(self, outputs: Array) -> Array:
        """C (n_rows,) from the policy's outputs (n_samples, n_actions) at the rows' states."""
        if self._has_raw:
            outputs = np.where(self.raw[:, None], self.quantity.raw_of(outputs), outputs)
        return self.sum_samples((self.weights * outputs).sum(axis=1))

    @cached_property
    def _has_raw(self) -> bool:
        return bool(self.raw.any())

    def raw_weights(self, policy: Policy, outputs: Array) -> Array:
        """Of the raw outputs, to first order (n_samples, n_actions): dc/dz."""
        through = policy.through_head(outputs, self.weights)
        if not self._has_raw:
            return through
        return np.where(self.raw[:, None], self.weights, through)

    def violations(self, values: Array) -> Array:
        """Positive means broken, negative or zero means satisfied (n_rows,).

        Of every choice the alternative that is violated least counts; rows of others have -inf.
        """
        own: Array = np.maximum(self.lower - values, values - self.upper)
        if not self.has_choices:
            return own
        least = self.worst_of_alternatives(own).argmin(axis=1)
        return np.where(self.counting(least), own, -np.inf)

    @cached_property
    def has_choices(self) -> bool:
        """Whether there are alternatives."""
        return bool((self.choice >= 0).any())

    def worst_of_alternatives(self, per_row: Array) -> Array:
        """The largest of the rows of each alternative: (n_choices, n_alternatives), inf of none."""
        ours = self.choice >= 0
        shape = int(self.choice.max()) + 1, int(self.alternative.max()) + 1
        worst, at = np.full(shape, -np.inf), (self.choice[ours], self.alternative[ours])
        np.maximum.at(worst, at, per_row[ours])
        there = np.zeros(shape, dtype=bool)
        there[at] = True
        return np.where(there, worst, np.inf)

    def counting(self, chosen: Indices) -> Mask:
        """Rows (n_rows,) that must hold once an alternative is chosen of each choice (n_choices,).

        Those that are part of no choice among them.
        """
        result: Mask = (self.choice < 0) | (self.alternative == chosen[self.choice])
        return result

    def with_chosen(self, chosen: Indices) -> Rows:
        """The rows that are left, all of which must hold."""
        rows = self.take(np.flatnonzero(self.counting(chosen)))
        return replace(rows, choice=np.full(len(rows), -1))

    def violations_of(self, policy: Policy) -> Array:
        """Of the policy as it is (n_rows,)."""
        return self.violations(self.values(self.outputs_of(policy)))

    def outputs_of(self, policy: Policy) -> Array:
        """Of the policy as it is (n_samples, n_actions), at the rows' states."""
        return self.with_chords(policy, policy.outputs(self.states))

    def with_chords(self, policy: Policy, outputs: Array) -> Array:
        """Outputs with those of chords in float64: in float32 their ends are the same number."""
        chords = self._chords
        if not len(chords) or policy.dtype == torch.float64:
            return outputs
        outputs, ends = outputs.copy(), self.states[chords]
        outputs[chords] = policy.in_float64(ends).outputs(ends)
        return outputs

    @cached_property
    def _chords(self) -> Indices:
        """Samples that are ends of one."""
        if not self._has_raw:
            return np.zeros(0, dtype=np.intp)
        return np.flatnonzero(self.raw & ~self.is_about_one_state()[self.row_of_sample])

    @cached_property
    def inequalities(self) -> Indices:
        """Rows whose two bounds do not coincide."""
        return np.flatnonzero(self.lower != self.upper)

    @cached_property
    def by_state(self) -> list[list[int]]:
        """The rows about each state, but for those that relate several."""
        groups: dict[bytes, list[int]] = {}
        for i in np.flatnonzero(self.is_about_one_state()).tolist():
            groups.setdefault(self.first_states[i].tobytes(), []).append(i)
        return list(groups.values())

    def is_about_one_state(self) -> Mask:
        """Rows that do not relate several states (n_rows,)."""
        if len(self.states) == len(self):
            return np.ones(len(self), dtype=bool)
        result: Mask = np.bincount(self.row_of_sample, minlength=len(self)) == 1
        return result

    def curved_samples(self, coordinates: Coordinates) -> Mask:
        """Samples that have an unbounded coordinate other than their value (n_samples,).

        Each is the only one of its row: a sum of several has none.
        """
        alone = self.is_about_one_state()[self.row_of_sample]
        return coordinates.is_curved(self.weights, alone & ~self.raw)

    def is_raw(self) -> Mask:
        """Rows of raw outputs (n_rows,): these are as unbounded as mean actions are."""
        if not self._has_raw:
            return np.zeros(len(self), dtype=bool)
        return self.sum_samples(self.raw.astype(np.float64)) > 0.0

    def reach(self) -> tuple[Array, Array]:
        """The lowest and the highest value that any policy gives to each row (n_rows,)."""
        pairs = zip(self.quantity.reach(self.weights), MEAN.reach(self.weights), strict=True)
        lowest, highest = (np.where(self.raw, free, end) for end, free in pairs)
        return self.sum_samples(lowest), self.sum_samples(highest)

    def room(self) -> Array:
        """How far inside its bounds each row can be at all (n_rows,); of what has no end, 1.

        Inf where nothing can break it.
        """
        given = self.lower, self.upper, *self.reach()
        return np.where(self.is_raw(), MEAN.room(*given), self.quantity.room(*given))

    def units(self, scale: Array) -> Array:
        """Of margins (n_rows,), of a policy with this scale (n_samples, n_actions) at the states.

        1 in log-odds, of mean actions a standard deviation.
        """
        pairs = zip(self.weights, scale, strict=True)
        return self.sum_samples(np.array([self.quantity.unit(*pair) for pair in pairs]))

    def insets(self, margin: Array | float) -> tuple[Array, Array]:
        """What a margin is at the lower and at the upper bounds; 0 where there is no bound.

        Of a probability it is in log-odds, to first order margin · bound · (1 - bound); of mean
        actions and of logits in their own units.
        """
        room = 0.25 * (self.upper - self.lower)
        below, above = (self._margin_at(end) for end in (self.lower, self.upper))
        return np.minimum(margin * below, room), np.minimum(margin * above, room)

    def _margin_at(self, bound: Array) -> Array:
        reach = self.reach()
        with np.errstate(invalid="ignore"):  # of what has no end, in the units of what has
            of_outputs = self.quantity.margin_at(bound, *reach)
        return np.where(self.is_raw(), MEAN.margin_at(bound, *reach), of_outputs)

    def tightened(self, margin: Array | float) -> Rows:
        """The same rows, their bounds moved inwards by their `insets`."""
        below, above = self.insets(margin)
        return replace(self, lower=self.lower + below, upper=self.upper - above)

    @cached_property
    def samples(self) -> list[slice]:
        """The samples of each row."""
        return [slice(a, b) for a, b in pairwise(self._starts.tolist())]

    def take(self, indices: Indices) -> Rows:
        """The chosen rows, in the chosen order."""
        chosen, row_of_sample = self.samples_of(indices)
        return Rows(
            states=self.states[chosen],
            weights=self.weights[chosen],
            row_of_sample=row_of_sample,
            lower=self.lower[indices],
            upper=self.upper[indices],
            priority=self.priority[indices],
            labels=tuple(self.labels[i] for i in indices),
            quantity=self.quantity,
            raw=self.raw[chosen],
            choice=self.choice[indices],
            alternative=self.alternative[indices],
        )

    def samples_of(self, indices: Indices) -> tuple[Indices, Indices]:
        """Of some rows: which samples they have, and which of the rows each is of."""
        if len(self.states) == len(self):  # one each, as of regions, which have thousands
            return np.asarray(indices, dtype=np.intp), np.arange(len(indices))
        samples = [self.samples[i] for i in indices]
        chosen = np.concatenate([np.arange(s.start, s.stop) for s in samples])
        return chosen, np.repeat(np.arange(len(samples)), [s.stop - s.start for s in samples])


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
        quantity=blocks[0].quantity,
        raw=np.concatenate([block.raw for block in blocks]),
        choice=np.concatenate(_numbered_on([block.choice for block in blocks])),
        alternative=np.concatenate([block.alternative for block in blocks]),
    )


def _numbered_on(blocks: Sequence[Indices]) -> list[Indices]:
    """Choices of several blocks, each with a number of its own."""
    known = np.cumsum([0, *(int(one.max(initial=-1)) + 1 for one in blocks)])
    return [np.where(one < 0, -1, one + first) for one, first in zip(blocks, known, strict=False)]
