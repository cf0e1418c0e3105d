"""The tangent kernel: how a gradient step on one state moves the policy at another.

K[(s,a),(s',a')] = ∇π(a|s) · ∇π(a'|s'), exact for any network, from layer-wise Gram products (H4).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from handrail.arrays import Array
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
    rows = _every_action(policy, states)
    kernel = gram(rows, rows if other is None else _every_action(policy, other))
    n, r, other_n, other_r = kernel.shape
    return kernel.reshape(n * r, other_n * other_r) if flat else kernel


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


def _every_action(policy: CategoricalPolicy, states: ArrayLike) -> Functionals:
    """π(a|s) for every action, as weights (n, n_A, n_A) on the logits."""
    probabilities = policy.probabilities(states)
    n, n_actions = probabilities.shape
    weights = np.stack(
        [policy.through_softmax(probabilities, np.tile(row, (n, 1))) for row in np.eye(n_actions)],
        axis=1,
    )
    return Functionals(policy, states, weights)
