"""`handrail sweep`."""

from __future__ import annotations

import json
import shlex
import signal
import time
from pathlib import Path

import pytest

from handrail.runs.metrics import METRICS
from handrail.runs.run import Run
from tests.cli.conftest import Caller, start
from tests.runs.test_run import TEXT

IMPORT = ("--import", "tests.runs.test_run")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "corridor.yaml"
    path.write_text(TEXT)
    return path


@pytest.mark.usefixtures("here")
def test_a_grid_of_ordinary_runs_compared(file: Path, handrail: Caller) -> None:
    sweep = file.parent / "sweep"
    command = (
        "sweep",
        file,
        "--out",
        sweep,
        "--episodes",
        "6",
        "--last",
        "3",
        "--jobs",
        "1",
        *IMPORT,
    )
    grid = ("--grid", "enforcement=exact,none")
    code, out, error = handrail(*command, *grid, "--seeds", "2")
    assert code == 0, error
    assert f"{sweep}: 2 settings, 4 runs, 4 to learn" in out
    assert "Average score of the last 3 of 6 episodes" in out
    assert (sweep / "comparison" / "standings.png").exists()
    kept = {path: path.read_bytes() for path in sweep.glob(f"*/*/{METRICS}")}
    assert len(kept) == 4
    run = Run.open(sweep / "enforcement=none" / "seed-5")
    assert (run.seed, run.rulebook.settings.enforcement, run.finished) == (5, "none", True)
    more = ("--grid", "step_size=1e-3,1e-2")
    code, out, _ = handrail(*command, *grid, *more, "--seeds", "1", "--json", "--no-report")
    assert code == 0
    answer = json.loads(out)
    assert answer["failures"] == []
    assert not answer["stopped"]
    names = [one["name"] for one in answer["comparison"]["groups"]]
    assert names == [
        f"step_size={s},enforcement={e}" for e in ("exact", "none") for s in (0.001, 0.01)
    ]
    assert answer["comparison"]["report"] is None
    assert answer["comparison"]["groups"][2]["worst_violation"] > 0.0
    code, out, _ = handrail(*command, *grid, "--seeds", "2")
    assert "4 runs, 0 to learn" in out
    assert {path: path.read_bytes() for path in kept} == kept


def test_values_are_checked_before_anything_starts(file: Path, handrail: Caller) -> None:
    sweep = file.parent / "sweep"
    for options, words in (
        (("--grid", "hidden=16,0"), "--grid hidden=0: corridor, settings.network.hidden[0]: expec"),
        (("--grid", "step_size=1,x"), "--grid step_size=x: corridor, settings.step_size: expecte"),
        (("--grid", "stepsize=1"), "settings.stepsize: unknown key"),
        (("--grid", "step_size"), "--grid step_size: expected name=value,value"),
        (("--grid", "step_size=["), "--grid step_size=[: expected name=value,value"),
        ((), "What is to be swept?"),
    ):
        code, _, error = handrail("sweep", file, "--out", sweep, *IMPORT, *options)
        assert code == 2
        assert words in error
    assert not sweep.exists()


@pytest.mark.usefixtures("here")
def test_a_setting_that_fails_is_told_and_the_others_are_compared(
    file: Path, handrail: Caller
) -> None:
    file.write_text(TEXT.replace("Corridor-v0", "FailsInEpisode5-v0"))
    code, out, error = handrail(
        *(
            "sweep",
            file,
            "--out",
            file.parent / "sweep",
            "--seeds",
            "1",
            "--jobs",
            "1",
            "--json",
            *IMPORT,
        ),
        *("--grid", "episodes=3,8"),
    )
    assert code == 2
    answer = json.loads(out)
    assert "episodes=8/seed-4: Episode 5: The environment raised" in answer["failures"][0]
    assert "episodes=8/seed-4: Episode 5: The environment raised" in error
    assert [one["name"] for one in answer["comparison"]["groups"]] == ["episodes=3", "episodes=8"]


def test_ctrl_c_loses_nothing_and_says_what_to_type(tmp_path: Path, file: Path) -> None:
    one_by_one = ("--seeds", "1", "--jobs", "1")
    command = ("sweep", file.name, "--grid", "step_size=1e-3,1e-2", *one_by_one, *IMPORT)
    process = start(*command, "--episodes", "100000", "--out", "my sweep", cwd=tmp_path)
    metrics = tmp_path / "my sweep" / "step_size=0.001" / "seed-4" / METRICS
    deadline = time.monotonic() + 300
    while not (metrics.exists() and metrics.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=300)
    assert process.returncode == 130, error
    typed = shlex.join(["handrail", *command, "--episodes", "100000", "--out", "my sweep"])
    assert f"Stopped. Continue with: {typed}" in out
    run = Run.open(metrics.parent)
    assert len(run.records()) == run.agent().episodes > 0


@pytest.mark.usefixtures("here")
def test_a_search(file: Path, handrail: Caller) -> None:
    pytest.importorskip("optuna", reason='a search needs Optuna: pip install "handrail[optuna]"')
    sweep = file.parent / "sweep"
    command = (
        *("sweep", file, "--out", sweep, "--episodes", "4", "--seeds", "1", "--jobs", "1"),
        *("--set", "enforcement=none", "--search", "optuna", "--space", "hidden=4..40:log"),
        *("--space", "baseline=none,value", *IMPORT),
    )
    code, out, error = handrail(*command, "--trials", "2")
    assert code == 0, error
    assert f"{sweep}: 2 trials (2 complete)" in out
    assert "Average score of all 4 episodes" in out
    code, out, _ = handrail(*command, "--trials", "2", "--json", "--no-report")
    assert code == 0
    answer = json.loads(out)
    first, second = answer["trials"]
    assert first["score"] >= second["score"]
    assert first["state"] == second["state"] == "complete"
    assert set(first["settings"]) == {"hidden", "baseline"}
    assert answer["comparison"]["groups"][0]["folder"] == first["folder"]
    assert answer["comparison"]["groups"][0]["end"]["mean"] == pytest.approx(first["score"])
    assert Run.open(Path(first["folder"]) / "seed-4").finished


def test_spaces_are_checked_before_anything_starts(file: Path, handrail: Caller) -> None:
    sweep = file.parent / "sweep"
    search = ("--search", "optuna")
    for options, words in (
        (("--space", "step_size=1e-5..1e-3:log"), "What is to be swept? Either a grid"),
        ((*search, "--grid", "step_size=1,2"), "What is to be swept? Either a grid"),
        ((*search, "--space", "step_size=1e-5..1e-3:lg"), "expected name=low..high or name=low"),
        ((*search, "--space", "step_size=a..b"), "expected name=low..high or name=low"),
        ((*search, "--space", "discount=0.5..2"), "--space discount=2: corridor, settings.disco"),
        ((*search, "--space", "hidden=9..3"), "--space hidden=9..3: expected a range with low"),
        ((*search, "--space", "hidden="), "--space hidden=: expected name=value,value"),
    ):
        code, _, error = handrail("sweep", file, "--out", sweep, *IMPORT, *options)
        assert code == 2
        assert words in error
    assert not sweep.exists()
