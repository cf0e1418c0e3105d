"""What the report consists of: exhibits, each a figure or table of the paper beside our version.

An exhibit shows claims, drawings and tables; the functions below put numbers of learning into the
words of claims and tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from handrail._types import Array
from handrail.report.statistics import spread
from paper.interval import over_seeds
from paper.results import Learned, Results


@final
@dataclass(frozen=True)
class Claim:
    """One claim of the paper, and what was measured.

    Attributes:
        text: what the paper says, in a sentence.
        measured: our number, in words.
        agrees: whether it supports the claim; None if the seeds do not allow to say, as when the
            interval of what was measured lies on both sides of what was claimed. The report of a
            reproduction that was cut down judges nothing, whatever this is.
        why: the reason for a difference, or what to keep in mind.
    """

    text: str
    measured: str
    agrees: bool | None
    why: str = ""

    @property
    def verdict(self) -> str:
        """In a word."""
        if self.agrees is None:
            return "undecided"
        return "agrees" if self.agrees else "differs"


@final
@dataclass(frozen=True)
class Finding:
    """What we add to the paper; there is nothing of its own that it could agree with.

    Attributes:
        text: what was looked at, in a sentence.
        measured: our number, in words.
        why: the reason, or what to keep in mind.
    """

    text: str
    measured: str
    why: str = ""


@final
@dataclass(frozen=True)
class Drawing:
    """A figure with a caption; `name` is that of its files."""

    name: str
    figure: Figure
    caption: str


@final
@dataclass(frozen=True)
class Table:
    """Numbers with a heading.

    Attributes:
        caption: what the table shows.
        header: of its columns.
        rows: of as many cells.
    """

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@final
@dataclass(frozen=True)
class Content:
    """What an exhibit shows: the paper's claims, ours beside them, and what both rest on."""

    claims: Sequence[Claim] = ()
    findings: Sequence[Finding] = ()
    drawings: Sequence[Drawing] = ()
    tables: Sequence[Table] = ()


@final
@dataclass(frozen=True)
class Exhibit:
    """A figure, a table or a claim of the paper, to be shown beside ours.

    Attributes:
        name: to ask for it.
        place: where it is in the paper; empty for what the paper does not have.
        title: for people.
        build: from the results of the experiments that name this exhibit.
    """

    name: str
    place: str
    title: str
    build: Callable[[Results], Content]


def average(values: ArrayLike) -> float:
    """Of the values that are known; NaN if none is."""
    known = _known(values)
    return float(known.mean()) if len(known) else float("nan")


def number(value: float, form: str = ".1f") -> str:
    """A number, or a dash for NaN: what a reproduction that was cut down cannot know."""
    return "–" if np.isnan(value) else f"{value:{form}}"


def mean_and_deviation(values: ArrayLike) -> str:
    """`196.5 ± 1.4`; a dash without values."""
    known = _known(values)
    return spread(known.tolist()).mean_in_words if len(known) else "–"


def interquartile_mean(values: ArrayLike) -> str:
    """The interquartile mean and its 95 % bootstrap interval: `196.7 [195.8, 198.2]`."""
    return over_seeds(values).words()


def _known(values: ArrayLike) -> Array:
    array = np.asarray(values, dtype=np.float64)
    known: Array = array[~np.isnan(array)]
    return known


def seeds_that_pass(learned: Learned) -> str:
    """`9 of 10, after 100 to 152 episodes`."""
    found = [one[0] for one in learned.to_pass() if one is not None]
    text = f"{len(found)} of {len(learned.seeds)}"
    if not found:
        return text
    return text + (
        f", after {min(found)} episodes"
        if min(found) == max(found)
        else f", after {min(found)} to {max(found)} episodes"
    )


def worst_violation(learned: Learned) -> str:
    """Of any policy that acted, over all seeds; a dash where nothing was to be held."""
    return number(learned.worst_violation, "+.1e")


def summary(learned: Sequence[Learned], caption: str) -> Table:
    """A row per experiment."""
    rows = []
    for one in learned:
        rows.append(
            [
                one.experiment.title,
                str(len(one.seeds)),
                str(max(len(seed.scores) for seed in one.seeds)),
                mean_and_deviation([seed.first for seed in one.seeds]),
                mean_and_deviation([seed.last for seed in one.seeds]),
                interquartile_mean([seed.last for seed in one.seeds]),
                seeds_that_pass(one),
                f"{len(one.diverged)}" if one.diverged else "–",
                worst_violation(one),
            ]
        )
    header = (
        "experiment",
        "seeds",
        "episodes",
        "first 100",
        "last 100",
        "IQM of last 100",
        "pass",
        "diverged",
        "worst violation",
    )
    return Table(caption, header, rows)


def by_episode(learned: Learned, what: str, episodes: int) -> list[str]:
    """Mean score, or worst violation, of the first episodes, for a row of a table."""
    table = learned.table(what)[:, :episodes]
    if what == "violations":
        return [f"{value:.2g}" for value in np.nanmax(table, axis=0)]
    return [f"{average(column):.0f}" for column in table.T]
