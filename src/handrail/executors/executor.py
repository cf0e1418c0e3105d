"""Long tasks done somewhere else: they report as they go, stop when asked to, and fail in words.

An `Executor` begins tasks, wherever it has room for them; what they report is passed on here until
all have ended. Ctrl-C ends each task where it can be continued from. What does not come to such a
place in time is interrupted, where that costs nothing, and says what it waited for; a second Ctrl-C
ends everything at once. `ProcessExecutor` has processes of this machine; another place is another
`Executor` with its own `Work`.
"""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, final

INTERRUPTS = (signal.SIGINT, signal.SIGTERM)  # the second is what schedulers send before they kill


class Task(ABC):
    """Something long that is done elsewhere; it is sent there by pickling."""

    @property
    @abstractmethod
    def name(self) -> str:
        """For messages."""

    @abstractmethod
    def run(self, report: Callable[[Any], None], stop: Callable[[], bool]) -> None:
        """Work to the end, or until `stop` says so; what was done must survive either way.

        Args:
            report: sends anything that can be pickled to whoever watches.
            stop: to be asked every now and then.
        """

    def can_be_interrupted(self) -> bool:
        """Whether a KeyboardInterrupt in `run` would cost nothing at this moment."""
        return False


class Watcher(ABC):
    """Whoever watches tasks; they are known by their number."""

    @abstractmethod
    def on_report(self, number: int, message: Any) -> None:
        """A task reported something."""

    @abstractmethod
    def on_end(self, number: int) -> None:
        """A task ended, one way or another."""

    @abstractmethod
    def on_notice(self, text: str) -> None:
        """Something concerns all of them."""


@final
@dataclass(frozen=True)
class Outcome:
    """How the tasks ended."""

    stopped: bool
    failures: tuple[str, ...]


@final
@dataclass(frozen=True)
class Message:
    """A task reported something."""

    number: int
    content: Any


@final
@dataclass(frozen=True)
class End:
    """A task ended; with a failure in words, if it failed."""

    number: int
    failure: str | None


@final
@dataclass(frozen=True)
class Notice:
    """What is reported of a task for people: it was interrupted, or goes on elsewhere."""

    text: str


class Work(ABC):
    """Tasks under way."""

    @abstractmethod
    def events(self) -> Iterable[Message | End]:
        """What has happened since, in order; waits a moment for something to happen.

        Not without end: tasks that report a lot must not keep others from being noticed.
        """

    @abstractmethod
    def stop(self) -> None:
        """Ask all tasks to end where they can be continued from; those not begun never begin."""

    @abstractmethod
    def kill(self) -> None:
        """End them at once."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what they needed, once they have ended."""


class Executor(ABC):
    """A place where tasks are done."""

    @abstractmethod
    def begin(self, tasks: Sequence[Task]) -> Work:
        """Have them done in their order, as many at a time as there is room for."""

    @final
    def run(self, tasks: Sequence[Task], watcher: Watcher) -> Outcome:
        """Do all tasks, and tell the watcher what they report."""
        if not tasks:
            return Outcome(stopped=False, failures=())
        failures: list[str] = []
        left = set(range(len(tasks)))
        with _Interrupts(watcher) as interrupts:
            with _ignoring(INTERRUPTS):
                work = self.begin(tasks)
                interrupts.concern(work)
            try:
                while left:
                    for event in work.events():
                        if isinstance(event, Message):
                            _pass_on(event, tasks[event.number].name, watcher)
                            continue
                        left.discard(event.number)
                        failures += [] if event.failure is None else [event.failure]
                        watcher.on_end(event.number)
            finally:
                work.stop()  # whatever went wrong here, nobody works on for nothing
                work.close()
        return Outcome(interrupts.stopped, tuple(dict.fromkeys(failures)))


def _pass_on(message: Message, name: str, watcher: Watcher) -> None:
    if isinstance(message.content, Notice):
        watcher.on_notice(f"{name}: {message.content.text}")
    else:
        watcher.on_report(message.number, message.content)


@final
class _Interrupts:
    """Inside the block, the first interrupt asks the tasks to stop, and the second ends them."""

    def __init__(self, watcher: Watcher) -> None:
        self.stopped = False
        self._watcher = watcher
        self._work: Work | None = None
        self._before: dict[signal.Signals, Any] = {}

    def concern(self, work: Work) -> None:
        """This is the work that they are about."""
        self._work = work

    def __enter__(self) -> _Interrupts:
        self._before = {one: signal.signal(one, self._on_interrupt) for one in INTERRUPTS}
        return self

    def __exit__(self, *_: object) -> None:
        for one, handler in self._before.items():
            signal.signal(one, handler)

    def _on_interrupt(self, _signal: int, _frame: FrameType | None) -> None:
        if self._work is None:
            raise KeyboardInterrupt
        if self.stopped:
            self._work.kill()
            raise KeyboardInterrupt
        self.stopped = True
        self._work.stop()
        self._watcher.on_notice(
            "Stopping where it can be continued; press Ctrl-C again to stop at once."
        )


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
