"""The tangent kernel: how a gradient step on one state moves the policy at another.

K[(s,a),(s',a')] = ∇π(a|s) · ∇π(a'|s'), exact for any network, from layer-wise Gram products (H4).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from handrail.arrays import Array, Indices
from handrail.batches import Batch, policy_gradient
from handrail.gradients import push_forward
from handrail.gram import Functionals, gram
from handrail.policies import CategoricalPolicy


def tangent_kernel(
    policy: CategoricalPolicy,
    states: ArrayLike,
    other: ArrayLike | None = None,
    flat: bool = False,
) -> Array:
    """∇π(a|s) · ∇π(a'|s') for all pairs of states and actions.

    Args:
        policy: the policy, at its present weights.
        states: (n, *observation_shape).
        other: (n', *observation_shape); the same states when left out.
        flat: the paper's layout (n·n_A, n'·n_A), blocks of n_A × n_A, instead of
            (n, n_A, n', n_A).
    """
    rows, order = _all_but_the_likeliest(policy, states)
    columns, other_order = (rows, order) if other is None else _all_but_the_likeliest(policy, other)
    kernel = _with_the_likeliest(gram(rows, columns), order)
    kernel = _with_the_likeliest(kernel.transpose(2, 3, 0, 1), other_order).transpose(2, 3, 0, 1)
    n, r, other_n, other_r = kernel.shape
    return kernel.reshape(n * r, other_n * other_r) if flat else np.ascontiguousarray(kernel)


def predict_change(
    policy: CategoricalPolicy, batch: Batch, states: ArrayLike, step_size: float
) -> Array:
    """Change of π (n, n_A) that one gradient step on the batch is predicted to make.

    Theorems 1 and 2 of the paper where `states` are the batch's own, Theorem 3 anywhere else; the
    mean over axis 0 is the paper's batch average. First order in the step size: it predicts one
    plain gradient step, not Adam's. One backward and one forward-mode pass, no kernel (H3).
    """
    gradient = policy_gradient(policy, batch)
    logit_changes = step_size * push_forward(policy, states, gradient)
    return policy.through_softmax(policy.probabilities(states), logit_changes)


def _all_but_the_likeliest(
    policy: CategoricalPolicy, states: ArrayLike
) -> tuple[Functionals, Indices]:
    """π(a|s) of all actions but the likeliest, as weights (n, n_A - 1, n_A) on the logits.

    Probabilities add up to 1, so the gradient of one action is minus the sum of the others': for
    two actions that is less than half the work. The likeliest is left out since the sum of the
    small gradients keeps its digits, while the difference of large ones would not.

    Returns also the order (n, n_A) in which the actions come, the likeliest last.
    """
    probabilities = policy.probabilities(states)
    n_actions = probabilities.shape[1]
    likeliest = probabilities.argmax(axis=1)
    order = np.argsort(np.arange(n_actions) == likeliest[:, None], axis=1, kind="stable")
    weights = np.stack(
        [policy.through_softmax(probabilities, np.eye(n_actions)[a]) for a in order.T[:-1]], axis=1
    )
    return Functionals(policy, states, weights), order


def _with_the_likeliest(kernel: Array, order: Indices) -> Array:
    """Complete (n, n_A - 1, …) to (n, n_A, …), actions in their natural order."""
    complete = np.concatenate([kernel, -kernel.sum(axis=1, keepdims=True)], axis=1)
    return np.take_along_axis(complete, np.argsort(order, axis=1)[:, :, None, None], axis=1)
