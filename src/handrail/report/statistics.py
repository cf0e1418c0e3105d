"""Numbers over seeds: means, interquartile means with bootstrap intervals, episodes to pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from handrail._text import text_table
from handrail.constraints import html_table
from handrail.learning import Record, known_costs
from handrail.report.estimate import over_seeds
from handrail.report.subject import AnyRuns, recorded_runs

_COLUMNS = ("seed", "episodes", "first 100", "last 100", "passes from", "worst violation")
_COST = "cost"  # a column only where the environment names one

WINDOW = 100  # episodes of the average that decides whether an environment is solved


@final
@dataclass(frozen=True)
class SeedSummary:
    """One seed's run in numbers.

    Attributes:
        seed: of the run.
        episodes: recorded.
        first: average score of the first 100 episodes (fewer, if there are fewer).
        last: average score of the last 100.
        to_pass: the episode at which the first 100-episode average that passes begins.
        worst_violation: of any policy that acted; None without constraints.
        cost: average cost of the last 100 episodes; None where the environment names none.
    """

    seed: int
    episodes: int
    first: float
    last: float
    to_pass: int | None
    worst_violation: float | None
    cost: float | None = None

    def row(self) -> tuple[str, ...]:
        """Its line in the table."""
        return (
            str(self.seed),
            str(self.episodes),
            f"{self.first:.1f}",
            f"{self.last:.1f}",
            "–" if self.to_pass is None else f"episode {self.to_pass}",
            signed(self.worst_violation),
            "–" if self.cost is None else f"{self.cost:.1f}",
        )


@final
@dataclass(frozen=True)
class Spread:
    """One number over seeds.

    Attributes:
        mean: over seeds.
        deviation: standard deviation (unbiased; 0 for one seed).
        iqm: interquartile mean: of the middle half of the seeds.
        interval: 95 % bootstrap interval of the interquartile mean.
    """

    mean: float
    deviation: float
    iqm: float
    interval: tuple[float, float]

    @property
    def mean_in_words(self) -> str:
        """19.0 ± 1.4."""
        return f"{self.mean:.1f} ± {self.deviation:.1f}"

    @property
    def iqm_in_words(self) -> str:
        """19.0 [18.0, 20.0]."""
        return f"{self.iqm:.1f} [{self.interval[0]:.1f}, {self.interval[1]:.1f}]"


@final
@dataclass(frozen=True)
class GroupSummary:
    """Runs of the same constraint file with different seeds, in numbers.

    Attributes:
        seeds: one by one.
        first: average score of the first 100 episodes, over seeds.
        last: average score of the last 100, over seeds.
        pass_mark: the 100-episode average that counts as solved.
    """

    seeds: tuple[SeedSummary, ...]
    first: Spread
    last: Spread
    pass_mark: float | None

    @property
    def worst_violation(self) -> float | None:
        """Of any policy that acted, over all seeds."""
        found = [one.worst_violation for one in self.seeds if one.worst_violation is not None]
        return max(found) if found else None

    @property
    def cost(self) -> Spread | None:
        """Average cost of the last 100 episodes, over the seeds that have one."""
        found = [one.cost for one in self.seeds if one.cost is not None]
        return spread(found) if found else None

    def __str__(self) -> str:
        return f"{text_table(self._columns, self._rows())}\n{self.caption}"

    def _repr_html_(self) -> str:
        return html_table("", self._rows(), self._columns, self.caption)

    @property
    def _columns(self) -> tuple[str, ...]:
        return _COLUMNS if self.cost is None else (*_COLUMNS, _COST)

    @property
    def caption(self) -> str:
        """What the columns of the table mean."""
        text = "first 100, last 100: average score. worst violation: of any policy that acted."
        if self.pass_mark is not None:
            text += (
                f" passes from: where the first 100-episode average of {self.pass_mark:g} begins."
            )
        if self.cost is not None:
            text += " cost: average of the last 100 episodes."
        if len(self.seeds) > 1:
            text += " IQM: interquartile mean with its 95 % bootstrap interval."
        return text

    def _rows(self) -> list[tuple[str, ...]]:
        """A line per seed, then the numbers over seeds."""
        rows = [one.row() for one in self.seeds]
        if len(self.seeds) > 1:
            worst = signed(self.worst_violation)
            rows += [
                (
                    "mean",
                    "",
                    self.first.mean_in_words,
                    self.last.mean_in_words,
                    self._passed,
                    worst,
                    "" if self.cost is None else self.cost.mean_in_words,
                ),
                (
                    "IQM",
                    "",
                    self.first.iqm_in_words,
                    self.last.iqm_in_words,
                    "",
                    "",
                    "" if self.cost is None else self.cost.iqm_in_words,
                ),
            ]
        return [row[: len(self._columns)] for row in rows]

    @property
    def _passed(self) -> str:
        starts = [one.to_pass for one in self.seeds if one.to_pass is not None]
        return f"{len(starts)} of {len(self.seeds)}, by {max(starts)}" if starts else "–"


def signed(violation: float | None) -> str:
    """A violation as tables write it; a dash where there are no constraints."""
    return "–" if violation is None else f"{violation:+.1e}"


def summarise_runs(runs: AnyRuns) -> GroupSummary:
    """The runs that have recorded anything, in numbers: one, several, or those in a folder."""
    found = recorded_runs(runs)
    pass_mark = found[0].rulebook.pass_mark
    seeds = tuple(summarise(run.seed, run.records(), pass_mark) for run in found)
    return GroupSummary(
        seeds=seeds,
        first=spread([one.first for one in seeds]),
        last=spread([one.last for one in seeds]),
        pass_mark=pass_mark,
    )


def summarise(seed: int, records: Sequence[Record], pass_mark: float | None) -> SeedSummary:
    """One run in numbers; there must be at least one record."""
    scores = np.array([record.score for record in records])
    violations = [r.violation_before for r in records if r.violation_before is not None]
    costs = known_costs(r.cost for r in records)[-WINDOW:]
    return SeedSummary(
        seed=seed,
        episodes=len(records),
        first=float(scores[:WINDOW].mean()),
        last=float(scores[-WINDOW:].mean()),
        to_pass=None if pass_mark is None else episodes_to_pass(scores, pass_mark),
        worst_violation=max(violations) if violations else None,
        cost=float(np.mean(costs)) if costs else None,
    )


def episodes_to_pass(scores: ArrayLike, pass_mark: float) -> int | None:
    """Where the first 100-episode average of at least the pass mark begins; None if none does."""
    values = np.asarray(scores, dtype=np.float64)
    if len(values) < WINDOW:
        return None
    averages = np.convolve(values, np.ones(WINDOW) / WINDOW, mode="valid")
    # An average of numbers that are all exactly the pass mark must pass in spite of rounding.
    passed = np.flatnonzero(averages >= pass_mark - 1e-9 * max(1.0, abs(pass_mark)))
    return int(passed[0]) if len(passed) else None


def spread(values: ArrayLike) -> Spread:
    """One number over seeds."""
    data = np.asarray(values, dtype=np.float64)
    iqm = over_seeds(data)
    deviation = float(data.std(ddof=1)) if len(data) > 1 else 0.0
    return Spread(float(data.mean()), deviation, iqm.value, (iqm.low, iqm.high))
