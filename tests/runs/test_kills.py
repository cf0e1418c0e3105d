"""SIGKILL at random moments of the commands: nothing is lost, nothing is half there.

Two hundred of them; `HANDRAIL_KILLS=20 pytest -m slow tests/runs/test_kills.py` for fewer. A
command is killed with all that it started, or alone, and then its workers end by themselves:
`tests/runs/test_run.py` kills a single process at finer moments.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from handrail.runs import Run, open_runs
from handrail.runs.configuration import is_run
from handrail.runs.metrics import METRICS
from tests.support.paths import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "killpg"), reason="this system has no groups of processes"),
]

KILLS = int(os.environ.get("HANDRAIL_KILLS", "200"))
TEXT = """
environment: CartPole-v1
observations: [x, x_dot, phi, phi_dot]
actions: [left, right]
constraints:
  - {name: p, where: {x: 0, x_dot: 0, phi: 0.2, phi_dot: 0}, require: right >= 0.9}
  - {name: q, region: {x: [-2, 2], x_dot: 0, phi: [0.1, 0.12], phi_dot: 0}, require: right >= 0.9}
settings: {episodes: 60, network: {hidden: [32]}, selection: {strategy: everywhere, prove: true}}
"""
HANDRAIL, PAPER = ("handrail",), ("paper", "cartpole-loss", "--quick", "--seeds", "1", "--out")


def begin(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def finish(folder: Path, *arguments: str) -> float:
    """Seconds that it took."""
    start = time.monotonic()
    process = begin(folder, *arguments)
    _, error = process.communicate(timeout=600)
    assert process.returncode == 0, error.decode()
    return time.monotonic() - start


def killed(folder: Path, chance: random.Random, after: float, *arguments: str) -> bool:
    """Whether it was still at work then."""
    process = begin(folder, *arguments)
    try:
        _, error = process.communicate(timeout=after)
    except subprocess.TimeoutExpired:
        kill = chance.choice([os.kill, os.killpg])
        kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=120)  # the pipe closes when its workers are gone, too
        return True
    assert process.returncode == 0, error.decode()
    return False


def digests(group: Path) -> dict[str, str]:
    """Of the metrics and of the newest checkpoint of every run."""
    found = [
        path for run in open_runs(group) for path in (run.folder / METRICS, run.checkpoints()[-1])
    ]
    return {
        str(path.relative_to(group)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in found
    }


def forget(target: Path) -> None:
    """What an edit draws goes with what it writes."""
    target.unlink(missing_ok=True)
    target.with_suffix(".png").unlink(missing_ok=True)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kills")
    (folder / "file.yaml").write_text(TEXT)
    finish(folder, *HANDRAIL, "train", "file.yaml", "--seeds", "2", "--out", "whole")
    return folder


def test_training(reference: Path) -> None:
    chance, kills = random.Random(0), 0
    begun = ("train", "file.yaml", "--seeds", "2", "--checkpoint-seconds", "0.2", "--out")
    seconds = finish(reference, *HANDRAIL, *begun, "timed")
    while kills < KILLS // 2:
        shutil.rmtree(reference / "group", ignore_errors=True)
        command: tuple[str, ...] = (*begun, "group")
        for _ in range(6):
            after = chance.uniform(0.2, 1.0) * seconds
            if not killed(reference, chance, after, *HANDRAIL, *command):
                break
            kills += 1
            seeds = [reference / "group" / f"seed-{k}" for k in (0, 1)]
            if all(is_run(one) for one in seeds) and any(Run.open(one).begun for one in seeds):
                command = ("resume", "group", "--checkpoint-seconds", "0.2")
        else:
            finish(reference, *HANDRAIL, *command)
        assert digests(reference / "group") == digests(reference / "whole")


@pytest.mark.parametrize(
    ("command", "result"),
    [
        (("edit", "whole/seed-0", "--constraints", "file.yaml", "-o"), "edited.safetensors"),
        (("export", "whole/seed-0", "--format", "numpy", "-o"), "policy.npz"),
        (("export", "whole/seed-0", "-o"), "policy.onnx"),
        (("prove", "whole"), "whole/seed-0/certificate.json"),
    ],
)
def test_a_file_is_whole_or_not_there(
    reference: Path, command: tuple[str, ...], result: str
) -> None:
    chance, target = random.Random(1), reference / result
    full = (*command, result) if command[0] != "prove" else command
    before = digests(reference / "whole")
    seconds = finish(reference, *HANDRAIL, *full)
    whole = target.read_bytes()
    for _ in range(max(2, KILLS // 8)):
        forget(target)
        killed(reference, chance, chance.uniform(0.6, 1.0) * seconds, *HANDRAIL, *full)
        assert not target.exists() or target.read_bytes() == whole
    forget(target)
    finish(reference, *HANDRAIL, *full)
    assert target.read_bytes() == whole
    assert digests(reference / "whole") == before


def test_the_reproduction(reference: Path) -> None:
    chance = random.Random(2)
    seconds = finish(reference, *PAPER, "one")
    for _ in range(max(2, KILLS // 10)):
        killed(reference, chance, chance.uniform(0.2, 0.9) * seconds, *PAPER, "other")
    finish(reference, *PAPER, "other")
    for path in sorted((reference / "one" / "metrics").rglob("*.csv")):
        same = reference / "other" / path.relative_to(reference / "one")
        assert same.read_bytes() == path.read_bytes(), path
