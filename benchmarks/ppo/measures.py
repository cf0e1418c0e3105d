"""What is said about the runs of one arm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from benchmarks.ppo.run import Trained
from handrail._types import Array

WINDOW = 100  # episodes that an average is taken over


@final
@dataclass(frozen=True)
class Measures:
    """Of all seeds of an arm.

    Attributes:
        at_100: average over the first 100 episodes (n_seeds,).
        at_200: average over episodes 100 to 199 (n_seeds,).
        at_end: average over the last 100 episodes of training (n_seeds,).
        steps_to_pass: environment steps until an average over 100 episodes passed the mark, NaN
            where none did (n_seeds,).
    """

    at_100: Array
    at_200: Array
    at_end: Array
    steps_to_pass: Array


def measure(runs: Sequence[Trained], pass_mark: float) -> Measures:
    """All measures of the runs, NaN where a run has too few episodes."""
    return Measures(
        at_100=np.array([average_at(run, 100) for run in runs]),
        at_200=np.array([average_at(run, 200) for run in runs]),
        at_end=np.array([average_at(run, len(run.scores)) for run in runs]),
        steps_to_pass=np.array([_steps_to_pass(run, pass_mark) for run in runs]),
    )


def average_at(run: Trained, episode: int) -> float:
    """Of the 100 episodes before this one."""
    if not WINDOW <= episode <= len(run.scores):
        return float("nan")
    return float(np.mean(run.scores[episode - WINDOW : episode]))


def averages(run: Trained, episodes: int) -> tuple[Array, Array]:
    """Environment steps, and the average over the last so many episodes by then."""
    if len(run.scores) < episodes:
        return np.zeros(0), np.zeros(0)
    window = np.ones(episodes) / episodes
    steps = np.asarray(run.ends[episodes - 1 :], dtype=np.float64)
    return steps, np.convolve(run.scores, window, mode="valid")


def _steps_to_pass(run: Trained, pass_mark: float) -> float:
    steps, values = averages(run, WINDOW)
    passed = np.flatnonzero(values >= pass_mark)
    return float(steps[passed[0]]) if len(passed) else float("nan")
