"""Groups of runs side by side: what their seeds say about which is better, and what they do not.

As rliable has it: the interquartile mean of the end scores with its bootstrap interval, and the
probability that a seed of a group does better than a seed of the first.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import final

import numpy as np

from handrail._text import text_table
from handrail._types import Array
from handrail.constraints import counted, html_table
from handrail.errors import InvalidArgument
from handrail.learning import Record, known_costs
from handrail.report.estimate import Estimate, probability_of_improvement
from handrail.report.statistics import WINDOW, Spread, signed, spread
from handrail.runs import Group, Run, open_groups
from handrail.settings import check_count

_COLUMNS = ("group", "seeds", "IQM", "median", "mean", "better than the first", "worst violation")
_COST = "cost"  # a column only where the environment names one

AnyGroup = str | Path | Group


@final
@dataclass(frozen=True)
class Contestant:
    """A group of runs as it is compared.

    Attributes:
        name: that tells it from the others.
        folder: of the group.
        scores: (n_seeds, n_episodes), as many episodes as all of them are compared after.
        pass_mark: the average score that counts as solved.
        worst_violation: of any policy that acted in these episodes; None without constraints.
        costs: (n_seeds, n_episodes) likewise; None where the environment names none.
    """

    name: str
    folder: Path
    scores: Array
    pass_mark: float | None
    worst_violation: float | None
    costs: Array | None = None

    def end_scores(self, last: int) -> Array:
        """(n_seeds,): the average of the last episodes; of fewer, if there are fewer."""
        end: Array = self.scores[:, -last:].mean(axis=1)
        return end

    def end_cost(self, last: int) -> Spread | None:
        """Of the same episodes."""
        return None if self.costs is None else spread(self.costs[:, -last:].mean(axis=1))


@final
@dataclass(frozen=True)
class Standing:
    """What the seeds of a group say about its end score.

    Attributes:
        name: of the group.
        folder: of the group.
        seeds: how many.
        end: their end scores.
        median: of them.
        improvement: the probability that a seed of it does better than a seed of the first; None of
            the first itself.
        worst_violation: of any policy that acted; None without constraints.
        cost: of their last episodes; None where the environment names none.
    """

    name: str
    folder: Path
    seeds: int
    end: Spread
    median: float
    improvement: Estimate | None
    worst_violation: float | None
    cost: Spread | None = None

    def row(self) -> tuple[str, ...]:
        """Its line in the table."""
        return (
            self.name,
            str(self.seeds),
            self.end.iqm_in_words,
            f"{self.median:.1f}",
            self.end.mean_in_words,
            "–" if self.improvement is None else self.improvement.words(".2f"),
            signed(self.worst_violation),
            "–" if self.cost is None else self.cost.mean_in_words,
        )


@final
@dataclass(frozen=True)
class Comparison:
    """Groups side by side.

    Attributes:
        contestants: in the order they were given in.
        episodes: after so many they are compared.
        last: so many of these make the end score.
        remarks: what could not be compared, and why.
    """

    contestants: tuple[Contestant, ...]
    episodes: int
    last: int
    remarks: tuple[str, ...]

    @cached_property
    def standings(self) -> tuple[Standing, ...]:
        """What is known of every group, in their order."""
        first, *_ = ends = [one.end_scores(self.last) for one in self.contestants]
        return tuple(
            Standing(
                name=one.name,
                folder=one.folder,
                seeds=len(end),
                end=spread(end),
                median=float(np.median(end)),
                improvement=None if end is first else probability_of_improvement(end, first),
                worst_violation=one.worst_violation,
                cost=one.end_cost(self.last),
            )
            for one, end in zip(self.contestants, ends, strict=True)
        )

    @property
    def caption(self) -> str:
        """What the columns of the table mean."""
        text = (
            f"{self.measure}. IQM: interquartile mean over seeds; better than the first: the "
            "probability that one of its seeds scores higher than one of the first group; both "
            "with 95 % bootstrap intervals. worst violation: of any policy that acted."
        )
        return f"{text} cost: average of the same episodes." if self._has_costs else text

    @property
    def _has_costs(self) -> bool:
        return any(one.costs is not None for one in self.contestants)

    @property
    def _table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """The columns, and a row per group."""
        columns = (*_COLUMNS, _COST) if self._has_costs else _COLUMNS
        return columns, [one.row()[: len(columns)] for one in self.standings]

    @property
    def measure(self) -> str:
        """What the end score is."""
        if self.last >= self.episodes:
            return f"Average score of all {self.episodes} episodes"
        return f"Average score of the last {self.last} of {self.episodes} episodes"

    def __str__(self) -> str:
        return "\n".join((text_table(*self._table), self.caption, *self.remarks))

    def _repr_html_(self) -> str:
        note = "\n".join((self.caption, *self.remarks))
        columns, rows = self._table
        return html_table("", rows, columns, note)


def compare_runs(*given: AnyGroup, episodes: int | None = None, last: int = WINDOW) -> Comparison:
    """Groups of runs side by side; the first is what the others are compared with.

    Args:
        given: groups or their folders; of a sweep's folder, all of its groups; a run by itself is a
            group of one.
        episodes: compare after so many; runs with fewer are left out. By default as many as every
            group with a finished run was to learn from.
        last: the average score of so many episodes, the last of them, is the end score.
    """
    check_count("last", last)
    groups = _distinct(given)
    _refuse_different_environments(groups)
    recorded = {group.folder: _records(group) for group in groups}
    length = _common_length(groups, recorded) if episodes is None else episodes
    check_count("episodes", length)
    names = _names([group.folder for group in groups])
    kept = {
        folder: [records[:length] for records in runs if len(records) >= length]
        for folder, runs in recorded.items()
    }
    contestants = tuple(
        _contestant(names[group.folder], group, kept[group.folder])
        for group in groups
        if kept[group.folder]
    )
    if not contestants:
        most = max(len(records) for runs in recorded.values() for records in runs)
        raise InvalidArgument(
            f"No run has recorded {counted(length, 'episode')}: the longest has {most}. Learn on "
            "with `handrail resume`, or compare after fewer: --episodes."
        )
    remarks = (*_goals(groups, names, length), *_left_out(recorded, names, length))
    return Comparison(contestants, length, last, remarks)


def _distinct(given: Iterable[AnyGroup]) -> list[Group]:
    """Every group once, where it was named first."""
    found: dict[Path, Group] = {}
    for one in given:
        for group in [one] if isinstance(one, Group) else open_groups(one):
            found.setdefault(group.folder.resolve(), group)
    if not found:
        raise InvalidArgument("There is nothing to compare. Give groups of runs, or a sweep.")
    return list(found.values())


def _refuse_different_environments(groups: Sequence[Group]) -> None:
    first = groups[0]
    spec = first.runs[0].rulebook.environment
    for group in groups[1:]:
        other = group.runs[0].rulebook.environment
        if other != spec:
            different = "" if other.id != spec.id else ", with other options"
            raise InvalidArgument(
                f"{first.folder} learned in {spec.id}, {group.folder} in {other.id}{different}: "
                "their scores mean different things. Compare groups of one environment at a time."
            )


def _records(group: Group) -> list[list[Record]]:
    return [run.records() for run in group.runs]


def _goal(runs: Sequence[Run]) -> int:
    return min(run.rulebook.settings.episodes for run in runs)


def _common_length(groups: Sequence[Group], recorded: dict[Path, list[list[Record]]]) -> int:
    """The shortest goal of a group that has come to it with some seed."""
    goals = {group.folder: _goal(group.runs) for group in groups}
    reached = [goal for folder, goal in goals.items() if max(map(len, recorded[folder])) >= goal]
    if not reached:
        raise InvalidArgument(
            "None of these groups has a finished run. Continue with `handrail resume`, or compare "
            "what there is after fewer episodes: --episodes."
        )
    return min(reached)


def _goals(groups: Sequence[Group], names: dict[Path, str], length: int) -> list[str]:
    """Of groups that learned on beyond what is compared."""
    longer = [names[group.folder] for group in groups if _goal(group.runs) > length]
    if not longer or len(longer) == len(groups):
        return []
    return [
        f"Compared after {counted(length, 'episode')}, though {_listed(longer)} learned from more."
    ]


def _left_out(
    recorded: dict[Path, list[list[Record]]], names: dict[Path, str], length: int
) -> list[str]:
    """Of runs that are too short."""
    short = {
        names[folder]: sum(len(records) < length for records in runs)
        for folder, runs in recorded.items()
    }
    found = [f"{name} ({counted(number, 'run')})" for name, number in short.items() if number]
    if not found:
        return []
    return [f"Left out, with fewer than {counted(length, 'episode')}: {_listed(found)}."]


def _listed(names: Sequence[str], at_most: int = 5) -> str:
    rest = len(names) - at_most
    return ", ".join(names[:at_most]) + (f" and {rest} more" if rest > 0 else "")


def _contestant(name: str, group: Group, kept: list[list[Record]]) -> Contestant:
    violations = [
        record.violation_before
        for records in kept
        for record in records
        if record.violation_before is not None
    ]
    costs = [known_costs(record.cost for record in records) for records in kept]
    return Contestant(
        name=name,
        folder=group.folder,
        scores=np.array([[record.score for record in records] for records in kept]),
        pass_mark=group.runs[0].rulebook.pass_mark,
        worst_violation=max(violations) if violations else None,
        costs=np.array(costs) if all(costs) else None,
    )


def _names(folders: Sequence[Path]) -> dict[Path, str]:
    """What tells folders apart: their paths from where these part."""
    if len(folders) == 1:
        return {folders[0]: folders[0].name or str(folders[0])}
    common = Path(os.path.commonpath([folder.resolve() for folder in folders]))
    parts = {folder: folder.resolve().relative_to(common) for folder in folders}
    return {folder: part.as_posix() if part.name else common.name for folder, part in parts.items()}
