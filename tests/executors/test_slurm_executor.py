"""Jobs through submitit, whose local executor stands in for Slurm, and requeues as it does."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import pytest

from handrail.errors import InvalidArgument
from handrail.executors import FolderTask, SlurmExecutor
from tests.executors.test_executor import Counting, Dying, Notes, interrupt

pytest.importorskip("submitit", reason="submitit is not installed: pip install 'handrail[slurm]'")
pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="submitit needs a Unix"),
    pytest.mark.filterwarnings("ignore"),  # of submitit, about processes that it lets run
]


@pytest.fixture(autouse=True)
def _spool_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def executor() -> SlurmExecutor:
    return SlurmExecutor(cluster="local", modules=["tests"])


@final
@dataclass(frozen=True)
class Preempted(FolderTask):
    """Gets on by one in each sitting, and is then preempted, as Slurm does it."""

    folder: Path
    sittings: int = 3

    @property
    def name(self) -> str:
        return "preempted"

    def moved(self, folder: Path) -> Preempted:
        return replace(self, folder=folder)

    def progress(self) -> float:
        return len(list(self.folder.glob("sitting-*")))

    def run(self, report: Callable[[Any], None], stop: Callable[[], bool]) -> None:
        sitting = int(self.progress())
        (self.folder / f"sitting-{sitting}").touch()
        report(sitting)
        if sitting + 1 < self.sittings:
            os.kill(os.getpid(), signal.SIGUSR2)
            time.sleep(60.0)


def test_reports_failures_and_requeues(tmp_path: Path) -> None:
    notes = Notes()
    tasks = [Counting(0, upto=200), Preempted(tmp_path), Counting(2, failure="it cannot be.")]
    outcome = executor().run(tasks, notes)
    assert outcome.failures == ("task 2: it cannot be.",)
    assert not notes.notices
    told = {n: [one for number, one in notes.reports if number == n] for n in range(3)}
    assert told[0] == [(0, count) for count in range(200)]
    assert told[1] == [0, 1, 2]
    assert sorted(notes.ends) == [0, 1, 2]
    assert not list(tmp_path.glob(".handrail-slurm-*"))


def test_a_job_that_dies_is_begun_again_unless_it_dies_every_time() -> None:
    notes = Notes()
    outcome = executor().run([Dying()], notes)
    assert outcome.failures == (
        "dying: The process that did it died 5 times without getting on, perhaps for want of "
        "memory. What was recorded is kept.",
    )
    assert len(notes.notices) == 4


def test_an_interrupt_ends_tasks_where_they_can_be_continued() -> None:
    notes = Notes(on_first=interrupt)
    outcome = executor().run([Counting(0, 5000, 0.02)], notes)
    assert outcome.stopped
    assert not outcome.failures
    assert notes.ends == [0]


def test_without_slurm() -> None:
    with pytest.raises(InvalidArgument, match="sbatch"):
        SlurmExecutor().run([Counting(0)], Notes())
