"""`--json` of every command: one document, with the fields that docs/reference/json.md names."""

from __future__ import annotations

import json
import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

import handrail as hr
from handrail.cli.app import app
from tests.cli.conftest import Caller
from tests.runs.test_run import TEXT
from tests.support.paths import ROOT

IMPORT = ("--import", "tests.runs.test_run")
PAGE = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
IN_WORDS_ONLY = {"schema", "studio", "version"}  # the first is JSON by itself, the next a page


@cache
def documented(command: str) -> dict[str, set[str]]:
    """The fields of a command's answer, each with those inside it that are named."""
    page = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    (section,) = (
        one for one in page.split("\n## ") if f"`handrail {command}`" in one.split("\n")[0]
    )
    rows = re.findall(r"^\| (`.*?) \| (.*) \|$", section, re.MULTILINE)
    return {
        name: set(re.findall(r"`(\w+)`", about))
        for names, about in rows
        for name in re.findall(r"`(\w+)`", names)
    }


def inside(answer: Any) -> set[str]:
    """The names of all fields, at any depth."""
    if isinstance(answer, list):
        return {name for one in answer for name in inside(one)}
    if isinstance(answer, dict):
        return {*answer, *(name for one in answer.values() for name in inside(one))}
    return set()


@pytest.fixture
def run(group: Path, tmp_path: Path) -> Path:
    shutil.copytree(group / "seed-4", tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def answer(handrail: Caller) -> Any:
    def ask(*arguments: str | Path, code: int = 0) -> Any:
        found, out, error = handrail(*arguments, "--json")
        assert found == code, error
        answered = json.loads(out)
        fields = documented(str(arguments[0]))
        assert set(answered) <= set(fields)
        assert set(fields) - set(answered) <= {"trials"}
        return answered

    return ask


def test_every_command_has_it() -> None:
    for name, command in typer.main.get_group(app).commands.items():
        has = any("--json" in one.opts for one in command.params)
        assert has or name in IN_WORDS_ONLY


def test_resume(group: Path, answer: Any) -> None:
    found = answer("resume", group, "--no-report", *IMPORT)
    assert (found["failures"], found["stopped"], found["report"]) == ([], False, None)
    assert [one["seed"] for one in found["summary"]["seeds"]] == [4, 5]
    summary = hr.report.summarise_runs(group)
    assert found["summary"]["last"]["iqm"] == summary.last.iqm
    assert inside(found["summary"]) == documented("train")["summary"]


def test_show_and_play(run: Path, answer: Any) -> None:
    found = answer("show", run, *IMPORT)
    assert all(Path(path).exists() for path in (*found["pictures"], found["page"]))
    assert found["summary"]["seeds"][0]["episodes"] == 12
    played = answer("play", run, "--episodes", "2", *IMPORT)
    assert played["seed"] == 4
    assert len(played["scores"]) == 2
    assert Path(played["film"]).exists()


def test_check(tmp_path: Path, answer: Any) -> None:
    file = tmp_path / "corridor.yaml"
    file.write_text(TEXT.replace("position: [0.2, 0.6]", "position: [0.2, 7]"))
    found = answer("check", file, *IMPORT)
    assert found["feasible"]
    assert found["notes"] == [
        "1 of 2 states of 'go on' lie outside the observation space.",
    ]
    assert found["held"]["worst_violation"] <= found["held"]["tolerance"] == 1e-6
    assert found["held"]["influence"]["action"] in ("back", "on")
    assert inside(found["held"]) == documented("check")["held"]
    assert inside(found["diagnosis"]) - {*found["diagnosis"]["multipliers"]} == (
        documented("check")["diagnosis"] - {"diagnose"}
    )
    file.write_text(
        TEXT.replace(
            "require: on >= 0.9}",
            "require: on >= 0.9}\n  - {name: go back, where: {position: 0.2, one: 1}, "
            "require: back >= 0.2}",
        )
    )
    found = answer("check", file, *IMPORT, code=2)
    assert not found["feasible"]
    assert found["held"] is None
    assert "'go back'" in found["diagnosis"]["conflicts"][0]


def test_evaluate(group: Path, run: Path, answer: Any) -> None:
    found = answer("evaluate", group, "--episodes", "3", "--rows", "1", *IMPORT)
    one, _ = found["policies"]
    assert one["policy"].startswith("seed 4 (policy after 12 episodes")
    assert len(one["scores"]) == len(one["lengths"]) == 3
    assert one["mean"] == pytest.approx(sum(one["scores"]) / 3)
    (row,) = one["rows"]
    assert (row["upper"], row["lower"]) == (None, 0.9)
    assert row["violation"] == pytest.approx(0.9 - row["value"])
    assert one["satisfied"]
    fields = documented("evaluate")["policies"]
    assert inside(found["policies"]) == fields - {"violated", "states"}
    measured = answer("evaluate", run, "--episodes", "1", "--fresh", "10", *IMPORT)["policies"]
    assert measured[0]["fresh"] == {"states": 0, "violated": 0, "worst_violation": None}


def test_prove_and_verify(run: Path, answer: Any) -> None:
    found = answer("prove", run, *IMPORT)
    assert found["certified"]
    (one,) = found["policies"]
    assert one["constraints"][0]["status"] == "certified"
    of_remainders = {"proven_share", "open_cells", "more_cells", "more_seconds"}  # of none here
    documented_fields = documented("prove")["policies"] - {"Certificate", *of_remainders}
    assert inside(found["policies"]) == documented_fields
    assert one["constraints"][0]["remainder"] is None
    again = answer("verify", one["certificate"], run, *IMPORT)
    assert again["holds"]
    assert again["certificate"] == one["certificate"]


def test_edit_and_export(run: Path, tmp_path: Path, answer: Any) -> None:
    stricter = tmp_path / "stricter.yaml"
    stricter.write_text(TEXT.replace("on >= 0.9", "on >= 0.99"))
    edited = tmp_path / "edited.safetensors"
    found = answer("edit", run, "--constraints", stricter, "--out", edited, *IMPORT)
    assert found["edited"] == str(edited)
    assert Path(found["picture"]).exists()
    assert found["before"][0]["violation"] > found["tolerance"] >= found["after"][0]["violation"]
    assert set(found["influence"]) == set(documented("check")["held"]) & set(found["influence"])
    exported = answer("export", run, "--format", "numpy", *IMPORT)
    assert Path(exported["file"]["path"]).exists()
    assert set(exported["file"]) == documented("export")["file"]


def test_environments(handrail: Caller) -> None:
    _, out, _ = handrail("environments", "--json")
    found = json.loads(out)
    assert [one["name"] for one in found] == list(hr.rulebook.bundled())
    assert set(found[0]) <= set(re.findall(r"`(\w+)`", PAGE.split("`handrail environments`")[1]))


def test_without_an_answer_there_is_no_document(handrail: Caller, tmp_path: Path) -> None:
    for words in (("evaluate", tmp_path), ("show", tmp_path), ("check", tmp_path / "no.yaml")):
        code, out, error = handrail(*words, "--json")
        assert (code, out) == (2, "")
        assert error.startswith("error:")
