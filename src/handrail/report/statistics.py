"""Numbers over seeds: means, interquartile means with bootstrap intervals, episodes to pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from handrail.learning import Record

WINDOW = 100  # episodes of the average that decides whether an environment is solved


@final
@dataclass(frozen=True)
class SeedSummary:
    """One seed's run in numbers.

    Attributes:
        seed: of the run.
        episodes: recorded.
        first: average score of the first 100 episodes (fewer, if there are fewer).
        last: average score of the last 100.
        to_pass: the episode at which the first 100-episode average that passes begins.
        worst_violation: of any policy that acted; None without constraints.
    """

    seed: int
    episodes: int
    first: float
    last: float
    to_pass: int | None
    worst_violation: float | None


@final
@dataclass(frozen=True)
class Spread:
    """One number over seeds.

    Attributes:
        mean: over seeds.
        deviation: standard deviation (unbiased; 0 for one seed).
        iqm: interquartile mean: of the middle half of the seeds.
        interval: 95 % bootstrap interval of the interquartile mean.
    """

    mean: float
    deviation: float
    iqm: float
    interval: tuple[float, float]


def summarise(seed: int, records: Sequence[Record], pass_mark: float | None) -> SeedSummary:
    """One run in numbers; there must be at least one record."""
    scores = np.array([record.score for record in records])
    violations = [r.violation_before for r in records if r.violation_before is not None]
    return SeedSummary(
        seed=seed,
        episodes=len(records),
        first=float(scores[:WINDOW].mean()),
        last=float(scores[-WINDOW:].mean()),
        to_pass=None if pass_mark is None else episodes_to_pass(scores, pass_mark),
        worst_violation=max(violations) if violations else None,
    )


def episodes_to_pass(scores: ArrayLike, pass_mark: float) -> int | None:
    """Where the first 100-episode average of at least the pass mark begins; None if none does."""
    values = np.asarray(scores, dtype=np.float64)
    if len(values) < WINDOW:
        return None
    averages = np.convolve(values, np.ones(WINDOW) / WINDOW, mode="valid")
    # An average of numbers that are all exactly the pass mark must pass in spite of rounding.
    passed = np.flatnonzero(averages >= pass_mark - 1e-9 * max(1.0, abs(pass_mark)))
    return int(passed[0]) if len(passed) else None


def interquartile_mean(values: ArrayLike) -> float:
    """The mean without the lowest and the highest quarter (rliable's definition)."""
    return float(stats.trim_mean(np.asarray(values, dtype=np.float64), 0.25))


def spread(values: Sequence[float]) -> Spread:
    """One number over seeds, with a percentile bootstrap interval (fixed seed, 5000 samples)."""
    data = np.asarray(values, dtype=np.float64)
    iqm = interquartile_mean(data)
    interval = (iqm, iqm)
    if len(data) > 1 and np.ptp(data) > 0.0:
        found = stats.bootstrap(
            (data,),
            lambda sample, axis: stats.trim_mean(sample, 0.25, axis=axis),
            n_resamples=5000,
            method="percentile",
            rng=np.random.default_rng(0),
        ).confidence_interval
        interval = (float(found.low), float(found.high))
    deviation = float(data.std(ddof=1)) if len(data) > 1 else 0.0
    return Spread(float(data.mean()), deviation, iqm, interval)
