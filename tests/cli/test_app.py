"""The command line as a whole: its start, its help, its errors, what it says about Handrail."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest

import handrail as hr
from handrail.cli import app as commands
from tests.cli.conftest import Caller
from tests.runs.test_run import TEXT
from tests.support.paths import ROOT

COMMANDS = (
    *("train", "resume", "sweep", "compare", "check", "evaluate", "show", "prove", "verify"),
    *("edit", "export", "play", "studio", "environments", "schema", "version"),
)
START = "import sys; sys.argv[0] = 'handrail'; from handrail.cli import main; main()"
HEAVY = {"torch", "scipy", "gymnasium", "matplotlib", "numba", "numpy", "pandas", "rich", "yaml"}


def imported(*arguments: str, **environment: str) -> tuple[str, set[str]]:
    """What a start of its own says, and the packages that it imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", START, *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment},
    )
    modules = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines()]
    return done.stdout, {module.partition(".")[0] for module in modules}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--help"], "Learn from a constraint file, one run per seed"),
        (["-h"], "Commands:"),
        (["--version"], hr.__version__),
        (["version"], hr.__version__),
        (["schema"], '"$defs"'),
        (["environments"], "cartpole: CartPole-v1, 18 states, passes at 195"),
        *([[command, "--help"], "--help"] for command in COMMANDS),
    ],
)
def test_nothing_heavy_is_imported_to_start(arguments: list[str], words: str) -> None:
    said, packages = imported(*arguments)
    assert words in said
    assert {"handrail", "typer"} <= packages
    assert not HEAVY & packages
    assert "pydantic" not in packages


def test_the_package_is_the_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "handrail", "version"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert done.stdout == f"{hr.__version__}\n"


@pytest.mark.parametrize(
    ("words", "completed"),
    [("handrail ", COMMANDS), ("handrail pro", ["prove"]), ("handrail train --ep", ["--episodes"])],
)
def test_completion_imports_nothing_heavy(words: str, completed: list[str]) -> None:
    typed = words.split(" ")
    said, packages = imported(
        _HANDRAIL_COMPLETE="complete_bash",
        COMP_WORDS=words,
        COMP_CWORD=str(len(typed) - 1),
    )
    assert said.split() == list(completed)
    assert not HEAVY & packages


@pytest.mark.parametrize(
    "words",
    [
        ("resume", "{run}", "--episodes", "9"),
        ("evaluate", "{run}"),
        ("evaluate", "{run}", "--constraints", "{file}"),
        ("prove", "{run}"),
        ("verify", "{run}/certificate.json", "{run}"),
        ("show", "{run}"),
        ("play", "{run}"),
        ("export", "{run}"),
        ("edit", "{run}", "--constraints", "{file}", "--out", "edited.safetensors"),
    ],
    ids=" ".join,
)
def test_modules_that_a_run_needs_are_named_with_all_there_is_to_type(
    words: tuple[str, ...], their_run: Path, handrail: Caller
) -> None:
    names = {"run": their_run, "file": their_run / "constraints.yaml"}
    typed = [word.format(**names) for word in words]
    before = (their_run / "configuration.json").read_bytes()
    code, _, error = handrail(*typed)
    assert code == 2
    assert "Gymnasium knows no environment 'OfTheirs-v0'" in error
    assert "if you trust that code, say so again (a run imports nothing by itself)" in error
    assert error.endswith(f"Type: {shlex.join(['handrail', *typed, '--import', 'their_module'])}")
    assert "their_module" not in sys.modules
    assert (their_run / "configuration.json").read_bytes() == before


@pytest.fixture
def their_run(tmp_path: Path) -> Path:
    """A run in an environment that is registered no longer, with a space in its path."""
    gym.register("OfTheirs-v0", entry_point="tests.support.environments:Corridor")
    try:
        book = hr.rulebook.parse(TEXT.replace("Corridor-v0", "OfTheirs-v0"), "theirs")
        settled = hr.rulebook.with_settings(book, episodes=2, enforcement="none")
        run = hr.Run.create(tmp_path / "their run", settled, modules=["their_module"])
        run.learn()
    finally:
        del gym.registry["OfTheirs-v0"]
    return run.folder


def test_help_is_whole(handrail: Caller) -> None:
    code, out, _ = handrail("--help")
    assert code == 0
    joined = " ".join(out.split())
    for name in COMMANDS:
        command = commands.app.registered_commands[COMMANDS.index(name)].callback
        assert command is not None
        assert command.__name__ == name
        assert f"{name} {command.__doc__}" in joined
    assert handrail("train", "-h")[1] == handrail("train", "--help")[1]


def test_environments_lists_the_bundled_files(handrail: Caller) -> None:
    code, out, _ = handrail("environments")
    assert code == 0
    assert out.count("\n") == 2 * len(hr.rulebook.bundled())
    for name in hr.rulebook.bundled():
        assert f"{name}: " in out


def test_schema_and_version(handrail: Caller) -> None:
    _, out, _ = handrail("schema")
    assert json.loads(out) == hr.rulebook.json_schema()
    assert handrail("version")[1] == handrail("--version")[1] == f"{hr.__version__}\n"


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
