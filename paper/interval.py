"""What seeds tell and what they leave open: intervals, by which claims are judged.

As in rliable (Agarwal et al. 2021): interquartile means over seeds, the probability that a seed of
one learner does better than a seed of another, and 95 % percentile bootstrap intervals of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from handrail._types import Array

_RESAMPLES = 5000
_AT_ONCE = 500  # resamples: of two learners, a table of all pairs of their seeds each
_TRIMMED = 0.25  # at either end: what is left is the interquartile mean


@final
@dataclass(frozen=True)
class Interval:
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


def over_seeds(values: ArrayLike) -> Interval:
    """The interquartile mean of a number per seed; seeds that have none (NaN) are left out."""
    return _bootstrapped(_iqm, values)


def ratio(one: ArrayLike, other: ArrayLike) -> Interval:
    """Of two learners' interquartile means."""
    return _bootstrapped(lambda a, b, axis: _iqm(a, axis) / _iqm(b, axis), one, other)


def difference(one: ArrayLike, other: ArrayLike) -> Interval:
    """Of two learners' interquartile means."""
    return _bootstrapped(lambda a, b, axis: _iqm(a, axis) - _iqm(b, axis), one, other)


def ratio_of_deviations(one: ArrayLike, other: ArrayLike) -> Interval:
    """Of how far two learners' seeds spread."""
    return _bootstrapped(lambda a, b, axis: _deviation(a, axis) / _deviation(b, axis), one, other)


def probability_of_improvement(one: ArrayLike, other: ArrayLike) -> Interval:
    """That a seed of the first has more than a seed of the second; a tie counts half."""
    return _bootstrapped(_improvement, one, other)


def share(count: int, of: int) -> Interval:
    """Of seeds that do something, with the exact interval of Clopper and Pearson."""
    if of == 0:
        return Interval(np.nan, np.nan, np.nan)
    found = stats.binomtest(count, of).proportion_ci(0.95)
    return Interval(count / of, float(found.low), float(found.high))


def all_of(verdicts: Iterable[bool | None]) -> bool | None:
    """Of a claim with several parts: no if one says no, else not known if one is not."""
    found = list(verdicts)
    return False if False in found else None if None in found else True


def _iqm(values: Array, axis: int = -1) -> Array:
    mean: Array = stats.trim_mean(values, _TRIMMED, axis=axis)
    return mean


def _deviation(values: Array, axis: int = -1) -> Array:
    deviation: Array = np.asarray(np.std(values, axis=axis, ddof=1))
    return deviation


def _improvement(one: Array, other: Array, axis: int = -1) -> Array:
    """Mann and Whitney's statistic as a share of all pairs."""
    gaps = np.moveaxis(one, axis, -1)[..., :, None] - np.moveaxis(other, axis, -1)[..., None, :]
    wins: Array = 0.5 * (np.sign(gaps) + 1.0).mean(axis=(-2, -1))
    return wins


def _bootstrapped(statistic: Callable[..., Array], *learners: ArrayLike) -> Interval:
    """Seeds are drawn anew for each learner by itself; the draws are the same every time."""
    samples = [_known(values) for values in learners]
    if not all(len(one) for one in samples):
        return Interval(np.nan, np.nan, np.nan)
    value = float(statistic(*samples, axis=-1))
    if any(len(one) < 2 for one in samples):
        return Interval(value, value, value)
    found = stats.bootstrap(
        samples,
        statistic,
        n_resamples=_RESAMPLES,
        batch=_AT_ONCE,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return Interval(value, float(found.low), float(found.high))


def _known(values: ArrayLike) -> Array:
    array = np.asarray(values, dtype=np.float64)
    known: Array = array[~np.isnan(array)]
    return known
