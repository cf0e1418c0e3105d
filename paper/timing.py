"""The paper's remarks on time: one constrained update over the sizes of its parts, and exponents.

Seconds are the fastest of a few repetitions: whatever else the machine does only adds to them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TypeVar, final

import numpy as np

from handrail._storage import load_state, save_state
from handrail._threads import one_thread
from handrail._types import Array
from handrail.constraints.constraint import AtLeast
from handrail.constraints.expansion import expand
from handrail.enforcement.candidates import required_returns
from handrail.enforcement.one_step import predict_step, solve_returns
from handrail.enforcement.one_step import update as apply_returns
from handrail.policies.categorical import CategoricalPolicy
from handrail.regions.points import Points
from handrail.rulebook.rulebook import load_rulebook
from handrail.tangent.batch import Batch, policy_gradient
from handrail.tangent.gradient import restore, snapshot, take_step
from handrail.tangent.kernel import tangent_kernel
from paper.studies import UpdateTimes

T = TypeVar("T")
Measured = dict[str, float]  # seconds by part

FILE = "times.safetensors"
_REPETITIONS = 3
_STEP_SIZE = 1e-4
# Typical sizes of x, ẋ, φ, φ̇ along a Cartpole episode, and how far constrained states reach.
_SPREAD, _REACH = np.array([1.0, 0.5, 0.1, 0.5]), np.array([2.4, 0.0, 0.25, 2.0])


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
        return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def time_all(study: UpdateTimes, seed: int, folder: Path, say: Callable[[float], None]) -> None:
    """Every sweep; sizes take turns, so a slow moment does not fall on one of them alone."""
    env = load_rulebook("cartpole").make_environment()
    policy = CategoricalPolicy.mlp(env, hidden=[study.width], seed=seed)
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
                say((turn * len(cases) + number + 1) / (_REPETITIONS * len(cases)))
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
    it: O((n_B + n_S) n_S). "plain": the same step without constraints. "active": not seconds, but
    how many constraints hold the step.
    """
    batch = _batch(n_batch, seed)
    rows = expand(_two_sides(n_constrained, seed), policy).rows()
    everything = np.concatenate([np.asarray(batch.states), rows.states])
    _, kernel = _clocked(lambda: tangent_kernel(policy, rows.states, everything, flat=True))
    saved = snapshot(policy)
    gradient, asking = _clocked(lambda: policy_gradient(policy, batch))
    _, stepping = _clocked(lambda: take_step(policy, gradient.direction, _STEP_SIZE))
    restore(policy, saved)
    step, predicting = _clocked(
        lambda: predict_step(policy, policy_gradient(policy, batch), rows, _STEP_SIZE)
    )
    returns, solving = _clocked(lambda: solve_returns(step, "returns", soft=False))
    _, updating = _clocked(lambda: apply_returns(policy, returns))
    restore(policy, saved)
    return {
        "kernel": kernel,
        "plain": asking + stepping,
        "update": predicting + solving + updating,
        "solve": solving,
        "active": float(max(len(returns.active), 1)),
    }


def _choice(policy: CategoricalPolicy, n_batch: int, n_points: int, seed: int) -> Measured:
    """Required returns of all points of a region: what maximum return compares."""
    batch = _batch(n_batch, seed)
    rows = expand(_two_sides(n_points, seed), policy).rows()
    gradient = policy_gradient(policy, batch)
    _, seconds = _clocked(lambda: required_returns(policy, rows, gradient, _STEP_SIZE))
    return {"choice": seconds}


def _clocked(task: Callable[[], T]) -> tuple[T, float]:
    start = perf_counter()
    result = task()
    return result, perf_counter() - start


def _batch(n: int, seed: int) -> Batch:
    rng = np.random.default_rng([seed, n])
    states = rng.normal(size=(n, len(_SPREAD))) * _SPREAD
    return Batch(states, rng.integers(0, 2, size=n), rng.normal(size=n))


def _two_sides(n: int, seed: int) -> list[AtLeast]:
    """N states on two sides of a gap in the φ-φ̇ plane: push to where the pole leans."""
    rng = np.random.default_rng([seed, n])
    states = rng.uniform(-_REACH, _REACH, size=(8 * n + 64, len(_REACH)))
    side = 4.0 * states[:, 2] + states[:, 3]
    right, left = states[side > 0.5][: n - n // 2], states[side < -0.5][: n // 2]
    return [
        AtLeast(0.95, action=action, where=Points(where), name=name)
        for action, where, name in ((1, right, "push right"), (0, left, "push left"))
        if len(where)
    ]


def read_times(folder: Path) -> dict[str, Times]:
    """What `time_all` measured, over "batch", "constrained" and "points"."""
    tensors, _ = load_state(folder / FILE)
    sweeps: dict[str, dict[str, Array]] = {}
    for name, values in tensors.items():
        sweep, part = name.split(".")
        sweeps.setdefault(sweep, {})[part] = values
    return {sweep: Times(parts.pop("sizes"), parts) for sweep, parts in sweeps.items()}
