"""`handrail show`."""

from __future__ import annotations

import shutil
from pathlib import Path

from handrail.runs.metrics import METRICS
from tests.cli.conftest import Caller


def test_show_draws_any_two_observations(group: Path, handrail: Caller, tmp_path: Path) -> None:
    code, out, _ = handrail(
        *("show", str(group), "--over", "one,position"),
        *("--out", str(tmp_path)),
    )
    assert code == 0
    assert "passes from" in out
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "episode.png",
        "first_holding.png",
        "index.html",
        "influence.png",
        "loss.png",
        "policy.png",
        "score.png",
        "violation.png",
    ]


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


def test_a_folder_that_cannot_be_written_is_no_traceback(group: Path, handrail: Caller) -> None:
    code, _, error = handrail("show", group, "--out", "/proc/nothing/here")
    assert code == 2
    assert "error: /proc/nothing" in error
    assert "No such file or directory. What was saved before is as it was: make room" in error
