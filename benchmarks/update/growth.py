"""How the time of one constrained update grows with the batch and with the constraints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from benchmarks.harness import Timings, power_law, take_turns, torch_threads
from benchmarks.plan import Plan
from benchmarks.problem import (
    constrained_update,
    plain_update,
    random_batch,
    rewind,
    two_half_planes,
    wide_policy,
)
from handrail.constraints import Rows, expand
from handrail.policies import ROWS_PER_PASS
from handrail.rulebook import load_rulebook

# One for all sizes: a curve with a change of threads in it has no exponent, and the passes of an
# update are small (64 states) at every size, so a second thread adds more noise than speed.
THREADS = 1
LINEAR = 1.1


@final
@dataclass(frozen=True)
class GrowthPoint:
    """One size.

    Attributes:
        size: n_B or n_S.
        rounds: turns that each had; seconds are medians over them.
        constrained_seconds: ours.
        plain_seconds: the plain update, all states at once.
        passes_seconds: the plain update in passes of as many states as ours.
        ratio: constrained over plain.
        ratio_quartiles: within a round.
        passes_ratio: constrained over plain in passes.
    """

    size: int
    rounds: int
    constrained_seconds: float
    plain_seconds: float
    passes_seconds: float
    ratio: float
    ratio_quartiles: tuple[float, float]
    passes_ratio: float


@final
@dataclass(frozen=True)
class GrowthCurve:
    """All sizes, with the exponents of the constrained update's time.

    Attributes:
        points: by ascending size.
        exponent: over all sizes.
        exponent_of_largest: over the three largest, where constant costs no longer show.
        steps: between neighbouring sizes.
    """

    points: list[GrowthPoint]
    exponent: float
    exponent_of_largest: float
    steps: list[float]

    @property
    def worse_exponent(self) -> float:
        """The larger of the two: neither noise nor constant costs may hide the other."""
        return max(self.exponent, self.exponent_of_largest)


@final
@dataclass(frozen=True)
class GrowthResults:
    """Both curves."""

    threads: int
    constraints: int
    batch: int
    with_batch: GrowthCurve
    with_constraints: GrowthCurve


def measure_growth(plan: Plan) -> GrowthResults:
    """Time the sizes of the plan; the sizes take turns as well."""
    with torch_threads(THREADS):
        n_constraints, with_batch = _with_batch(plan)
        return GrowthResults(
            threads=THREADS,
            constraints=n_constraints,
            batch=plan.batch,
            with_batch=with_batch,
            with_constraints=_with_constraints(plan),
        )


def _with_batch(plan: Plan) -> tuple[int, GrowthCurve]:
    rows = expand(load_rulebook("cartpole").constraints, wide_policy(plan.width)).rows()
    _one_turn(plan, plan.batch, rows, seed=0)  # warm-up
    curve = _in_turns(plan.batch_sizes, lambda size, seed: _one_turn(plan, size, rows, seed))
    return len(rows), curve


def _with_constraints(plan: Plan) -> GrowthCurve:
    def turn(size: int, seed: int) -> Timings:
        rows = expand(two_half_planes(size, seed), wide_policy(plan.width)).rows()
        return _one_turn(plan, plan.batch, rows, seed)

    return _in_turns(plan.constraint_sizes, turn)


def _in_turns(sizes: Sequence[tuple[int, int]], turn: Callable[[int, int], Timings]) -> GrowthCurve:
    """Every (size, rounds), one round of each at a time; the number of the round is its seed."""
    samples: dict[int, list[Timings]] = {size: [] for size, _ in sizes}
    for seed in range(max(rounds for _, rounds in sizes)):
        for size, rounds in sizes:
            if seed < rounds:
                samples[size].append(turn(size, seed))
    return _curve(samples)


def _one_turn(plan: Plan, batch_size: int, rows: Rows, seed: int) -> Timings:
    """Every update once, from a random network of its own."""
    policy, batch = wide_policy(plan.width, seed), random_batch(batch_size, seed)
    tasks = {
        "plain": plain_update(policy, batch),
        "passes": plain_update(policy, batch, ROWS_PER_PASS),
        "constrained": constrained_update(policy, batch, rows),
    }
    return take_turns(tasks, rounds=1, prepare=rewind(policy), warm_up=0)


def _curve(samples: dict[int, list[Timings]]) -> GrowthCurve:
    points = [_point(size, turns) for size, turns in samples.items()]
    sizes = [point.size for point in points]
    seconds = [point.constrained_seconds for point in points]
    return GrowthCurve(
        points=points,
        exponent=power_law(sizes, seconds)[0],
        exponent_of_largest=power_law(sizes[-3:], seconds[-3:])[0],
        steps=(np.diff(np.log(seconds)) / np.diff(np.log(sizes))).tolist(),
    )


def _point(size: int, turns: list[Timings]) -> GrowthPoint:
    together = Timings.joined(turns)
    return GrowthPoint(
        size=size,
        rounds=len(turns),
        constrained_seconds=together.median("constrained"),
        plain_seconds=together.median("plain"),
        passes_seconds=together.median("passes"),
        ratio=together.ratio("constrained", "plain"),
        ratio_quartiles=together.spread("constrained", "plain"),
        passes_ratio=together.ratio("constrained", "passes"),
    )
