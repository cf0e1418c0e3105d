"""Double deep Q-learning: runs that survive interruption, settings that are refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from handrail._storage import load_state
from handrail.errors import Diverged, HandrailError, InvalidArgument, InvalidRun
from paper import q_checkpoint
from paper.experiment import Playground, QLearning
from paper.q_learning import learn_q

SETTINGS: dict[str, Any] = {
    "learning_rate": 1e-2,
    "batch_size": 16,
    "buffer_size": 300,  # less than the steps, so it is filled anew
    "learning_starts": 20,
    "target_update_interval": 50,
    "train_freq": 4,
    "gradient_steps": -1,
    "exploration_fraction": 0.8,
    "exploration_final_eps": 0.1,
    "policy_kwargs": {"net_arch": [8]},
}
STUDY = QLearning(
    kind="double_q_learning",
    environment=Playground(id="CartPole-v1", max_episode_steps=200),
    pass_mark=195.0,
    timesteps=600,
    settings=SETTINGS,
    evaluation=3,
)


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def never() -> bool:
    return False


def after(calls: int) -> Callable[[], bool]:
    """True from that call on."""
    asked = iter(range(calls))
    return lambda: next(asked, None) is None


def start(folder: Path, stop: Callable[[], bool] = never, study: QLearning = STUDY) -> bool:
    folder.mkdir(exist_ok=True)
    return learn_q(study, 7, folder, lambda _: None, stop)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    assert start(folder)
    return folder


def test_metrics_and_evaluation(whole: Path) -> None:
    written = lines(whole)
    assert [line["episode"] for line in written] == list(range(len(written)))
    lengths = [line["length"] for line in written]
    assert [line["score"] for line in written] == lengths
    assert [line["steps"] for line in written] == np.cumsum(lengths).tolist()
    assert 400 <= written[-1]["steps"] <= 600
    assert all(line["loss"] is None for line in written if line["steps"] <= 20)
    assert all(line["loss"] > 0 for line in written if line["steps"] - line["length"] > 20)
    evaluation = json.loads((whole / "evaluation.json").read_text())
    assert evaluation["scores"] == evaluation["lengths"]
    assert len(evaluation["scores"]) == 3


def test_the_same_seed_writes_the_same_bytes(whole: Path, tmp_path: Path) -> None:
    reported: list[float] = []
    assert learn_q(STUDY, 7, tmp_path, reported.append, never)
    assert reported == sorted(reported)
    assert reported[-1] == 1.0
    assert files(tmp_path) == files(whole)
    assert start(tmp_path, stop=lambda: pytest.fail("it was finished"))


@pytest.mark.parametrize("calls", [0, 23, 131])
def test_an_interrupted_run_continues_bit_for_bit(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    """Asked at every rollout, most interruptions are in the middle of an episode."""
    monkeypatch.setattr(q_checkpoint, "_ASK_SECONDS", 0.0)
    assert not start(tmp_path, stop=after(calls))
    state = load_state(tmp_path / "checkpoint.safetensors")[1]
    assert state["counters"]["num_timesteps"] == 4 * calls
    assert len(lines(tmp_path)) == state["counters"]["_episode_num"]
    before = files(tmp_path)
    assert not start(tmp_path, stop=after(0))  # restored and saved: buffer, networks, all
    assert files(tmp_path) == before
    assert start(tmp_path)
    assert files(tmp_path) == files(whole)
    counters = load_state(tmp_path / "checkpoint.safetensors")[1]["counters"]
    assert counters["exploration_rate"] == pytest.approx(0.1)


def test_exploration_spans_the_whole_study(whole: Path, tmp_path: Path) -> None:
    """From 1 to 0.1 over the first 80 % of 600 steps, wherever the run is taken up again."""
    for calls in (5, 5, 5):
        assert not start(tmp_path, stop=after(calls))
    counters = load_state(tmp_path / "checkpoint.safetensors")[1]["counters"]
    expected = 1 - 0.9 * counters["num_timesteps"] / 480
    assert counters["exploration_rate"] == pytest.approx(expected)
    assert 0.1 < expected < 0.9


def test_what_a_killed_run_wrote_after_its_checkpoint_is_dropped(
    whole: Path, tmp_path: Path
) -> None:
    assert not start(tmp_path, stop=after(4))
    kept = files(tmp_path)

    def killed() -> bool:
        if len(lines(tmp_path)) >= 8:
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt):
        start(tmp_path, stop=killed)
    assert files(tmp_path)["checkpoint.safetensors"] == kept["checkpoint.safetensors"]
    assert files(tmp_path)["metrics.jsonl"].startswith(kept["metrics.jsonl"])
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"episode": 8, "sco')
    assert start(tmp_path)
    assert files(tmp_path) == files(whole)


def test_checkpoints_as_it_goes(whole: Path, tmp_path: Path) -> None:
    def killed() -> bool:
        if (tmp_path / "metrics.jsonl").stat().st_size > 500:
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt):
        learn_q(STUDY, 7, tmp_path, lambda _: None, killed, checkpoint_seconds=0.0)
    assert load_state(tmp_path / "checkpoint.safetensors")[1]["bytes"] > 0
    assert start(tmp_path)
    assert files(tmp_path) == files(whole)


def test_an_interrupted_evaluation_is_played_again(whole: Path, tmp_path: Path) -> None:
    learned = {name: data for name, data in files(whole).items() if name != "evaluation.json"}
    for name, data in learned.items():
        (tmp_path / name).write_bytes(data)
    assert not start(tmp_path, stop=after(2))
    assert files(tmp_path) == learned
    assert start(tmp_path)
    assert files(tmp_path) == files(whole)


def with_settings(**settings: Any) -> QLearning:
    return STUDY.model_copy(update={"settings": {**SETTINGS, **settings}})


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            {"lerning_rate": 0.1},
            "^Stable-Baselines3's DQN has no setting 'lerning_rate'. Close to it: learning_rate",
        ),
        ({"seed": 1}, "^The setting 'seed' is not free: the study itself gives it.$"),
        (
            {"optimize_memory_usage": True},
            "^The setting 'optimize_memory_usage' is not supported: leave it out.$",
        ),
        ({"policy_kwargs": {"net": [8]}}, "^Stable-Baselines3's DQN refuses .*argument 'net'"),
        ({"train_freq": [1, "day"]}, "^Stable-Baselines3's DQN refuses .*not 'day'"),
    ],
)
def test_wrong_settings_are_refused(tmp_path: Path, setting: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        start(tmp_path, study=with_settings(**setting))
    assert not files(tmp_path)


def test_settings_as_yaml_writes_them(tmp_path: Path) -> None:
    study = with_settings(train_freq=[1, "episode"]).model_copy(update={"timesteps": 30})
    assert start(tmp_path, study=study)


def test_unknown_environments_are_refused(tmp_path: Path) -> None:
    study = STUDY.model_copy(update={"environment": Playground(id="CartHorse-v1")})
    with pytest.raises(InvalidArgument, match=r"^Gymnasium cannot make 'CartHorse-v1'\. Its own"):
        start(tmp_path, study=study)


def test_steps_are_at_least_one() -> None:
    with pytest.raises(ValidationError, match="timesteps"):
        QLearning.model_validate({**STUDY.model_dump(), "timesteps": 0})


def test_divergence_is_said(tmp_path: Path) -> None:
    with pytest.raises(Diverged, match=r"^The loss is (nan|inf) after \d+ steps\. Try a smaller"):
        start(tmp_path, study=with_settings(learning_rate=1e30))


def test_foreign_and_altered_folders_are_refused(tmp_path: Path) -> None:
    assert not start(tmp_path, stop=after(4))
    with pytest.raises(InvalidRun, match="comes from another study or seed"):
        start(tmp_path, study=with_settings(gamma=0.9))
    (tmp_path / "metrics.jsonl").write_bytes(b"")
    with pytest.raises(InvalidRun, match="shorter than when the checkpoint was written"):
        start(tmp_path)


def test_without_stable_baselines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    monkeypatch.delitem(sys.modules, "paper.q_learning")
    fresh = import_module("paper.q_learning")  # works without
    expected = r"^Double Q-learning needs Stable-Baselines3: pip install 'handrail\[sb3\]'$"
    with pytest.raises(HandrailError, match=expected):
        fresh.learn_q(STUDY, 7, tmp_path, lambda _: None, never)
