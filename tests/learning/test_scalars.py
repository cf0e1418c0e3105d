"""The numbers of episodes by the names that loggers know."""

from __future__ import annotations

from dataclasses import replace

from handrail.learning.record import Seconds
from handrail.learning.scalars import Scalars
from tests.report.test_statistics import RECORD

SECONDS = Seconds(collecting=0.5, predicting=0.25, solving=0.125, updating=0.125)


def test_averages_are_of_the_last_100_episodes() -> None:
    scalars = Scalars()
    for k in range(150):
        found = scalars(replace(RECORD, score=float(k), length=2 * k), SECONDS)
    assert found["rollout/ep_rew_mean"] == sum(range(50, 150)) / 100
    assert found["rollout/ep_len_mean"] == 2 * sum(range(50, 150)) / 100
    first = Scalars()(replace(RECORD, score=3.0), SECONDS)
    assert first["rollout/ep_rew_mean"] == 3.0


def test_averages_go_on_from_what_was_before() -> None:
    records = [replace(RECORD, score=float(k)) for k in range(130)]
    whole, resumed = Scalars(), Scalars(records[:120])
    for record in records[:120]:
        whole(record, SECONDS)
    for record in records[120:]:
        name = "rollout/ep_rew_mean"
        assert whole(record, SECONDS)[name] == resumed(record, SECONDS)[name]


def test_steps_a_second_are_those_of_the_session() -> None:
    scalars = Scalars([replace(RECORD, length=10_000)])
    assert scalars(replace(RECORD, length=40), SECONDS)["time/fps"] == 40.0
    assert scalars(replace(RECORD, length=20), SECONDS)["time/fps"] == 30.0
    nothing = Seconds(0.0, 0.0, 0.0, 0.0)
    assert "time/fps" not in Scalars()(RECORD, nothing)


def test_costs_only_where_there_are_some() -> None:
    scalars = Scalars()
    assert "rollout/ep_cost_mean" not in scalars(RECORD, SECONDS)
    assert scalars(replace(RECORD, cost=4.0), SECONDS)["rollout/ep_cost_mean"] == 2.0


def test_our_own_numbers_have_our_name() -> None:
    record = replace(RECORD, episode=7, safe_loss=None, active=("a", "b"), steps=99)
    found = Scalars()(record, SECONDS)
    assert found["handrail/episode"] == 7.0
    assert found["handrail/active"] == 2.0
    assert found["handrail/seconds/predicting"] == 0.25
    assert found["handrail/violation_before"] == record.violation_before
    for absent in ("safe_loss", "steps", "terminated", "cost"):
        assert f"handrail/{absent}" not in found
    assert all(type(value) is float for value in found.values())
