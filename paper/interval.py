"""By what seeds tell, claims are judged: intervals of how two learners compare, and of shares."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from handrail._types import Array
from handrail.report.estimate import (
    Estimate as Interval,
)
from handrail.report.estimate import (
    bootstrapped,
    interquartile_means,
    over_seeds,
    probability_of_improvement,
)

__all__ = [
    "Interval",
    "all_of",
    "difference",
    "over_seeds",
    "probability_of_improvement",
    "ratio",
    "ratio_of_deviations",
    "share",
]


def ratio(one: ArrayLike, other: ArrayLike) -> Interval:
    """Of two learners' interquartile means."""
    return bootstrapped(
        lambda a, b, axis: interquartile_means(a, axis) / interquartile_means(b, axis), one, other
    )


def difference(one: ArrayLike, other: ArrayLike) -> Interval:
    """Of two learners' interquartile means."""
    return bootstrapped(
        lambda a, b, axis: interquartile_means(a, axis) - interquartile_means(b, axis), one, other
    )


def ratio_of_deviations(one: ArrayLike, other: ArrayLike) -> Interval:
    """Of how far two learners' seeds spread."""
    return bootstrapped(lambda a, b, axis: _deviation(a, axis) / _deviation(b, axis), one, other)


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


def _deviation(values: Array, axis: int = -1) -> Array:
    deviation: Array = np.asarray(np.std(values, axis=axis, ddof=1))
    return deviation
