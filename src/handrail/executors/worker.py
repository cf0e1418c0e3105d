"""A process that does one task after the other, wherever it was started.

What it says comes through a pipe of its own: a process that is killed while it writes breaks that
one alone, and all that it said before is still read. Whoever only carries things to a worker and
back, as on another machine, needs not understand them: they are pickled here and unpickled there.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import connection
from time import sleep
from types import FrameType
from typing import Any, final

from handrail.errors import HandrailError
from handrail.executors.executor import INTERRUPTS, End, Message, Notice, Task

_WAIT = 0.1  # seconds between two looks at whether to stop
_PATIENCE = 3.0  # seconds that a task may take to stop before it is interrupted
_AT_ONCE = 50  # envelopes
_INTERRUPT = getattr(signal, "SIGUSR1", None)  # of a task, where the system has such signals


class WorkerDied(Exception):
    """The process is gone; what it was doing is not done."""


@final
@dataclass(frozen=True)
class Envelope:
    """Something that happened to a task.

    Attributes:
        content: what, pickled.
        last: whether the task has ended so.
    """

    content: bytes
    last: bool

    def opened(self) -> Message | End:
        """What happened; a task that failed for reasons that nobody foresaw fails here as well."""
        event: Message | End | _Crash = pickle.loads(self.content)
        if isinstance(event, _Crash):
            raise RuntimeError(f"A task failed:\n{event.trace}")
        return event


@final
@dataclass(frozen=True)
class _Crash:
    """A task raised what only a mistake of the program explains."""

    trace: str


@final
class Worker:
    """A process for tasks, of one at a time. Should this process be killed, it ends, too.

    Args:
        modules: to import there: those that register the user's environments.
    """

    def __init__(self, modules: Sequence[str] = ()) -> None:
        context = multiprocessing.get_context("spawn")  # the same on every system
        self.connection, theirs = context.Pipe()
        # A byte, no Event: that has a lock, which a process could be killed with.
        self._stop: Any = context.RawValue("b", 0)
        self._process = context.Process(target=_serve, args=(theirs, self._stop, tuple(modules)))
        self._process.start()
        theirs.close()  # it ends with the process alone

    def begin(self, number: int, task: bytes) -> None:
        """Have a pickled task done, the one before it having ended."""
        try:
            self.connection.send((number, task))
        except OSError as error:
            raise WorkerDied from error

    def said(self) -> list[Envelope]:
        """What there is to read, but not without end: others want to be heard, too."""
        found: list[Envelope] = []
        try:
            while len(found) < _AT_ONCE and self.connection.poll():
                found.append(self.connection.recv())
        except (EOFError, OSError) as error:
            if not found:
                raise WorkerDied from error
        return found

    def stop(self) -> None:
        """Ask the task to end where it can be continued from; no other one begins."""
        self._stop.value = 1

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def close(self) -> None:
        """Wait for its end, which comes with that of its task."""
        self.connection.close()
        self._process.join()


# In the worker's process: the way out, what tells it to stop, and what it is doing.
_watcher: Any = None
_stop: Any = None
_orphaned = threading.Event()
_saying = threading.Lock()
_working = threading.Lock()  # held while a task is done
_present: deque[tuple[int, Task]] = deque(maxlen=1)  # that task, with its number


def _serve(watcher: Any, stop: Any, modules: tuple[str, ...]) -> None:
    global _watcher, _stop  # a worker process has no other place for them
    _watcher, _stop = watcher, stop
    # Both reach every process of the group; only the one that watches answers.
    for one in INTERRUPTS:
        signal.signal(one, signal.SIG_IGN)
    if _INTERRUPT is not None:
        signal.signal(_INTERRUPT, _on_interrupt)
    for watch in (_end_with_parent, _end_what_hangs):
        threading.Thread(target=watch, daemon=True).start()
    refusal = _import(modules)
    while True:
        try:
            number, task = watcher.recv()
        except (EOFError, OSError):
            return
        _say(End(number, refusal) if refusal else _done(number, task), last=True)


def _import(modules: tuple[str, ...]) -> str | None:
    """Why there is nothing to begin with, if so."""
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:  # whatever the user's module does
            return f"--import {module}: {type(error).__name__}: {error}."
    return None


def _done(number: int, pickled: bytes) -> End | _Crash:
    """How a task ended."""
    try:
        task: Task = pickle.loads(pickled)
        _present.append((number, task))
        if not _shall_stop():
            with _working:
                task.run(lambda message: _say(Message(number, message)), _shall_stop)
    except HandrailError as error:
        return End(number, f"{task.name}: {error}")
    except KeyboardInterrupt as interrupt:
        _say(Message(number, Notice(str(interrupt))))
    except Exception:
        return _Crash(traceback.format_exc())
    return End(number, None)


def _say(event: Message | End | _Crash, last: bool = False) -> None:
    envelope = Envelope(pickle.dumps(event), last)
    try:
        with _saying:
            _watcher.send(envelope)
    except OSError:
        _orphaned.set()  # nobody listens any more


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
        _say(Message(_present[-1][0], Notice(where)))


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
    """Never while something is said: half of an envelope would make all after it unreadable."""
    return bool(_present) and not _saying.locked() and _present[-1][1].can_be_interrupted()


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
