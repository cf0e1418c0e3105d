"""Jobs that stop, go on and are never done twice; where they are kept; how long they will take."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from handrail.errors import StorageFailure
from handrail.rulebook import load_rulebook
from paper import job as job_module
from paper.job import Standing, jobs_of, key_of, read_finish, seconds_left, share_done
from paper.results import Results
from tests.support.paper import NARROW_EXPERIMENT, TEXT, after, never, nothing, only


def test_the_key_is_that_of_the_content(monkeypatch: pytest.MonkeyPatch) -> None:
    key = key_of(NARROW_EXPERIMENT)
    same = replace(NARROW_EXPERIMENT, title="other", label="other", figures=("beyond",), seeds=7)
    assert key_of(same) == key
    for old, new in (
        ("episodes: 6", "episodes: 7"),
        ("[64]", "[65]"),
        (": cartpole\n", ": acrobot\n"),
    ):
        assert key_of(only(TEXT.replace(old, new))) != key
    book = load_rulebook("cartpole")
    altered = replace(book, source=replace(book.source, text=book.text + "# a comment\n"))
    monkeypatch.setattr("paper.experiment.load_rulebook", lambda _: altered)
    assert key_of(NARROW_EXPERIMENT) != key


def test_a_job_stops_goes_on_and_is_never_done_twice(tmp_path: Path) -> None:
    heard: list[float] = []
    job, whole = (
        jobs_of(NARROW_EXPERIMENT, tmp_path / "a")[1],
        jobs_of(NARROW_EXPERIMENT, tmp_path)[1],
    )
    assert job.name == "narrow, seed 1"
    job.run(heard.append, after(3))
    assert not job.done
    assert heard == [0.0, 1 / 6, 2 / 6, 3 / 6]
    job.run(heard.append, never)
    assert job.done
    assert heard[4:] == [3 / 6, 4 / 6, 5 / 6, 1.0]
    whole.run(nothing, never)
    metrics = [(one.folder / "run" / "metrics.jsonl").read_bytes() for one in (job, whole)]
    assert metrics[0] == metrics[1]
    finish = read_finish(job.folder)
    assert finish is not None
    assert finish.message == ""
    before = (job.folder / "outcome.json").stat().st_mtime_ns
    job.run(lambda _: pytest.fail("it is done"), never)
    assert (job.folder / "outcome.json").stat().st_mtime_ns == before


def test_a_learner_that_cannot_go_on_is_a_result(tmp_path: Path) -> None:
    experiment = only("""
seeds: 1
experiments:
  diverges:
    title: Six regions, one step
    label: diverges
    figures: [cartpole-regions]
    study:
      kind: training
      constraints: cartpole_regions
      episodes: 40
      settings:
        enforcement: one_step
        baseline: standardised
        selection: {strategy: maximum_deviation, points: 50}
""")
    (job,) = jobs_of(experiment, tmp_path)
    job.run(nothing, never)
    finish = read_finish(job.folder)
    assert finish is not None
    assert finish.message.endswith(".")  # whichever part noticed first says so, in words
    learned = Results(tmp_path, [experiment]).learned("diverges")
    assert learned.diverged == learned.seeds
    assert 1 <= len(learned.seeds[0].scores) < 40


def test_a_full_disk_is_not_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> bool:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(job_module, "_train", full)
    job = jobs_of(NARROW_EXPERIMENT, tmp_path)[0]
    with pytest.raises(StorageFailure, match=r"seed-0: No space left on device. What was finished"):
        job.run(nothing, never)
    assert not job.done


def test_the_forecast_goes_by_the_guess_until_something_is_known() -> None:
    waiting = [Standing("a", 10.0, 0.0, None), Standing("b", 30.0, 0.0, None)]
    assert seconds_left(waiting, processes=1) == 40.0
    assert seconds_left(waiting, processes=2) == 30.0  # the longest job cannot be shared
    assert share_done(waiting) == 0.0
    assert seconds_left([], processes=2) == 0.0
    assert share_done([]) == 1.0


def test_the_forecast_learns_from_jobs_of_the_same_kind() -> None:
    standings = [
        Standing("a", 10.0, 1.0, 50.0),  # took 50, thought to take 10
        Standing("a", 10.0, 0.0, None),  # so this will, too
        Standing("b", 2.0, 0.0, None),  # and everything is five times slower than thought
        Standing("c", 1.0, 0.75, 10.0, before=0.5),  # a quarter in 10 s: 40 s for the whole
    ]
    correction = (50.0 + 40.0) / (10.0 + 1.0)
    assert seconds_left(standings, 1) == pytest.approx(50.0 + 2.0 * correction + 10.0)
    whole = 50.0 + 50.0 + 2.0 * correction + 40.0
    assert share_done(standings) == pytest.approx((50.0 + 30.0) / whole)
