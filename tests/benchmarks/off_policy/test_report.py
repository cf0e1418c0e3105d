"""The page says what the cells say."""

from __future__ import annotations

from benchmarks.off_policy.report import Results, Row, page
from benchmarks.off_policy.setting import DQN_CARTPOLE, SAC_PENDULUM, SETTINGS
from benchmarks.off_policy.summary import Summary


def training(score: float, seconds: float, against: int, violation: float | None) -> Summary:
    return Summary(
        episodes=10,
        scores=(None, score, score + 8.5),
        seconds=seconds,
        steps_in_places=200,
        against=against,
        drawn_against=2 * against,
        worst_violation=violation,
        looks=50,
        holdings=5,
    )


def test_the_tables() -> None:
    results: dict[Row, dict[int, Summary]] = {
        ("sac-pendulum", "plain"): {0: training(-100.0, 10.0, 50, None)},
        ("sac-pendulum", "rail"): {
            0: training(-50.0, 12.0, 0, -0.01),
            1: training(-60.0, 99.0, 0, -0.02),
        },
    }
    old = frozenset[Row]({("sac-pendulum", "rail")})
    text = page(SETTINGS, Results(results, old))
    lines = [line for line in text.splitlines() if line.startswith("| SAC")]
    assert lines[0].startswith("| SAC, Pendulum-v1, 5,000 steps | plain | 1 |")
    assert lines[0].endswith("| – | -100.0 | -91.5 |")
    assert "| with a handrail † | 2 | – | -55.0 ± 5.0 | -46.5 ± 5.0 |" in lines[1]
    assert "| 200 | 50 (25.0%) | 100 (50.0%) | – |" in lines[2]
    assert "| 400 | 0 (0.0%) | 0 (0.0%) | -1.0e-02 |" in lines[3]
    assert "| 56 | 1.20 | 50 | 5 |" in lines[5]  # of the seed that both have
    assert "CartPole-v1 |" not in text  # nothing is said of what was not trained
    half: dict[Row, dict[int, Summary]] = {
        ("sac-pendulum", "plain"): results["sac-pendulum", "plain"]
    }
    assert "| SAC" not in page(SETTINGS, Results(half))


def test_arms_differ_in_the_callback_only() -> None:
    assert SAC_PENDULUM.arms == ("plain", "rail")
    assert DQN_CARTPOLE.arms == ("plain", "rail", "allowed")
    first, second = DQN_CARTPOLE.model(0), DQN_CARTPOLE.model(0)
    assert first.policy_kwargs == second.policy_kwargs == DQN_CARTPOLE.options["policy_kwargs"]
