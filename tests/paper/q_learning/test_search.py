"""How settings are searched for: on other seeds, goes on where it was, gives up what is worse."""

from __future__ import annotations

from pathlib import Path

import pytest

from handrail.errors import InvalidArgument
from paper.experiment import Playground, QLearning, experiments
from paper.q_learning import search
from tests.paper.q_learning.test_run import SETTINGS

pytest.importorskip("optuna", reason="pip install 'handrail[optuna]'")
STUDY = QLearning(
    kind="double_q_learning",
    environment=Playground(id="CartPole-v1", max_episode_steps=30),
    pass_mark=195.0,
    timesteps=150,
    settings=SETTINGS,
)


def test_no_seed_is_a_reported_one() -> None:
    reported = {seed for one in experiments() for seed in range(one.seeds)}
    assert not reported & set(search.SEEDS)


def test_a_look_after_every_third(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_EPISODES", 2)
    seen = list(search.looks(STUDY, 100))
    assert len(seen) == 3
    assert all(1.0 <= score <= 30.0 for score in seen)
    assert seen == list(search.looks(STUDY, 100))


def test_settings_by_hand_come_first_and_the_same_command_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "study_named", lambda _: STUDY)
    monkeypatch.setattr(search, "_EPISODES", 2)
    page = tmp_path / "page.md"
    for trials in (2, 3, 3):
        search.tune("small", trials, tmp_path, page)
    tried = search.open_search(tmp_path / "small.log", "small").trials
    assert len(tried) == len({one.params["step_size"] for one in tried}) == 3
    first = tried[0]
    assert (first.params["batch"], first.params["step_size"]) == (64, 5e-4)
    assert first.value == (first.intermediate_values[2] + first.intermediate_values[5]) / 2
    text = page.read_text()
    assert "`python -m paper.q_learning.search small --trials 3`" in text
    assert "150 environment steps on seeds 100 and 101" in text
    assert text.count("\n| ") == 5  # the header, its rule, three trials


def test_only_q_learning_is_tuned() -> None:
    assert search.study_named("cartpole_q_learning").timesteps == 50_000
    with pytest.raises(
        InvalidArgument, match=r"^'disks_return' is no experiment with Q-learning: "
    ):
        search.study_named("disks_return")
