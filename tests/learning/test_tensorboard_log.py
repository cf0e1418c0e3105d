"""What TensorBoard reads of learners: the tags, the steps, and interrupted sessions once."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import handrail as hr
from handrail.errors import InvalidArgument
from handrail.learning.tensorboard_log import TensorBoardLog
from tests.conftest import small_policy
from tests.learning.test_scalars import SECONDS
from tests.report.test_statistics import RECORD

pytest.importorskip("tensorboard", reason="TensorBoard is optional")


def read(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import (  # noqa: PLC0415
        EventAccumulator,
    )

    events = EventAccumulator(str(folder))
    events.Reload()
    return events


def test_a_callback_writes_what_it_is_shown(tmp_path: Path) -> None:
    agent = hr.Reinforce("CartPole-v1", small_policy(4, 2), seed=0)
    with TensorBoardLog(tmp_path / "log") as log:
        assert not (tmp_path / "log").exists()  # with the first episode
        records = agent.learn(episodes=4, progress_bar=False, callbacks=[log])
    events = read(tmp_path / "log")
    found = events.Scalars("rollout/ep_rew_mean")
    assert [event.step for event in found] == [record.steps for record in records]
    scores = [record.score for record in records]
    expected = [sum(scores[: k + 1]) / (k + 1) for k in range(4)]
    assert [event.value for event in found] == pytest.approx(expected, rel=1e-6)
    assert {"rollout/ep_len_mean", "time/fps", "handrail/score"} <= set(events.Tags()["scalars"])


def test_curves_lie_on_those_of_stable_baselines3(tmp_path: Path) -> None:
    sb3 = pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is optional")
    theirs = sb3.PPO(
        "MlpPolicy", "CartPole-v1", n_steps=64, n_epochs=1, seed=0, tensorboard_log=str(tmp_path)
    )
    theirs.learn(128)
    agent = hr.Reinforce("CartPole-v1", small_policy(4, 2), seed=0)
    with TensorBoardLog(tmp_path / "ours") as log:
        agent.learn(timesteps=128, progress_bar=False, callbacks=[log])
    other, own = read(tmp_path / "PPO_1"), read(tmp_path / "ours")
    tags = set(other.Tags()["scalars"])
    played = {tag for tag in tags if tag.startswith(("rollout/", "time/"))}
    assert played == {"rollout/ep_rew_mean", "rollout/ep_len_mean", "time/fps"}
    for tag in played:
        assert [event.step for event in other.Scalars(tag)] == [64, 128]
        assert [event.step for event in own.Scalars(tag)][-1] == agent.steps


def test_what_an_interrupted_session_wrote_is_shown_once(tmp_path: Path) -> None:
    records = [
        replace(RECORD, episode=k, score=float(k), length=10, steps=10 * (k + 1)) for k in range(9)
    ]
    with TensorBoardLog(tmp_path) as log:
        for record in records[:6]:
            log.write(replace(record, score=-1.0), SECONDS)
    with TensorBoardLog(tmp_path, records[:4]) as log:  # from a checkpoint after the fourth
        for record in records[4:]:
            log.write(record, SECONDS)
    found = read(tmp_path).Scalars("handrail/score")
    assert [event.step for event in found] == [10 * (k + 1) for k in range(9)]
    assert [event.value for event in found] == [-1.0] * 4 + [4.0, 5.0, 6.0, 7.0, 8.0]


def test_without_tensorboard_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(InvalidArgument, match=r'pip install "handrail\[tensorboard\]"'):
        TensorBoardLog(tmp_path)
