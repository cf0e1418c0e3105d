"""Runs on their way, a line of progress each; of many runs, those that learn at present."""

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
from handrail.executors import Executor, Outcome, Watcher
from handrail.learning import Record, in_brief
from handrail.runs import NamedCallback, Run, learn_all

_AT_MOST = 12  # lines: of more runs, only those are shown that learn at present


def learn(
    runs: Sequence[Run],
    executor: Executor,
    checkpoint_seconds: float,
    until: int | None = None,
    callback: NamedCallback | None = None,
) -> Outcome:
    """Learn runs wherever there is room, and show how far they are.

    Args:
        runs: to learn.
        executor: where.
        checkpoint_seconds: between checkpoints.
        until: stop after so many episodes; by default after the last of each.
        callback: called after every episode, where the run is learned.
    """
    with ProgressLines(runs, until) as lines:
        return learn_all(runs, executor, lines, checkpoint_seconds, until, callback)


@final
class ProgressLines(Watcher):
    """Listens to runs that learn; a context manager, which draws while it is open."""

    def __init__(self, runs: Sequence[Run], until: int | None = None) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[brief]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console(stderr=True),
        )
        self._recent = [deque(run.records(), maxlen=100) for run in runs]
        self._are_many = len(runs) > _AT_MOST
        self._all = self._progress.add_task(
            "runs", total=len(runs), brief="", visible=self._are_many
        )
        self._lines = [
            self._progress.add_task(
                visible(name),
                total=until or run.rulebook.settings.episodes,
                brief="",
                visible=not self._are_many,
            )
            for name, run in zip(_names(runs), runs, strict=True)
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
            visible=True,
        )

    @override
    def on_end(self, number: int) -> None:
        self._progress.advance(self._all)
        self._progress.update(self._lines[number], visible=not self._are_many)

    @override
    def on_notice(self, text: str) -> None:
        self._progress.console.print(visible(text), soft_wrap=True)


def _names(runs: Sequence[Run]) -> list[str]:
    """By seed; of several groups with that of the group."""
    groups = {run.folder.parent for run in runs}
    return [
        f"seed {run.seed}" if len(groups) == 1 else f"{run.folder.parent.name}, seed {run.seed}"
        for run in runs
    ]
