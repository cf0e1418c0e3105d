"""Scores at a time."""

from __future__ import annotations

from benchmarks.off_policy.summary import score_at, summary_of
from benchmarks.off_policy.training import Training

_RUN = Training(
    scores=tuple(float(number) for number in range(10)),
    ends=tuple(range(100, 1001, 100)),
    seconds=1.0,
    seconds_held=0.0,
    steps_in_places=0,
    against=0,
    drawn_against=0,
)


def test_a_score_is_that_of_the_fifth_of_the_budget_before() -> None:
    assert score_at(_RUN, 1000.0) == 8.5  # those that ended at 900 and 1000
    assert score_at(_RUN, 500.0) == 3.5
    assert score_at(_RUN, 50.0) is None  # none has ended
    found = summary_of(_RUN, 1000)
    assert found.scores == (0.5, 3.5, 8.5)  # after a quarter: those that ended at 100 and 200
