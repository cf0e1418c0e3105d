"""What seeds tell and what they leave open: numbers over seeds with 95 % bootstrap intervals.

As in rliable (Agarwal et al. 2021): interquartile means over seeds, the probability that a seed of
one learner does better than a seed of another, and percentile bootstrap intervals of both. Seeds
are drawn anew for each learner by itself: rliable's stratified bootstrap, for one environment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from handrail._types import Array

_RESAMPLES = 5000
_AT_ONCE = 500  # resamples
_TRIMMED = 0.25  # at either end: what is left is the interquartile mean


@final
@dataclass(frozen=True)
class Estimate:
    """A number over seeds, and between which bounds it is known; NaN without seeds.

    Attributes:
        value: of the seeds that there are.
        low: below which it is not, with 95 % confidence.
        high: above which it is not.
    """

    value: float
    low: float
    high: float

    def above(self, level: float) -> bool | None:
        """True if all of it is, False if nothing of it is; between, the seeds do not say."""
        if self.low > level:
            return True
        return False if self.high <= level else None

    def below(self, level: float) -> bool | None:
        """True if all of it is, False if nothing of it is; between, the seeds do not say."""
        if self.high < level:
            return True
        return False if self.low >= level else None

    def meets(self, low: float, high: float) -> bool | None:
        """Whether a claim of about so much is compatible with it: they have a number in common."""
        if np.isnan(self.value):
            return None
        return bool(self.low <= high and low <= self.high)

    def words(self, form: str = ".1f") -> str:
        """`196.7 [195.8, 198.2]`; a dash for NaN."""
        if np.isnan(self.value):
            return "–"
        return f"{self.value:{form}} [{self.low:{form}}, {self.high:{form}}]"


def interquartile_means(values: Array, axis: int = -1) -> Array:
    """The mean without the lowest and the highest quarter (rliable's definition)."""
    mean: Array = stats.trim_mean(values, _TRIMMED, axis=axis)
    return mean


def over_seeds(values: ArrayLike) -> Estimate:
    """The interquartile mean of a number per seed; seeds that have none (NaN) are left out."""
    return bootstrapped(interquartile_means, values)


def probability_of_improvement(one: ArrayLike, other: ArrayLike) -> Estimate:
    """That a seed of the first has more than a seed of the second; a tie counts half."""
    return bootstrapped(_improvement, one, other)


def _improvement(one: Array, other: Array, axis: int = -1) -> Array:
    """Mann and Whitney's statistic as a share of all pairs (rliable's definition)."""
    # Of the two ways to a p-value, which nobody asks for, the one that takes no time.
    found = stats.mannwhitneyu(one, other, axis=axis, method="asymptotic")
    share: Array = found.statistic / (one.shape[axis] * other.shape[axis])
    return share


def bootstrapped(statistic: Callable[..., Array], *learners: ArrayLike) -> Estimate:
    """A statistic of learners, each a number per seed; the draws are the same every time."""
    samples = [_known(values) for values in learners]
    if not all(len(one) for one in samples):
        return Estimate(np.nan, np.nan, np.nan)
    value = float(statistic(*samples, axis=-1))
    if any(len(one) < 2 for one in samples):
        return Estimate(value, value, value)
    low, high = _bounds(statistic, samples, axis=-1)
    return Estimate(value, float(low), float(high))


def band(table: Array) -> tuple[Array, Array, Array]:
    """Interquartile means over seeds (n_seeds, n), their lower and their upper bounds."""
    middle = interquartile_means(table, axis=0)
    if len(table) < 2:
        return middle, middle, middle
    return middle, *_bounds(interquartile_means, [table], axis=0)


def _bounds(
    statistic: Callable[..., Array], samples: list[Array], axis: int
) -> tuple[Array, Array]:
    found = stats.bootstrap(
        samples,
        statistic,
        n_resamples=_RESAMPLES,
        batch=_AT_ONCE,
        axis=axis,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return found.low, found.high


def _known(values: ArrayLike) -> Array:
    array = np.asarray(values, dtype=np.float64)
    known: Array = array[~np.isnan(array)]
    return known
