"""Double deep Q-learning: runs that survive interruption, settings that are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from handrail._storage import load_state
from handrail.errors import Diverged, InvalidArgument, InvalidRun
from paper.experiment import Playground, QLearning, QSettings
from paper.q_learning import learn_q, run

SETTINGS = QSettings(
    hidden=[8],
    step_size=1e-2,
    step_size_final=1e-3,
    batch=16,
    memory=300,  # less than the steps, so it is filled anew
    learning_starts=20,
    update_every=2,
    discount=0.99,
    lookahead=3,
    target_rate=0.02,
    exploration_fraction=0.8,
    exploration_final=0.1,
)
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


@pytest.mark.parametrize("calls", [0, 23, 531])
def test_an_interrupted_run_continues_bit_for_bit(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    """Asked at every step, most interruptions are in the middle of an episode."""
    monkeypatch.setattr(run, "_ASK_SECONDS", 0.0)
    assert not start(tmp_path, stop=after(calls))
    state = load_state(tmp_path / "checkpoint.safetensors")[1]
    assert state["steps"] == calls
    assert len(lines(tmp_path)) == state["episode"]
    before = files(tmp_path)
    assert not start(tmp_path, stop=after(0))  # restored and saved: memory, networks, all
    assert files(tmp_path) == before
    assert start(tmp_path)
    assert files(tmp_path) == files(whole)


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
    return STUDY.model_copy(update={"settings": SETTINGS.model_copy(update=settings)})


def test_unknown_environments_are_refused(tmp_path: Path) -> None:
    study = STUDY.model_copy(update={"environment": Playground(id="CartHorse-v1")})
    with pytest.raises(InvalidArgument, match=r"^Gymnasium cannot make 'CartHorse-v1'\. Its own"):
        start(tmp_path, study=study)


def test_spaces_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    study = STUDY.model_copy(update={"environment": Playground(id="Pendulum-v1")})
    with pytest.raises(InvalidArgument, match=r"^'Pendulum-v1' has .* actions Box.* Q-learning ne"):
        start(tmp_path, study=study)


@pytest.mark.parametrize(
    ("name", "value"),
    [("timesteps", 0), ("settings", {**SETTINGS.model_dump(), "target_rate": 1.5})],
)
def test_what_cannot_be_meant_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=name):
        QLearning.model_validate({**STUDY.model_dump(), name: value})


def test_divergence_is_said(tmp_path: Path) -> None:
    with pytest.raises(Diverged, match=r"^The loss is (nan|inf) after \d+ steps\. Try a smaller"):
        start(tmp_path, study=with_settings(step_size=1e30))


def test_foreign_and_altered_folders_are_refused(tmp_path: Path) -> None:
    assert not start(tmp_path, stop=after(4))
    with pytest.raises(InvalidRun, match="comes from another study or seed"):
        start(tmp_path, study=with_settings(discount=0.9))
    (tmp_path / "metrics.jsonl").write_bytes(b"")
    with pytest.raises(InvalidRun, match="shorter than when the checkpoint was written"):
        start(tmp_path)
