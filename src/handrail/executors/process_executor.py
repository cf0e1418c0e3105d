"""Processes of this machine, and what a task needs in one of them."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from queue import Empty
from time import sleep
from types import FrameType
from typing import Any, final

from typing_extensions import override

from handrail.errors import HandrailError
from handrail.executors.executor import (
    INTERRUPTS,
    End,
    Executor,
    Interrupted,
    Message,
    Task,
    Work,
)

_WAIT = 0.1  # seconds for something to happen
_AT_ONCE = 50  # messages
_PATIENCE = 3.0  # seconds that a task may take to stop before it is interrupted
_INTERRUPT = getattr(signal, "SIGUSR1", None)  # of a task, where the system has such signals


@final
class ProcessExecutor(Executor):
    """Processes of this machine. Should the process that watches be killed, they end, too.

    Args:
        processes: at most so many tasks at a time.
        modules: to import in each process: those that register the user's environments.
    """

    def __init__(self, processes: int, modules: Sequence[str] = ()) -> None:
        self._processes, self._modules = processes, tuple(modules)

    @override
    def begin(self, tasks: Sequence[Task]) -> Work:
        return _Processes(tasks, min(self._processes, len(tasks)), self._modules)


@final
class _Processes(Work):
    """Tasks in a pool of processes."""

    def __init__(self, tasks: Sequence[Task], processes: int, modules: tuple[str, ...]) -> None:
        context = multiprocessing.get_context("spawn")  # the same on every system
        self._messages: Any = context.Queue()
        # A byte, no Event: that has a lock, which a process could be killed with.
        self._stop: Any = context.RawValue("b", 0)
        self._tasks = tasks
        self._others = multiprocessing.active_children()
        self._pool = ProcessPoolExecutor(
            processes, context, _initialise, (self._messages, self._stop, modules)
        )
        self._pending = {self._pool.submit(_run, i, one): i for i, one in enumerate(tasks)}

    @override
    def events(self) -> Iterator[Message | End]:
        yield from self._arrived(wait=True)
        for future in [one for one in self._pending if one.done()]:
            number = self._pending.pop(future)
            yield from self._arrived(wait=False)
            yield End(number, _failure(future, self._tasks[number]))

    def _arrived(self, wait: bool) -> Iterator[Message]:
        try:
            first = self._messages.get(timeout=_WAIT) if wait else self._messages.get_nowait()
            yield Message(*first)
            for _ in range(_AT_ONCE):
                yield Message(*self._messages.get_nowait())
        except Empty:
            pass

    @override
    def stop(self) -> None:
        self._stop.value = 1

    @override
    def kill(self) -> None:
        for worker in multiprocessing.active_children():
            if worker not in self._others:
                worker.kill()

    @override
    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


def _failure(future: Future[str | None], task: Task) -> str | None:
    try:
        message = future.result()
    except BrokenProcessPool:
        # All tasks that were left end so, whoever was killed.
        return "A process was killed, perhaps for want of memory. What was recorded is kept."
    return None if message is None else f"{task.name}: {message}"


# In a worker process: the way to the process that watches, and what tells it to stop.
_messages: Any = None
_stop: Any = None
_orphaned = threading.Event()
_working = threading.Lock()  # held while a task is done
_present: deque[tuple[int, Task]] = deque(maxlen=1)  # that task, with its number


def _initialise(messages: Any, stop: Any, modules: tuple[str, ...]) -> None:
    global _messages, _stop  # a worker process has no other place for them
    _messages, _stop = messages, stop
    # Both reach every process of the group; only the one that watches answers.
    for one in INTERRUPTS:
        signal.signal(one, signal.SIG_IGN)
    if _INTERRUPT is not None:
        signal.signal(_INTERRUPT, _on_interrupt)
    for watch in (_end_with_parent, _end_what_hangs):
        threading.Thread(target=watch, daemon=True).start()
    for module in modules:
        importlib.import_module(module)


def _shall_stop() -> bool:
    return _orphaned.is_set() or bool(_stop.value)


def _end_with_parent() -> None:
    """A killed command must not leave workers behind: end where it can be continued, and go."""
    parent = multiprocessing.parent_process()
    assert parent is not None  # this is a worker
    connection.wait([parent.sentinel])
    _orphaned.set()
    while not _interrupt_what_hangs() and not _can_be_interrupted():
        pass  # what costs nothing is left at once, and anything else ends by itself
    os._exit(1)


def _end_what_hangs() -> None:
    """Whoever pressed Ctrl-C wants to know what does not come back: most often an environment."""
    while not _stop.value:
        sleep(_WAIT)
    if not _interrupt_what_hangs():
        where = f"It still waits for {_place()}. Press Ctrl-C again to stop at once."
        _messages.put((_present[-1][0], Interrupted(where)))


def _interrupt_what_hangs() -> bool:
    """Wait for the task to stop, interrupt it if it does not; whether it has stopped then."""
    stopped = _has_stopped()
    if not stopped and _INTERRUPT is not None:
        # A signal, so that a call of the system that waits is interrupted, too.
        signal.pthread_kill(threading.main_thread().ident or 0, _INTERRUPT)
        stopped = _has_stopped()
    return stopped


def _has_stopped() -> bool:
    if _working.acquire(timeout=_PATIENCE):
        _working.release()
        return True
    return False


def _on_interrupt(_signal: int, _frame: FrameType | None) -> None:
    if _can_be_interrupted():
        raise KeyboardInterrupt


def _can_be_interrupted() -> bool:
    return bool(_present) and _present[-1][1].can_be_interrupted()


def _place() -> str:
    """What the main thread is in, outside of this package."""
    ours = os.path.dirname(os.path.dirname(__file__))
    frame: FrameType | None = sys._current_frames()[threading.main_thread().ident or 0]
    innermost = frame
    while frame is not None and frame.f_code.co_filename.startswith(ours):
        frame = frame.f_back
    found = frame or innermost
    assert found is not None  # a thread is somewhere
    return f"{found.f_code.co_name} ({found.f_code.co_filename}, line {found.f_lineno})"


def _run(number: int, task: Task) -> str | None:
    """Run one task; what went wrong, or nothing."""
    _present.append((number, task))
    if _shall_stop():
        return None
    try:
        with _working:
            task.run(lambda message: _messages.put((number, message)), _shall_stop)
    except HandrailError as error:
        return str(error)
    except KeyboardInterrupt as interrupt:
        _messages.put((number, Interrupted(str(interrupt))))
    return None
