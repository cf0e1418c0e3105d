"""What is kept of a training: the numbers that pages are made of, not every episode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from benchmarks.influence.setting import Setting
from benchmarks.influence.statistics import final_score, first_score, score_at, steps_to
from benchmarks.influence.training import Training

MEANING = 1  # raised when a number of a summary is another one than before: all is trained again
_TENTHS = tuple(number / 10.0 for number in range(1, 11))


@final
@dataclass(frozen=True)
class Summary:
    """One training in short; None where there is no such number.

    Attributes:
        episodes: that ended.
        steps: of the environment, until the last of them ended.
        first: the mean score of the first 100 episodes.
        end: that of the end (`final_score`).
        tenths: those of each tenth of the budget (`score_at`).
        steps_to_pass: environment steps to the pass mark.
        seconds: of one core, for training and what it needed before.
        worst_violation: of any policy that acted; None where nothing is held.
        final_violation: of the last policy by itself; None where nothing is known.
        steps_in_places: steps at states of constrained regions, of PPO.
        steps_broken: of these, those whose acting policy broke a bound there.
        first_influence: of the first holding, before any experience.
        influence: of a later holding, on average.
        failure: in words, of a rail that could not hold.
        first_visited: the first holding's at states of the first rollout that are no references.
        visited: a later one's at such states of the rollout before it, on average.
        final_score: of the last policy by itself, where it is another than the one that learned.
    """

    episodes: int
    steps: int
    first: float | None
    end: float | None
    tenths: tuple[float | None, ...]
    steps_to_pass: float | None
    seconds: float
    worst_violation: float | None
    final_violation: float | None
    steps_in_places: int
    steps_broken: int
    first_influence: float | None
    influence: float | None
    failure: str | None
    first_visited: float | None = None  # lines of before it was looked at have none
    visited: float | None = None
    final_score: float | None = None

    @classmethod
    def read(cls, result: Mapping[str, Any]) -> Summary:
        """From a line."""
        return cls(**{**result, "tenths": tuple(result["tenths"])})


def summary_of(run: Training, setting: Setting) -> Summary:
    """All of a training that is kept."""
    return Summary(
        episodes=len(run.scores),
        steps=run.ends[-1] if run.ends else 0,
        first=_known(first_score(run)),
        end=_known(final_score(run, setting)),
        tenths=tuple(_known(score_at(run, setting, share)) for share in _TENTHS),
        steps_to_pass=_known(steps_to(run, setting.pass_mark)),
        seconds=run.seconds,
        worst_violation=run.worst_violation,
        final_violation=run.final_violation,
        steps_in_places=run.steps_in_places,
        steps_broken=run.steps_broken,
        first_influence=run.first_influence,
        influence=run.influence,
        failure=run.failure,
        first_visited=run.first_visited,
        visited=run.visited,
        final_score=run.final_score,
    )


def _known(value: float) -> float | None:
    return value if np.isfinite(value) else None
