"""Runs of several seeds in parallel processes, one line of progress each."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import connection
from pathlib import Path
from queue import Empty
from types import FrameType
from typing import Any, final

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from handrail.errors import HandrailError
from handrail.progress import in_brief
from handrail.records import Record, Seconds
from handrail.runs import Run

_messages: Any = None  # (folder, record) of every episode, to the process that shows progress
_stop: Any = None
_orphaned = threading.Event()
_learning = threading.Lock()  # held by a worker process while it learns


@final
@dataclass(frozen=True)
class Outcome:
    """How the runs ended."""

    stopped: bool
    failures: tuple[str, ...]


def learn_all(
    runs: Sequence[Run], jobs: int, modules: Sequence[str], checkpoint_seconds: float
) -> Outcome:
    """Run them all, as many at a time as there are jobs, and show how they come along.

    Ctrl-C ends each after its present update, to be resumed; a second one at once.

    Args:
        runs: to learn to their last episode.
        jobs: processes.
        modules: to import in each process: those that register the user's environments.
        checkpoint_seconds: between checkpoints.
    """
    if not runs:
        return Outcome(stopped=False, failures=())
    context = multiprocessing.get_context("spawn")
    messages, stop = context.Queue(), context.Event()
    failures: list[str] = []
    lines = _Lines(runs)
    workers = ProcessPoolExecutor(
        min(jobs, len(runs)), context, _initialise, (messages, stop, tuple(modules))
    )

    def on_interrupt(_signal: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        lines.say("Stopping after the present episodes; press Ctrl-C again to stop at once.")

    # SIGTERM is what schedulers send before they kill.
    before = {one: signal.signal(one, on_interrupt) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        with lines:
            pending = {workers.submit(_learn, run.folder, checkpoint_seconds): run for run in runs}
            while pending:
                lines.read(messages)
                for future in [one for one in pending if one.done()]:
                    failures += _failure(future, pending.pop(future))
            lines.read(messages)
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
        workers.shutdown(wait=True, cancel_futures=True)
    return Outcome(stop.is_set(), tuple(failures))


def _failure(future: Future[str | None], run: Run) -> list[str]:
    try:
        message = future.result()
    except BrokenProcessPool:
        message = "a process was killed. What was recorded is kept."
    return [] if message is None else [f"{run.folder}: {message}"]


@final
class _Lines:
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
        self._tasks: dict[Path, TaskID] = {}
        self._recent: dict[Path, deque[Record]] = {}
        for run in runs:
            done = run.records()
            self._recent[run.folder] = deque(done, maxlen=100)
            self._tasks[run.folder] = self._progress.add_task(
                "", total=run.rulebook.settings.episodes, seed=run.seed, brief=""
            )

    def __enter__(self) -> _Lines:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def say(self, text: str) -> None:
        self._progress.console.print(text)

    def read(self, messages: Any) -> None:
        """Show what has arrived; waits a moment for something to arrive."""
        try:
            folder, record = messages.get(timeout=0.1)
            while True:
                self._recent[folder].append(record)
                self._progress.update(
                    self._tasks[folder],
                    completed=record.episode + 1,
                    brief=in_brief(tuple(self._recent[folder])),
                )
                folder, record = messages.get_nowait()
        except Empty:
            pass


def _initialise(messages: Any, stop: Any, modules: tuple[str, ...]) -> None:
    global _messages, _stop  # a worker process has no other place for them
    _messages, _stop = messages, stop
    # Both reach every process of the group; only the one that shows progress answers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    for module in modules:
        importlib.import_module(module)


def _shall_stop() -> bool:
    return _orphaned.is_set() or bool(_stop.is_set())


def _end_with_parent() -> None:
    """A killed command must not leave learners behind: finish the update, save it, and go."""
    parent = multiprocessing.parent_process()
    assert parent is not None  # this is a worker
    connection.wait([parent.sentinel])
    _orphaned.set()
    with _learning:
        os._exit(1)


def _learn(folder: Path, checkpoint_seconds: float) -> str | None:
    """Learn one run; what went wrong, or nothing."""

    def watch(record: Record, _: Seconds) -> None:
        _messages.put((folder, record))

    try:
        with _learning:
            Run.open(folder).learn(watch, _shall_stop, checkpoint_seconds)
    except HandrailError as error:
        return str(error)
    return None
