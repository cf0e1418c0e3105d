"""The command line as a whole: its errors, and what it says about Handrail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Caller


def test_environments_lists_the_bundled_files(handrail: Caller) -> None:
    code, out, _ = handrail("environments")
    assert code == 0
    for name in ("cartpole", "cartpole_equality", "lunar_lander", "lunar_lander_literal"):
        assert name in out
    assert "CartPole-v1" in out


def test_schema_and_version(handrail: Caller) -> None:
    _, out, _ = handrail("schema")
    assert json.loads(out)["properties"]["constraints"]
    assert handrail("version")[1].strip() == "0.1.0"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "cartpol"], "Did you mean 'cartpole'"),
        (["train", "cartpole", "--enforcement", "hard"], "settings.enforcement: expected 'exact'"),
        (["train", "cartpole", "--set", "discount"], "--set discount: expected name=value"),
        (["train", "cartpole", "--set", "dscount=1"], "unknown key 'dscount'"),
        (["train", "cartpole", "--set", "discount=2"], "settings.discount: expected less than"),
        (["train", "cartpole", "--set", "discount=["], "is not a value"),
        (["train", "cartpole", "--set", "soft=true"], "set enforcement to 'one_step', or soft to"),
        (["train", "cartpole", "--set", "network.scale.psi=1"], "unknown observation 'psi'"),
        (
            ["train", "cartpole", "--import", "no_such_module"],
            "--import no_such_module: ModuleNotFoundError: No",
        ),
        (["check", "nowhere/x.yaml"], "x.yaml"),
        (["resume", "nowhere"], "nowhere holds no run. Give a folder that `handrail train` wrote"),
        (["evaluate", "."], ". holds no run"),
        (["show", "nowhere"], "holds no run"),
        (["play", "nowhere"], "holds no run"),
    ],
)
def test_errors_are_one_message_without_a_traceback(
    arguments: list[str],
    message: str,
    handrail: Caller,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, error = handrail(*arguments)
    assert code == 2
    assert message in error
    assert "Traceback" not in error
    assert not list(tmp_path.iterdir())  # refused before anything was written
