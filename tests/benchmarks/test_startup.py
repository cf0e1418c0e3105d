"""What is started, and what the page says of it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from benchmarks import startup
from benchmarks.plan import QUICK
from benchmarks.startup import StartupTime, measure_startup, startup_section

_MAIN = "from handrail.cli import main; main()"


def test_every_command_is_started_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []

    def run(command: list[str], **_: Any) -> None:
        assert command[0] == sys.executable
        started.append(" ".join(command[2:]))

    monkeypatch.setattr(subprocess, "run", run)
    starts = measure_startup(replace(QUICK, startup_rounds=2))
    assert [one.command for one in starts] == [
        "handrail --help",
        "handrail version",
        "handrail schema",
        "handrail environments",
    ]
    one_round = [one.command.replace("handrail", _MAIN) for one in starts] + ["import typer, rich"]
    assert started == 3 * one_round  # a warm-up and two


def test_a_command_that_fails_is_no_measurement() -> None:
    with pytest.raises(subprocess.CalledProcessError, match="exit status 3"):
        startup._start([sys.executable, "-c", "raise SystemExit(3)"])


def test_the_section_names_the_ratio() -> None:
    section = startup_section([StartupTime("handrail version", 0.15, 0.1, 1.5, (1.4, 1.6))])
    assert "| `handrail version` | 150 | 100 | **1.50** | 1.40 … 1.60 |" in section
