"""The procedure as the paper states it, written as its author would: the yardstick.

For every pair of states, the Jacobians of both states' probabilities by autograd, and their
product; the full kernel of batch and constrained states; the batch effect from it; a quadratic
program for the safe returns; a gradient step on the augmented batch (paper, sections 2 and 3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import piqp
import torch
from torch import Tensor, nn

from benchmarks.problem import STEP_SIZE
from handrail._types import Array, Indices


@final
@dataclass(frozen=True)
class AugmentedBatch:
    """A batch and the constraints π(action | state) ≥ bound.

    Attributes:
        states: (n_B + n_S, 4), the batch first.
        actions: (n_B + n_S,), those of the batch and the constrained ones.
        returns: (n_B,) of the batch.
        bounds: (n_S,).
    """

    states: Tensor
    actions: Indices
    returns: Array
    bounds: Array


def explicit_update(module: nn.Module, batch: AugmentedBatch, keep: bool = False) -> Array:
    """One constrained update; its safe returns (n_S,).

    Args:
        module: maps states to logits; takes the step.
        batch: what to learn from and what to obey.
        keep: compute the Jacobian of every state once and keep it, instead of once per pair.
    """
    kernel = kernel_from_kept_jacobians if keep else kernel_pair_by_pair
    safe_returns = _safe_returns(module, batch, kernel(module, batch.states))
    _step(module, batch, np.concatenate([batch.returns, safe_returns]))
    return safe_returns


def kernel_pair_by_pair(module: nn.Module, states: Tensor) -> Array:
    """The full kernel (n, n_A, n, n_A), both Jacobians of every pair by autograd."""
    rows = [
        torch.stack([_jacobian(module, one) @ _jacobian(module, other).T for other in states])
        for one in states
    ]
    result: Array = torch.stack(rows).permute(0, 2, 1, 3).numpy()
    return result


def kernel_from_kept_jacobians(module: nn.Module, states: Tensor) -> Array:
    """The full kernel (n, n_A, n, n_A), every Jacobian by autograd once."""
    jacobians = torch.stack([_jacobian(module, state) for state in states])
    n, n_actions, _ = jacobians.shape
    flat = jacobians.flatten(0, 1)
    result: Array = (flat @ flat.T).numpy().reshape(n, n_actions, n, n_actions)
    return result


def _jacobian(module: nn.Module, state: Tensor) -> Tensor:
    """∂π(a|s)/∂θ for every action (n_A, n_parameters)."""
    probabilities = torch.softmax(module(state[None])[0], dim=-1)
    parameters = tuple(module.parameters())
    rows = [torch.autograd.grad(p, parameters, retain_graph=True) for p in probabilities]
    return torch.stack([torch.cat([part.flatten() for part in row]) for row in rows])


def _safe_returns(module: nn.Module, batch: AugmentedBatch, kernel: Array) -> Array:
    """The least Σ G² whose predicted step meets the bounds (paper, inequality constraints)."""
    n_batch = len(batch.returns)
    with torch.no_grad():
        probabilities = torch.softmax(module(batch.states), dim=-1).numpy()
    inverse = 1.0 / probabilities
    taken, constrained = batch.actions[:n_batch], batch.actions[n_batch:]
    returns = np.zeros((n_batch, probabilities.shape[1]))
    returns[np.arange(n_batch), taken] = batch.returns

    safe = np.arange(n_batch, len(batch.states))
    rows = kernel[safe, constrained]  # (n_S, n, n_A)
    effect = np.einsum("ika,ka->i", rows[:, :n_batch], inverse[:n_batch] * returns)
    matrix = STEP_SIZE * rows[:, safe, constrained] * inverse[safe, constrained]
    needed = batch.bounds - probabilities[safe, constrained] - STEP_SIZE * effect
    return _least_squares_above(matrix, needed)


def _least_squares_above(matrix: Array, lower: Array) -> Array:
    """Min ‖x‖² subject to matrix · x ≥ lower, by an interior-point method as in the paper."""
    n = matrix.shape[1]
    solver = piqp.DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_rel = 1e-12
    solver.setup(P=np.eye(n, order="F"), c=np.zeros(n), G=np.asfortranarray(-matrix), h_u=-lower)
    solver.solve()
    return np.array(solver.result.x)


def _step(module: nn.Module, batch: AugmentedBatch, returns: Array) -> None:
    """Gradient ascent on the augmented batch."""
    optimizer = torch.optim.SGD(module.parameters(), lr=STEP_SIZE)
    optimizer.zero_grad()
    log_probabilities = torch.log_softmax(module(batch.states), dim=-1)
    taken = log_probabilities[torch.arange(len(batch.states)), torch.as_tensor(batch.actions)]
    (-(torch.as_tensor(returns) * taken).sum()).backward()
    optimizer.step()
