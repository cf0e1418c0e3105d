"""Runs of several seeds in parallel processes, one line of progress each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from handrail.learning import Record, Seconds, in_brief
from handrail.runs import Outcome, ProcessExecutor, Run, Task, Watcher


def learn_all(
    runs: Sequence[Run], jobs: int, modules: Sequence[str], checkpoint_seconds: float
) -> Outcome:
    """Run them all, as many at a time as there are jobs, and show how they come along.

    Args:
        runs: to learn to their last episode.
        jobs: processes.
        modules: to import in each process: those that register the user's environments.
        checkpoint_seconds: between checkpoints.
    """
    tasks = [_Learning(run.folder, checkpoint_seconds) for run in runs]
    with _Lines(runs) as lines:
        return ProcessExecutor(jobs, modules).run(tasks, lines)


@final
@dataclass(frozen=True)
class _Learning(Task):
    """One run, learned to its last episode."""

    folder: Path
    checkpoint_seconds: float

    @property
    def name(self) -> str:
        return str(self.folder)

    def run(self, report: Callable[[Any], None], stop: Callable[[], bool]) -> None:
        def watch(record: Record, _: Seconds) -> None:
            report(record)

        Run.open(self.folder).learn(watch, stop, self.checkpoint_seconds)


@final
class _Lines(Watcher):
    """A line of progress per run."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._progress = Progress(
            TextColumn("seed {task.fields[seed]}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[brief]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._recent = [deque(run.records(), maxlen=100) for run in runs]
        self._lines = [
            self._progress.add_task(
                "", total=run.rulebook.settings.episodes, seed=run.seed, brief=""
            )
            for run in runs
        ]

    def __enter__(self) -> _Lines:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def on_report(self, number: int, message: Any) -> None:
        record: Record = message
        self._recent[number].append(record)
        self._progress.update(
            self._lines[number],
            completed=record.episode + 1,
            brief=in_brief(tuple(self._recent[number])),
        )

    def on_end(self, number: int) -> None:
        """Its line stays as it is."""

    def on_notice(self, text: str) -> None:
        self._progress.console.print(text)
