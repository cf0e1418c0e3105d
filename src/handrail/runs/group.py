"""Folders of runs: one run per seed, `seed-0`, `seed-1`, …, and what concerns them together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from typing_extensions import override

from handrail._storage import refuse_links
from handrail.errors import InvalidArgument, InvalidRun
from handrail.executors import Executor, FolderTask, Outcome, Watcher
from handrail.learning import Record, Seconds, is_playing
from handrail.rulebook import Rulebook, with_settings
from handrail.runs.configuration import is_run
from handrail.runs.metrics import TENSORBOARD
from handrail.runs.named_callback import NamedCallback
from handrail.runs.run import Run, make_agent, refuse_taken

RUNS = Path("runs")


def free_folder(name: str, within: Path = RUNS) -> Path:
    """runs/name, or runs/name-2, runs/name-3, …: the first that is not there yet."""
    candidate, number = within / name, 1
    while candidate.exists():
        number += 1
        candidate = within / f"{name}-{number}"
    return candidate


def seed_folder(group: Path, seed: int) -> Path:
    """Where a group keeps the run of a seed."""
    return group / f"seed-{seed}"


def start_runs(
    group: Path, rulebook: Rulebook, seeds: int, modules: Sequence[str] = ()
) -> list[Run]:
    """A run per seed, from that of the settings on; refused as a whole before any is begun.

    Killed meanwhile, it can be called again: runs in which nobody has learned yet are the same.

    Args:
        group: the folder of all of them.
        rulebook: what to learn under.
        seeds: how many.
        modules: that register the environment, to be named to whoever opens the runs.
    """
    make_agent(rulebook)  # what cannot be, or cannot be obeyed
    refuse_mixing(group, rulebook)
    first = rulebook.settings.seed
    folders = {seed: seed_folder(group, seed) for seed in range(first, first + seeds)}
    started = {folder for folder in folders.values() if _is_waiting(folder, modules)}
    for folder in folders.values():
        if folder not in started:
            refuse_taken(folder)
    return [
        Run.open(one)
        if one in started
        else Run.create(one, with_settings(rulebook, seed=seed), modules)
        for seed, one in folders.items()
    ]


def _is_waiting(folder: Path, modules: Sequence[str]) -> bool:
    """Whether a run was started there, in which nobody has learned yet."""
    if not is_run(folder):
        return False
    run = Run.open(folder)
    return not run.begun and run.modules == tuple(modules)


def learn_all(
    runs: Sequence[Run],
    executor: Executor,
    watcher: Watcher,
    checkpoint_seconds: float = 5.0,
    until: int | None = None,
    callback: NamedCallback | None = None,
) -> Outcome:
    """Learn every run to its last episode, wherever the executor has room.

    Args:
        runs: to learn.
        executor: that has the modules which register the user's environments.
        watcher: gets every `Record`.
        checkpoint_seconds: between checkpoints.
        until: stop after so many episodes, to be continued.
        callback: called after every episode, where the run is learned.
    """
    tasks = [_Learning(run.folder, checkpoint_seconds, until, callback) for run in runs]
    return executor.run(tasks, watcher)


@final
@dataclass(frozen=True)
class _Learning(FolderTask):
    """One run, learned to its last episode."""

    folder: Path
    checkpoint_seconds: float
    until: int | None = None
    callback: NamedCallback | None = None

    @property
    @override
    def name(self) -> str:
        return str(self.folder)

    @override
    def run(self, report: Callable[[Any], None], stop: Callable[[], bool]) -> None:
        episodes = 0

        def watch(record: Record, _: Seconds) -> None:
            nonlocal episodes
            episodes = record.episode + 1
            report(record)

        def enough() -> bool:
            return stop() or (self.until is not None and episodes >= self.until)

        callbacks = [] if self.callback is None else [self.callback]
        Run.open(self.folder).learn(watch, enough, self.checkpoint_seconds, callbacks)

    @override
    def can_be_interrupted(self) -> bool:
        return is_playing()

    @override
    def moved(self, folder: Path) -> _Learning:
        return replace(self, folder=folder)

    @override
    def files(self) -> Iterable[Path]:
        return (one for one in super().files() if TENSORBOARD not in one.parts)

    @override
    def progress(self) -> float:
        return Run.open(self.folder).saved_episodes

    @override
    def kept_from_others(self) -> AbstractContextManager[None]:
        return Run.open(self.folder).kept_from_others()


def open_runs(folder: str | Path) -> list[Run]:
    """The run in a folder, or the runs of a group, by seed."""
    folder = Path(folder)
    if is_run(folder):
        return [Run.open(folder)]
    members = _members(folder)
    if not members:
        raise InvalidRun(
            f"{folder} holds no run. Give a folder that `handrail train` wrote: a run such as "
            "runs/cartpole/seed-0, or a group of them such as runs/cartpole."
        )
    return [Run.open(one) for one in sorted(members, key=_seed_of)]


@final
@dataclass(frozen=True)
class Group:
    """Runs that differ in their seed alone.

    Attributes:
        folder: of all of them.
        runs: by seed.
    """

    folder: Path
    runs: tuple[Run, ...]


def open_groups(folder: str | Path) -> list[Group]:
    """The group in a folder, or all groups of a sweep; a single run is a group of its own."""
    folder = Path(folder)
    inside: list[Path] = []
    if folder.is_dir() and not is_run(folder) and not _members(folder):
        inside = [one for one in folder.iterdir() if _members(one)]
    if not inside:
        return [Group(folder, tuple(open_runs(folder)))]
    refuse_links(folder)
    return [Group(one, tuple(open_runs(one))) for one in sorted(inside, key=_in_order)]


def _in_order(folder: Path) -> list[tuple[float, str]]:
    """By the texts and the numbers in its name: 0.0003 comes before 0.001, 9 before 10."""
    parts = re.split(r"((?<==)-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|\d+)", folder.name)
    return [(float(part), "") if number % 2 else (0.0, part) for number, part in enumerate(parts)]


def only_run(folder: Path, purpose: str) -> Run:
    """The one run in a folder; several are refused, with what one is wanted for."""
    runs = open_runs(folder)
    if len(runs) > 1:
        raise InvalidArgument(
            f"{purpose}, but {folder} holds {len(runs)} runs. Name one of them: {runs[0].folder}."
        )
    return runs[0]


def refuse_mixing(group: Path, rulebook: Rulebook) -> None:
    """Runs of one group differ in their seed alone; else their average means nothing."""
    for folder in _members(group):
        run = Run.open(folder)
        same = with_settings(run.rulebook, seed=rulebook.settings.seed).settings
        if not run.rulebook.says_the_same_as(rulebook) or same != rulebook.settings:
            raise InvalidArgument(
                f"{group} holds runs of other constraints or settings ({folder.name}). Choose "
                "another folder with --out."
            )


def _members(group: Path) -> list[Path]:
    if not group.is_dir():
        return []
    found = [one for one in group.iterdir() if re.fullmatch(r"seed-\d+", one.name) and is_run(one)]
    if found:
        refuse_links(group)
    return found


def _seed_of(folder: Path) -> int:
    found = re.search(r"\d+$", folder.name)
    return int(found[0]) if found else 0
