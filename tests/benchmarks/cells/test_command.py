"""What is trained, what is not trained again, and what an interruption leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import pytest

from benchmarks.cells import command, line
from benchmarks.cells.cell import Cell
from benchmarks.cells.command import Plan, follow, train_missing
from benchmarks.cells.journal import Journal, Kept
from benchmarks.ppo.scores import Stopped
from tests.support.here import Here

_TRAINED: list[str] = []


@final
@dataclass(frozen=True)
class Result:
    """Of a training."""

    score: float
    none: float


@final
@dataclass(frozen=True)
class Guess(Cell):
    """A cell that needs no time."""

    arm: str
    seed: int
    budget: int = 10
    code: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"guess-{self.arm}-{self.seed}"

    @property
    def known(self) -> Mapping[str, Any]:
        return {"budget": self.budget}

    def trained(self, stop: Callable[[], bool]) -> Result:
        if stop():
            raise Stopped
        _TRAINED.append(self.name)
        return Result(self.budget + self.seed / 3.0, float("nan"))


def in_turn(until: int = 1000) -> Here:
    """Here, one after the other; stopped after some."""
    return Here(stopped=lambda: len(_TRAINED) >= until)


@pytest.fixture(autouse=True)
def trained() -> list[str]:
    _TRAINED.clear()
    return _TRAINED


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "guess.jsonl")


def page(kept: Kept) -> str:
    return "\n".join(f"{name}: {one.result['score']}" for name, one in kept.lines.items())


def plan(*arms: str, seeds: int = 3) -> Plan:
    cells: dict[Cell, tuple[str, ...]] = {
        Guess(arm, seed): ("told",) for arm in arms for seed in range(seeds)
    }
    return Plan("guess", cells, page)


def test_an_interrupted_study_goes_on(
    journal: Journal, trained: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    cells = plan("rail").chosen([])
    train_missing(cells, journal, in_turn(until=1))
    assert trained == ["guess-rail-0"]
    assert capsys.readouterr().out == "guess-rail-0 (1 of 3)\n"  # only what is done is said
    train_missing(cells, Journal(journal.path), in_turn())
    assert trained == ["guess-rail-0", "guess-rail-1", "guess-rail-2"]
    found = journal.read().of(cells[1])
    assert found is not None
    assert found.result == {"score": 10.3333, "none": None}


def test_a_changed_setting_is_trained_again(journal: Journal, trained: list[str]) -> None:
    old = Guess("plain", 0)
    new = replace(old, budget=20)
    train_missing([old], journal, in_turn())
    assert journal.read().of(new) is None  # a stale line is not shown
    train_missing([new], journal, in_turn())
    assert trained == [old.name, new.name]
    assert journal.read().of(old) is None
    assert len(journal.path.read_text().splitlines()) == 1


def test_other_code_is_said_and_trained_again_if_asked(
    journal: Journal, trained: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rail, plain = Guess("rail", 0, code=("handrail.tangent",)), Guess("plain", 0)
    train_missing([rail, plain], journal, in_turn())
    assert not journal.read().is_old(rail)
    monkeypatch.setattr("benchmarks.cells.cell.digest_of_source", lambda _: "another")
    kept = journal.read()
    assert (kept.is_old(rail), kept.is_old(plain)) == (True, False)
    train_missing([rail, plain], journal, in_turn())
    assert len(trained) == 2
    train_missing([rail, plain], journal, in_turn(), renew=True)
    assert trained[2:] == [rail.name]
    assert not journal.read().is_old(rail)


def test_words_and_seeds_choose_cells() -> None:
    study = plan("cloning", "cloning_and_pull")
    assert [one.name for one in study.chosen(["told", "cloning"], 2)] == [
        "guess-cloning-0",
        "guess-cloning-1",
    ]
    assert [one.name for one in study.chosen(["2"])] == [
        "guess-cloning-2",
        "guess-cloning_and_pull-2",
    ]
    assert [one.seed for one in study.chosen([])] == [0, 0, 1, 1, 2, 2]
    assert study.chosen(["clon"]) == []


def test_the_command_trains_and_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "executor_named", lambda *_: in_turn())
    study, folder = plan("rail", "plain"), ["--folder", str(tmp_path)]
    follow(study, study, None, [*folder, "--only", "plain", "--seeds", "1"])
    assert (tmp_path / "guess.md").read_text() == "guess-plain-0: 10.0"
    with pytest.raises(SystemExit):
        follow(study, study, None, [*folder, "--only", "plain", "tree"])
    assert "no cell has all of the words plain tree." in capsys.readouterr().err
    (tmp_path / "guess.jsonl").write_text("<<<<<<<\n")
    with pytest.raises(SystemExit):
        follow(study, study, None, folder)
    assert "line 1 is not the line of a training" in " ".join(capsys.readouterr().err.split())


def test_versions_are_those_of_the_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = []
    for number in ("2.12.0", "2.13.0"):
        monkeypatch.setattr(
            line, "versions_of", lambda _, own=number: {"python": "3", "torch": own}
        )
        lines.append(line.Line.of_now("a", "0", None, Result(1.0, 2.0)))
    assert line.versions_in_words(lines) == "python 3, torch 2.12.0 and 2.13.0"
