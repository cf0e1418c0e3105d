"""One constrained update against the explicit procedure and against the plain update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

import handrail as hr
from benchmarks.harness import Task, clocked, cores_got, power_law, take_turns, torch_threads
from benchmarks.plan import Plan
from benchmarks.problem import (
    constrained_update,
    plain_update,
    random_batch,
    rewind,
    wide_policy,
)
from benchmarks.update.explicit import AugmentedBatch, explicit_update
from benchmarks.update.stages import STAGES, stage_clock
from handrail._types import Array
from handrail.constraints import Rows, expand
from handrail.rulebook import load_rulebook

_AGREEMENT = 1e-6


@final
@dataclass(frozen=True)
class PlainComparison:
    """The constrained update next to the plain one; seconds are medians.

    Attributes:
        threads: of torch.
        cores: that so many threads got, before or after, whichever was fewer.
        constrained_seconds: ours.
        plain_seconds: what a PyTorch user writes.
        ratio: constrained over plain.
        ratio_quartiles: within a round.
        stage_seconds: of ours, by stage.
    """

    threads: int
    cores: float
    constrained_seconds: float
    plain_seconds: float
    ratio: float
    ratio_quartiles: tuple[float, float]
    stage_seconds: dict[str, float]

    @property
    def is_fair(self) -> bool:
        """Whether the threads had their cores.

        Two threads on one core spend their time waiting for each other at the end of every
        operation. That measures how many operations there are, not what they cost.
        """
        return self.cores > self.threads - 0.5


@final
@dataclass(frozen=True)
class ExplicitComparison:
    """The explicit procedure, measured where it is small and scaled to the full case.

    Attributes:
        threads: of torch.
        sizes: numbers of states n_B + n_S at which it was measured.
        seconds: medians at these sizes.
        exponent: of the fitted power law.
        full_size: n_B + n_S of the full case.
        full_seconds: what the law gives for it.
        square_seconds: what the largest measurement gives for it when scaled by the square.
        only_needed_seconds: `full_seconds` times n_S / (n_B + n_S), the pairs the program uses.
        kept_seconds: the full case, measured, when every Jacobian is computed once and kept.
        constrained_seconds: ours, the full case, in the same rounds.
        disagreement: the largest relative difference of the safe returns from ours.
    """

    threads: int
    sizes: list[int]
    seconds: list[float]
    exponent: float
    full_size: int
    full_seconds: float
    square_seconds: float
    only_needed_seconds: float
    kept_seconds: float
    constrained_seconds: float
    disagreement: float

    @property
    def speed_up(self) -> float:
        """How many times as long as ours the explicit procedure takes."""
        return self.full_seconds / self.constrained_seconds


@final
@dataclass(frozen=True)
class UpdateResults:
    """Both comparisons, with one torch thread and with two."""

    batch: int
    constraints: int
    plain: list[PlainComparison]
    explicit: list[ExplicitComparison]


def measure_updates(plan: Plan) -> UpdateResults:
    """Time the case of the paper: n_B steps, 18 constraints, one wide layer."""
    plain, explicit = [], []
    for threads in (1, 2):
        with torch_threads(threads):
            plain.append(_compare_with_plain(plan, threads))
            explicit.append(_compare_with_explicit(plan, threads))
    return UpdateResults(plan.batch, _constraints_of_paper(plan.width)[1], plain, explicit)


def _constraints_of_paper(width: int) -> tuple[Rows, int]:
    rows = expand(load_rulebook("cartpole").constraints, wide_policy(width)).rows()
    return rows, len(rows)


def _compare_with_plain(plan: Plan, threads: int) -> PlainComparison:
    policy, batch = wide_policy(plan.width), random_batch(plan.batch)
    rows, _ = _constraints_of_paper(plan.width)
    start_again, update = rewind(policy), constrained_update(policy, batch, rows)
    cores_before = cores_got(threads)
    timings = take_turns(
        {"constrained": update, "plain": plain_update(policy, batch)},
        plan.update_rounds,
        prepare=start_again,
    )
    return PlainComparison(
        threads=threads,
        cores=min(cores_before, cores_got(threads)),
        constrained_seconds=timings.median("constrained"),
        plain_seconds=timings.median("plain"),
        ratio=timings.ratio("constrained", "plain"),
        ratio_quartiles=timings.spread("constrained", "plain"),
        stage_seconds=_stage_medians(update, plan.update_rounds, start_again),
    )


def _stage_medians(update: Task, rounds: int, start_again: Task) -> dict[str, float]:
    """Median seconds of each stage, in the order of STAGES."""
    seconds = []
    for _ in range(rounds):
        start_again()
        with stage_clock() as clock:
            _, total = clocked(update)
        # The program is all that no other stage accounts for.
        clock["program"] = total - sum(clock.values())
        seconds.append([clock[stage] for stage in STAGES])
    return dict(zip(STAGES, np.median(seconds, axis=0).tolist(), strict=True))


def _compare_with_explicit(plan: Plan, threads: int) -> ExplicitComparison:
    ours, theirs = wide_policy(plan.width), wide_policy(plan.width)
    batch = random_batch(plan.batch)
    rows, n_rows = _constraints_of_paper(plan.width)
    restart_ours, restart_theirs = rewind(ours), rewind(theirs)

    def start_again() -> None:
        restart_ours()
        restart_theirs()

    cases = {f"explicit {n}": _part_of(batch, rows, n) for n in plan.explicit_sizes}
    disagreements = []
    for part, few in cases.values():
        start_again()
        expected = constrained_update(ours, part, few)().values
        found = explicit_update(theirs.module, _augmented(theirs, part, few))
        disagreements.append(_difference(found, expected))
        _refuse_difference(disagreements[-1])

    tasks: dict[str, Task] = {"constrained": constrained_update(ours, batch, rows)}
    for name, (part, few) in cases.items():
        tasks[name] = _explicit_task(theirs, _augmented(theirs, part, few), keep=False)
    tasks["kept"] = _explicit_task(theirs, _augmented(theirs, batch, rows), keep=True)
    timings = take_turns(tasks, plan.explicit_rounds, prepare=start_again, warm_up=1)

    sizes = list(plan.explicit_sizes)
    seconds = [timings.median(name) for name in cases]
    exponent, law = power_law(sizes, seconds)
    full = plan.batch + n_rows
    return ExplicitComparison(
        threads=threads,
        sizes=sizes,
        seconds=seconds,
        exponent=exponent,
        full_size=full,
        full_seconds=law(full),
        square_seconds=seconds[-1] * (full / sizes[-1]) ** 2,
        only_needed_seconds=law(full) * n_rows / full,
        kept_seconds=timings.median("kept"),
        constrained_seconds=timings.median("constrained"),
        disagreement=max(disagreements),
    )


def _explicit_task(policy: hr.CategoricalPolicy, batch: AugmentedBatch, keep: bool) -> Task:
    return lambda: explicit_update(policy.module, batch, keep)


def _part_of(batch: hr.Batch, rows: Rows, n: int) -> tuple[hr.Batch, Rows]:
    """A case of n states altogether, as many constraints as steps while there are enough."""
    n_rows = min(n // 2, len(rows))
    few = rows.take(np.linspace(0, len(rows) - 1, n_rows).astype(np.intp))
    states, actions = np.asarray(batch.states), np.asarray(batch.actions)
    steps = slice(0, n - n_rows)
    return hr.Batch(states[steps], actions[steps], np.asarray(batch.returns)[steps]), few


def _augmented(policy: hr.CategoricalPolicy, batch: hr.Batch, rows: Rows) -> AugmentedBatch:
    return AugmentedBatch(
        states=policy.to_tensor(np.concatenate([np.asarray(batch.states), rows.states])),
        actions=np.concatenate([np.asarray(batch.actions), rows.weights.argmax(axis=1)]),
        returns=np.asarray(batch.returns),
        bounds=rows.lower,
    )


def _difference(values: Array, expected: Array) -> float:
    """The largest difference relative to the largest expected value."""
    return float(np.abs(values - expected).max() / np.abs(expected).max())


def _refuse_difference(difference: float) -> None:
    if not difference <= _AGREEMENT:
        raise AssertionError(
            f"The explicit procedure found other safe returns than ours: relative difference "
            f"{difference:.1e}. A comparison of times would mean nothing."
        )
