"""Cells are trained once, kept, shared, and told in a page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.influence import __main__ as command
from benchmarks.influence import cell as cells
from benchmarks.influence.cell import Cell
from benchmarks.influence.report import Results, page
from benchmarks.influence.setting import CARTPOLE_PPO, CARTPOLE_REINFORCE
from benchmarks.influence.study import INSTEAD, ONE_SIDED, SEEDS, STUDIES, Row, Study
from benchmarks.influence.training import Stopped, Trained
from handrail.runs import Outcome

_TRAINED = Trained((1.0, 2.0), (10, 30), 0.5, -1e-3, -2e-3, 4, 1)


def _nobody(message: object) -> None:
    del message


def test_what_was_trained_is_read_and_not_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[int] = []

    def train(
        setting: object, constraints: object, arm: object, seed: int, stop: object
    ) -> Trained:
        trained.append(seed)
        return _TRAINED

    class InTurn:
        def __init__(self, jobs: int) -> None: ...

        def run(self, tasks: list[Cell], watcher: object) -> Outcome:
            for task in tasks:
                task.run(_nobody, lambda: False)
            return Outcome(stopped=False, failures=())

    monkeypatch.setattr(cells, "train", train)
    monkeypatch.setattr(command, "ProcessExecutor", InTurn)
    row = Row(CARTPOLE_REINFORCE, "push_right", "rail")
    command.train_missing(row.cells([0, 1], tmp_path), 1)
    command.train_missing(row.cells([0, 1, 2], tmp_path), 1)
    assert trained == [0, 1, 2]
    assert row.cells([2], tmp_path)[0].read() == _TRAINED


def test_what_was_stopped_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(*_: object) -> Trained:
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
    chosen = command.wanted(STUDIES, SEEDS, tmp_path, ["full", "cartpole", "ppo", "reach_10"])
    assert {(cell.setting.budget, cell.knowledge) for cell in chosen} == {(100_000, "full")}


@pytest.mark.parametrize("arm", ["plain", "rail"])
def test_a_cell_of_each_learner_runs(arm: str, tmp_path: Path) -> None:
    for row in (
        Row(CARTPOLE_REINFORCE.lasting(2), "push_right", "plain" if arm == "plain" else "rail"),
        Row(CARTPOLE_PPO.lasting(256), "box_right", "plain" if arm == "plain" else "rail"),
    ):
        (cell,) = row.cells([100], tmp_path)
        cell.run(_nobody, lambda: False)
        found = cell.read()
        assert found.failure is None
        assert len(found.scores) == len(found.ends) > 0
        assert found.final_violation is not None
        if arm == "plain":
            assert found.worst_violation is None
            assert found.final_violation > 0.3
        else:
            assert found.worst_violation is not None
            assert found.worst_violation <= 1e-5
            assert found.steps_broken == 0


def test_the_page_says_where_it_is_below_and_who_gave_up() -> None:
    told, setting = Row(CARTPOLE_REINFORCE, "push_right", "rail"), CARTPOLE_REINFORCE
    plain = {seed: replace(_TRAINED, scores=(400.0 + seed,) * 300) for seed in range(3)}
    worse = {seed: replace(_TRAINED, scores=(50.0 + 2 * seed,) * 300) for seed in range(3)}
    worse[2] = replace(worse[2], failure="cannot hold")
    study = Study(ONE_SIDED.name, ONE_SIDED.title, (Row(setting, "nothing", "plain"), told))
    text = page([study], Results({told.plain(): plain, told: worse}))
    assert "rail: not below plain on 0 of 1 sets and learners" in text
    assert "| push right | rail | 3 | 401.0 ± 0.8 | 52.0 ± 1.6 | -349.0 (" in text
    assert "| **below** | -1.0e-03 (1 gave up) |" in text


def test_the_page_has_a_line_for_every_way() -> None:
    rows = INSTEAD.rows[:7]
    run = replace(_TRAINED, scores=(10.0, 20.0, 30.0), ends=(9_000, 49_000, 99_000))
    text = page(
        [Study(INSTEAD.name, INSTEAD.title, rows)], Results({row: {0: run} for row in rows})
    )
    assert text.count("| 10.0 ± 0.0 | 20.0 ± 0.0 | 30.0 ± 0.0 | 25.00% | -2.0e-03 | 0 |") == 7
