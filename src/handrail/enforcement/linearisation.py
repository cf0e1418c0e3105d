"""Constraint rows at the present weights, to first order: c(θ + Δθ) ≈ c(θ) + J Δθ (H3).

J is never formed. What is needed of it are three products, each of one or two passes: J times a
direction, Jᵀ times a vector, and rows of the tangent kernel K = J Jᵀ.
"""

from __future__ import annotations

from functools import cached_property
from typing import final

import numpy as np
import torch

from handrail._types import Array, Indices
from handrail.constraints import Rows
from handrail.enforcement.references import spread
from handrail.errors import SolverFailure
from handrail.policies import VALUE, Policy
from handrail.tangent import Functionals, Gradient, gram, gram_diagonal, push_forward

# How much the worth of a preferred action weighs, where a coordinate of a reference weighs 1: there
# are few such states, and by 1 they would give way before the references do.
_WORTH = 3.0


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
        self._known: dict[bytes, tuple[Functionals, Indices]] = {}
        self._whole = np.arange(len(rows)).tobytes()
        self.values = rows.values(outputs)  # c (n_rows,)
        self._raw_weights = rows.raw_weights(policy, outputs)
        # (H2): for a row of one state and one action this is π, so that ∇c / scale is ∇log π; of a
        # mean action it is σ, so that it is ∇log π one standard deviation away. A difference of
        # logits is one of log π already.
        of_outputs = np.where(rows.raw[:, None], 1.0, policy.scale(outputs))
        scale = rows.sum_samples((np.abs(rows.weights) * of_outputs).sum(axis=1))
        self.scale = np.maximum(scale, np.finfo(np.float64).tiny)
        # Relative rounding error of a product with J.
        self.rounding = 16.0 * torch.finfo(self.source.dtype).eps

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
        return len(self.values)

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
        used = np.flatnonzero(coefficients)
        used = used if len(used) else np.array([0])
        rows = np.arange(len(self)) if self._whole in self._known else used
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
        everything = np.arange(len(self))
        if not self._rows.is_about_one_state().all():
            return np.diag(self.kernel(everything))
        return gram_diagonal(self._functionals(everything)[0])[:, 0]

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
            by_row = self._rows.samples
            slices = [by_row[i] for i in indices]
            chosen = np.concatenate([np.arange(s.start, s.stop) for s in slices])
            groups = np.repeat(np.arange(len(slices)), [s.stop - s.start for s in slices])
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
