"""The wheel in an empty environment: what is declared is enough, and nothing else is needed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import handrail as hr
from tests.support.paths import ROOT

EXTRAS = ("stable_baselines3", "onnx", "numba", "tensorboard", "pytest")
SCRIPTS = "Scripts" if os.name == "nt" else "bin"
pytestmark = pytest.mark.slow  # downloads torch, and builds an environment


def newer_pythons() -> list[str]:
    """Those that are here and start."""
    found = [shutil.which(f"python3.{minor}") for minor in range(12, 20)]
    return [one for one in found if one and one != sys.executable and starts(one)]


def starts(python: str) -> bool:
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """What a command prints, in a shell that knows nothing of this checkout."""
    ours = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME")
    environment = {key: value for key, value in os.environ.items() if key not in ours}
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)  # by way of the source archive
    (found,) = folder.glob("*.whl")
    return found


@pytest.mark.parametrize("python", [sys.executable, *newer_pythons()])
def test_the_wheel_runs_without_extras(python: str, wheel: Path, tmp_path: Path) -> None:
    run(python, "-m", "venv", tmp_path / "venv")
    scripts = tmp_path / "venv" / SCRIPTS
    pip = (scripts / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "-c", ROOT / "constraints.txt", wheel)
    home = tmp_path / "home"
    home.mkdir()

    told = "import handrail as hr, sys; print(hr.__file__, len([getattr(hr, n) for n in NAMES]))"
    names = [name for name in hr.__all__ if name != "sb3"]
    told = f"NAMES = {names!r}; {told}"
    where, number = run(scripts / "python", "-I", "-c", told, cwd=home).split()
    assert Path(where).is_relative_to(tmp_path / "venv")
    assert int(number) == len(names)
    absent = f"import importlib.util as u; print([m for m in {EXTRAS!r} if u.find_spec(m)])"
    assert run(scripts / "python", "-I", "-c", absent, cwd=home) == "[]\n"

    assert json.loads(run(scripts / "handrail", "schema", cwd=home)) == hr.rulebook.json_schema()
    said = run(scripts / "handrail", "train", "cartpole", "--episodes", "5", cwd=home)
    assert "1 run in runs" in said
    records = (home / "runs" / "cartpole" / "seed-0" / "metrics.jsonl").read_text().splitlines()
    assert len(records) == 5
    assert (home / "runs" / "cartpole" / "report" / "policy.png").stat().st_size > 10_000
