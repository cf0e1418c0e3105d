"""A process that does the mathematics, beside the one that serves the page.

Of every kind of job only the newest is kept: while a hand drags, answers come as fast as they can,
each about what was newest when it was begun, and nothing queues up. A job that takes long looks now
and then whether a newer one waits. What hangs all the same is ended with its process, and another
one begins where the text is.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, final

from handrail.errors import HandrailError
from handrail.rulebook import Files
from handrail.studio.messages import Note

if TYPE_CHECKING:  # torch is for the process that computes: the server starts without it
    from handrail.studio.workbench import Workbench

Report = Callable[[Any], None]


@final
class Superseded(Exception):
    """Somebody has moved on: what is being computed is wanted no longer."""


@final
@dataclass(frozen=True)
class Target:
    """What the page was opened on.

    Attributes:
        text: of the constraint file.
        name: what messages call it.
        policy: a run, a saved learner or a model, whose policy it is about; None for a fresh one.
        files: where array files are that the text refers to: a folder, or their contents by name.
    """

    text: str
    name: str
    policy: Path | None = None
    files: Files = "."


class Job(ABC):
    """Something to be done by the process of an engine."""

    urgency: ClassVar[int]
    """The most urgent first: answers to a hand before proofs."""

    is_question: ClassVar[bool] = False
    """Whether it changes nothing: then it is answered in the midst of a job that takes long."""

    @abstractmethod
    def run(self, bench: Workbench, inbox: Inbox, report: Report) -> None:
        """Do it.

        Args:
            bench: what there is to work with, kept from job to job.
            inbox: to look whether something more urgent waits, and to leave further work in.
            report: tells the server; a message for the page, or anything else.
        """


@final
class Inbox:
    """Jobs that wait, one of each kind at most."""

    def __init__(self) -> None:
        self._waiting: dict[type[Job], Job] = {}
        self._changed = threading.Condition()
        self.stopped = threading.Event()
        self.paused = threading.Event()

    def put(self, job: Job) -> None:
        """Instead of one of the same kind that was not begun yet."""
        with self._changed:
            self.stopped.clear()
            self.paused.clear()
            self._waiting[type(job)] = job
            self._changed.notify()

    def hear(self, signal: Signal) -> None:
        """What the job that is under way is told; each looks for it where it can stop."""
        if signal.what == "stop":
            self.stopped.set()
        if signal.what == "pause":
            self.paused.set()
        else:
            self.paused.clear()

    def take(self) -> Job:
        """The most urgent one; waits for one."""
        with self._changed:
            while not self._waiting:
                self._changed.wait()
            chosen = min(self._waiting.values(), key=lambda job: job.urgency)
            return self._waiting.pop(type(chosen))

    def attend(self, job: Job, bench: Workbench, report: Report) -> None:
        """In the midst of a job: answer questions; `Superseded` where nobody waits for it now."""
        with self._changed:
            waiting = list(self._waiting.values())
            questions = [one for one in waiting if one.is_question]
            others = [one for one in waiting if not one.is_question]
            if any(one.urgency < job.urgency or type(one) is type(job) for one in others):
                raise Superseded
            for one in questions:
                del self._waiting[type(one)]
        for one in questions:
            perform(one, bench, self, report)


def perform(job: Job, bench: Workbench, inbox: Inbox, report: Report) -> None:
    """Do a job; what goes wrong with it is told."""
    try:
        job.run(bench, inbox, report)
    except Superseded:
        return
    except HandrailError as error:
        report(Note(what="failed", text=str(error)))
    except Exception as error:  # of somebody's environment, or ours: the page goes on
        report(Note(what="failed", text=f"{type(error).__name__}: {error}"))


@final
@dataclass(frozen=True)
class Signal:
    """To a job that is under way: "stop", "pause" or "go_on"."""

    what: str


@final
@dataclass(frozen=True)
class Ended:
    """The process is gone, though nobody asked it to go."""

    code: int | None


@final
class Engine:
    """The server's side of such a process.

    Args:
        target: what the page was opened on.
        modules: that register the user's environments.
        report: is called with everything that jobs report, in a thread of the engine.
    """

    def __init__(self, target: Target, modules: Sequence[str], report: Report) -> None:
        self._target, self._modules, self._report = target, tuple(modules), report
        self._context = multiprocessing.get_context("spawn")
        self._connection: Connection | None = None
        self._process: Any = None

    def submit(self, job: Job) -> None:
        """Do it, instead of an older one of its kind that was not begun."""
        self._send(job)

    def signal(self, what: str) -> None:
        """To whatever is under way; nothing is begun for it."""
        if self.is_alive:
            self._send(Signal(what))

    @property
    def is_alive(self) -> bool:
        """Whether there is a process."""
        return self._process is not None and bool(self._process.is_alive())

    def _send(self, message: Job | Signal) -> None:
        if not self.is_alive:
            self._begin()
        assert self._connection is not None
        try:
            self._connection.send(message)
        except OSError:  # it has just ended: whoever listens is told
            return

    def _begin(self) -> None:
        here, there = self._context.Pipe()
        self._process = self._context.Process(
            target=_work, args=(there, self._target, self._modules), daemon=True
        )
        self._process.start()
        there.close()
        self._connection = here
        threading.Thread(target=self._listen, args=(here, self._process), daemon=True).start()

    def _listen(self, connection: Connection, process: Any) -> None:
        while True:
            try:
                self._report(connection.recv())
            except (EOFError, OSError):
                break
        process.join()
        if process is self._process:  # nobody has ended it
            self._process = None
            self._report(Ended(process.exitcode))

    def end(self) -> None:
        """Whatever it does; the next job begins another process."""
        process, self._process = self._process, None
        if process is not None and process.is_alive():
            process.kill()
            process.join()


def _work(connection: Connection, target: Target, modules: Sequence[str]) -> None:
    """Of the process: jobs until the server is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's to answer
    if "" not in sys.path:
        sys.path.insert(0, "")
    inbox, sending = Inbox(), threading.Lock()

    def report(message: Any) -> None:
        with sending:
            try:
                connection.send(message)
            except OSError:
                os._exit(0)

    threading.Thread(target=_receive, args=(connection, inbox), daemon=True).start()
    for module in modules:
        import_module(module)
    from handrail.studio.workbench import Workbench  # noqa: PLC0415  (waits for torch)

    bench = Workbench(target)
    while True:
        perform(inbox.take(), bench, inbox, report)


def _receive(connection: Connection, inbox: Inbox) -> None:
    """Also while a job is under way; without a server there is nothing left to do."""
    while True:
        try:
            message = connection.recv()
        except (EOFError, OSError):
            os._exit(0)
        if isinstance(message, Signal):
            inbox.hear(message)
        else:
            inbox.put(message)
