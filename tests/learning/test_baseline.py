"""What steps were worth, against the authors' numbers, loops and closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from handrail._types import Array
from handrail.errors import InvalidArgument
from handrail.learning.baseline import (
    Baseline,
    NoBaseline,
    Standardised,
    TimeAverage,
    Value,
    discounted,
    make_baseline,
)
from handrail.learning.episode import Episode
from handrail.settings import LearnerSettings
from tests.conftest import Golden

RNG = np.random.default_rng(0)


def episode(rewards: Array, states: Array | None = None, terminated: bool = True) -> Episode:
    n = len(rewards)
    states = RNG.normal(size=(n + 1, 2)) if states is None else states
    return Episode(
        states=states[:-1],
        actions=np.zeros(n, dtype=np.intp),
        rewards=np.asarray(rewards, dtype=np.float64),
        final_state=states[-1],
        terminated=terminated,
    )


def test_discounted_returns_against_a_loop() -> None:
    rewards = RNG.normal(size=50)
    expected, after = np.zeros(50), 3.0
    for k in reversed(range(50)):
        after = rewards[k] + 0.9 * after
        expected[k] = after
    np.testing.assert_allclose(discounted(rewards, 0.9, after=3.0), expected, rtol=1e-12)
    np.testing.assert_allclose(discounted(rewards, 1.0), rewards[::-1].cumsum()[::-1], rtol=1e-12)


def test_returns_and_standardised_returns_are_the_authors(golden: Golden) -> None:
    rewards = golden["rewards"]
    discount = float(golden.data["discount"])
    one = episode(rewards)
    np.testing.assert_allclose(
        NoBaseline().advantages([one], discount)[0], golden["returns"], rtol=1e-6
    )
    np.testing.assert_allclose(
        Standardised().advantages([one], discount)[0], golden["normalised_returns"], atol=2e-6
    )


def test_standardised_returns_that_do_not_differ_are_zero() -> None:
    for rewards in ([5.0], [0.0, 0.0, 0.0]):
        np.testing.assert_array_equal(
            Standardised().advantages([episode(np.array(rewards))], 1.0)[0], 0.0
        )


def test_standardised_is_over_the_whole_update() -> None:
    parts = Standardised().advantages([episode(RNG.normal(size=7)), episode(RNG.normal(size=9))], 1)
    together = np.concatenate(parts)
    assert together.mean() == pytest.approx(0.0, abs=1e-12)
    assert together.std(ddof=1) == pytest.approx(1.0)


def test_the_time_average_removes_what_the_clock_decides() -> None:
    baseline = TimeAverage(window=10)
    for _ in range(3):  # capped episodes that all went the same: nothing to learn from
        np.testing.assert_array_equal(
            baseline.advantages([episode(np.ones(20), terminated=False)], 0.99)[0], 0.0
        )


def test_the_time_average_in_closed_form() -> None:
    baseline = TimeAverage(window=2)
    baseline.advantages([episode(np.array([9.0, 9.0, 9.0]))], 1.0)  # forgotten below
    first, second = np.array([3.0, 2.0, 1.0]), np.array([1.0])
    got = baseline.advantages([episode(np.ones(3)), episode(np.ones(1))], 1.0)
    average = (first + np.array([1.0, 0.0, 0.0])) / 2.0  # an ended one is worth 0
    expected = [first - average, second - average[:1]]
    size = np.sqrt(np.mean(np.concatenate(expected) ** 2))
    for one, raw in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, raw / size, rtol=1e-12)


def test_more_episodes_in_an_update_than_in_the_window() -> None:
    baseline = TimeAverage(window=1)
    long, short = baseline.advantages([episode(np.ones(5)), episode(np.ones(2))], 1.0)
    assert (len(long), len(short)) == (5, 2)


def test_advantages_of_a_perfect_value_function_vanish() -> None:
    # Rewards that are the decrease of a quadratic function of the state: V is that function.
    states = RNG.normal(size=(41, 2))
    potential = 2.0 + states @ [1.0, -2.0] + (states**2) @ [0.5, 0.25]
    rewards = potential[:-1] - potential[1:]
    rewards[-1] += potential[-1]  # ends worth nothing
    baseline = Value(2, window=5, decay=0.9)
    baseline.advantages([episode(rewards, states)], 1.0)
    squares, steps = baseline.memory()["spread"][0]  # Σ advantage² before it becomes the unit
    assert np.sqrt(squares / steps) < 1e-3 * np.abs(rewards).max()


def test_generalised_advantages_against_a_loop() -> None:
    states, rewards = RNG.normal(size=(13, 2)), RNG.normal(size=12)
    for terminated in (True, False):
        one = episode(rewards, states, terminated)
        baseline = Value(2, window=3, decay=0.8)
        got = baseline.advantages([one], 0.95)[0]
        weights = baseline.memory()["weights"]
        features = np.concatenate([states, states**2, np.ones((13, 1))], axis=1)
        values = features @ weights
        if terminated:
            values[-1] = 0.0
        expected, later = np.zeros(12), 0.0
        for k in reversed(range(12)):
            later = rewards[k] + 0.95 * values[k + 1] - values[k] + 0.95 * 0.8 * later
            expected[k] = later
        np.testing.assert_allclose(got, expected / np.sqrt(np.mean(expected**2)), rtol=1e-9)


def test_the_value_fit_is_least_squares_over_the_window() -> None:
    baseline = Value(2, window=2, decay=1.0)
    episodes = [episode(RNG.normal(size=30)) for _ in range(3)]
    for one in episodes:
        baseline.advantages([one], 0.9)
    features, targets = [], []
    for one in episodes[1:]:
        features.append(np.concatenate([one.states, one.states**2, np.ones((30, 1))], axis=1))
        targets.append(discounted(one.rewards, 0.9))
    expected = np.linalg.lstsq(np.concatenate(features), np.concatenate(targets))[0]
    np.testing.assert_allclose(baseline.memory()["weights"], expected, rtol=1e-3, atol=1e-4)


def test_an_observation_that_is_always_zero_does_no_harm() -> None:
    states = np.zeros((11, 2))
    got = Value(2, window=2, decay=0.9).advantages([episode(np.ones(10), states)], 0.9)[0]
    assert np.isfinite(got).all()


def test_the_unit_is_the_recent_size_not_that_of_one_update() -> None:
    baseline = TimeAverage(window=50)
    for _ in range(20):
        baseline.advantages([episode(RNG.normal(size=10) * 10.0)], 1.0)
    quiet = baseline.advantages([episode(np.zeros(10))], 1.0)[0]
    assert np.sqrt(np.mean(quiet**2)) < 0.5


@pytest.mark.parametrize("name", ["none", "standardised", "time_average", "value"])
def test_a_recalled_baseline_continues_bit_for_bit(name: str) -> None:
    settings = LearnerSettings(baseline=name, baseline_window=3)  # type: ignore[arg-type]
    episodes = [episode(RNG.normal(size=n), terminated=bool(n % 2)) for n in (4, 9, 6, 5, 7, 8)]

    def advantages(baseline: Baseline, these: list[Episode]) -> list[Array]:
        return [baseline.advantages([one], 0.99)[0] for one in these]

    whole = make_baseline(settings, 2)
    expected = advantages(whole, episodes)
    before = make_baseline(settings, 2)
    advantages(before, episodes[:4])
    after = make_baseline(settings, 2)
    after.recall({key: value.copy() for key, value in before.memory().items()})
    for one, other in zip(advantages(after, episodes[4:]), expected[4:], strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_value_function_of_a_picture_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"fits up to 256 observations, .* has 1000"):
        make_baseline(LearnerSettings(baseline="value"), 1000)
