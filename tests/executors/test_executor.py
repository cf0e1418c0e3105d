"""Tasks elsewhere: they report, stop when asked to, and fail in words."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import pytest

from handrail.errors import InvalidArgument
from handrail.executors import ProcessExecutor
from handrail.executors.executor import End, Executor, Message, Task, Watcher, Work

# Far less than what is interrupted would take, far more than ending it takes on a busy machine.
IN_TIME = 300.0


@final
@dataclass(frozen=True)
class Counting(Task):
    """Reports numbers, and is slow enough to be stopped."""

    number: int
    upto: int = 3
    seconds: float = 0.0
    failure: str = ""

    @property
    def name(self) -> str:
        return f"task {self.number}"

    def run(self, report: Callable[[Any], None], stop: Callable[[], bool]) -> None:
        for count in range(self.upto):
            if stop():
                return
            report((self.number, count))
            time.sleep(self.seconds)
        if self.failure:
            raise InvalidArgument(self.failure)


@final
@dataclass(frozen=True)
class Dying(Task):
    """Its process is killed."""

    @property
    def name(self) -> str:
        return "dying"

    def run(self, report: Callable[[Any], None], stop: Callable[[], bool]) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


@final
@dataclass
class Notes(Watcher):
    """Keeps what it is told."""

    reports: list[tuple[int, Any]] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    on_first: Callable[[], None] | None = None

    def on_report(self, number: int, message: Any) -> None:
        self.reports.append((number, message))
        if self.on_first is not None and len(self.reports) == 1:
            self.on_first()

    def on_end(self, number: int) -> None:
        self.ends.append(number)

    def on_notice(self, text: str) -> None:
        self.notices.append(text)


def test_everything_that_tasks_report_arrives_before_they_end() -> None:
    notes = Notes()
    tasks = [Counting(0, upto=120), Counting(1), Counting(2, failure="it cannot be.")]
    outcome = ProcessExecutor(processes=2).run(tasks, notes)
    assert not outcome.stopped
    assert outcome.failures == ("task 2: it cannot be.",)
    for number, upto in ((0, 120), (1, 3), (2, 3)):
        told = [message for one, message in notes.reports if one == number]
        assert told == [(number, count) for count in range(upto)]
    assert sorted(notes.ends) == [0, 1, 2]
    assert not notes.notices


def test_nothing_to_do() -> None:
    assert ProcessExecutor(4).run([], Notes()).failures == ()


def test_modules_are_imported_where_the_tasks_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "leaves_a_mark.py").write_text(
        f"from pathlib import Path\nPath({str(tmp_path / 'mark')!r}).touch()\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert not ProcessExecutor(1, ["leaves_a_mark"]).run([Counting(0)], Notes()).failures
    assert (tmp_path / "mark").exists()


def test_a_process_that_is_killed() -> None:
    outcome = ProcessExecutor(1).run([Dying(), Counting(1)], Notes())
    assert not outcome.stopped
    assert outcome.failures == (
        "A process was killed, perhaps for want of memory. What was recorded is kept.",
    )


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def test_an_interrupt_ends_tasks_where_they_can_be_continued() -> None:
    notes = Notes(on_first=interrupt)
    before = signal.getsignal(signal.SIGINT)
    outcome = ProcessExecutor(1).run([Counting(0, 500, 0.02), Counting(1)], notes)
    assert outcome.stopped
    assert not outcome.failures
    assert len(notes.reports) < 400
    assert all(number == 0 for number, _ in notes.reports)  # the other one never began
    assert sorted(notes.ends) == [0, 1]
    assert notes.notices == [
        "Stopping where it can be continued; press Ctrl-C again to stop at once."
    ]
    assert signal.getsignal(signal.SIGINT) is before


@final
@dataclass(frozen=True)
class Hanging(Task):
    """Waits for something that does not come, and may or may not be interrupted there."""

    costs_nothing: bool = False

    @property
    def name(self) -> str:
        return "hanging"

    def run(self, report: Callable[[Any], None], stop: Callable[[], bool]) -> None:
        report("waiting")
        try:
            self.step()
        except KeyboardInterrupt as interrupt:
            raise KeyboardInterrupt("Interrupted in its step.") from interrupt

    def step(self) -> None:
        for _ in range(100):
            time.sleep(0.2 if not self.costs_nothing else 3600.0)

    def can_be_interrupted(self) -> bool:
        return self.costs_nothing


def test_a_task_that_hangs_says_where() -> None:
    notes = Notes(on_first=interrupt)

    def again() -> None:
        while len(notes.notices) < 2:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=again).start()
    with pytest.raises(KeyboardInterrupt):
        ProcessExecutor(1).run([Hanging()], notes)
    assert re.fullmatch(
        r"hanging: It still waits for step \(.*test_executor.py, line \d+\). Press Ctrl-C again to "
        r"stop at once.",
        notes.notices[1],
    )


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="this system has no such signals")
def test_what_hangs_is_interrupted_where_that_costs_nothing() -> None:
    notes, start = Notes(on_first=interrupt), time.monotonic()
    outcome = ProcessExecutor(1).run([Hanging(costs_nothing=True)], notes)
    assert outcome.stopped
    assert not outcome.failures
    assert notes.notices[1:] == ["hanging: Interrupted in its step."]
    assert time.monotonic() - start < IN_TIME


@final
@dataclass(frozen=True)
class Deaf(Task):
    """Does not ask whether it should stop."""

    @property
    def name(self) -> str:
        return "deaf"

    def run(self, report: Callable[[Any], None], stop: Callable[[], bool]) -> None:
        report("begun")
        time.sleep(3600)


def test_a_second_interrupt_ends_everything_at_once() -> None:
    def twice() -> None:
        interrupt()
        interrupt()

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        ProcessExecutor(1).run([Deaf()], Notes(on_first=twice))
    assert time.monotonic() - start < IN_TIME


def test_a_watcher_that_fails_leaves_nobody_at_work() -> None:
    def fail() -> None:
        raise RuntimeError("planted")

    start = time.monotonic()
    with pytest.raises(RuntimeError, match="planted"):
        ProcessExecutor(1).run([Counting(0, 100_000, 0.05)], Notes(on_first=fail))
    assert time.monotonic() - start < IN_TIME


@final
class Threads(Executor):
    """Another place, in a few lines: what an executor has to bring."""

    def begin(self, tasks: Sequence[Task]) -> Work:
        return Running(tasks)


@final
class Running(Work):
    """One task after the other, in one thread."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._events: list[Message | End] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._all, args=(tasks,))
        self._thread.start()

    def _all(self, tasks: Sequence[Task]) -> None:
        for i, task in enumerate(tasks):
            if not self._stop.is_set():
                task.run(
                    lambda message, i=i: self._events.append(Message(i, message)),  # type: ignore[misc]
                    self._stop.is_set,
                )
            self._events.append(End(i, None))

    def events(self) -> Iterable[Message | End]:
        time.sleep(0.01)
        while self._events:
            yield self._events.pop(0)

    def stop(self) -> None:
        self._stop.set()

    def kill(self) -> None:
        self._stop.set()

    def close(self) -> None:
        self._thread.join()


@pytest.mark.parametrize("stopped", [False, True])
def test_another_executor(stopped: bool) -> None:
    notes = Notes(on_first=interrupt if stopped else None)
    outcome = Threads().run([Counting(0, 20, 0.02), Counting(1)], notes)
    assert outcome.stopped is stopped
    assert sorted(notes.ends) == [0, 1]
    assert len(notes.notices) == stopped
    assert (len(notes.reports) == 23) is not stopped
