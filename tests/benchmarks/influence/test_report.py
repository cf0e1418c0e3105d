"""The page, from trainings made by hand."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.influence.report import Results, page
from benchmarks.influence.setting import CARTPOLE_REINFORCE
from benchmarks.influence.study import IN_FULL, INSTEAD, ONE_SIDED, Row, Study
from benchmarks.influence.summary import summary_of
from benchmarks.influence.training import Training

_TRAINED = Training((1.0, 2.0), (10, 30), 0.5, -1e-3, -2e-3, 4, 1, 0.25, 0.004, 0.3, 0.009)


def _one_sided_page(told: dict[int, Training]) -> str:
    plain = {seed: _scoring(400.0 + seed) for seed in range(3)}
    row = Row(CARTPOLE_REINFORCE, "push_right", "rail")
    study = Study(ONE_SIDED.name, ONE_SIDED.title, (row.plain(), row))
    return page([study], _results({row.plain(): plain, row: told}))


def _scoring(score: float) -> Training:
    """In every episode."""
    return replace(_TRAINED, scores=(score,) * 300, ends=tuple(range(300)))


def _results(trained: dict[Row, dict[int, Training]]) -> Results:
    return Results(
        {
            row: {seed: summary_of(run, row.setting) for seed, run in runs.items()}
            for row, runs in trained.items()
        }
    )


def test_the_page_says_where_it_is_below() -> None:
    worse = {seed: _scoring(50.0 + 2 * seed) for seed in range(3)}
    text = _one_sided_page(worse)
    assert "rail: not below plain on 0 of 1 sets and learners" in text
    assert "| push right | rail | 3 | 401.0 ± 0.8 | 52.0 ± 1.6 | -349.0 (" in text
    assert "| **below** | 0.250 | 0.004 | 0.300 | 0.009 | -1.0e-03 |" in text


def test_a_rail_that_gave_up_is_never_fine() -> None:
    better = {seed: _scoring(500.0) for seed in range(3)}
    assert "rail: not below plain on 1 of 1 sets and learners" in _one_sided_page(better)
    # Before its first step: there is no score that could be low.
    better[2] = replace(_TRAINED, scores=(), ends=(), failure="cannot hold")
    text = _one_sided_page(better)
    assert "rail: not below plain on 0 of 1 sets and learners" in text
    assert "| **gave up** | 0.250 | 0.004 | 0.300 | 0.009 | -1.0e-03 (1 gave up) |" in text


def test_the_page_counts_who_ends_at_the_pass_mark() -> None:
    told = next(row for row in IN_FULL.rows if row.arm == "rail" and row.times > 1)
    runs = {seed: _scoring(500.0 if seed else 100.0) for seed in range(4)}
    runs[3] = replace(_TRAINED, scores=(), ends=(), failure="cannot hold")
    runs = {n: replace(run, ends=tuple(99_000 for _ in run.scores)) for n, run in runs.items()}
    text = page([Study(IN_FULL.name, IN_FULL.title, (told,))], _results({told: runs}))
    assert "| rail | 4 | 366.7 ± 188.6 | 366.7 ± 188.6 | 2 of 4 | 99,000 (2 of 4) |" in text


def test_the_page_has_a_line_for_every_way() -> None:
    rows = tuple(row for row in INSTEAD.rows if row.setting is INSTEAD.rows[0].setting)
    run = replace(_TRAINED, scores=(10.0, 20.0, 30.0), ends=(9_000, 49_000, 99_000))
    text = page(
        [Study(INSTEAD.name, INSTEAD.title, rows)], _results({row: {0: run} for row in rows})
    )
    found = text.count("| 10.0 ± 0.0 | 20.0 ± 0.0 | 30.0 ± 0.0 | 4 | 25.00% | -2.0e-03 | - | 0 |")
    assert found == len(rows) == 9


def test_two_seeds_are_too_few_for_a_verdict() -> None:
    text = _one_sided_page(dict.fromkeys(range(2), _TRAINED))
    assert "| too few seeds |" in text
    assert "sets and learners" not in text
