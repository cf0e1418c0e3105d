"""The command line as a user calls it, and two runs that it trained."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

import handrail as hr
from handrail.cli import main
from tests.runs.test_run import TEXT
from tests.support.here import Here
from tests.support.paths import ROOT


class Caller:
    """Calls `handrail …` in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, *arguments: str | Path) -> tuple[int, str, str]:
        """Exit code, output, and errors with words that were wrapped joined again."""
        self._monkeypatch.setattr(sys, "argv", ["handrail", *map(str, arguments)])
        self._monkeypatch.setenv("COLUMNS", "200")
        with pytest.raises(SystemExit) as exit_code:
            main()
        captured = self._capsys.readouterr()
        return int(exit_code.value.code or 0), captured.out, " ".join(captured.err.split())


@pytest.fixture
def handrail(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Caller:
    return Caller(monkeypatch, capsys)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hr.executors, "executor_named", lambda *_: Here())


def start(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    """`handrail …` in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "handrail", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="session")
def group(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds, trained once whoever of the test processes comes first; each has a copy."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    trained = shared / "trained"
    with FileLock(shared / "trained.lock"):
        if not trained.exists():
            train(tmp_path_factory.mktemp("cli")).rename(trained)
    return shutil.copytree(trained, tmp_path_factory.mktemp("cli") / "copy") / "group"


def train(folder: Path) -> Path:
    """In processes of their own, as `handrail train` does it."""
    (folder / "corridor.yaml").write_text(TEXT)
    result = start(
        *("train", "corridor.yaml", "--seeds", "2", "--episodes", "12", "--import"),
        *("tests.runs.test_run", "--out", "group", "--set", "discount=0.9"),
        cwd=folder,
    )
    out, error = result.communicate(timeout=120)
    assert result.returncode == 0, error
    assert "2 runs in group" in out
    assert "mean" in out
    assert "IQM" in out
    assert "seed 4" in error  # a line of progress each
    assert "seed 5" in error
    return folder
