"""The tangent kernel: how a gradient step on one state moves the policy at another.

K[(s,a),(s',a')] = ∇π(a|s) · ∇π(a'|s') of probabilities, or of mean actions: exact for any network,
from layer-wise Gram products (H4).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from handrail._types import Array
from handrail.policies import ROWS_PER_PASS, Policy
from handrail.tangent.batch import Batch, policy_gradient
from handrail.tangent.gradient import push_forward
from handrail.tangent.gram_matrix import Functionals, gram


def tangent_kernel(
    policy: Policy,
    states: ArrayLike,
    other: ArrayLike | None = None,
    flat: bool = False,
) -> Array:
    """∇π(a|s) · ∇π(a'|s') for all pairs of states and actions; of a Gaussian, of its mean actions.

    Args:
        policy: the policy, at its present weights.
        states: (n, *observation_shape).
        other: (n', *observation_shape); the same states when left out.
        flat: the paper's layout (n·n_A, n'·n_A), blocks of n_A × n_A, instead of
            (n, n_A, n', n_A).
    """
    if policy.quantity.adds_up:
        kernel = _of_probabilities(policy, states, other)
    else:
        rows = _of_all_actions(policy, states)
        kernel = gram(rows, rows if other is None else _of_all_actions(policy, other, rows))
    n, n_actions, other_n, _ = kernel.shape
    return kernel.reshape(n * n_actions, other_n * n_actions) if flat else kernel


def _of_all_actions(
    policy: Policy, states: ArrayLike, like: Functionals | None = None
) -> Functionals:
    n, n_actions = policy.outputs(states).shape
    return Functionals(policy, states, np.tile(np.eye(n_actions), (n, 1, 1)), like)


def _of_probabilities(policy: Policy, states: ArrayLike, other: ArrayLike | None) -> Array:
    rows, completion = _all_but_the_likeliest(policy, states)
    columns, other_completion = (
        (rows, completion) if other is None else _all_but_the_likeliest(policy, other, rows)
    )
    return _complete(gram(rows, columns), completion, other_completion)


def predict_change(policy: Policy, batch: Batch, states: ArrayLike, step_size: float) -> Array:
    """Change of the outputs (n, n_A) that one gradient step on the batch is predicted to make.

    Theorems 1 and 2 of the paper where `states` are the batch's own, Theorem 3 anywhere else; the
    mean over axis 0 is the paper's batch average. First order in the step size: it predicts one
    plain gradient step, not Adam's. One backward and one forward-mode pass, no kernel (H3).
    """
    gradient = policy_gradient(policy, batch).direction
    raw_changes = step_size * push_forward(policy, states, gradient)
    return policy.through_head(policy.outputs(states), raw_changes)


def _all_but_the_likeliest(
    policy: Policy, states: ArrayLike, like: Functionals | None = None
) -> tuple[Functionals, Array]:
    """π(a|s) of all actions but the likeliest, as weights (n, n_A - 1, n_A) on the logits.

    Probabilities add up to 1, so the gradient of one action is minus the sum of the others': for
    two actions that is less than half the work. The likeliest is left out since the sum of the
    small gradients keeps its digits, while the difference of large ones would not.

    Returns also the completion (n, n_A, n_A - 1): every action as a sum of those kept.
    """
    probabilities = policy.outputs(states)
    unit = np.eye(probabilities.shape[1])
    likeliest = probabilities.argmax(axis=1)
    kept = np.array([np.delete(unit, a, axis=0) for a in range(len(unit))])[likeliest]
    weights = [policy.through_head(probabilities, one) for one in kept.transpose(1, 0, 2)]
    completion = kept.transpose(0, 2, 1).copy()
    completion[np.arange(len(likeliest)), likeliest] = -1.0
    return Functionals(policy, states, np.stack(weights, axis=1), like), completion


def _complete(kernel: Array, rows: Array, columns: Array) -> Array:
    """From the kept actions (n, r, n', r) to all (n, r + 1, n', r + 1), some states at a time."""
    n, r, other_n, _ = kernel.shape
    result = np.empty((n, r + 1, other_n, r + 1))
    for start in range(0, n, ROWS_PER_PASS):
        some = slice(start, start + ROWS_PER_PASS)
        wide = np.einsum("ipjq,jaq->ipja", kernel[some], columns)
        np.einsum("ibp,ipja->ibja", rows[some], wide, out=result[some])
    return result
