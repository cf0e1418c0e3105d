"""The page says what the cells say."""

from __future__ import annotations

import pytest

from benchmarks.off_policy.report import page, score_at
from benchmarks.off_policy.setting import DQN_CARTPOLE, SAC_PENDULUM, SETTINGS
from benchmarks.off_policy.training import Training


def training(score: float, seconds: float, against: int, violation: float | None) -> Training:
    ends = tuple(range(100, 1001, 100))
    return Training(
        scores=tuple(score + number for number in range(10)),
        ends=ends,
        seconds=seconds,
        seconds_held=0.0,
        steps_in_places=200,
        against=against,
        drawn_against=2 * against,
        worst_violation=violation,
        looks=50,
        holdings=5,
    )


def test_a_score_is_that_of_the_fifth_of_the_budget_before() -> None:
    run = training(0.0, 1.0, 0, None)
    assert score_at(run, 1000.0) == pytest.approx(8.5)  # those that ended at 900 and 1000
    assert score_at(run, 500.0) == pytest.approx(3.5)
    assert score_at(run, 50.0) != score_at(run, 50.0)  # none has ended


def test_the_tables() -> None:
    results = {
        ("sac-pendulum", "plain"): {0: training(-100.0, 10.0, 50, None)},
        ("sac-pendulum", "rail"): {
            0: training(-50.0, 12.0, 0, -0.01),
            1: training(-60.0, 99.0, 0, -0.02),
        },
    }
    text = page(SETTINGS, results)  # type: ignore[arg-type]
    lines = [line for line in text.splitlines() if line.startswith("| SAC")]
    assert lines[0].startswith("| SAC, Pendulum-v1, 5,000 steps | plain | 1 |")
    assert "| 200 | 50 (25.0%) | 100 (50.0%) | – |" in lines[2]
    assert "| 400 | 0 (0.0%) | 0 (0.0%) | -1.0e-02 |" in lines[3]
    assert "| 56 | 1.20 | 50 | 5 |" in lines[5]  # of the seed that both have
    assert "CartPole-v1 |" not in text  # nothing is said of what was not trained
    half = {("sac-pendulum", "plain"): results["sac-pendulum", "plain"]}
    assert "| SAC" not in page(SETTINGS, half)  # type: ignore[arg-type]


def test_arms_differ_in_the_callback_only() -> None:
    assert SAC_PENDULUM.arms == ("plain", "rail")
    assert DQN_CARTPOLE.arms == ("plain", "rail", "allowed")
    first, second = DQN_CARTPOLE.model(0), DQN_CARTPOLE.model(0)
    assert first.policy_kwargs == second.policy_kwargs == DQN_CARTPOLE.options["policy_kwargs"]
