"""`handrail check`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Caller
from tests.runs.test_run import TEXT


def test_check_explains_in_words(handrail: Caller) -> None:
    code, out, _ = handrail("check", "cartpole")
    assert code == 0
    assert "push right: right >= 0.95 at 9 states (x from -2 to 2, x_dot 0, phi 0.25" in out
    assert "18 rows, kernel condition" in out
    assert (
        "All constraints can hold together. Every constraint holds after 2 iterations: worst" in out
    )


def test_check_names_conflicts(handrail: Caller, tmp_path: Path) -> None:
    file = tmp_path / "torn.yaml"
    file.write_text(
        TEXT.replace(
            "settings:",
            "  - {name: go back, where: {position: 0.2, one: 1}, require: back >= 0.9}\nsettings:",
        )
    )
    code, out, error = handrail("check", str(file))
    assert code == 2
    assert "conflict: 'go on [0]' and 'go back' ask for probabilities that do not exist" in out
    assert error == "error: These constraints contradict each other. Relax one of each conflict."


def test_check_notes_states_that_are_never_observed(handrail: Caller, tmp_path: Path) -> None:
    file = tmp_path / "far.yaml"
    file.write_text(TEXT.replace("position: [0.2, 0.6]", "position: [0.2, 7]"))
    code, out, _ = handrail("check", str(file), "--import", "tests.runs.test_run")
    assert code == 0
    assert "note: 1 of 2 states of 'go on' lie outside the observation space." in out


def test_modules_of_the_present_folder_are_imported(
    tmp_path: Path, handrail: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    (tmp_path / "my_own_envs.py").write_text("import tests.runs.test_run\n")
    (tmp_path / "broken_envs.py").write_text("raise RuntimeError('boom')\n")
    (tmp_path / "corridor.yaml").write_text(TEXT)
    assert handrail("check", "corridor.yaml", "--import", "my_own_envs")[0] == 0
    code, _, error = handrail("check", "corridor.yaml", "--import", "broken_envs")
    assert code == 2
    assert "--import broken_envs: RuntimeError: boom." in error
    _, _, error = handrail("check", "corridor.yaml", "--import", "my_own_envs.py")
    assert "expected the name of a module, such as my_own_envs." in error
