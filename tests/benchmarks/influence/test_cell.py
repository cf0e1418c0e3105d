"""A cell is kept when it is done, and only then."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.influence import cell as cells
from benchmarks.influence.cell import Cell
from benchmarks.influence.setting import CARTPOLE_PPO, CARTPOLE_REINFORCE
from benchmarks.influence.training import Training
from benchmarks.ppo.scores import Stopped


def _nobody(message: object) -> None:
    del message


def test_what_was_stopped_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(*_: object) -> Training:
        raise Stopped

    monkeypatch.setattr(cells, "train", train)
    cell = Cell(CARTPOLE_REINFORCE, "nothing", "plain", 0, tmp_path)
    cell.run(_nobody, lambda: True)
    assert not cell.is_done
    assert cell.can_be_interrupted()


def test_other_settings_or_knowledge_are_other_files(tmp_path: Path) -> None:
    first = Cell(CARTPOLE_PPO, "push_right", "rail", 0, tmp_path)
    others = [
        replace(first, setting=CARTPOLE_PPO.lasting(10)),
        replace(first, setting=replace(CARTPOLE_PPO, learning_rate=0.1)),
        replace(first, knowledge="push_left"),
        replace(first, arm="reach_10"),
        replace(first, seed=1),
    ]
    assert len({one.path for one in (first, *others)}) == 6
