"""Numbers over seeds and their intervals, against rliable's definitions by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from handrail.report.estimate import Estimate, band, over_seeds, probability_of_improvement

SEEDS = np.random.default_rng(0).normal(190.0, 5.0, 10)
OTHER = np.random.default_rng(1).normal(187.0, 5.0, 12)

# What rliable 1.2.0 itself says of these seeds, with 50,000 resamples: get_interval_estimates of
# aggregate_iqm, and of probability_of_improvement over the others.
IQM = Estimate(190.47072817, 187.79724144, 193.11093832)
IMPROVEMENT = Estimate(0.6833333333, 0.425, 0.9083333333)


def test_the_interquartile_mean_is_of_the_middle_half() -> None:
    assert over_seeds([100.0, 3.0, 2.0, -50.0]).value == 2.5
    assert over_seeds(np.arange(1.0, 9.0)).value == 4.5
    assert over_seeds([7.0]) == Estimate(7.0, 7.0, 7.0)
    assert over_seeds([5.0, 5.0, 5.0]) == Estimate(5.0, 5.0, 5.0)


def test_its_interval_is_that_of_resampled_seeds() -> None:
    """The percentiles of interquartile means of seeds that are drawn with replacement."""
    draws = np.random.default_rng(7).choice(SEEDS, size=(20_000, len(SEEDS)))
    expected = np.quantile(stats.trim_mean(draws, 0.25, axis=1), [0.025, 0.975])
    found = over_seeds(SEEDS)
    np.testing.assert_allclose([found.low, found.high], expected, atol=0.15)


def test_the_probability_of_improvement_is_the_share_of_pairs() -> None:
    # Pairs of (2, 3) and (1, 2): 2 > 1, 2 = 2 counts half, 3 > 1, 3 > 2.
    assert probability_of_improvement([2.0, 3.0], [1.0, 2.0]).value == 3.5 / 4
    one, other = np.array([4.0, 1.0, 6.0]), np.array([0.0, 5.0, 2.0, 3.0])
    wins = sum(a > b for a in one for b in other)
    assert probability_of_improvement(one, other).value == wins / 12
    assert probability_of_improvement(SEEDS + 100.0, SEEDS) == Estimate(1.0, 1.0, 1.0)
    assert probability_of_improvement([3.0, 3.0], [3.0, 3.0]) == Estimate(0.5, 0.5, 0.5)


def test_both_are_those_of_rliable() -> None:
    iqm, better = over_seeds(SEEDS), probability_of_improvement(SEEDS, OTHER)
    assert iqm.value == pytest.approx(IQM.value)
    assert better.value == pytest.approx(IMPROVEMENT.value)
    # The bounds are drawn: those of 5,000 resamples are near, but not the same.
    assert (iqm.low, iqm.high) == pytest.approx((IQM.low, IQM.high), abs=0.15)
    assert (better.low, better.high) == pytest.approx((IMPROVEMENT.low, IMPROVEMENT.high), abs=0.02)


def test_a_band_has_an_interval_at_every_point() -> None:
    table = np.stack([SEEDS, SEEDS + 1.0, 2.0 * SEEDS], axis=1)
    middle, low, high = band(table)
    for column in range(3):
        alone = over_seeds(table[:, column])
        assert middle[column] == pytest.approx(alone.value)
        assert (low[column], high[column]) == pytest.approx((alone.low, alone.high))
    middle, low, high = band(table[:1])
    np.testing.assert_array_equal(low, high)
