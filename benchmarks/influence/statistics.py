"""What is said about trainings: scores at a time, and differences with the noise they have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import bootstrap

from benchmarks.influence.setting import Setting
from benchmarks.influence.training import Training

_LAST_EPISODES, _LAST_SHARE = 100, 0.2
_SHARE_BEFORE = 0.1  # of the budget: episodes that a score at a time is the mean of
_EPISODES_TO_PASS = 20
_RESAMPLES, _CONFIDENCE = 9999, 0.95


@final
@dataclass(frozen=True)
class Difference:
    """A mean over seeds of differences, seed by seed, with a bootstrap interval."""

    mean: float
    low: float
    high: float

    @property
    def is_not_below(self) -> bool:
        """Whether noise alone could make it as low."""
        return self.high >= 0.0


def difference(values: Iterable[float | None], references: Iterable[float | None]) -> Difference:
    """Of values (n_seeds,) to those of the same seeds; the interval is bias-corrected (BCa).

    Seeds without a score on either side are left out.
    """
    pairs = zip(values, references, strict=True)
    found = np.array([one - other for one, other in pairs if one is not None and other is not None])
    if not len(found):
        return Difference(np.nan, np.nan, np.nan)
    mean = float(found.mean())
    if len(found) < 2 or np.ptp(found) == 0.0:  # nothing to resample
        return Difference(mean, mean, mean)
    interval = bootstrap(
        (found,),
        np.mean,
        n_resamples=_RESAMPLES,
        confidence_level=_CONFIDENCE,
        method="BCa",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return Difference(mean, float(interval.low), float(interval.high))


def final_score(run: Training, setting: Setting) -> float:
    """Of the last 100 episodes; of a budget of steps, of those that end in its last fifth.

    A training that a rail had to give up scores as it did until then.
    """
    if setting.learner == "reinforce" or run.failure is not None:
        return _mean(run.scores[-_LAST_EPISODES:])
    return _ending_between(run, (1.0 - _LAST_SHARE) * setting.budget, np.inf)


def first_score(run: Training) -> float:
    """Of the first 100 episodes."""
    return _mean(run.scores[:_LAST_EPISODES])


def score_at(run: Training, setting: Setting, share: float) -> float:
    """Around a share of the budget: of the episodes that end in the tenth before it."""
    first, last = (share - _SHARE_BEFORE) * setting.budget, share * setting.budget
    if setting.learner == "reinforce":
        return _mean(run.scores[round(first) : round(last)])
    return _ending_between(run, first, np.inf if share == 1.0 else last)


def steps_to(run: Training, mark: float) -> float:
    """Environment steps until an average of 20 episodes passes the mark; NaN if none does."""
    if len(run.scores) < _EPISODES_TO_PASS:
        return np.nan
    window = np.ones(_EPISODES_TO_PASS) / _EPISODES_TO_PASS
    averages = np.convolve(run.scores, window, mode="valid")
    passed = np.flatnonzero(averages >= mark - 1e-9)
    return float(run.ends[_EPISODES_TO_PASS - 1 + passed[0]]) if len(passed) else np.nan


def _ending_between(run: Training, first: float, last: float) -> float:
    ends = np.asarray(run.ends)
    return _mean(np.asarray(run.scores)[(ends > first) & (ends <= last)])


def _mean(scores: ArrayLike) -> float:
    array = np.asarray(scores, dtype=np.float64)
    return float(array.mean()) if len(array) else np.nan
