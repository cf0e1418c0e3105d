"""Searches: Optuna proposes settings, and those that fall behind are not learned to their end.

Every trial is a group of ordinary runs in the folder of the sweep, named after its settings. All
runs of some trials learn to a quarter of their episodes, then to the next; after each, trials whose
score so far is below the median of earlier ones are pruned: what they learned stays. Optuna
keeps its study in a journal in the same folder, so that a search that was stopped goes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, final

import numpy as np

from handrail._storage import only_process
from handrail.errors import HandrailError, InvalidArgument
from handrail.executors import Outcome
from handrail.rulebook import Rulebook, digests
from handrail.runs.group import Group
from handrail.runs.run import Run
from handrail.runs.sweep import Axis, Choice, start_sweep, text_of
from handrail.settings import setting_name, setting_path

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import Trial

JOURNAL = "study.log"
_STAGES = 4
_DIGITS = 4  # of a number that is proposed: a folder is named after it

Learn: TypeAlias = Callable[[Sequence[Run], int], Outcome]
"""Learns runs until an episode."""


@final
@dataclass(frozen=True)
class Span:
    """A setting and the range in which its value is searched: of whole numbers, if both ends are.

    Attributes:
        name: of the setting.
        low: the smallest value.
        high: the largest.
        log: every power of ten is as probable as the next.
    """

    name: str
    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        if not self.low < self.high or (self.log and self.low <= 0):
            above = "0 < " if self.log else ""
            raise InvalidArgument(
                f"{self.name}={self.low:g}..{self.high:g}: expected a range with {above}low < high."
            )


Space: TypeAlias = Sequence[Axis | Span]


@final
@dataclass(frozen=True)
class SearchTrial:
    """A trial of a search.

    Attributes:
        number: in the order they were proposed in.
        choice: its settings.
        state: complete, pruned, fail or running.
        score: the mean over seeds of the average score of the last episodes: of all that it was to
            learn from, or of those until it was pruned.
        folder: of its group.
    """

    number: int
    choice: Choice
    state: str
    score: float | None
    folder: Path


@final
@dataclass(frozen=True)
class Search:
    """A search for the settings with the highest score.

    Attributes:
        folder: of the sweep.
        rulebook: what to learn under.
        space: where to search.
        seeds: runs per trial.
        last: the average score of so many episodes at the end is a run's score.
        modules: that register the environment.
    """

    folder: Path
    rulebook: Rulebook
    space: Space
    seeds: int
    last: int
    modules: tuple[str, ...] = ()
    _names: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        names = tuple(setting_name(setting_path(one.name)) for one in self.space)
        if len(set(names)) < len(names) or "seed" in names:
            raise InvalidArgument(f"Search every setting once, and no seed: {', '.join(names)}.")
        object.__setattr__(self, "_names", names)
        for one in self.space:
            ends = one.values if isinstance(one, Axis) else (one.low, one.high)
            for value in ends:
                Choice.of({one.name: value}).applied_to(self.rulebook)

    def run(self, trials: int, at_once: int, learn: Learn) -> Outcome:
        """Go on until so many trials have ended.

        Args:
            trials: in all, those of earlier calls included.
            at_once: whose runs are learned together.
            learn: learns runs until an episode, wherever there is room.
        """
        failures: list[str] = []
        self.folder.mkdir(parents=True, exist_ok=True)
        with only_process(self.folder, "searching"), _quietly():
            study = self._study()
            while batch := self._batch(study, trials, at_once):
                outcome = self._try(study, batch, learn)
                failures += outcome.failures
                if outcome.stopped:
                    return Outcome(stopped=True, failures=tuple(failures))
        return Outcome(stopped=False, failures=tuple(failures))

    def trials(self) -> list[SearchTrial]:
        """Those that there are, the best first; what is not complete comes last."""
        with _quietly():
            found = self._study().get_trials(deepcopy=False)
        listed = []
        for one in found:
            choice = self._choice(one.params)
            reported = one.intermediate_values
            score = one.value if one.value is not None else reported.get(max(reported, default=0))
            folder = self.folder / str(choice)
            state = one.state.name.lower()
            listed.append(SearchTrial(one.number, choice, state, score, folder))
        return sorted(listed, key=_place)

    def _study(self) -> Study:
        optuna = _optuna()
        path = self.folder / JOURNAL
        # Not Optuna's usual lock, a symbolic link: in a folder of runs, there is none.
        lock = optuna.storages.journal.JournalFileOpenLock(str(path))
        backend = optuna.storages.journal.JournalFileBackend(str(path), lock_obj=lock)
        study: Study = optuna.create_study(
            storage=optuna.storages.JournalStorage(backend),
            study_name=self.rulebook.name,
            sampler=optuna.samplers.TPESampler(seed=self.rulebook.settings.seed),
            pruner=optuna.pruners.MedianPruner(),
            direction="maximize",
            load_if_exists=True,
        )
        self._refuse_other(study)
        return study

    def _refuse_other(self, study: Study) -> None:
        """Scores of one study are of the same constraints, settings, seeds and space."""
        asked = {
            "constraints": self.rulebook.text,
            "states": digests(self.rulebook.arrays),
            "settings": self.rulebook.settings.model_dump_json(),
            "space": {name: str(one) for name, one in self._distributions().items()},
            "seeds": self.seeds,
            "last": self.last,
        }
        begun = study.user_attrs
        for name, value in asked.items():
            if name in begun and begun[name] != value:
                raise InvalidArgument(
                    f"{self.folder} holds a search with other {name}. Go on with the same ones, or "
                    "choose another folder with --out."
                )
            if name not in begun:
                study.set_user_attr(name, value)

    def _distributions(self) -> dict[str, BaseDistribution]:
        return dict(zip(self._names, map(_distribution, self.space), strict=True))

    def _batch(self, study: Study, trials: int, at_once: int) -> list[Trial]:
        """Those that were interrupted, then new ones."""
        optuna = _optuna()
        known = study.get_trials(deepcopy=False)
        under_way = [one for one in known if one.state == optuna.trial.TrialState.RUNNING]
        batch = [optuna.trial.Trial(study, one._trial_id) for one in under_way[:at_once]]
        new = min(at_once - len(batch), trials - len(known))
        return batch + [study.ask(self._distributions()) for _ in range(new)]

    def _choice(self, params: dict[str, Any]) -> Choice:
        values = {
            name: _value(one, params[name])
            for name, one in zip(self._names, self.space, strict=True)
            if name in params
        }
        return Choice.of(values)

    def _try(self, study: Study, batch: Sequence[Trial], learn: Learn) -> Outcome:
        """Learn all runs of some trials, stage by stage, and tell Optuna what came out."""
        state = _optuna().trial.TrialState
        failures: list[str] = []
        left: dict[int, tuple[Trial, Group]] = {}
        for trial in batch:
            try:
                left[trial.number] = trial, self._start(trial)
            except HandrailError as error:  # settings that do not fit together
                study.tell(trial, state=state.FAIL)
                failures.append(str(error))
        episodes = self.rulebook.settings.episodes
        for stage in range(1, _STAGES + 1):
            until = math.ceil(episodes * stage / _STAGES)
            outcome = learn(_shorter([group for _, group in left.values()], until), until)
            failures += outcome.failures
            if outcome.stopped:
                return Outcome(stopped=True, failures=tuple(failures))
            for number, (trial, group) in list(left.items()):
                score = _score(group, until, self.last)
                if score is None:
                    study.tell(trial, state=state.FAIL)
                elif until == episodes:
                    study.tell(trial, score)
                elif not _falls_behind(trial, score, until):
                    continue
                else:
                    study.tell(trial, state=state.PRUNED)
                del left[number]
        return Outcome(stopped=False, failures=tuple(failures))

    def _start(self, trial: Trial) -> Group:
        choice = self._choice(trial.params)
        (group,) = start_sweep(self.folder, self.rulebook, [choice], self.seeds, self.modules)
        return group


def _place(trial: SearchTrial) -> tuple[bool, float]:
    return trial.state != "complete", math.inf if trial.score is None else -trial.score


def _shorter(groups: Sequence[Group], until: int) -> list[Run]:
    """The runs that have not come so far, each once."""
    runs = {run.folder: run for group in groups for run in group.runs}
    return [run for run in runs.values() if run.saved_episodes < until]


def _score(group: Group, until: int, last: int) -> float | None:
    """The mean over seeds of the average score of the last episodes; None if a run has failed."""
    scores = [[record.score for record in run.records()[:until]] for run in group.runs]
    if any(len(one) < until for one in scores):
        return None
    return float(np.mean([np.mean(one[-last:]) for one in scores]))


def _falls_behind(trial: Trial, score: float, until: int) -> bool:
    reported = trial.study.get_trials(deepcopy=False)[trial.number].intermediate_values
    if until not in reported:  # before an interruption
        trial.report(score, until)
    return trial.should_prune()


def _distribution(one: Axis | Span) -> BaseDistribution:
    distributions = _optuna().distributions
    if isinstance(one, Axis):
        # As texts: Optuna knows no lists.
        found: BaseDistribution = distributions.CategoricalDistribution(
            [text_of(value) for value in one.values]
        )
    elif isinstance(one.low, int) and isinstance(one.high, int):
        found = distributions.IntDistribution(one.low, one.high, one.log)
    else:
        found = distributions.FloatDistribution(one.low, one.high, one.log)
    return found


def _value(one: Axis | Span, proposed: Any) -> Any:
    """What Optuna proposed, as the setting has it."""
    if isinstance(one, Axis):
        return {text_of(value): value for value in one.values}[proposed]
    return float(f"{proposed:.{_DIGITS}g}") if isinstance(proposed, float) else proposed


def _optuna() -> Any:
    try:
        import optuna  # noqa: PLC0415  # optional
    except ImportError as error:
        raise InvalidArgument(
            f'A search needs {error.name}: pip install "handrail[optuna]".'
        ) from error
    return optuna


@contextmanager
def _quietly() -> Iterator[None]:
    """Without a line for every trial."""
    logging = _optuna().logging
    before = logging.get_verbosity()
    logging.set_verbosity(logging.WARNING)
    try:
        yield
    finally:
        logging.set_verbosity(before)
