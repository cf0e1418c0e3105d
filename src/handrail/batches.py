"""What one update learns from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from handrail.arrays import Array
from handrail.errors import InvalidBatch, ShapeMismatch
from handrail.gradients import Gradient, pull_back
from handrail.policies import CategoricalPolicy


@final
@dataclass(frozen=True)
class Batch:
    """State-action pairs and what each was worth.

    Args:
        states: (n, *observation_shape).
        actions: (n,) integers.
        returns: (n,), already offset by a baseline where the learner has one.
    """

    states: ArrayLike
    actions: ArrayLike
    returns: ArrayLike

    def __post_init__(self) -> None:
        states = np.asarray(self.states)
        actions = np.asarray(self.actions)
        returns = np.asarray(self.returns, dtype=np.float64)
        if states.ndim < 2 or not len(states):
            raise InvalidBatch(
                f"A batch needs states (n, *observation_shape) with n > 0, but got {states.shape}."
            )
        if actions.shape != (len(states),) or returns.shape != (len(states),):
            raise InvalidBatch(
                f"A batch needs one action and one return per state: {len(states)} states, but "
                f"actions {actions.shape} and returns {returns.shape}."
            )
        if not np.issubdtype(actions.dtype, np.integer) or actions.min() < 0:
            raise InvalidBatch(
                f"Actions must be indices 0, 1, 2, …, but got {actions.dtype} from {actions.min()}."
            )
        for what, values in (("states", states), ("returns", returns)):
            bad = np.flatnonzero(~np.isfinite(values.reshape(len(states), -1)).all(axis=1))
            if len(bad):
                raise InvalidBatch(f"The {what} of a batch are not finite at step {bad[0]}.")
        object.__setattr__(self, "states", states)
        object.__setattr__(self, "actions", actions)
        object.__setattr__(self, "returns", returns)

    def __len__(self) -> int:
        return len(np.asarray(self.actions))


@final
@dataclass(frozen=True)
class PolicyGradient:
    """What a batch asks for.

    Attributes:
        direction: g = Σ_k G_k ∇log π(a_k|s_k) of (H2).
        loss: -Σ_k G_k log π(a_k|s_k), which a step along the direction lowers.
    """

    direction: Gradient
    loss: float


def policy_gradient(policy: CategoricalPolicy, batch: Batch) -> PolicyGradient:
    """The direction of a plain policy-gradient step: one forward and one backward pass."""
    loss = 0.0
    actions, returns = np.asarray(batch.actions), np.asarray(batch.returns)
    policy.logits(np.asarray(batch.states)[:1])  # states that do not fit are refused in words

    def weigh(probabilities: Array, rows: slice) -> Array:
        n_actions = probabilities.shape[1]
        if actions.max() >= n_actions:
            raise ShapeMismatch(
                f"The batch takes action {actions.max()}, but the policy has {n_actions} actions: "
                f"0 to {n_actions - 1}."
            )
        taken = probabilities[np.arange(len(probabilities)), actions[rows]]
        nonlocal loss
        loss -= float(returns[rows] @ np.log(np.maximum(taken, np.finfo(np.float64).tiny)))
        # The gradient of log π_a with respect to the logits is e_a - π.
        weights: Array = returns[rows, None] * (np.eye(n_actions)[actions[rows]] - probabilities)
        return weights

    direction = pull_back(policy, batch.states, weigh)
    return PolicyGradient(direction, loss)
