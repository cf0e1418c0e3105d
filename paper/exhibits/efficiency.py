"""Sample efficiency: episodes and environment steps until the 100-episode average passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from paper.drawing.learning import (
    CERTIFIED,
    EXACT,
    OTHER,
    PAPER,
    PLAIN,
    PLAIN_OTHER,
    Q_LEARNING,
    RAW,
    Role,
)
from paper.drawing.measurements import Effort, effort_figure
from paper.exhibit import Claim, Content, Drawing, Exhibit, Finding, Table
from paper.interval import Interval, all_of, over_seeds, ratio
from paper.results import Learned, Results

_CARTPOLE: tuple[tuple[str, Role], ...] = (
    ("cartpole_exact", EXACT),
    ("cartpole_regions_certified", CERTIFIED),
    ("cartpole_paper", PAPER),
    ("cartpole_middle_deviation", OTHER),
    ("cartpole_unconstrained", PLAIN),
    ("cartpole_unconstrained_baseline", PLAIN_OTHER),
    ("cartpole_unconstrained_raw", RAW),
    ("cartpole_q_learning", Q_LEARNING),
)
_LUNAR_LANDER: tuple[tuple[str, Role], ...] = (
    ("lunar_lander_exact", EXACT),
    ("lunar_lander_paper", PAPER),
    ("lunar_lander_unconstrained", PLAIN),
    ("lunar_lander_q_learning", Q_LEARNING),
)


def _efficiency(results: Results) -> Content:
    drawings, tables, claims, findings = [], [], [], []
    for name, title, learners in (
        ("cartpole", "Cartpole", _CARTPOLE),
        ("lunar-lander", "Lunar Lander", _LUNAR_LANDER),
    ):
        learned = [(results.learned(one), role) for one, role in learners]
        columns = [
            (f"{unit} to pass", [_effort(one, role, which) for one, role in learned])
            for which, unit in enumerate(("episodes", "environment steps"))
        ]
        drawings.append(
            Drawing(
                f"efficiency-{name}",
                effort_figure(columns),
                f"{title}: episodes and environment steps until an average of 100 episodes "
                f"passes {learned[0][0].pass_mark:g}. Small marks: seeds (crosses never passed, "
                "and stand at all they had); large marks: interquartile means with 95 % bootstrap "
                "intervals, hollow where they are only lower bounds.",
            )
        )
        tables.append(_table(title, [one for one, _ in learned], columns))
        episodes, steps = (efforts for _, efforts in columns)
        claims.append(_claim(title, _versus(PAPER, episodes), _versus(PAPER, steps)))
        findings.append(
            Finding(
                f"The same with exact constraints ({title}).",
                _in_words(_versus(EXACT, episodes), _versus(EXACT, steps)),
            )
        )
    return Content(claims, findings, drawings, tables)


def _effort(learned: Learned, role: Role, which: int) -> Effort:
    """What each seed needed; one that never passed counts with all it had.

    One that diverged counts with all that the longest had: it would have gone on as long.
    """
    had = [
        (len(seed.scores), int(seed.steps[-1]) if len(seed.steps) else 0) for seed in learned.seeds
    ]
    found = learned.to_pass()
    values = [
        float((one or (max(had) if seed.message else all_of_it))[which])
        for one, seed, all_of_it in zip(found, learned.seeds, had, strict=True)
    ]
    never = np.array([one is None for one in found])
    return Effort(learned.label, role, np.array(values), never, over_seeds(values))


@final
@dataclass(frozen=True)
class _Race:
    """What two learners needed of one thing.

    Attributes:
        ours: constrained.
        other: double Q-learning.
    """

    ours: Effort
    other: Effort

    @property
    def times(self) -> Interval:
        """As much of it double Q-learning needs."""
        return ratio(self.other.values, self.ours.values)

    @property
    def won(self) -> bool | None:
        """Whether the other surely needs more; one that never passes may need any amount."""
        if self.ours.bound_only:
            return None
        needs_more = self.times.above(1.0)
        return None if self.other.bound_only and not needs_more else needs_more


def _versus(role: Role, efforts: list[Effort]) -> _Race:
    """The learner that is drawn so against Q-learning, which is the last."""
    return _Race(next(one for one in efforts if one.role is role), efforts[-1])


def _claim(title: str, episodes: _Race, steps: _Race) -> Claim:
    return Claim(
        f"Similar performance in significantly less steps than other methods ({title}; here the "
        "paper's setting against double Q-learning).",
        _in_words(episodes, steps),
        all_of((episodes.won, steps.won)),
    )


def _in_words(episodes: _Race, steps: _Race) -> str:
    ours, others = (
        f"{_at_least(one)}{one.iqm.words('.0f')} episodes and {two.iqm.words('.0f')} steps"
        for one, two in ((episodes.ours, steps.ours), (episodes.other, steps.other))
    )
    return (
        f"to pass: {ours} against {others}, {_at_least(episodes.other)}{episodes.times.words()} "
        f"times the episodes and {steps.times.words()} times the steps (100 episodes is the least "
        "there is)"
    )


def _at_least(effort: Effort) -> str:
    return "at least " if effort.bound_only else ""


def _table(title: str, learned: list[Learned], columns: list[tuple[str, list[Effort]]]) -> Table:
    rows = []
    for number, one in enumerate(learned):
        episodes, steps = (efforts[number] for _, efforts in columns)
        never = int(episodes.never.sum())
        rows.append(
            (
                one.experiment.title,
                f"{len(one.seeds) - never} of {len(one.seeds)}",
                _interval(episodes),
                _interval(steps),
            )
        )
    header = ("learner", "pass", "episodes: IQM [95 %]", "environment steps: IQM [95 %]")
    return Table(
        f"{title}: until the average over 100 episodes passes. An interquartile mean leaves out "
        "the highest quarter, so it is known as long as no more than a quarter of the seeds "
        "never pass; else there is only a lower bound.",
        header,
        rows,
    )


def _interval(effort: Effort) -> str:
    return f"more than {effort.iqm.value:.0f}" if effort.bound_only else effort.iqm.words(".0f")


EFFICIENCY = Exhibit("sample-efficiency", "Section 4", "Sample efficiency", _efficiency)
