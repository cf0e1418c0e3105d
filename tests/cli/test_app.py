"""The command line, as a user calls it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from handrail.cli import app as commands
from handrail.cli.options import plane_of, settings_of
from handrail.errors import InvalidArgument, InvalidRun
from handrail.report.plane import default_plane, plane_over
from handrail.report.report import write_report
from handrail.rulebook.rulebook import load_rulebook, parse, with_settings
from handrail.runs.metrics import METRICS
from handrail.runs.run import Run
from tests.runs.test_run import TEXT
from tests.support.paths import ROOT


def call(
    *arguments: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    """Exit code, output and errors of `handrail …`, with words that were wrapped joined again."""
    monkeypatch.setattr(sys, "argv", ["handrail", *arguments])
    monkeypatch.setenv("COLUMNS", "200")
    commands.out.width = 200
    with pytest.raises(SystemExit) as exit_code:
        commands.main()
    captured = capsys.readouterr()
    return int(exit_code.value.code or 0), captured.out, " ".join(captured.err.split())


class Caller:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        return call(*arguments, monkeypatch=self._monkeypatch, capsys=self._capsys)


@pytest.fixture
def handrail(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Caller:
    return Caller(monkeypatch, capsys)


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds, trained in processes of their own, as `handrail train` does it."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "corridor.yaml").write_text(TEXT)
    result = _process(
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
    return folder / "group"


def _process(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "handrail.cli", *arguments],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
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
        assert f'src="{name}.png"' in page


def test_seeds_do_not_depend_on_each_other(group: Path, tmp_path: Path) -> None:
    run = Run.open(group / "seed-5")
    alone = Run.create(tmp_path / "alone", run.rulebook)
    alone.learn()
    assert (alone.folder / METRICS).read_bytes() == (run.folder / METRICS).read_bytes()


def test_ctrl_c_stops_after_the_update_and_resume_continues(tmp_path: Path) -> None:
    (tmp_path / "corridor.yaml").write_text(TEXT)
    process = _process(
        *("train", "corridor.yaml", "--episodes", "100000", "--import", "tests.runs.test_run"),
        *("--out", "group"),
        cwd=tmp_path,
    )
    metrics = tmp_path / "group" / "seed-4" / METRICS
    deadline = time.monotonic() + 300
    while not (metrics.exists() and metrics.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert "Continue with: handrail resume group" in out
    run = Run.open(tmp_path / "group" / "seed-4")
    done = len(run.records())
    assert done == run.agent().episodes > 0


def test_show_draws_any_two_observations(group: Path, handrail: Caller, tmp_path: Path) -> None:
    code, out, _ = handrail(
        *("show", str(group), "--over", "one,position"),
        *("--out", str(tmp_path)),
    )
    assert code == 0
    assert "passes from" in out
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "loss.png",
        "policy.png",
        "score.png",
        "violation.png",
    ]


def test_evaluate_reports_scores_and_obedience(group: Path, handrail: Caller) -> None:
    code, out, _ = handrail("evaluate", str(group), "--episodes", "3")
    assert code == 0
    assert out.count("3 episodes:") == 2
    assert "0 of 2 constraint rows violated" in out
    assert "go on [0]" in out


def test_evaluate_says_what_it_plays(group: Path, handrail: Caller, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(group / "seed-4", copy)
    _, out, _ = handrail("evaluate", str(copy), "--episodes", "1", "--rows", "1")
    assert "seed 4 (policy after 12 episodes)" in out
    assert "1 further rows are no worse" in out
    for checkpoint in (copy / "checkpoints").iterdir():
        checkpoint.unlink()
    _, out, _ = handrail("evaluate", str(copy), "--episodes", "1")
    assert "policy after 0 episodes, 12 behind what was recorded: resume it first" in out


def test_altered_metrics_are_not_shown(group: Path, handrail: Caller, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(group / "seed-4", copy)
    metrics = (copy / METRICS).read_text().replace('"score": ', '"score": 9', 1)
    (copy / METRICS).write_text(metrics)
    for command in ("show", "resume", "evaluate"):
        code, out, error = handrail(command, str(copy), "--import", "tests.runs.test_run")
        assert code == 2
        assert "is not what the checkpoint was made with" in error
        assert "first 100" not in out


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


def test_an_environment_that_cannot_show_itself(group: Path, handrail: Caller) -> None:
    code, _, error = handrail("play", str(group / "seed-4"), "--window")
    assert code == 2
    assert "This environment cannot render 'human'; it offers rgb_array." in error


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


def test_check_notes_states_that_are_never_observed(handrail: Caller, tmp_path: Path) -> None:
    file = tmp_path / "far.yaml"
    file.write_text(TEXT.replace("position: [0.2, 0.6]", "position: [0.2, 7]"))
    code, out, _ = handrail("check", str(file), "--import", "tests.runs.test_run")
    assert code == 0
    assert "note: 1 of 2 states of 'go on' lie outside the observation space." in out


def test_play_films(group: Path, handrail: Caller, tmp_path: Path) -> None:
    film = tmp_path / "deep" / "film.gif"
    code, out, _ = handrail("play", str(group / "seed-4"), "--episodes", "2", "--out", str(film))
    assert code == 0
    assert str(film) in out.replace("\n", "")
    with Image.open(film) as opened:
        assert opened.n_frames > 4  # type: ignore[attr-defined]
        assert opened.size == (120, 20)


def test_resume_of_a_finished_run_changes_nothing(group: Path, handrail: Caller) -> None:
    before = (group / "seed-4" / METRICS).read_bytes()
    code, out, _ = handrail("resume", str(group / "seed-4"), "--import", "tests.runs.test_run")
    assert code == 0
    assert "Nothing is left to learn" in out
    assert "Report:" in out
    assert (group / "seed-4" / METRICS).read_bytes() == before


def test_check_explains_in_words(handrail: Caller) -> None:
    code, out, _ = handrail("check", "cartpole")
    assert code == 0
    assert "push right: right >= 0.95 at 9 states (x from -2 to 2, x_dot 0, phi 0.25" in out
    assert "18 rows, kernel condition" in out
    assert "All constraints can hold together: the network obeyed after 2 iterations" in out


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


def test_training_into_a_folder_that_is_taken(group: Path, handrail: Caller) -> None:
    file = str(group.parent / "corridor.yaml")
    arguments = ["--episodes", "12", "--set", "discount=0.9", "--import", "tests.runs.test_run"]
    code, _, error = handrail("train", file, "--out", str(group), *arguments)
    assert code == 2
    assert "is not empty. Continue it with `handrail resume" in error


def test_settings_on_the_command_line() -> None:
    pairs = ["discount=0.9", "network.hidden=[8, 8]", "step_size=1e-4", "soft=false"]
    assert settings_of(pairs, episodes=5, seed=None) == {
        "episodes": 5,
        "discount": 0.9,
        "network": {"hidden": [8, 8]},
        "step_size": 1e-4,
        "soft": False,
    }


def test_pictures_of_a_frozen_policy_with_one_observation(tmp_path: Path) -> None:
    text = TEXT.replace("Corridor-v0", "OneNumber-v0").replace("[position, one]", "[position]")
    text = text.replace(", one: 1}", "}")
    run = Run.create(tmp_path / "run", with_settings(parse(text, "one"), freeze_after=5))
    run.learn()
    page = write_report([run], tmp_path / "report")
    assert sorted(path.name for path in page.parent.glob("*.png")) == [
        "loss.png",
        "score.png",
        "violation.png",
    ]


def test_planes() -> None:
    book = load_rulebook("cartpole")
    plane = plane_of(book, "x,phi", ["x_dot=0.5"])
    assert plane is not None
    assert (plane.horizontal, plane.vertical) == (0, 2)
    assert plane.at[1] == 0.5
    assert plane.horizontal_range[0] < -2.0
    assert plane.horizontal_range[1] > 2.0
    assert plane_of(book, None, []) == default_plane(book)
    default = default_plane(book)
    assert default is not None
    assert default.horizontal_range == (-0.4, 0.4)
    moved = plane_of(book, None, ["x=-2", "x_dot=1"])
    assert moved == replace(default, at=(-2.0, 1.0, *default.at[2:]))
    without = parse(TEXT, "corridor")
    assert default_plane(without) == plane_over(without, 0, 1)
    for over, at, message in (
        ("x", [], "expected two different observations"),
        ("x,x", [], "expected two different observations"),
        ("x,psi", [], "unknown observation 'psi'. This environment has x, x_dot, phi, phi_dot"),
        ("x,phi", ["x_dot"], "expected name=number"),
        ("x,phi", ["x_dot=a"], "expected name=number"),
        ("x,phi", ["phi=0"], "--at phi=0: phi is on an axis of the picture"),
        (None, ["phi_dot=0"], "--at phi_dot=0: phi_dot is on an axis of the picture"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            plane_of(book, over, at)


def test_a_killed_command_leaves_no_learner_behind(tmp_path: Path) -> None:
    (tmp_path / "corridor.yaml").write_text(TEXT)
    process = _process(
        *("train", "corridor.yaml", "--episodes", "1000000", "--jobs", "1"),
        *("--import", "tests.runs.test_run", "--out", "group"),
        cwd=tmp_path,
    )
    metrics = tmp_path / "group" / "seed-4" / METRICS
    deadline = time.monotonic() + 90.0
    while not (metrics.exists() and metrics.stat().st_size):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.kill()
    process.communicate(timeout=60)  # the pipes close when the learner is gone, too
    run = Run.open(tmp_path / "group" / "seed-4")
    while True:  # until the learner has noticed, and let go of the folder
        try:
            run.learn(stop=lambda: True)
            break
        except InvalidRun:
            assert time.monotonic() < deadline
            time.sleep(0.1)
