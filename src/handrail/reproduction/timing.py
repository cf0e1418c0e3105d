"""The paper's remarks on time: one constrained update over the sizes of its parts, and exponents.

Seconds are the fastest of a few repetitions: whatever else the machine does only adds to them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TypeVar, final

import numpy as np

from handrail.arrays import Array
from handrail.batches import Batch, policy_gradient
from handrail.constraints import AtLeast
from handrail.expansion import expand
from handrail.policies import CategoricalPolicy
from handrail.regions import Points
from handrail.reproduction.studies import UpdateTimes
from handrail.returns import predict_step, solve_returns
from handrail.rows import Rows
from handrail.rulebook import load
from handrail.storage import load_state, save_state
from handrail.tangent import tangent_kernel
from handrail.threads import one_thread

T = TypeVar("T")

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
        sizes: (n,) n_B or n_S.
        seconds: by part, (n,): "kernel" as the paper computes it, "update" as Handrail does, and
            of that "solve".
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
    """Both sweeps; sizes take turns, so a slow moment does not fall on one of them alone."""
    env = load("cartpole").make_environment()
    policy = CategoricalPolicy.mlp(env, hidden=[study.width], seed=seed)
    cases = [("batch", size, study.constrained[0]) for size in study.batch]
    cases += [("constrained", study.batch[0], size) for size in study.constrained]
    seconds: dict[tuple[str, int], list[Array]] = {}
    with one_thread():
        for turn in range(_REPETITIONS):
            for number, (sweep, n_batch, n_constrained) in enumerate(cases):
                size = n_batch if sweep == "batch" else n_constrained
                measured = _time_one(policy, n_batch, n_constrained, seed)
                seconds.setdefault((sweep, size), []).append(measured)
                say((turn * len(cases) + number + 1) / (_REPETITIONS * len(cases)))
    tensors = {}
    for sweep, sizes in (("batch", study.batch), ("constrained", study.constrained)):
        tensors[f"{sweep}.sizes"] = np.array(sizes, dtype=np.float64)
        fastest = np.array([np.min(seconds[sweep, size], axis=0) for size in sizes])
        for part, column in zip(_PARTS, fastest.T, strict=True):
            tensors[f"{sweep}.{part}"] = column.copy()
    save_state(folder / FILE, tensors, {})


_PARTS = ("kernel", "update", "solve")


def _time_one(policy: CategoricalPolicy, n_batch: int, n_constrained: int, seed: int) -> Array:
    """Seconds of the parts (3,)."""
    batch = _batch(n_batch, seed)
    rows = expand(_two_sides(n_constrained, seed), policy).rows()
    _, kernel = _clocked(lambda: _paper_kernel(policy, batch, rows))
    step, predicting = _clocked(
        lambda: predict_step(policy, policy_gradient(policy, batch), rows, _STEP_SIZE)
    )
    _, solving = _clocked(lambda: solve_returns(step, "returns", soft=False))
    return np.array([kernel, predicting + solving, solving])


def _paper_kernel(policy: CategoricalPolicy, batch: Batch, rows: Rows) -> Array:
    """Between the constrained states and all states, batch included: O((n_B + n_S) n_S)."""
    everything = np.concatenate([np.asarray(batch.states), rows.states])
    return tangent_kernel(policy, rows.states, everything, flat=True)


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
    """What `time_all` measured, over "batch" and over "constrained"."""
    tensors, _ = load_state(folder / FILE)
    return {
        sweep: Times(
            tensors[f"{sweep}.sizes"], {part: tensors[f"{sweep}.{part}"] for part in _PARTS}
        )
        for sweep in ("batch", "constrained")
    }
