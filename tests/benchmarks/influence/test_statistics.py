"""Scores and differences on numbers made by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.influence.setting import CARTPOLE_PPO, CARTPOLE_REINFORCE
from benchmarks.influence.statistics import (
    difference,
    final_score,
    first_score,
    score_at,
    steps_to,
)
from benchmarks.influence.training import Training

_STEPS = CARTPOLE_PPO.lasting(1000)
_RUN = Training(
    scores=tuple(float(n) for n in range(10)),
    ends=tuple(range(100, 1001, 100)),
    seconds=1.0,
    worst_violation=None,
    final_violation=None,
)


def _run(scores: list[float]) -> Training:
    return replace(_RUN, scores=tuple(scores), ends=tuple(range(1, 1 + len(scores))))


def test_final_scores_are_of_the_last_fifth_of_steps_or_the_last_hundred_episodes() -> None:
    assert final_score(_RUN, _STEPS) == 8.5  # those that end at 900 and 1000
    assert final_score(_run([0.0] * 50 + [1.0] * 100), CARTPOLE_REINFORCE) == 1.0
    assert first_score(_run([0.0] * 50 + [1.0] * 100)) == 0.5


def test_a_training_that_was_given_up_scores_as_it_did_until_then() -> None:
    given_up = replace(_RUN, scores=(1.0, 3.0), ends=(10, 20), failure="cannot hold")
    assert final_score(given_up, _STEPS) == 2.0


def test_scores_at_a_share_of_the_budget_are_those_of_the_tenth_before() -> None:
    assert [score_at(_RUN, _STEPS, share) for share in (0.1, 0.5, 1.0)] == [0.0, 4.0, 9.0]
    assert np.isnan(score_at(replace(_RUN, scores=(), ends=()), _STEPS, 0.5))
    of_episodes = _run([1.0] * 30 + [2.0] * 270)
    assert [score_at(of_episodes, CARTPOLE_REINFORCE, share) for share in (0.1, 1.0)] == [1.0, 2.0]


def test_steps_to_a_mark_need_twenty_episodes_on_average() -> None:
    assert steps_to(_run([0.0] * 30 + [500.0] * 30), 475.0) == 49  # 19 of 20 have passed
    assert steps_to(_run([500.0] * 20), 500.0) == 20
    assert np.isnan(steps_to(_run([500.0] * 19), 475.0))
    assert np.isnan(steps_to(_run([400.0] * 40), 475.0))


def test_clear_losses_are_below_and_noise_is_not() -> None:
    rng = np.random.default_rng(0)
    plain = rng.normal(100.0, 1.0, 10)
    lost = difference(plain - 50.0 + rng.normal(0.0, 5.0, 10), plain)
    assert not lost.is_not_below
    assert lost.low < lost.mean < lost.high < -40.0
    noisy = difference(plain + np.tile([20.0, -20.5], 5), plain)
    assert noisy.is_not_below
    assert noisy.mean == pytest.approx(-0.25)
    assert noisy.low < -5.0
    assert noisy.high > 5.0


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(60):
        found = difference(rng.normal(3.0, 1.0, 10), np.zeros(10))
        covered += found.low <= 3.0 <= found.high
    assert covered >= 48  # 57 of 95 % intervals; those of ten values are a little short


def test_what_has_no_noise_has_no_interval() -> None:
    same = difference([500.0, 500.0], [500.0, 500.0])
    assert (same.low, same.mean, same.high, same.is_not_below) == (0.0, 0.0, 0.0, True)
    assert not difference([499.0, 499.0], [500.0, 500.0]).is_not_below


def test_seeds_without_a_score_are_left_out() -> None:
    found = difference([1.0, None, 3.0], [0.0, 0.0, 2.0])
    assert (found.low, found.mean, found.high) == (1.0, 1.0, 1.0)
