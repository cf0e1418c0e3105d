"""`handrail train` and `handrail resume`."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import handrail as hr
from handrail.errors import InvalidRun
from handrail.runs.metrics import METRICS
from handrail.runs.run import Run
from tests.cli.conftest import Caller, start
from tests.runs.test_run import TEXT

INTERRUPTS = pytest.mark.skipif(
    not hasattr(signal, "SIGUSR1"), reason="this system has no signals of one's own"
)


def test_training_writes_runs_and_a_report(group: Path) -> None:
    for seed in (4, 5):
        run = Run.open(group / f"seed-{seed}")
        assert run.seed == seed
        assert run.rulebook.settings.discount == 0.9
        assert len(run.records()) == 12
    page = (group / "report" / "index.html").read_text()
    assert "on &gt;= 0.9 at 2 states" in page
    for name in ("score", "loss", "violation", "policy"):
        picture = Image.open(group / "report" / f"{name}.png")
        assert picture.width > 400
        assert np.asarray(picture.convert("L")).std() > 10


def test_seeds_do_not_depend_on_each_other(group: Path, tmp_path: Path) -> None:
    run = Run.open(group / "seed-5")
    alone = Run.create(tmp_path / "alone", run.rulebook)
    alone.learn()
    assert (alone.folder / METRICS).read_bytes() == (run.folder / METRICS).read_bytes()


def test_a_place_that_there_is_not_is_refused_before_anything_begins(
    tmp_path: Path, handrail: Caller
) -> None:
    out = tmp_path / "group"
    code, _, error = handrail("train", "cartpole", "--on", "nowhere", "--out", out)
    assert code == 2
    assert "There is no place 'nowhere' to run at. There are: processes, ray," in error
    assert not out.exists()


def test_ctrl_c_stops_after_the_update_and_resume_continues(tmp_path: Path) -> None:
    (tmp_path / "corridor.yaml").write_text(TEXT)
    process = start(
        *("train", "corridor.yaml", "--episodes", "100000", "--import", "tests.runs.test_run"),
        *("--out", "group"),
        cwd=tmp_path,
    )
    metrics = tmp_path / "group" / "seed-4" / METRICS
    deadline = time.monotonic() + 300
    while not (metrics.exists() and metrics.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=300)
    assert process.returncode == 130, error
    assert "Continue with: handrail resume group --import tests.runs.test_run" in out
    run = Run.open(tmp_path / "group" / "seed-4")
    done = len(run.records())
    assert done == run.agent().episodes > 0


def test_a_killed_command_leaves_no_learner_behind(tmp_path: Path) -> None:
    (tmp_path / "corridor.yaml").write_text(TEXT)
    process = start(
        *("train", "corridor.yaml", "--episodes", "1000000", "--jobs", "1"),
        *("--import", "tests.runs.test_run", "--out", "group"),
        cwd=tmp_path,
    )
    metrics = tmp_path / "group" / "seed-4" / METRICS
    deadline = time.monotonic() + 300.0
    while not (metrics.exists() and metrics.stat().st_size):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.kill()
    process.communicate(timeout=300)  # the pipes close when the learner is gone, too
    run = Run.open(tmp_path / "group" / "seed-4")
    while True:  # until the learner has noticed, and let go of the folder
        try:
            run.learn(stop=lambda: True)
            break
        except InvalidRun:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def hanging(tmp_path: Path, n_runs: int) -> subprocess.Popen[str]:
    """Runs whose environments hang in their sixth episode."""
    (tmp_path / "hangs.yaml").write_text(TEXT.replace("Corridor-v0", "HangsInEpisode5-v0"))
    process = start(
        *("train", "hangs.yaml", "--import", "tests.runs.test_run", "--seeds", str(n_runs)),
        *("--jobs", str(n_runs), "--out", "group"),
        cwd=tmp_path,
    )
    deadline = time.monotonic() + 300
    while len(list(tmp_path.glob("hangs-*"))) < n_runs:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process


@INTERRUPTS
@pytest.mark.parametrize("n_runs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_ctrl_c_ends_environments_that_hang_and_says_where(tmp_path: Path, n_runs: int) -> None:
    process = hanging(tmp_path, n_runs)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=300)
    assert process.returncode == 130, error
    for seed in range(4, 4 + n_runs):
        assert (
            f"group/seed-{seed}: Episode 5: Interrupted while waiting for step 1 of the "
            "environment HangsInEpisode5-v0. What was learned before it is kept." in error
        )
        assert Run.open(tmp_path / "group" / f"seed-{seed}").agent().episodes == 5
    assert "Continue with: handrail resume group --import tests.runs.test_run" in out


@INTERRUPTS
@pytest.mark.slow
def test_nor_do_they_outlive_a_command_that_was_killed(tmp_path: Path) -> None:
    process = hanging(tmp_path, 2)
    process.kill()
    process.communicate(timeout=300)  # the pipes close when the learners are gone, too
    for seed in (4, 5):
        assert Run.open(tmp_path / "group" / f"seed-{seed}").agent().episodes == 5


@pytest.mark.usefixtures("here")
def test_the_report_does_not_fit_either(
    tmp_path: Path, handrail: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Why the learning failed is said all the same."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "group/report/index.html")

    monkeypatch.setattr(hr.studio, "write_report", refuse)
    (tmp_path / "fails.yaml").write_text(TEXT.replace("Corridor-v0", "FailsInEpisode5-v0"))
    code, _, error = handrail(
        *("train", tmp_path / "fails.yaml", "--import", "tests.runs.test_run"),
        *("--out", tmp_path / "group"),
    )
    assert code == 2
    assert "seed-4: Episode 5: The environment raised RuntimeError at step 1" in error
    assert "group/report/index.html: No space left on device. What was saved before is" in error


def test_training_into_a_folder_that_is_taken(group: Path, handrail: Caller) -> None:
    file = str(group.parent / "corridor.yaml")
    arguments = ["--episodes", "12", "--set", "discount=0.9", "--import", "tests.runs.test_run"]
    code, _, error = handrail("train", file, "--out", str(group), *arguments)
    assert code == 2
    assert "is not empty. Continue it with `handrail resume" in error


def test_groups_do_not_mix(group: Path, handrail: Caller) -> None:
    file = str(group.parent / "corridor.yaml")
    arguments = [
        "train",
        file,
        "--out",
        str(group),
        "--import",
        "tests.runs.test_run",
        "--seed",
        "9",
    ]
    code, _, error = handrail(*arguments, "--enforcement", "none")
    assert code == 2
    assert "holds runs of other constraints or settings (seed-" in error
    assert not (group / "seed-9").exists()


@pytest.mark.usefixtures("here")
def test_a_longer_goal(group: Path, handrail: Caller, tmp_path: Path) -> None:
    copy = tmp_path / "group"
    shutil.copytree(group, copy)
    code, out, _ = handrail("resume", str(copy), "--import", "tests.runs.test_run")
    assert code == 0
    assert "Nothing is left to learn. To go on: --episodes" in out
    code, _, _ = handrail(
        "resume", str(copy), "--episodes", "15", "--import", "tests.runs.test_run"
    )
    assert code == 0
    longer = Run.open(copy / "seed-5")
    whole = Run.create(tmp_path / "whole", longer.rulebook)
    whole.learn()
    assert (longer.folder / METRICS).read_bytes() == (whole.folder / METRICS).read_bytes()


def test_resume_of_a_finished_run_changes_nothing(group: Path, handrail: Caller) -> None:
    before = (group / "seed-4" / METRICS).read_bytes()
    code, out, _ = handrail("resume", str(group / "seed-4"), "--import", "tests.runs.test_run")
    assert code == 0
    assert "Nothing is left to learn" in out
    assert "Report:" in out
    assert (group / "seed-4" / METRICS).read_bytes() == before


def test_a_callback_that_there_is_not_is_refused_before_anything_begins(
    tmp_path: Path, handrail: Caller
) -> None:
    out = tmp_path / "group"
    for text, message in (
        ("print", "--callback print: expected module:function"),
        ("builtins:prin", "--callback builtins:prin: builtins has no function prin. Did you mean"),
    ):
        code, _, error = handrail("train", "cartpole", "--callback", text, "--out", out)
        assert code == 2
        assert message in error
        assert not out.exists()


def test_a_callback_of_the_present_folder_is_called(tmp_path: Path) -> None:
    (tmp_path / "corridor.yaml").write_text(TEXT)
    (tmp_path / "listener.py").write_text(
        "def listen(agent, record, seconds):\n"
        "    with open('heard.txt', 'a') as file:\n"
        "        print(agent.settings.seed, record.episode, file=file)\n"
        "    return record.episode < 2\n"
    )
    command = start(
        *("train", "corridor.yaml", "--callback", "listener:listen", "--out", "group"),
        *("--import", "tests.runs.test_run", "--no-report"),
        cwd=tmp_path,
    )
    _, error = command.communicate(timeout=120)
    assert command.returncode == 0, error
    assert (tmp_path / "heard.txt").read_text() == "4 0\n4 1\n4 2\n"
    assert len(Run.open(tmp_path / "group" / "seed-4").records()) == 3
