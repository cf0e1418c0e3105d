"""Constraint rows at the present weights, to first order: c(θ + Δθ) ≈ c(θ) + J Δθ (H3).

J is never formed. What is needed of it are three products, each of one or two passes: J times a
direction, Jᵀ times a vector, and rows of the tangent kernel K = J Jᵀ.

`Targets` are what is asked of it, in units in which it reaches far. Where a row has an unbounded
coordinate, it is measured in that: the probability c of a set of actions by its log-odds φ = log
c/(1 - c). Near 0 and 1 a probability hardly moves with the weights while its log-odds move as ever;
so does a mean action near the end of the range that a tanh keeps it in. Other rows (differences of
probabilities or logits, relations between states, mean actions that nothing bounds) are measured as
they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
import torch

from handrail._types import Array, Indices
from handrail.constraints import Rows
from handrail.enforcement.references import spread
from handrail.errors import SolverFailure
from handrail.policies import VALUE, Coordinates, Policy
from handrail.tangent import Functionals, Gradient, gram, gram_diagonal, pull_back, push_forward

# How much the worth of a preferred action weighs, where a coordinate of a reference weighs 1: there
# are few such states, and by 1 they would give way before the references do.
_WORTH = 3.0

# Rows whose products one compiled pass finds sooner than torch multiplies half of them.
_AT_ONCE = 64

# Rows of which a rough kernel takes less time than a round of a program.
_GUESSED = 128

# Aim this fraction of the tolerance inside a bound, so that rounding does not leave it just broken.
_INSIDE = 0.1

# The most that is asked of a row at once, to begin with: 4 in log-odds is from 0.5 to 0.98.
_UNBOUNDED_REACH = 4.0

# The same in units of outputs, where rows are not moved in their coordinates.
_REACH = 0.4


@final
class Linearisation:
    """The first-order model of constraint rows around the policy's present weights.

    Args:
        policy: at its present weights.
        rows: the constraint rows.
        outputs: (n_samples, n_actions) of the policy at the rows' states.
    """

    def __init__(self, policy: Policy, rows: Rows, outputs: Array) -> None:
        self._given = policy
        self._rows = rows
        self._outputs = outputs
        self._known: dict[bytes, tuple[Functionals, Indices]] = {}
        self._everything = np.arange(len(rows))
        self._whole = self._everything.tobytes()
        self._raw_weights = rows.raw_weights(policy, outputs)

    @cached_property
    def values(self) -> Array:
        """C (n_rows,)."""
        return self._rows.values(self._outputs)

    @cached_property
    def scale(self) -> Array:
        """(n_rows,) of (H2): for a row of one state and one action π, so ∇c / scale is ∇log π.

        Of a mean action it is σ, so that it is ∇log π one standard deviation away. A difference of
        logits is one of log π already.
        """
        rows = self._rows
        of_outputs = np.where(rows.raw[:, None], 1.0, self._given.scale(self._outputs))
        scale = rows.sum_samples((np.abs(rows.weights) * of_outputs).sum(axis=1))
        result: Array = np.maximum(scale, np.finfo(np.float64).tiny)
        return result

    @cached_property
    def rounding(self) -> float:
        """Relative error of a product with J."""
        return 16.0 * float(torch.finfo(self.source.dtype).eps)

    @cached_property
    def policy(self) -> Policy:
        """In float64, at the weights that this is about for as long as nobody moves them.

        Rows that depend on each other must do so to the last digit, or the solver sees a
        contradiction in the noise.
        """
        return self._given.in_float64(self._rows.states)

    @cached_property
    def source(self) -> Policy:
        """Whose gradients are float64: a plain network as it is, else a copy."""
        layers = self._given.layers()
        plain = layers is not None and layers.trainable
        return self._given if plain else self.policy

    @property
    def log_likelihood(self) -> Array:
        """What has the gradient ∇c / scale (n_rows,): log c of one action; else c in its scale."""
        of_outputs = self._rows.quantity.log_likelihood(self.values, self.scale)
        return np.where(self._rows.is_raw(), self.values / self.scale, of_outputs)

    def __len__(self) -> int:
        return len(self._rows)

    def worth(self, most: int) -> tuple[Array, Array] | None:
        """What preferred actions are worth at the rows' states; None of other rows than values.

        The states (m, *observation_shape), each once for an action and at most so many of them,
        and the weights (m, n_actions) on raw outputs.
        """
        if self._rows.quantity != VALUE:
            return None
        states, preferred = self._rows.states, _WORTH * np.maximum(self._rows.weights, 0.0)
        each = np.concatenate([states.reshape(len(states), -1), preferred], axis=1)
        _, first = np.unique(each, axis=0, return_index=True)
        first.sort()
        return spread(states[first], most), spread(preferred[first], most)

    def effect(self, direction: Gradient) -> Array:
        """J · direction: the change of every row (n_rows,), by one forward-mode pass."""
        raw_changes = push_forward(self.policy, self._rows.states, direction)
        return self._rows.sum_samples((self._raw_weights * raw_changes).sum(axis=1))

    def direction(self, coefficients: Array) -> Gradient:
        """Jᵀ · coefficients = Σ_i coefficient_i ∇c_i, by one backward pass."""
        rows = self._everything
        if self._whole not in self._known or not self._known[self._whole][0].are_kept:
            used = np.flatnonzero(coefficients)
            rows = used if len(used) else np.array([0])
        functionals, row_of_sample = self._functionals(rows)
        return functionals.combined(coefficients[rows][row_of_sample, None])

    def kernel(self, rows: Indices, columns: Indices | None = None) -> Array:
        """K[rows, columns] = ∇c_i · ∇c_j; symmetric when `columns` is left out."""
        left, row_of_left = self._functionals(rows)
        if columns is None:
            right, row_of_right = left, row_of_left
        else:
            right, row_of_right = self._functionals(columns, like=left)
        samples = gram(left, right)[:, 0, :, 0]
        kernel = _sum_groups(_sum_groups(samples, row_of_left).T, row_of_right).T
        if not np.isfinite(kernel).all():
            raise self._overflow(rows)
        return kernel

    def rough_kernel(self) -> Array | None:
        """All of K up to a factor, by a part of the network; None where that saves nothing."""
        fused, n = self.source.fused(), len(self)
        if fused is None or n > _GUESSED or n < len(self._rows.states):
            return None
        kernel = fused.rough_kernel(self._rows.states, self._raw_weights)
        return kernel if kernel.diagonal().all() and np.isfinite(kernel).all() else None

    def multiplies_at_once(self, count: int) -> bool:
        """Whether all products of so many rows take less time than those of some with others."""
        compiled = self.source.fused() is not None and len(self._rows) == len(self._rows.states)
        return compiled and count <= _AT_ONCE

    def cross(self, rows: Indices, others: Functionals) -> Array:
        """Inner products (n_rows, n · r) of the rows' gradients with those of other functionals.

        These may be of the same network at other weights, if it is a plain one (`Policy.layers`).
        """
        same = others.policy is self.source
        left, row_of_left = self._functionals(rows, like=others if same else None)
        samples = gram(left, others)[:, 0]
        return _sum_groups(samples.reshape(len(samples), -1), row_of_left)

    def kernel_diagonal(self) -> Array:
        """K[i, i] = |∇c_i|² of every row (n_rows,), in one pass over all rows."""
        if not self._rows.is_about_one_state().all():
            return np.diag(self.kernel(self._everything))
        return gram_diagonal(self._functionals(self._everything)[0])[:, 0]

    def _overflow(self, rows: Indices) -> SolverFailure:
        """The row with the largest state is the one to blame."""
        states = np.abs(self._rows.first_states[rows].reshape(len(rows), -1)).max(axis=1)
        label = self._rows.labels[rows[int(states.argmax())]]
        return SolverFailure(
            f"The network's gradient at {label!r} is too large to compute with: a coordinate of "
            f"its state is {states.max():.2g}. Leave such states out, or rescale the observations."
        )

    def _functionals(
        self, indices: Indices, like: Functionals | None = None
    ) -> tuple[Functionals, Indices]:
        key = indices.tobytes()
        # At some states all that a layer feeds may be switched off: those were factored otherwise.
        if key in self._known and (like is None or self._known[key][0].is_factored_as(like)):
            return self._known[key]
        states, weights, groups = self._rows.states, self._raw_weights, self._rows.row_of_sample
        if key != self._whole:
            chosen, groups = self._rows.samples_of(indices)
            states, weights = states[chosen], weights[chosen]
        self._known[key] = Functionals(self.source, states, weights[:, None, :], like), groups
        return self._known[key]


def _sum_groups(matrix: Array, group_of_row: Indices) -> Array:
    """Add up rows of the same group (groups are consecutive)."""
    n_groups = int(group_of_row[-1]) + 1
    if n_groups == len(matrix):
        return matrix
    starts = np.searchsorted(group_of_row, np.arange(n_groups))
    return np.add.reduceat(matrix, starts, axis=0)


@final
@dataclass(frozen=True)
class Position:
    """Where the rows are: coordinate φ (n_rows,) and its slope dφ/dc (n_rows,)."""

    coordinate: Array
    slope: Array


@final
class Targets:
    """Bounds of rows, a little inside, in the coordinate of each row.

    Args:
        rows: whose bounds.
        tolerance: the largest violation that will do.
        coordinates: those of the policy.
        inside: by which targets lie further inside (n_rows,), in these coordinates; of two bounds,
            at most a quarter of what is between them. None for no further.
    """

    def __init__(
        self,
        rows: Rows,
        tolerance: float,
        coordinates: Coordinates,
        inside: Array | None = None,
    ) -> None:
        self._rows, self._coordinates = rows, coordinates
        self._tolerance, self._inside = tolerance, inside
        # A curved sample is a row of its own, so both have the same order.
        self._samples = rows.curved_samples(coordinates)
        self._curved = rows.sum_samples(self._samples.astype(np.float64)) > 0.0
        self._all_curved = bool(self._curved.all())
        self._weights = np.zeros((len(rows), rows.weights.shape[1]))  # of curved rows
        self._weights[self._curved] = rows.weights[self._samples]
        margin = np.minimum(_INSIDE * tolerance, 0.25 * (rows.upper - rows.lower))
        self._lower = self._coordinate_of_bound(rows.lower, margin)
        self._upper = self._coordinate_of_bound(rows.upper, -margin)
        if inside is not None:
            inset = np.minimum(inside, 0.25 * (self._upper - self._lower))
            self._lower, self._upper = self._lower + inset, self._upper - inset
        unbounded = self._curved | rows.is_raw()
        at_once = rows.quantity.reach_at_once
        self._reach = np.where(unbounded, max(_UNBOUNDED_REACH, at_once), at_once)

    @classmethod
    def of(
        cls, rows: Rows, tolerance: float, coordinates: Coordinates, inside: Array | None = None
    ) -> Targets:
        """The same; while rows are held again and again, those of the last time."""
        name = "targets" if inside is None else "targets inside"
        known: Targets | None = rows.notes.get(name)
        if known is None or not known._are(tolerance, coordinates, inside):
            known = rows.notes[name] = cls(rows, tolerance, coordinates, inside)
        return known

    def _are(self, tolerance: float, coordinates: Coordinates, inside: Array | None) -> bool:
        alike = self._tolerance == tolerance and self._coordinates is coordinates
        if inside is None or self._inside is None:
            return alike and inside is self._inside
        return alike and np.array_equal(inside, self._inside)

    def position(self, outputs: Array) -> Position:
        """From the policy's outputs (n_samples, n_actions) at the rows' states."""
        if self._all_curved:
            return Position(*self._coordinates.coordinate(self._weights, outputs))
        coordinate, slope = self._rows.values(outputs), np.ones(len(self._rows))
        coordinate[self._curved], slope[self._curved] = self._coordinates.coordinate(
            self._weights[self._curved], outputs[self._samples]
        )
        return Position(coordinate, slope)

    def change_in_coordinates(self, position: Position, trust: float) -> tuple[Array, Array]:
        """The interval (lower, upper) in which each row's value c should change, to first order.

        `trust` scales how much may be asked of a row at once.
        """
        lower = np.minimum(self._lower - position.coordinate, trust * self._reach)
        upper = np.maximum(self._upper - position.coordinate, -trust * self._reach)
        return lower / position.slope, upper / position.slope

    def is_far(self, position: Position, trust: float) -> bool:
        """Whether more is asked of a row than may be at once."""
        lower, upper = self._lower - position.coordinate, self._upper - position.coordinate
        return bool((np.maximum(lower, -upper) > trust * self._reach).any())

    def change_in_values(self, values: Array, trust: float) -> tuple[Array, Array]:
        """The same in values, and exactly to the bounds: all rows the same part of the way.

        Rows that depend on each other (a whole distribution prescribed at one state) stay
        consistent this way; their coordinates and inner margins do so only in the limit.
        """
        lower, upper = self._rows.lower - values, self._rows.upper - values
        furthest = max(float(np.maximum(lower, -upper).max()), np.finfo(np.float64).tiny)
        part = min(1.0, trust * _REACH / furthest)
        return np.where(lower > 0.0, part * lower, lower), np.where(
            upper < 0.0, part * upper, upper
        )

    def predicted_values(self, position: Position, change: Array) -> Array:
        """Values c (n_rows,) when the coordinates move as the first-order change says."""
        coordinate = position.coordinate + position.slope * change
        if self._all_curved:
            return self._coordinates.value_at(self._weights, coordinate)
        values = coordinate.copy()
        values[self._curved] = self._coordinates.value_at(
            self._weights[self._curved], coordinate[self._curved]
        )
        return values

    def shortfall(self, position: Position) -> float:
        """The largest distance from a target; zero or negative when all are met."""
        below = self._lower - position.coordinate
        above = position.coordinate - self._upper
        return float(np.maximum(below, above).max())

    def energy(self, policy: Policy) -> tuple[float, Gradient | None]:
        """½ Σ shortfall² over all rows that are short of their targets, and its gradient.

        None where no row is.
        """
        outputs = self._rows.outputs_of(policy)
        position = self.position(outputs)
        below, above = self._lower - position.coordinate, self._upper - position.coordinate
        # Positive where a row must rise, negative where it must fall.
        shortfall = np.maximum(below, 0.0) + np.minimum(above, 0.0)
        if not shortfall.any():
            return 0.0, None
        # d(½ shortfall²) = -shortfall · slope · dc. The slope goes to the head first: where a
        # probability vanishes, the one is as large as the other is small.
        of_sample = self._rows.row_of_sample
        steep = position.slope[of_sample, None] * self._rows.raw_weights(policy, outputs)
        weights = -shortfall[of_sample, None] * steep
        gradient = pull_back(policy, self._rows.states, lambda _, chunk: weights[chunk])
        return 0.5 * float(shortfall @ shortfall), gradient

    def distances(self, outputs: Array, scale: Array) -> Array:
        """From their targets (n_rows,), in units in which rows can be compared.

        Those of a margin: 1 in log-odds, of mean actions a standard deviation.

        Args:
            outputs: (n_samples, n_actions) of the policy at the rows' states.
            scale: (n_samples, n_actions) of the policy there.
        """
        position = self.position(outputs)
        far = np.maximum(self._lower - position.coordinate, position.coordinate - self._upper)
        result: Array = far / self._rows.units(scale)
        return result

    def _coordinate_of_bound(self, bound: Array, inwards: Array) -> Array:
        bounded = np.isfinite(bound)
        curved = bounded & self._curved
        coordinate = np.where(bounded, bound + np.where(bounded, inwards, 0.0), bound)
        coordinate[curved] = self._coordinates.coordinate_of_bound(
            self._weights[curved], bound[curved], inwards[curved]
        )
        return coordinate
