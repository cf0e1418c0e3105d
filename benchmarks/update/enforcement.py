"""Exact enforcement of the paper's 18 constraints on random networks, in plain updates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

import handrail as hr
from benchmarks.harness import take_turns, torch_threads
from benchmarks.plan import Plan
from benchmarks.problem import plain_update, random_batch, rewind, wide_policy
from handrail.rulebook import load_rulebook


@final
@dataclass(frozen=True)
class EnforcementOfSeed:
    """One random network."""

    seed: int
    iterations: int
    seconds: float
    plain_seconds: float
    ratio: float


@final
@dataclass(frozen=True)
class EnforcementResults:
    """All networks, and the median ratio to one plain update."""

    batch: int
    seeds: list[EnforcementOfSeed]
    median_ratio: float


def measure_enforcement(plan: Plan) -> EnforcementResults:
    """Time `handrail.enforce` from random networks, one thread."""
    with torch_threads(1):
        seeds = [_of_seed(plan, seed) for seed in range(plan.enforce_seeds)]
    return EnforcementResults(plan.batch, seeds, float(np.median([one.ratio for one in seeds])))


def _of_seed(plan: Plan, seed: int) -> EnforcementOfSeed:
    policy, rules = wide_policy(plan.width, seed), load_rulebook("cartpole").constraints
    start_again = rewind(policy)
    timings = take_turns(
        {
            "enforce": lambda: hr.enforce(policy, rules),
            "plain": plain_update(policy, random_batch(plan.batch)),
        },
        plan.enforce_rounds,
        prepare=start_again,
    )
    start_again()
    enforcement = hr.enforce(policy, rules).raise_if_unsatisfied()
    return EnforcementOfSeed(
        seed=seed,
        iterations=enforcement.iterations,
        seconds=timings.median("enforce"),
        plain_seconds=timings.median("plain"),
        ratio=timings.ratio("enforce", "plain"),
    )
