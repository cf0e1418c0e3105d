"""Sample efficiency: episodes and environment steps until the 100-episode average passes."""

from __future__ import annotations

import numpy as np

from handrail.report.statistics import spread
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
from paper.exhibit import Claim, Content, Drawing, Exhibit, Table
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
    drawings, tables, claims = [], [], []
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
        claims.append(_claim(title, columns))
    return Content(claims=claims, drawings=drawings, tables=tables)


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
    return Effort(learned.label, role, np.array(values), never, spread(values))


def _claim(title: str, columns: list[tuple[str, list[Effort]]]) -> Claim:
    """Ours first, Q-learning last, as the tuples above have them."""
    episodes, steps = (efforts for _, efforts in columns)
    times = [one[-1].spread.iqm / one[0].spread.iqm for one in (episodes, steps)]
    at_least = "at least " if episodes[-1].bound_only else ""
    known = not episodes[0].bound_only
    return Claim(
        f"Similar performance in significantly less steps than other methods ({title}; here exact "
        "constraints against double Q-learning).",
        f"to pass: {episodes[0].spread.iqm:.0f} episodes and {steps[0].spread.iqm:.0f} steps "
        f"against {at_least}{episodes[-1].spread.iqm:.0f} and {steps[-1].spread.iqm:.0f}, "
        f"{at_least}{times[0]:.1f} times the episodes and {times[1]:.1f} times the steps "
        "(interquartile means; 100 episodes is the least there is)",
        min(times) > 1.0 if known else None,
    )


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
    if effort.bound_only:
        return f"more than {effort.spread.iqm:.0f}"
    low, high = effort.spread.interval
    return f"{effort.spread.iqm:.0f} [{low:.0f}, {high:.0f}]"


EFFICIENCY = Exhibit("sample-efficiency", "", "Sample efficiency", _efficiency)
