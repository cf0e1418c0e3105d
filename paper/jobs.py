"""One seed of one experiment, done in a process of its own and never twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, final

from handrail.errors import (
    Diverged,
    HandrailError,
    InfeasibleConstraints,
    SolverFailure,
    StorageFailure,
    UnsatisfiedConstraints,
)
from handrail.learning.record import Record, Seconds
from handrail.runs.executor import Task
from handrail.runs.run import Run, is_run
from paper.cache import folders_of, read_finish, read_spent, write_finish, write_spent
from paper.choosing_states import choose_all
from paper.definitions import Experiment
from paper.predicting import predict_all
from paper.q_learning import learn_q, steps_learned
from paper.studies import Choosing, Prediction, QLearning, Training, UpdateTimes
from paper.timing import time_all

Say = Callable[[float], None]
Stop = Callable[[], bool]
# A learner that cannot go on is a result, and a claim may depend on it; anything else is a failure.
_RESULTS = (InfeasibleConstraints, UnsatisfiedConstraints, SolverFailure, Diverged)


@final
@dataclass(frozen=True)
class Job(Task):
    """One seed of one experiment.

    Attributes:
        experiment: what to do.
        seed: of everything.
        folder: where its results are kept.
    """

    experiment: Experiment
    seed: int
    folder: Path

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self.experiment.name}, seed {self.seed}"

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        return read_finish(self.folder) is not None

    def run(self, say: Callable[[Any], None], stop: Stop) -> None:
        """Do it, or what is left of it, and say how much of it is done, from 0 to 1."""
        try:
            if not self.done:
                self._run(say, stop)
        except OSError as error:
            raise StorageFailure(
                f"{self.folder}: {error.strerror or error}. What was finished is kept: make room, "
                "then run the same command again."
            ) from error

    def _run(self, say: Say, stop: Stop) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        start, before = monotonic(), read_spent(self.folder)
        say(self._done_before())
        finished, message = self._outcome(say, stop)
        spent = before + monotonic() - start
        if finished:
            write_finish(self.folder, message, spent)
        else:
            write_spent(self.folder, spent)

    def _outcome(self, say: Say, stop: Stop) -> tuple[bool, str]:
        """Whether it is finished, and why a learner could not go on."""
        try:
            return self._work(say, stop), ""
        except _RESULTS as error:
            if not isinstance(self.experiment.study, Training | QLearning):
                raise  # of the other studies nothing is left that could be shown
            return True, str(error)

    def _done_before(self) -> float:
        """How much of it earlier sittings did, from 0 to 1."""
        study, run = self.experiment.study, self.folder / "run"
        if isinstance(study, Training) and is_run(run):
            return len(Run.open(run).records()) / study.episodes
        if isinstance(study, QLearning):
            return steps_learned(self.folder) / study.timesteps
        return 0.0

    def _work(self, say: Say, stop: Stop) -> bool:
        """False if it was asked to stop; studies of seconds or a few minutes are not asked."""
        study = self.experiment.study
        match study:
            case Training():
                return _train(study, self.seed, self.folder / "run", say, stop)
            case QLearning():
                return learn_q(study, self.seed, self.folder, say, stop)
            case Prediction():
                predict_all(study, self.seed, self.folder, say)
            case Choosing():
                choose_all(study, self.seed, self.folder, say)
            case UpdateTimes():
                time_all(study, self.seed, self.folder, say)
            case _:
                raise HandrailError(f"Nobody knows how to do a {type(study).__name__}.")
        return True


def jobs_of(experiment: Experiment, results: Path) -> list[Job]:
    """One per seed, done or not."""
    folders = folders_of(results, experiment)
    return [Job(experiment, seed, folder) for seed, folder in enumerate(folders)]


def _train(study: Training, seed: int, folder: Path, say: Say, stop: Stop) -> bool:
    """A run, resumed bit for bit where it was."""
    run = Run.open(folder) if is_run(folder) else Run.create(folder, study.rulebook(seed))

    def watch(record: Record, _: Seconds) -> None:
        say((record.episode + 1) / study.episodes)

    return run.learn(watch, stop).episodes >= study.episodes
