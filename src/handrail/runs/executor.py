"""Long tasks in parallel processes: they report as they go, stop when asked to, and fail in words.

Ctrl-C ends each task where it can be continued from, a second one ends everything at once. Should
the process that shows progress be killed, its workers end, too.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection
from queue import Empty
from types import FrameType
from typing import Any, final

from handrail.errors import HandrailError

_AT_ONCE = 50  # messages


_messages: Any = None  # (number of the task, what it says), to the process that shows progress


_stop: Any = None


_orphaned = threading.Event()


_working = threading.Lock()  # held by a worker process while it works


class Task(ABC):
    """Something long that runs in a process of its own; it is sent there by pickling."""

    @property
    @abstractmethod
    def name(self) -> str:
        """For messages."""

    @abstractmethod
    def run(self, say: Callable[[Any], None], stop: Callable[[], bool]) -> None:
        """Work to the end, or until `stop` says so; what was done must survive either way.

        Args:
            say: sends anything that can be pickled to whoever watches.
            stop: to be asked every now and then.
        """


class Audience(ABC):
    """Whoever watches tasks work."""

    @abstractmethod
    def hear(self, number: int, message: Any) -> None:
        """A task said something."""

    @abstractmethod
    def ended(self, number: int) -> None:
        """A task ended, one way or another."""

    @abstractmethod
    def notice(self, text: str) -> None:
        """Something concerns all of them."""


@final
@dataclass(frozen=True)
class Outcome:
    """How the tasks ended."""

    stopped: bool
    failures: tuple[str, ...]


def work(
    tasks: Sequence[Task], processes: int, audience: Audience, modules: Sequence[str] = ()
) -> Outcome:
    """Run all tasks in their order, as many at a time as there are processes.

    Args:
        tasks: what to do.
        processes: at most so many at a time.
        audience: told what they say.
        modules: to import in each process: those that register the user's environments.
    """
    if not tasks:
        return Outcome(stopped=False, failures=())
    context = multiprocessing.get_context("spawn")
    messages, stop = context.Queue(), context.Event()
    failures: list[str] = []
    workers = ProcessPoolExecutor(
        min(processes, len(tasks)), context, _initialise, (messages, stop, tuple(modules))
    )

    def on_interrupt(_signal: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            for worker in multiprocessing.active_children():
                worker.kill()
            raise KeyboardInterrupt
        stop.set()
        audience.notice("Stopping where it can be continued; press Ctrl-C again to stop at once.")

    # SIGTERM is what schedulers send before they kill.
    before = {one: signal.signal(one, on_interrupt) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        with _ignoring(before):
            pending = {workers.submit(_run, i, task): i for i, task in enumerate(tasks)}
        while pending:
            _pass_on(messages, audience)
            for future in [one for one in pending if one.done()]:
                number = pending.pop(future)
                failures += _failure(future, tasks[number])
                _pass_on(messages, audience, wait=False)
                audience.ended(number)
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
        stopped = stop.is_set()
        stop.set()  # whatever went wrong here, nobody works on for nothing
        workers.shutdown(wait=True, cancel_futures=True)
    return Outcome(stopped, tuple(dict.fromkeys(failures)))


@contextmanager
def _ignoring(signals: Iterable[signal.Signals]) -> Iterator[None]:
    """Processes that are started inside ignore them from their first moment on.

    Else a Ctrl-C, which reaches every process of the terminal, would end workers that are still
    importing.
    """
    handlers = {one: signal.signal(one, signal.SIG_IGN) for one in signals}
    try:
        yield
    finally:
        for one, handler in handlers.items():
            signal.signal(one, handler)


def _pass_on(messages: Any, audience: Audience, wait: bool = True) -> None:
    """What has arrived; by default waits a moment for something to arrive.

    Not without end: tasks that say a lot must not keep others from being noticed.
    """
    try:
        audience.hear(*(messages.get(timeout=0.1) if wait else messages.get_nowait()))
        for _ in range(_AT_ONCE):
            audience.hear(*messages.get_nowait())
    except Empty:
        pass


def _failure(future: Future[str | None], task: Task) -> list[str]:
    try:
        message = future.result()
    except BrokenProcessPool:
        # All tasks that were left end so, whoever was killed.
        return ["A process was killed, perhaps for want of memory. What was recorded is kept."]
    return [] if message is None else [f"{task.name}: {message}"]


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
    """A killed command must not leave workers behind: end where it can be continued, and go."""
    parent = multiprocessing.parent_process()
    assert parent is not None  # this is a worker
    connection.wait([parent.sentinel])
    _orphaned.set()
    with _working:
        os._exit(1)


def _run(number: int, task: Task) -> str | None:
    """Run one task; what went wrong, or nothing."""
    if _shall_stop():
        return None
    try:
        with _working:
            task.run(lambda message: _messages.put((number, message)), _shall_stop)
    except HandrailError as error:
        return str(error)
    return None
