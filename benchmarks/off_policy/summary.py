"""What is kept of a training: the numbers that the page is made of, not every episode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from benchmarks.off_policy.training import Training

MEANING = 1  # raised when a number of a summary is another one than before: all is trained again
SHARES = (0.25, 0.5, 1.0)  # of the budget
_BEFORE = 0.2  # of the budget: a score is the mean of the episodes that ended in it


@final
@dataclass(frozen=True)
class Summary:
    """One training in short.

    Attributes:
        episodes: that ended.
        scores: at each of `SHARES` (`score_at`); None where no episode ended.
        seconds: of one core, for the training.
        steps_in_places: steps at states that a constraint speaks of.
        against: of these, those whose action without noise or chance breaks it.
        drawn_against: of these, those whose action, as it was drawn, breaks it.
        worst_violation: of any policy that acted; None where nothing is held.
        looks: policies that were looked at.
        holdings: of these, those that had to be changed.
    """

    episodes: int
    scores: tuple[float | None, ...]
    seconds: float
    steps_in_places: int
    against: int
    drawn_against: int
    worst_violation: float | None
    looks: int
    holdings: int

    @classmethod
    def read(cls, result: Mapping[str, Any]) -> Summary:
        """From a line."""
        return cls(**{**result, "scores": tuple(result["scores"])})


def summary_of(run: Training, budget: int) -> Summary:
    """All of a training that is kept."""
    return Summary(
        episodes=len(run.scores),
        scores=tuple(score_at(run, share * budget) for share in SHARES),
        seconds=run.seconds,
        steps_in_places=run.steps_in_places,
        against=run.against,
        drawn_against=run.drawn_against,
        worst_violation=run.worst_violation,
        looks=run.looks,
        holdings=run.holdings,
    )


def score_at(run: Training, steps: float) -> float | None:
    """Of the episodes that ended in the fifth of the budget before; None if none did."""
    ends, scores = np.array(run.ends), np.array(run.scores)
    before = _BEFORE * run.ends[-1] if len(ends) else 0.0
    chosen = scores[(ends <= steps) & (ends > steps - before)]
    return float(chosen.mean()) if len(chosen) else None
