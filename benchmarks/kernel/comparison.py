"""The tangent kernel of all actions against torch.func, and against the matrix product's peak."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, jvp, vjp, vmap

import handrail as hr
from benchmarks.harness import Timings, take_turns, torch_threads
from benchmarks.plan import Plan
from benchmarks.problem import states_along_episodes, wide_policy
from handrail._types import Array

Parameters = dict[str, Tensor]

# Side of the square product whose rate counts as the machine's peak.
_PEAK_SIZE = 2000
# States per call of vmap(jacrev): the fastest of 16, 32, 64, 256 for a 5000-wide network.
_STATES_PER_CALL = 32
# Activations of at most so many states at a time in the kernel-vector products.
_STATES_AT_A_TIME = 1024
_AGREEMENT = 1e-9
# Up to this many states one thread; more, two: below it threads wait longer than they work.
_FEW_STATES = 150


@final
@dataclass(frozen=True)
class KernelTiming:
    """One number of states. Seconds are medians; rates are floating-point operations per second.

    Attributes:
        n: states; the kernel is (2n, 2n).
        threads: of torch, on all sides.
        rounds: turns that each had.
        seconds: handrail.tangent.tangent_kernel.
        jacrev_ratio: vmap(jacrev) and the product of Jacobians, relative to ours.
        columns: kernel-vector products that were timed, out of 2n.
        columns_ratio: all 2n kernel-vector products (scaled linearly), relative to ours.
        operations: of the layers' Gram products, the symmetric half counted once.
        share_of_peak: our rate over that of the products timed just before and after ours.
        share_of_best: our rate over the best product of this number of states.
        best_rate: of these products.
    """

    n: int
    threads: int
    rounds: int
    seconds: float
    jacrev_ratio: float
    columns: int
    columns_ratio: float
    operations: int
    share_of_peak: float
    share_of_best: float
    best_rate: float


def measure_kernels(plan: Plan) -> list[KernelTiming]:
    """Time every number of states of the plan."""
    policy = wide_policy(plan.width)
    _refuse_disagreement(policy)
    return [_measure(policy, *size) for size in plan.kernel_sizes]


def gram_operations(module: nn.Module, n: int, functionals: int) -> int:
    """Σ over layers of d_in · n (n + 1) + d_out · rn (rn + 1), for r functionals per state.

    A Gram matrix of m rows of length d has m (m + 1) / 2 different entries of 2d operations each.
    """
    rn = functionals * n
    layers = [layer for layer in module.modules() if isinstance(layer, nn.Linear)]
    return sum(
        layer.in_features * n * (n + 1) + layer.out_features * rn * (rn + 1) for layer in layers
    )


def jacobian_product(policy: hr.CategoricalPolicy, states: Array) -> Tensor:
    """The kernel (n·n_A, n·n_A) by vmap(jacrev), a few states at a time, and one product."""
    inputs, parameters = policy.to_tensor(states), _detached(policy)
    jacobian = vmap(jacrev(_of_one_state(policy.module)), in_dims=(None, 0))
    n_parameters = sum(p.numel() for p in parameters.values())
    # Filled in place, so that the Jacobian is in memory once.
    stacked: Tensor | None = None
    for start in range(0, len(inputs), _STATES_PER_CALL):
        parts = jacobian(parameters, inputs[start : start + _STATES_PER_CALL])
        block = torch.cat([part.flatten(2) for part in parts.values()], dim=2)
        if stacked is None:
            stacked = block.new_empty(len(inputs), block.shape[1], n_parameters)
        stacked[start : start + len(block)] = block
    assert stacked is not None
    flat = stacked.flatten(0, 1)
    return flat @ flat.T


def kernel_columns(policy: hr.CategoricalPolicy, states: Array, columns: int) -> Tensor:
    """Evenly chosen rows of the kernel (columns, n·n_A): a vjp at one state, a jvp at all."""
    inputs, parameters = policy.to_tensor(states), _detached(policy)
    n_actions = policy.probabilities(states[:1]).shape[1]
    one_state = _of_one_state(policy.module)

    def column(state: Tensor, action: Tensor) -> Tensor:
        pull_back = vjp(lambda p: one_state(p, state), parameters)[1]
        direction = pull_back(action)
        change: Tensor = jvp(
            lambda p: _probabilities(policy.module, p, inputs), (parameters,), direction
        )[1]
        return change.flatten()

    chosen = torch.linspace(0, len(inputs) * n_actions - 1, columns).long()
    at = inputs[chosen // n_actions]
    actions = torch.eye(n_actions).to(inputs)[chosen % n_actions]
    per_call = max(1, _STATES_AT_A_TIME // len(inputs))
    parts = [
        vmap(column)(at[start : start + per_call], actions[start : start + per_call])
        for start in range(0, columns, per_call)
    ]
    return torch.cat(parts)


def _measure(policy: hr.CategoricalPolicy, n: int, rounds: int, columns: int) -> KernelTiming:
    states, threads = states_along_episodes(n), 1 if n <= _FEW_STATES else 2
    square = torch.randn(_PEAK_SIZE, _PEAK_SIZE, dtype=torch.float64)
    tasks: dict[str, Callable[[], object]] = {
        "product before": lambda: square @ square,
        "handrail": lambda: hr.tangent.tangent_kernel(policy, states),
        "product after": lambda: square @ square,
        "jacrev": lambda: jacobian_product(policy, states),
        "columns": lambda: kernel_columns(policy, states, columns),
    }
    with torch_threads(threads):
        # Everything has been used at smaller sizes by the time a warm-up would take minutes.
        timings = take_turns(tasks, rounds, warm_up=1 if n <= 1000 else 0)
    # The gradients of a state's probabilities add up to zero: all but one are enough.
    operations = gram_operations(policy.module, n, functionals=1)
    per_round, best = _rates(timings)
    rate = operations / np.array(timings.seconds["handrail"])
    return KernelTiming(
        n=n,
        threads=threads,
        rounds=rounds,
        seconds=timings.median("handrail"),
        jacrev_ratio=timings.ratio("jacrev", "handrail"),
        columns=columns,
        columns_ratio=timings.ratio("columns", "handrail") * 2 * n / columns,
        operations=operations,
        share_of_peak=float(np.median(rate / per_round)),
        share_of_best=float(np.median(rate)) / best,
        best_rate=best,
    )


def _rates(timings: Timings) -> tuple[Array, float]:
    """Operations per second of the better product of each round (rounds,), and of the best."""
    products = np.array([timings.seconds["product before"], timings.seconds["product after"]])
    per_round: Array = 2.0 * _PEAK_SIZE**3 / products.min(axis=0)
    return per_round, float(per_round.max())


def _detached(policy: hr.CategoricalPolicy) -> Parameters:
    return {name: p.detach() for name, p in policy.module.named_parameters()}


def _probabilities(module: nn.Module, parameters: Parameters, states: Tensor) -> Tensor:
    return torch.softmax(functional_call(module, parameters, (states,)), dim=-1)


def _of_one_state(module: nn.Module) -> Callable[[Parameters, Tensor], Tensor]:
    return lambda parameters, state: _probabilities(module, parameters, state[None])[0]


def _refuse_disagreement(policy: hr.CategoricalPolicy) -> None:
    states = states_along_episodes(18)
    ours = hr.tangent.tangent_kernel(policy, states, flat=True)
    others = {
        "vmap(jacrev)": jacobian_product(policy, states),
        "the kernel-vector products": kernel_columns(policy, states, len(ours)),
    }
    for name, kernel in others.items():
        difference = np.abs(kernel.numpy() - ours).max() / np.abs(ours).max()
        if not difference <= _AGREEMENT:
            raise AssertionError(
                f"tangent_kernel and {name} differ by {difference:.1e} of the largest "
                "entry. A comparison of times would mean nothing."
            )
