"""What is trained, and what is not trained again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import final

import pytest

from benchmarks.influence import __main__ as command
from benchmarks.influence import cell as cells
from benchmarks.influence.setting import CARTPOLE_REINFORCE
from benchmarks.influence.study import SEEDS, STUDIES, Row
from benchmarks.influence.training import Training
from handrail.executors.executor import End, Executor, Task, Work

_TRAINED = Training((1.0, 2.0), (10, 30), 0.5, -1e-3, -2e-3, 4, 1)


def _nobody(message: object) -> None:
    del message


@final
class InTurn(Executor):
    """Here, one after the other."""

    def begin(self, tasks: Sequence[Task]) -> Work:
        for task in tasks:
            task.run(_nobody, lambda: False)
        return Done(len(tasks))


@final
class Done(Work):
    """Nothing is left."""

    def __init__(self, tasks: int) -> None:
        self._tasks = tasks

    def events(self) -> Iterable[End]:
        return [End(number, None) for number in range(self._tasks)]

    def stop(self) -> None:
        pass

    def kill(self) -> None:
        pass

    def close(self) -> None:
        pass


def test_what_was_trained_is_read_and_not_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[int] = []

    def train(
        setting: object, constraints: object, arm: object, seed: int, stop: object
    ) -> Training:
        trained.append(seed)
        return _TRAINED

    monkeypatch.setattr(cells, "train", train)
    row = Row(CARTPOLE_REINFORCE, "push_right", "rail")
    command.train_missing(row.cells([0, 1], tmp_path), InTurn())
    command.train_missing(row.cells([0, 1, 2], tmp_path), InTurn())
    assert trained == [0, 1, 2]
    assert row.cells([2], tmp_path)[0].read() == _TRAINED


def test_studies_share_cells_and_words_choose_among_them(tmp_path: Path) -> None:
    all_of_them = command.wanted(STUDIES, SEEDS, tmp_path, [])
    assert len(all_of_them) == len(set(all_of_them))
    assert [cell.seed for cell in all_of_them] == sorted(cell.seed for cell in all_of_them)
    plain = [
        cell
        for cell in all_of_them
        if (cell.setting, cell.arm, cell.knowledge) == (CARTPOLE_REINFORCE, "plain", "nothing")
    ]
    assert len(plain) == len(SEEDS)  # of two studies
    for study in ("one_sided", "full"):
        assert set(plain) <= set(command.wanted(STUDIES, SEEDS, tmp_path, [study]))
    chosen = command.wanted(STUDIES, SEEDS, tmp_path, ["full", "cartpole", "ppo", "rail"])
    assert {(cell.setting.budget, cell.knowledge) for cell in chosen} == {(100_000, "full")}


def test_only_what_is_done_is_said_to_be_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = Row(CARTPOLE_REINFORCE, "nothing", "plain").cells([0, 1], tmp_path)
    board = command._Board([first, second])
    first.path.write_text("{}")
    board.on_end(1)
    board.on_end(0)
    assert capsys.readouterr().out == f"{first.name} (1 of 2)\n"
