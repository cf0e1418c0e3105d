"""Numbers of learning in words."""

from __future__ import annotations

import numpy as np
import pytest

from paper.exhibit import (
    by_episode,
    interquartile_mean,
    mean_and_deviation,
    number,
    seeds_that_pass,
    summary,
    worst_violation,
)
from tests.support.paper import learned

NAN = float("nan")


def test_what_is_not_known_is_a_dash() -> None:
    assert number(NAN) == mean_and_deviation([NAN]) == interquartile_mean([]) == "–"
    assert number(0.25, ".2f") == "0.25"
    assert worst_violation(learned([1.0])) == "–"


def test_means_leave_out_what_is_not_known() -> None:
    assert mean_and_deviation([1.0, 3.0, NAN]) == f"2.0 ± {np.std([1.0, 3.0], ddof=1):.1f}"
    assert interquartile_mean([7.0, 7.0, 7.0, 7.0]) == "7.0 [7.0, 7.0]"


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ([[200.0] * 100], "1 of 1, after 100 episodes"),
        ([[200.0] * 100, [0.0] * 10 + [200.0] * 100], "2 of 2, after 100 to 108 episodes"),
        ([[0.0] * 100], "0 of 1"),
    ],
)
def test_how_many_seeds_pass(scores: list[list[float]], said: str) -> None:
    assert seeds_that_pass(learned(*scores)) == said


def test_rows_of_tables_say_what_the_seeds_did() -> None:
    two = learned([10.0, 20.0], [30.0, 40.0], violations=[[0.5, 0.0], [0.25, 0.125]])
    assert by_episode(two, "scores", 2) == ["20", "30"]
    assert by_episode(two, "violations", 1) == ["0.5"]
    (row,) = summary([two], "caption").rows
    assert row == ["Cartpole, narrow", "2", "2", "–", "–", "–", "0 of 2", "–", "+5.0e-01"]
