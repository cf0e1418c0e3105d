"""Runs on their way, a line of progress each."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, final

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from typing_extensions import override

from handrail._text import visible
from handrail.cli.console import console
from handrail.executors import Watcher
from handrail.learning import Record, in_brief
from handrail.runs import Run


@final
class ProgressLines(Watcher):
    """Listens to runs that learn; a context manager, which draws while it is open."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._progress = Progress(
            TextColumn("seed {task.fields[seed]}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[brief]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console(stderr=True),
        )
        self._recent = [deque(run.records(), maxlen=100) for run in runs]
        self._lines = [
            self._progress.add_task(
                "", total=run.rulebook.settings.episodes, seed=run.seed, brief=""
            )
            for run in runs
        ]

    def __enter__(self) -> ProgressLines:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    @override
    def on_report(self, number: int, message: Any) -> None:
        record: Record = message
        self._recent[number].append(record)
        self._progress.update(
            self._lines[number],
            completed=record.episode + 1,
            brief=in_brief(tuple(self._recent[number])),
        )

    @override
    def on_end(self, number: int) -> None:
        pass  # its line stays as it is

    @override
    def on_notice(self, text: str) -> None:
        self._progress.console.print(visible(text), soft_wrap=True)
