"""One seed of one experiment: done in a process of its own, kept, and never done twice.

Results are kept under the content of their definition. A study that changes in any way, or the
constraint file that it names, has another folder, so results of different things are never mixed,
and what was computed once is not computed again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any, final

from handrail._package import VERSION
from handrail._storage import read_sealed, to_json, write_sealed
from handrail.errors import (
    Diverged,
    HandrailError,
    InfeasibleConstraints,
    SolverFailure,
    StorageFailure,
    UnsatisfiedConstraints,
)
from handrail.executors import FolderTask
from handrail.learning import Record, Seconds
from handrail.runs import Run, is_run
from paper.experiment import (
    Experiment,
    Prediction,
    QLearning,
    StateChoice,
    Training,
    UpdateTimes,
)
from paper.prediction import measure_predictions
from paper.q_learning import learn_q, steps_learned
from paper.state_choice import measure_choices
from paper.update_times import measure_times

Progress = Callable[[float], None]
Stop = Callable[[], bool]

OUTCOME, SPENT = "outcome.json", "spent.json"
# A learner that cannot go on is a result, and a claim may depend on it; anything else is a failure.
_RESULTS = (InfeasibleConstraints, UnsatisfiedConstraints, SolverFailure, Diverged)
_TELLING = 0.03  # of a job: before that much is done, its pace says nothing


# What is kept


@final
@dataclass(frozen=True)
class Finish:
    """How one seed ended.

    Attributes:
        message: why the learner could not go on; empty if it reached its end.
        seconds: that it took, over all sittings.
    """

    message: str
    seconds: float


def key_of(experiment: Experiment) -> str:
    """Of everything that the results depend on, apart from the seed."""
    content = to_json({"version": VERSION, **experiment.study.inputs()})
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def folders_of(results: Path, experiment: Experiment) -> list[Path]:
    """Where the results of each seed are, or will be."""
    group = results / "runs" / f"{experiment.name}-{key_of(experiment)}"
    return [group / f"seed-{seed}" for seed in range(experiment.seeds)]


def read_finish(folder: Path) -> Finish | None:
    """How the seed ended; None if it has not."""
    return Finish(**read_sealed(folder / OUTCOME)) if (folder / OUTCOME).exists() else None


def write_finish(folder: Path, message: str, seconds: float) -> None:
    """Nothing is left to do for this seed."""
    write_sealed(folder / OUTCOME, asdict(Finish(message, seconds)))


def read_spent(folder: Path) -> float:
    """Seconds spent in earlier sittings."""
    return float(read_sealed(folder / SPENT)["seconds"]) if (folder / SPENT).exists() else 0.0


def write_spent(folder: Path, seconds: float) -> None:
    """This sitting ends before the study does."""
    write_sealed(folder / SPENT, {"seconds": seconds})


# Jobs


@final
@dataclass(frozen=True)
class Job(FolderTask):
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

    def run(self, report: Callable[[Any], None], stop: Stop) -> None:
        """Do it, or what is left of it, and report how much of it is done, from 0 to 1."""
        try:
            if not self.done:
                self._run(report, stop)
        except OSError as error:
            raise StorageFailure(
                f"{self.folder}: {error.strerror or error}. What was finished is kept: make room, "
                "then run the same command again."
            ) from error

    def _run(self, report: Progress, stop: Stop) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        start, before = monotonic(), read_spent(self.folder)
        report(self._done_before())
        finished, message = self._outcome(report, stop)
        spent = before + monotonic() - start
        if finished:
            write_finish(self.folder, message, spent)
        else:
            write_spent(self.folder, spent)

    def _outcome(self, report: Progress, stop: Stop) -> tuple[bool, str]:
        """Whether it is finished, and why a learner could not go on."""
        try:
            return self._work(report, stop), ""
        except _RESULTS as error:
            if not isinstance(self.experiment.study, Training | QLearning):
                raise  # of the other studies nothing is left that could be shown
            return True, str(error)

    def moved(self, folder: Path) -> Job:
        """The same job with its results elsewhere."""
        return replace(self, folder=folder)

    def progress(self) -> float:
        """How much would not be done again, from 0 to 1."""
        study, run = self.experiment.study, self.folder / "run"
        if isinstance(study, Training) and is_run(run):
            return Run.open(run).saved_episodes / study.episodes
        return self._done_before()

    def _done_before(self) -> float:
        """How much of it earlier sittings did, from 0 to 1."""
        study, run = self.experiment.study, self.folder / "run"
        if isinstance(study, Training) and is_run(run):
            return len(Run.open(run).records()) / study.episodes
        if isinstance(study, QLearning):
            return steps_learned(self.folder) / study.timesteps
        return 0.0

    def _work(self, report: Progress, stop: Stop) -> bool:
        """False if it was asked to stop; studies of seconds or a few minutes are not asked."""
        study = self.experiment.study
        match study:
            case Training():
                return _train(study, self.seed, self.folder / "run", report, stop)
            case QLearning():
                return learn_q(study, self.seed, self.folder, report, stop)
            case Prediction():
                measure_predictions(study, self.seed, self.folder, report)
            case StateChoice():
                measure_choices(study, self.seed, self.folder, report)
            case UpdateTimes():
                measure_times(study, self.seed, self.folder, report)
            case _:
                raise HandrailError(f"Nobody knows how to do a {type(study).__name__}.")
        return True


def jobs_of(experiment: Experiment, results: Path) -> list[Job]:
    """One per seed, done or not."""
    folders = folders_of(results, experiment)
    return [Job(experiment, seed, folder) for seed, folder in enumerate(folders)]


def _train(study: Training, seed: int, folder: Path, report: Progress, stop: Stop) -> bool:
    """A run, resumed bit for bit where it was."""
    run = Run.open(folder) if is_run(folder) else Run.create(folder, study.rulebook(seed))

    def watch(record: Record, _: Seconds) -> None:
        report((record.episode + 1) / study.episodes)

    return run.learn(watch, stop).episodes >= study.episodes


# How long it will still take: from what jobs of the same experiment took, else from a guess


@final
@dataclass(frozen=True)
class Standing:
    """How far one job is.

    Attributes:
        experiment: its name; jobs of the same one take about the same time.
        guess: seconds it was thought to take.
        fraction: done, from 0 to 1.
        elapsed: seconds since it began, or was taken up again; None if it has not.
        before: what was done of it when it was taken up.
    """

    experiment: str
    guess: float
    fraction: float
    elapsed: float | None
    before: float = 0.0

    @property
    def pace(self) -> float | None:
        """Seconds for the whole of it, going by what is done; None if that says nothing yet."""
        done = self.fraction - self.before
        if self.elapsed is None or done < _TELLING:
            return None
        return self.elapsed / done


def seconds_left(standings: Sequence[Standing], processes: int) -> float:
    """Until the last job ends, so many at a time."""
    expected = _expected(standings)
    left = [e * (1.0 - one.fraction) for e, one in zip(expected, standings, strict=True)]
    return max(sum(left) / processes, max(left, default=0.0))


def share_done(standings: Sequence[Standing]) -> float:
    """How much of all work is done, from 0 to 1."""
    expected = _expected(standings)
    done = sum(e * one.fraction for e, one in zip(expected, standings, strict=True))
    return done / sum(expected) if expected else 1.0


def _expected(standings: Sequence[Standing]) -> list[float]:
    """Seconds that each job takes: by its own pace, by that of its like, or by the guess.

    Guesses are corrected by how much slower than guessed everything is that has a pace: this
    machine, today.
    """
    known = [(one, pace) for one in standings if (pace := one.pace) is not None]
    like: dict[str, list[float]] = {}
    for one, pace in known:
        like.setdefault(one.experiment, []).append(pace)
    usual = {name: sum(paces) / len(paces) for name, paces in like.items()}
    guessed = sum(one.guess for one, _ in known)
    correction = sum(pace for _, pace in known) / guessed if known else 1.0
    return [
        pace
        if (pace := one.pace) is not None
        else usual.get(one.experiment, one.guess * correction)
        for one in standings
    ]
