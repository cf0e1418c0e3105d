"""The case that everything is timed on: a wide Cartpole policy, a batch, constraints."""

from __future__ import annotations

from collections.abc import Callable

import gymnasium as gym
import numpy as np
import torch

import handrail as hr
from handrail._types import Array
from handrail.constraints import Rows
from handrail.enforcement import predict_step, solve_returns
from handrail.tangent import policy_gradient

STEP_SIZE = 1e-4
LEFT, RIGHT = 0, 1
# Typical sizes of x, ẋ, φ, φ̇ along an episode.
_SPREAD = np.array([1.0, 0.5, 0.1, 0.5])
_REACH = np.array([2.4, 0.0, 0.25, 2.0])
_GAP = 0.5


def wide_policy(width: int, seed: int = 0) -> hr.CategoricalPolicy:
    """A random Cartpole policy with one hidden layer, float64."""
    return hr.CategoricalPolicy.mlp(gym.make("CartPole-v1"), hidden=[width], seed=seed)


def states_along_episodes(n: int, seed: int = 0) -> Array:
    """States (n, 4) as an episode meets them."""
    states: Array = np.random.default_rng(seed).normal(size=(n, 4)) * _SPREAD
    return states


def random_batch(n: int, seed: int = 0) -> hr.Batch:
    """A batch of n steps with standardised returns."""
    rng = np.random.default_rng(seed)
    states = states_along_episodes(n, seed)
    return hr.Batch(states, rng.integers(0, 2, size=n), rng.normal(size=n))


def two_half_planes(n: int, seed: int) -> list[hr.Constraint]:
    """N constrained states on two sides of a gap in the φ-φ̇ plane.

    Push right where 4φ + φ̇ > 0.5, left where it is < -0.5, each with probability 0.95.
    """
    rng = np.random.default_rng(seed)
    states = rng.uniform(-_REACH, _REACH, size=(8 * n + 64, 4))
    side = 4.0 * states[:, 2] + states[:, 3]
    right, left = states[side > _GAP][: n - n // 2], states[side < -_GAP][: n // 2]
    return [
        hr.AtLeast(0.95, action=RIGHT, where=hr.Points(right), name="push right"),
        hr.AtLeast(0.95, action=LEFT, where=hr.Points(left), name="push left"),
    ]


def constrained_update(
    policy: hr.CategoricalPolicy, batch: hr.Batch, rows: Rows
) -> Callable[[], hr.enforcement.SafeReturns]:
    """One constrained update, for rows that were expanded beforehand as a learner would."""

    def run() -> hr.enforcement.SafeReturns:
        step = predict_step(policy, policy_gradient(policy, batch), rows, STEP_SIZE)
        returns = solve_returns(step, "returns", False)
        hr.enforcement.update(policy, returns)
        return returns

    return run


def plain_update(
    policy: hr.CategoricalPolicy, batch: hr.Batch, states_per_pass: int | None = None
) -> Callable[[], None]:
    """The unconstrained update as a PyTorch user writes it: all states at once, unless told."""
    states = policy.to_tensor(batch.states)
    actions, returns = torch.as_tensor(batch.actions), torch.as_tensor(batch.returns)
    per_pass = states_per_pass or len(batch)
    passes = [part.split(per_pass) for part in (states, actions, returns)]
    optimizer = torch.optim.SGD(policy.module.parameters(), lr=STEP_SIZE)

    def run() -> None:
        optimizer.zero_grad()
        for s, a, g in zip(*passes, strict=True):
            log_probabilities = torch.log_softmax(policy.module(s), dim=-1)
            loss = -(g * log_probabilities[torch.arange(len(s)), a]).sum()
            loss.backward()
        optimizer.step()

    return run


def rewind(policy: hr.CategoricalPolicy) -> Callable[[], None]:
    """A function that sets the weights back to what they are now: every turn starts alike."""
    saved = [p.detach().clone() for p in policy.parameters]

    def run() -> None:
        with torch.no_grad():
            for parameter, value in zip(policy.parameters, saved, strict=True):
                parameter.copy_(value)

    return run
