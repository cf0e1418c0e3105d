"""A policy that learns while one watches: an ordinary run; and runs to compare with.

What is learned here outlives the page: `handrail show`, `resume` and the studio open the run.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, final

from typing_extensions import override

from handrail._types import Array
from handrail.errors import HandrailError, InvalidPolicy
from handrail.studio.engine import Inbox, Job, Report
from handrail.studio.messages import Note, Trained

if TYPE_CHECKING:  # torch is for the process that computes
    from handrail.learning import Learner, Record
    from handrail.policies import Policy
    from handrail.rulebook import Rulebook
    from handrail.studio.workbench import Workbench

# Seconds between two reports: a page needs no more.
_BETWEEN = 0.15

# How much learning a kill may cost; it is done again when the run is resumed.
_CHECKPOINT_SECONDS = 2.0

_MOST_RUNS = 100


@final
@dataclass(frozen=True)
class TrainPolicy(Job):
    """Learn from a policy on, under the constraints of a text or without.

    Attributes:
        text: of the constraint file.
        weights: to begin from.
        episodes: how many.
        free: measure the constraints, but do not hold them.
        runs: the folder in which the run gets one of its own.
        modules: that register the user's environments.
    """

    text: str
    weights: Sequence[Array]
    episodes: int
    free: bool
    runs: Path
    modules: Sequence[str] = ()

    urgency: ClassVar[int] = 0

    @override
    def run(self, bench: Workbench, inbox: Inbox, report: Report) -> None:
        from handrail.rulebook import with_settings  # noqa: PLC0415
        from handrail.studio.stage import weights_of  # noqa: PLC0415

        book, policy = bench.on_stage(self.text, self.weights)
        changes = {"enforcement": "none", "soft": False} if self.free else {}
        book = with_settings(book, episodes=self.episodes, **changes)
        watch = _Watcher(_label(self.free), self.episodes, inbox, report)
        try:
            agent = self._recorded(policy, book, watch)
        except InvalidPolicy as error:
            report(Note(what="said", text=f"No run is written. {error}"))
            agent = self._unrecorded(policy, book, watch)
        watch.end()
        if not self.free:
            report(TrainedWeights(weights_of(agent.policy)))

    def _recorded(self, policy: Policy, book: Rulebook, watch: _Watcher) -> Learner:
        from handrail.runs import free_folder, seed_folder, start_run_from  # noqa: PLC0415

        group = free_folder(f"{book.name}{'-without-rules' if self.free else ''}", self.runs)
        folder = seed_folder(group, book.settings.seed)
        run = start_run_from(policy, folder, book, self.modules)
        watch.folder = str(folder)
        return run.learn(lambda record, _: watch.saw(record), watch.is_stopped, _CHECKPOINT_SECONDS)

    def _unrecorded(self, policy: Policy, book: Rulebook, watch: _Watcher) -> Learner:
        """Of a network that the file does not describe, such as that of a model."""
        from handrail.learning import Reinforce  # noqa: PLC0415

        def after_episode(_: object, record: Record, __: object) -> bool:
            watch.saw(record)
            return not watch.is_stopped()

        env = book.make_environment()
        try:
            agent = Reinforce.with_settings(env, policy, book, book.settings.learner)
            agent.learn(self.episodes, progress_bar=False, callbacks=[after_episode])
        finally:
            env.close()
        return agent


def _label(free: bool) -> str:
    return "without rules" if free else "with rules"


@final
@dataclass(frozen=True)
class TrainedWeights:
    """Of a policy that has learned under the constraints."""

    arrays: Sequence[Array]


@final
class _Watcher:
    """Tells the page what a training has recorded so far; and the training to pause or stop.

    Attributes:
        folder: of the run; empty if there is none.
    """

    def __init__(self, label: str, wanted: int, inbox: Inbox, report: Report) -> None:
        self._label, self._wanted, self._inbox, self._report = label, wanted, inbox, report
        self._records: list[Record] = []
        self._told = ("", 0, 0.0)
        self.folder = ""

    def is_stopped(self) -> bool:
        return self._inbox.stopped.is_set()

    def saw(self, record: Record) -> None:
        """One more episode; waits while the training is paused."""
        self._records.append(record)
        if time.monotonic() - self._told[2] > _BETWEEN:
            self._tell("running")
        while self._inbox.paused.is_set() and not self.is_stopped():
            self._tell("paused")
            time.sleep(0.1)

    def end(self) -> None:
        """There will be no more."""
        self._tell("stopped" if self.is_stopped() else "done")

    def _tell(self, status: Literal["running", "paused", "stopped", "done"]) -> None:
        """Unless that is what was told last."""
        if self._told[:2] != (status, len(self._records)):
            self._told = (status, len(self._records), time.monotonic())
            self._report(curve_of(self._label, self._wanted, self._records, status, self.folder))


def curve_of(
    label: str,
    wanted: int,
    records: Sequence[Record],
    status: Literal["running", "paused", "stopped", "done"],
    folder: str = "",
) -> Trained:
    """Records as curves."""
    return Trained(
        label=label,
        wanted=wanted,
        scores=[one.score for one in records],
        violations=[one.violation_after for one in records],
        influences=[one.influence for one in records],
        status=status,
        folder=folder,
    )


@final
@dataclass(frozen=True)
class FoundRuns:
    """Folders of runs, the newest first."""

    folders: Sequence[Path]


@final
@dataclass(frozen=True)
class FindRuns(Job):
    """What there is to compare with in a folder of runs."""

    runs: Path

    urgency: ClassVar[int] = 1
    is_question: ClassVar[bool] = True

    @override
    def run(self, bench: Workbench, inbox: Inbox, report: Report) -> None:
        from handrail.runs import is_run  # noqa: PLC0415

        inside = [one for pattern in ("*", "*/*") for one in self.runs.glob(pattern)]
        found = [one for one in inside if is_run(one)]
        found.sort(key=lambda one: one.stat().st_mtime, reverse=True)
        report(FoundRuns(found[:_MOST_RUNS]))


@final
@dataclass(frozen=True)
class TellRun(Job):
    """The curves of a run, to compare with."""

    folder: Path

    urgency: ClassVar[int] = 1
    is_question: ClassVar[bool] = True

    @override
    def run(self, bench: Workbench, inbox: Inbox, report: Report) -> None:
        from handrail.runs import only_run  # noqa: PLC0415

        try:
            records = only_run(self.folder, "The studio compares with one run").records()
        except HandrailError as error:
            report(Note(what="failed", text=str(error)))
            return
        folder = str(self.folder)
        report(curve_of(compared_label(folder), len(records), records, "done", folder))


def compared_label(folder: str) -> str:
    """What its curves are called."""
    return f"run {folder}"
