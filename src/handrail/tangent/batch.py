"""What one update learns from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from handrail._types import Array
from handrail.errors import InvalidBatch
from handrail.policies import Policy
from handrail.tangent.gradient import Gradient, pull_back


@final
@dataclass(frozen=True)
class Batch:
    """State-action pairs and what each was worth.

    Args:
        states: (n, *observation_shape).
        actions: (n,) indices of discrete ones, or (n, n_actions) continuous ones.
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
        one_each = actions.ndim in (1, 2) and len(actions) == len(states)
        if not one_each or returns.shape != (len(states),):
            raise InvalidBatch(
                f"A batch needs one action and one return per state: {len(states)} states, but "
                f"actions {actions.shape} and returns {returns.shape}."
            )
        indices = np.issubdtype(actions.dtype, np.integer) and actions.min() >= 0
        if actions.ndim == 1 and not indices:
            raise InvalidBatch(
                f"Actions must be indices 0, 1, 2, … (or continuous: (n, n_actions)), but got "
                f"{actions.dtype} from {actions.min()}."
            )
        for what, values in (("states", states), ("actions", actions), ("returns", returns)):
            if not np.issubdtype(values.dtype, np.number):
                raise InvalidBatch(f"The {what} of a batch must be numbers, not {values.dtype}.")
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


def policy_gradient(policy: Policy, batch: Batch) -> PolicyGradient:
    """The direction of a plain policy-gradient step: one forward and one backward pass."""
    loss = 0.0
    actions, returns = np.asarray(batch.actions), np.asarray(batch.returns)
    if policy.fused() is None:  # which does so itself
        policy.raw(np.asarray(batch.states)[:1])  # states that do not fit are refused in words

    def weigh(outputs: Array, rows: slice) -> Array:
        log_likelihood, gradient = policy.likelihood(outputs, actions[rows])
        nonlocal loss
        loss -= float(returns[rows] @ log_likelihood)
        weights: Array = returns[rows, None] * gradient
        return weights

    direction = pull_back(policy, batch.states, weigh)
    return PolicyGradient(direction, loss)
