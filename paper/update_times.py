"""The paper's remarks on time: one constrained update over the sizes of its parts, and exponents.

Seconds are the fastest of a few repetitions: whatever else the machine does only adds to them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import final

import numpy as np

from benchmarks.harness import clocked, power_law
from benchmarks.problem import STEP_SIZE, random_batch, rewind, two_half_planes, wide_policy
from handrail._storage import load_state, save_state
from handrail._threads import one_thread
from handrail._types import Array
from handrail.constraints import expand
from handrail.enforcement import predict_step, solve_returns
from handrail.enforcement import update as apply_returns
from handrail.enforcement.candidates import required_returns
from handrail.policies import CategoricalPolicy
from handrail.tangent import policy_gradient, take_step, tangent_kernel
from paper.experiment import UpdateTimes

Measured = dict[str, float]  # seconds by part

FILE = "times.safetensors"
_REPETITIONS = 3
_RIDGE = 1e-12  # of the kernel's trace


@final
@dataclass(frozen=True)
class Times:
    """Seconds over one size.

    Attributes:
        sizes: (n,) n_B, n_S or n_t.
        seconds: by part, (n,).
    """

    sizes: Array
    seconds: dict[str, Array]

    def exponent(self, part: str) -> float:
        """Of seconds ~ size^exponent over the larger half of the sizes."""
        half = len(self.sizes) // 2
        sizes, seconds = self.sizes[half:], self.seconds[part][half:]
        if len(sizes) < 2:
            return float("nan")
        return power_law(sizes, seconds)[0]


def measure_times(
    study: UpdateTimes, seed: int, folder: Path, report: Callable[[float], None]
) -> None:
    """Every sweep; sizes take turns, so a slow moment does not fall on one of them alone."""
    policy = wide_policy(study.width, seed)
    n_batch, n_constrained = study.batch[0], study.constrained[0]
    update = partial(_update, policy, seed=seed)
    choice = partial(_choice, policy, seed=seed)
    cases: list[tuple[str, int, Callable[[], Measured]]] = [
        *(("batch", n, partial(update, n, n_constrained)) for n in study.batch),
        *(("constrained", n, partial(update, n_batch, n)) for n in study.constrained),
        *(("points", n, partial(choice, n_batch, n)) for n in study.points),
    ]
    measured: dict[str, dict[int, list[Measured]]] = {}
    with one_thread():
        for turn in range(_REPETITIONS):
            for number, (sweep, size, measure) in enumerate(cases):
                measured.setdefault(sweep, {}).setdefault(size, []).append(measure())
                report((turn * len(cases) + number + 1) / (_REPETITIONS * len(cases)))
    tensors = {}
    for sweep, by_size in measured.items():
        tensors[f"{sweep}.sizes"] = np.array(list(by_size), dtype=np.float64)
        for part in next(iter(by_size.values()))[0]:
            fastest = [min(turn[part] for turn in turns) for turns in by_size.values()]
            tensors[f"{sweep}.{part}"] = np.array(fastest)
    save_state(folder / FILE, tensors, {})


def _update(policy: CategoricalPolicy, n_batch: int, n_constrained: int, seed: int) -> Measured:
    """One constrained update, the policy put back afterwards, and what to compare it with.

    "kernel": between the constrained states and all states, batch included, as the paper computes
    it: O((n_B + n_S) n_S). "plain": the same step without constraints. "linear": the paper's linear
    system of as many equalities, by LAPACK's DGESV. "active": not seconds, but how many constraints
    hold the step.
    """
    batch = random_batch(n_batch, seed)
    rows = expand(two_half_planes(n_constrained, seed), policy).rows()
    everything = np.concatenate([np.asarray(batch.states), rows.states])
    _, kernel = clocked(lambda: tangent_kernel(policy, rows.states, everything, flat=True))
    start_again = rewind(policy)
    gradient, asking = clocked(lambda: policy_gradient(policy, batch))
    _, stepping = clocked(lambda: take_step(policy, gradient.direction, STEP_SIZE))
    start_again()
    step, predicting = clocked(
        lambda: predict_step(policy, policy_gradient(policy, batch), rows, STEP_SIZE)
    )
    returns, solving = clocked(lambda: solve_returns(step, "returns", soft=False))
    system = step.model.kernel(np.arange(len(rows)))
    system += _RIDGE * np.trace(system) * np.eye(len(system))  # states that nearly coincide
    _, linear = clocked(lambda: np.linalg.solve(system, step.drift))
    _, updating = clocked(lambda: apply_returns(policy, returns))
    start_again()
    return {
        "kernel": kernel,
        "plain": asking + stepping,
        "update": predicting + solving + updating,
        "solve": solving,
        "linear": linear,
        "active": float(max(len(returns.active), 1)),
    }


def _choice(policy: CategoricalPolicy, n_batch: int, n_points: int, seed: int) -> Measured:
    """Required returns of all points of a region: what maximum return compares."""
    batch = random_batch(n_batch, seed)
    rows = expand(two_half_planes(n_points, seed), policy).rows()
    gradient = policy_gradient(policy, batch)
    _, seconds = clocked(lambda: required_returns(policy, rows, gradient, STEP_SIZE))
    return {"choice": seconds}


def read_times(folder: Path) -> dict[str, Times]:
    """What `measure_times` measured, over "batch", "constrained" and "points"."""
    tensors, _ = load_state(folder / FILE)
    sweeps: dict[str, dict[str, Array]] = {}
    for name, values in tensors.items():
        sweep, part = name.split(".")
        sweeps.setdefault(sweep, {})[part] = values
    return {sweep: Times(parts.pop("sizes"), parts) for sweep, parts in sweeps.items()}
