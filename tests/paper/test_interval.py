"""Intervals over seeds: what they say, and when seeds do not say."""

from __future__ import annotations

import numpy as np
import pytest

from handrail.report.statistics import spread
from paper.interval import (
    Interval,
    all_of,
    difference,
    over_seeds,
    probability_of_improvement,
    ratio,
    ratio_of_deviations,
    share,
)

NAN = float("nan")
SEEDS = np.random.default_rng(0).normal(190.0, 5.0, 10)


@pytest.mark.parametrize(
    ("level", "above", "below"),
    [(1.0, True, False), (1.5, None, None), (2.5, None, None), (3.5, False, True)],
)
def test_a_level_inside_of_an_interval_decides_nothing(
    level: float, above: bool | None, below: bool | None
) -> None:
    interval = Interval(2.0, 1.2, 3.0)
    assert interval.above(level) is above
    assert interval.below(level) is below


def test_a_claim_of_about_so_much_needs_a_number_in_common() -> None:
    interval = Interval(195.9, 184.5, 207.7)
    assert interval.meets(170.0, 200.0) is True
    assert interval.meets(207.7, 300.0) is True
    assert interval.meets(0.0, 184.0) is False


def test_nothing_is_judged_without_seeds() -> None:
    nothing = over_seeds([NAN, NAN])
    assert nothing.words() == ratio([], [1.0]).words() == share(0, 0).words() == "–"
    assert nothing.above(0.0) is nothing.below(0.0) is nothing.meets(0.0, 1.0) is None


def test_interquartile_means_are_those_of_the_library() -> None:
    ours, theirs = over_seeds([*SEEDS, NAN]), spread(SEEDS.tolist())
    assert (ours.value, ours.low, ours.high) == (theirs.iqm, *theirs.interval)
    assert over_seeds([7.0]).words() == over_seeds([7.0] * 4).words() == "7.0 [7.0, 7.0]"


def test_two_learners_are_compared_by_interquartile_means() -> None:
    twice = ratio(2.0 * SEEDS, SEEDS)
    assert twice.value == pytest.approx(2.0)
    assert twice.low < 2.0 < twice.high
    assert difference(SEEDS + 10.0, SEEDS).value == pytest.approx(10.0)
    assert difference(SEEDS + 10.0, SEEDS).above(0.0)
    assert difference(SEEDS, SEEDS).above(0.0) is None
    assert ratio_of_deviations(3.0 * SEEDS, SEEDS).value == pytest.approx(3.0)


def test_the_probability_of_improvement_counts_pairs_and_half_of_ties() -> None:
    assert probability_of_improvement([2.0, 3.0], [1.0, 2.0]).value == 0.875
    assert probability_of_improvement(SEEDS + 100.0, SEEDS) == Interval(1.0, 1.0, 1.0)
    even = probability_of_improvement(SEEDS, SEEDS)
    assert even.value == 0.5
    assert even.low < 0.5 < even.high


def test_a_claim_of_several_parts_needs_all_of_them() -> None:
    assert all_of([True, True]) is True
    assert all_of([True, None]) is None
    assert all_of([None, False]) is False


def test_a_share_of_seeds_has_the_exact_interval() -> None:
    # Clopper and Pearson by hand: 0 of n ends at 1 - 0.025^(1/n).
    none = share(0, 10)
    assert none.low == 0.0
    assert none.high == pytest.approx(1.0 - 0.025**0.1)
    assert share(8, 10).words(".2f") == "0.80 [0.44, 0.97]"
