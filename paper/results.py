"""What was measured, by experiment and seed: read for the exhibits, written as tables."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import final

import numpy as np

from handrail._storage import write_atomically
from handrail._types import Array
from handrail.errors import HandrailError
from handrail.report.statistics import WINDOW, episodes_to_pass
from handrail.runs import Run
from paper.experiment import Experiment, QLearning, Training
from paper.job import Finish, folders_of, read_finish
from paper.prediction import Predicted, read_predicted
from paper.q_learning import EVALUATION, read_metrics
from paper.state_choice import Choices, read_choices
from paper.update_times import Times, read_times

_COLUMNS = ("scores", "steps", "losses", "safe_losses", "violations")
HEADER = ("episode", "score", "steps", "loss", "safe_loss", "violation")


@final
@dataclass(frozen=True)
class Seed:
    """One seed's learning; arrays are (n_episodes,), NaN where there is nothing to say.

    Attributes:
        number: the seed.
        scores: of each episode.
        steps: in the environment up to the end of each episode.
        losses: of each episode's update: of batch and safe returns, or the temporal differences.
        safe_losses: the part of the safe returns; upper bounds make it negative.
        safe_sizes: √ΣG², the size of the safe returns.
        violations: worst of the policy that played each episode.
        message: why it could not go on; empty if it reached its end.
        greedy: scores of the final policy without exploration, if they were measured.
    """

    number: int
    scores: Array
    steps: Array
    losses: Array
    safe_losses: Array
    safe_sizes: Array
    violations: Array
    message: str
    greedy: Array | None = None

    @property
    def first(self) -> float:
        """Average score of the first 100 episodes; NaN if there are fewer."""
        return float(self.scores[:WINDOW].mean()) if len(self.scores) >= WINDOW else float("nan")

    @property
    def last(self) -> float:
        """Average score of the last 100 episodes; NaN if there are fewer."""
        return float(self.scores[-WINDOW:].mean()) if len(self.scores) >= WINDOW else float("nan")


@final
@dataclass(frozen=True)
class Learned:
    """One experiment's learning, all seeds.

    Attributes:
        experiment: what was done.
        pass_mark: the 100-episode average that counts as solved.
        seeds: by number.
    """

    experiment: Experiment
    pass_mark: float
    seeds: tuple[Seed, ...]

    @property
    def label(self) -> str:
        """For legends."""
        return self.experiment.label

    @property
    def diverged(self) -> tuple[Seed, ...]:
        """Those that could not go on."""
        return tuple(seed for seed in self.seeds if seed.message)

    @property
    def worst_violation(self) -> float:
        """Of any policy that acted, over all seeds; NaN where nothing was to be held."""
        known = [seed.violations[~np.isnan(seed.violations)] for seed in self.seeds]
        return max((float(one.max()) for one in known if len(one)), default=float("nan"))

    def table(self, what: str) -> Array:
        """(seeds, episodes) of an attribute of `Seed`, NaN where a seed has fewer episodes."""
        rows = [np.asarray(getattr(seed, what)) for seed in self.seeds]
        table = np.full((len(rows), max(map(len, rows))), np.nan)
        for target, row in zip(table, rows, strict=True):
            target[: len(row)] = row
        return table

    def to_pass(self) -> list[tuple[int, int] | None]:
        """Per seed: episodes and environment steps until a passing 100-episode average is known.

        That is the end of the first such window; None for seeds that never pass.
        """
        found: list[tuple[int, int] | None] = []
        for seed in self.seeds:
            start = episodes_to_pass(seed.scores, self.pass_mark)
            last = None if start is None else start + WINDOW - 1
            found.append(None if last is None else (last + 1, int(seed.steps[last])))
        return found


@final
class Results:
    """What was measured, read when it is asked for.

    Args:
        folder: of the results.
        experiments: that were done, in the size in which they were done.
    """

    def __init__(self, folder: Path, experiments: Sequence[Experiment]) -> None:
        self.experiments = {one.name: one for one in experiments}
        self._folders = {one.name: folders_of(folder, one) for one in experiments}
        self._learned: dict[str, Learned] = {}

    def folders(self, name: str) -> list[Path]:
        """Of the seeds of an experiment."""
        return self._folders[name]

    def learned(self, name: str) -> Learned:
        """A training or Q-learning experiment."""
        if name not in self._learned:
            self._learned[name] = self._read(self.experiments[name])
        return self._learned[name]

    def run(self, name: str, seed: int = 0) -> Run:
        """The run of one seed, with its network."""
        return Run.open(self.folders(name)[seed] / "run")

    def predicted(self, name: str) -> list[Predicted]:
        """Of every seed."""
        return [read_predicted(folder) for folder in self.folders(name)]

    def choices(self, name: str) -> list[Choices]:
        """Of every seed."""
        return [read_choices(folder) for folder in self.folders(name)]

    def times(self, name: str) -> dict[str, Times]:
        """Of the first seed."""
        return read_times(self.folders(name)[0])

    @cached_property
    def seconds(self) -> dict[str, float]:
        """What every experiment took, all seeds together."""
        return {
            name: sum(_finish(folder).seconds for folder in self.folders(name))
            for name in self.experiments
        }

    def _read(self, experiment: Experiment) -> Learned:
        study = experiment.study
        numbered = list(enumerate(self.folders(experiment.name)))
        if isinstance(study, Training):
            mark = study.file().pass_mark
            assert mark is not None  # every file has one
            return Learned(experiment, mark, tuple(_trained(n, f) for n, f in numbered))
        if isinstance(study, QLearning):
            seeds = tuple(_q_learned(n, folder) for n, folder in numbered)
            return Learned(experiment, study.pass_mark, seeds)
        raise HandrailError(f"{experiment.name} has no learning curve.")


def _finish(folder: Path) -> Finish:
    finish = read_finish(folder)
    if finish is None:
        raise HandrailError(f"{folder} is not finished. Run the same command again.")
    return finish


def _numbers(values: Iterable[float | None]) -> Array:
    """With NaN for nothing."""
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _trained(number: int, folder: Path) -> Seed:
    records = Run.open(folder / "run").records()

    def column(name: str) -> Array:
        return _numbers(getattr(record, name) for record in records)

    safe = column("safe_loss")
    return Seed(
        number=number,
        scores=column("score"),
        steps=column("steps"),
        losses=column("batch_loss") + np.nan_to_num(safe),
        safe_losses=safe,
        safe_sizes=column("safe_return_size"),
        violations=column("violation_before"),
        message=_finish(folder).message,
    )


def _q_learned(number: int, folder: Path) -> Seed:
    lines = read_metrics(folder)

    def column(name: str) -> Array:
        return _numbers(line[name] for line in lines)

    nothing = np.full(len(lines), np.nan)
    return Seed(
        number=number,
        scores=column("score"),
        steps=column("steps"),
        losses=column("loss"),
        safe_losses=nothing,
        safe_sizes=nothing,
        violations=nothing,
        message=_finish(folder).message,
        greedy=_read_greedy(folder),
    )


def _read_greedy(folder: Path) -> Array | None:
    """There is none where learning diverged."""
    path = folder / EVALUATION
    return _numbers(json.loads(path.read_text())["scores"]) if path.exists() else None


def write_metrics(learned: Iterable[Learned], folder: Path) -> None:
    """`folder/experiment/seed-0.csv`, …; numbers with five digits, empty where there is nothing."""
    for one in learned:
        target = folder / one.experiment.name
        if target.exists():
            shutil.rmtree(target)  # of more seeds, or of other sizes
        target.mkdir(parents=True)
        for seed in one.seeds:
            write_atomically(target / f"seed-{seed.number}.csv", _table(seed).encode())


def _table(seed: Seed) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADER)
    columns = [getattr(seed, name) for name in _COLUMNS]
    for episode, values in enumerate(zip(*columns, strict=True)):
        writer.writerow([episode, *(_cell(value) for value in values)])
    return text.getvalue()


def _cell(value: float) -> str:
    if not np.isfinite(value):
        return ""
    return f"{value:.0f}" if value == round(value) and abs(value) < 1e9 else f"{value:.5g}"
