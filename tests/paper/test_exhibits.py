"""Rules that claims are judged by, and the paper's tables beside our constraint files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from handrail.rulebook import load_rulebook
from paper.exhibits import EXHIBITS
from paper.exhibits.cartpole import first_met, met_from, safe_decline, safe_size
from paper.exhibits.cartpole_regions import on_par, vanished
from paper.exhibits.constraint_tables import CONSTRAINT_TABLES, DISKS_TABLE
from paper.exhibits.lunar_lander import first_landings
from paper.exhibits.q_learning import Race, reach_of, still_rising
from paper.exhibits.spread import after_freeze
from paper.interval import Interval
from paper.results import Results
from tests.support.paper import learned


def test_rising_is_what_the_last_fifty_episodes_tell() -> None:
    assert still_rising(learned([0.0] * 60 + [10.0] * 50))
    assert not still_rising(learned([10.0] * 110))
    assert not still_rising(learned([0.0] * 60 + [4.0] * 50))


def test_first_met_is_where_the_worst_seed_stays_within_a_hundredth() -> None:
    scores = [[1.0] * 5] * 2
    good = [0.6, 0.005, 0.0, -0.1, -0.1]
    assert first_met(learned(*scores, violations=[good, [0.6, 0.02, 0.0, 0.0, 0.0]])) == 2
    assert first_met(learned(*scores, violations=[good, [0.6, 0.02, 0.0, 0.0, 0.011]])) is None
    assert first_met(learned(*scores, violations=[[0.0] * 5] * 2)) == 0


def test_levels_and_losses() -> None:
    climbing = [0.0] * 10 + [100.0] * 20
    reached = reach_of(learned(climbing, [0.0] * 30), 50.0)
    assert reached.episodes.tolist() == [15.0, 30.0]
    assert reached.never == 1


def test_a_race_is_told_in_episodes_and_steps() -> None:
    fast = learned(*([100.0] * 20 for _ in range(3)))
    slow = learned(*([0.0] * 20 + [100.0] * 20 for _ in range(3)))
    race = Race(reach_of(fast, 90.0), reach_of(slow, 90.0))
    assert race.episodes == Interval(2.9, 2.9, 2.9)
    assert race.words == (
        "10 [10, 10] episodes and 1000 [1000, 1000] steps with constraints, 29 [29, 29] episodes "
        "and 920 [920, 920] steps with double Q-learning: 2.9 [2.9, 2.9] times the episodes and "
        "0.9 [0.9, 0.9] times the steps"
    )


def test_sizes_of_safe_returns() -> None:
    climbing = [0.0] * 10 + [100.0] * 20
    sizes = [[8.0] + [1.0] * 9 + [0.5] * 20]
    assert safe_size(learned(climbing, safe_sizes=sizes)) == (8.0, 0.5)


def test_what_is_left_of_the_safe_returns_is_a_share_of_the_first() -> None:
    two = learned([1.0] * 20, [1.0] * 20, safe_sizes=[[8.0] * 10 + [2.0] * 10, [4.0] + [1.0] * 19])
    assert safe_decline(two) == Interval(0.25, 0.25, 0.25)
    assert np.isnan(safe_decline(learned([1.0] * 3, safe_sizes=[[8.0, 1.0, 1.0]])).value)


def test_a_seed_that_stops_never_meets_its_bounds() -> None:
    one = learned([1.0] * 3, violations=[[0.6, 0.005, 0.0]]).seeds[0]
    assert met_from(one) == 1
    assert met_from(replace(one, message="diverged")) is None


def test_the_first_landing_is_the_first_that_pays_for_one() -> None:
    assert first_landings(learned([-50.0, 99.0, 100.0, 200.0], [0.0, 0.0])) == [2.0, 2.0]


def test_who_diverges_is_not_on_par() -> None:
    static = learned(*([one] * 100 for one in (195.0, 196.0, 197.0, 198.0)))
    near, far = (learned(*([one] * 100 for one in scores)) for scores in ([194.0] * 4, [150.0] * 4))
    assert on_par(near, static) is True
    assert on_par(far, static) is False
    between = learned(*([one] * 100 for one in (100.0, 190.0, 199.0, 200.0)))
    assert on_par(between, static) is None
    stopped = replace(near, seeds=(replace(near.seeds[0], message="diverged"), *near.seeds[1:]))
    assert on_par(stopped, static) is False


def test_a_loss_has_vanished_where_it_stays_below_a_tenth() -> None:
    assert vanished(np.array([50.0, -80.0, 7.0, -3.0, np.nan])) == 2.0
    assert np.isnan(vanished(np.array([50.0, 4.0, -6.0])))


def test_after_the_freeze_are_a_hundred_episodes() -> None:
    scores = [0.0] * 50 + [7.0] * 100 + [0.0] * 10
    assert after_freeze(learned(scores).seeds[0]) == 7.0
    assert np.isnan(after_freeze(learned(scores[:149]).seeds[0]))


# The constraint tables


@pytest.mark.parametrize(
    ("name", "rows", "same"),
    [
        ("disks-table", 4, "4 of 4 rows of cartpole_disks.yaml are the same"),
        ("table-cartpole", 18, "17 of 18 rows of cartpole.yaml are the same; others: s10"),
        ("table-regions", 6, "6 of 6 rows of cartpole_regions.yaml are the same"),
        (
            "table-lunar-lander",
            11,
            "9 of 11 rows of lunar_lander.yaml are the same; others: s10, s11",
        ),
    ],
)
def test_constraint_files_say_what_the_papers_tables_say(name: str, rows: int, same: str) -> None:
    (exhibit,) = (one for one in (DISKS_TABLE, *CONSTRAINT_TABLES) if one.name == name)
    content = exhibit.build(Results(Path(), []))
    assert len(content.tables[0].rows) == rows
    found = content.findings[0]
    assert found.measured == same
    assert bool(found.why) == ("others" in same)


def test_an_altered_constraint_file_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    book = load_rulebook("cartpole_disks")
    first, *rest = book.constraints
    moved = replace(first, bound=0.9)  # type: ignore[type-var]
    altered = replace(book, constraints=(moved, *rest))
    monkeypatch.setattr("paper.exhibits.constraint_tables.load_rulebook", lambda _: altered)
    content = DISKS_TABLE.build(Results(Path(), []))
    assert content.findings[0].measured.startswith("3 of 4 rows")
    assert content.tables[0].rows[0][-1] == "bound: 0.9"


def test_the_kernel_of_figure_two_predicts_what_we_predict() -> None:
    (matrices,) = (one for one in EXHIBITS if one.name == "matrices")
    content = matrices.build(Results(Path(), []))
    assert [claim.agrees for claim in content.claims] == [True, True]
