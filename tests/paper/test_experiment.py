"""Definitions, the cache, jobs that stop and go on, and what was measured, against closed forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handrail.constraints.expansion import expand
from handrail.enforcement.candidates import deviations
from handrail.errors import HandrailError, InvalidArgument, StorageFailure
from handrail.rulebook.rulebook import load_rulebook
from handrail.runs.run import Run, make_policy
from paper import jobs as jobs_module
from paper.cache import folders_of, key_of, read_finish
from paper.choosing_states import choose_all, read_choices
from paper.definitions import experiments, parse
from paper.exhibits import EXHIBITS
from paper.exhibits.cartpole import first_met, safe_size
from paper.exhibits.constraint_tables import CONSTRAINT_TABLES, DISKS_TABLE
from paper.exhibits.q_learning import episodes_to_level, still_rising
from paper.forecast import Standing, seconds_left, share_done
from paper.jobs import jobs_of
from paper.plan import make_plan
from paper.predicting import Predicted, predict_all, read_predicted
from paper.results import Learned, Results, Seed
from paper.studies import Choosing, Limits, Prediction, Training, UpdateTimes
from paper.timing import Times, read_times, time_all

NARROW = {"network": {"hidden": [64]}}
TEXT = """
title: Cartpole, narrow
label: narrow
figures: [cartpole]
seeds: 2
study:
  kind: training
  constraints: cartpole
  episodes: 6
  settings: {network: {hidden: [64]}}
"""
NARROW_EXPERIMENT = parse(TEXT, "narrow")


def nothing(_: Any) -> None: ...


def never() -> bool:
    return False


def after(count: int) -> Callable[[], bool]:
    """A stop that says so at the count-th time of asking."""
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked >= count

    return stop


# Definitions


def test_every_experiment_can_be_made_and_is_shown() -> None:
    names = {exhibit.name for exhibit in EXHIBITS}
    assert len(names) == len(EXHIBITS)
    for one in experiments():
        assert set(one.figures) <= names, one.name
        assert one.seeds == (1 if isinstance(one.study, UpdateTimes) else 10), one.name
        if isinstance(one.study, Training | Prediction | Choosing):
            book = one.study.rulebook(seed=3)
            assert (book.settings.seed, book.settings.episodes) == (3, one.study.episodes)
            assert book.settings.network.hidden == [5000], one.name


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seeds: 2", "seeds: 0", "experiment narrow, seeds: expected greater than or equal to 1."),
        ("label: narrow", "lable: narrow", "experiment narrow, label: Field required."),
        ("kind: training", "kind: nap", "experiment narrow, study: expected tag 'nap'"),
        ("episodes: 6", "episodes: six", "experiment narrow, study.training.episodes: expected"),
        ("figures: [cartpole]", "figures: [", "experiment narrow is not YAML: "),
    ],
)
def test_definitions_that_cannot_be_meant_are_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse(TEXT.replace(old, new), "narrow")
    assert message in str(caught.value).replace("Input tag 'nap' found", "expected tag 'nap'")


def test_figures_that_there_are_not_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"There is no figure 'figure-99'. There are: all, "):
        make_plan(["cartpole", "figure-99"], Path("results"))


def test_quick_is_small_and_full_is_not(tmp_path: Path) -> None:
    quick, full = make_plan(["all"], tmp_path, quick=True), make_plan(["all"], tmp_path)
    assert not quick.full
    assert full.full
    assert {one.seeds for one in quick.experiments} == {2}
    assert full.experiments == experiments()
    assert len(full.unfinished()) == len(full.jobs()) == sum(one.seeds for one in experiments())
    sizes = [getattr(one.study, "episodes", 0) for one in quick.experiments]
    assert max(sizes) == 30


def test_fewer_seeds_than_an_experiment_has_judge_nothing(tmp_path: Path) -> None:
    assert not make_plan(["cartpole"], tmp_path, seeds=9).full
    assert make_plan(["cartpole"], tmp_path, seeds=10).full


def test_a_figure_needs_only_its_own_experiments(tmp_path: Path) -> None:
    plan = make_plan(["disks-choice", "table-cartpole"], tmp_path, seeds=3)
    assert [exhibit.name for exhibit in plan.exhibits] == ["disks-choice", "table-cartpole"]
    assert {one.name for one in plan.experiments} == {"disks_deviation", "disks_return"}
    assert len(plan.jobs()) == 6


def test_q_learning_without_stable_baselines_is_refused_before_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paper.plan.find_spec", lambda _: None)
    with pytest.raises(InvalidArgument) as caught:
        make_plan(["cartpole-q-learning"], tmp_path)
    assert str(caught.value) == (
        "stable_baselines3 is not installed, and cartpole_q_learning needs it: pip install "
        "'handrail[sb3]', or name other figures (--list)."
    )
    with pytest.raises(InvalidArgument, match=r"Box2D is not installed.*'handrail\[box2d\]'"):
        make_plan(["lunar-lander"], tmp_path)
    assert make_plan(["cartpole"], tmp_path).experiments


# The cache


def test_the_key_is_that_of_the_content(monkeypatch: pytest.MonkeyPatch) -> None:
    key = key_of(NARROW_EXPERIMENT)
    same = replace(NARROW_EXPERIMENT, title="other", label="other", figures=("beyond",), seeds=7)
    assert key_of(same) == key
    for old, new in (
        ("episodes: 6", "episodes: 7"),
        ("[64]", "[65]"),
        (": cartpole\n", ": acrobot\n"),
    ):
        assert key_of(parse(TEXT.replace(old, new), "narrow")) != key
    book = load_rulebook("cartpole")
    altered = replace(book, source=replace(book.source, text=book.text + "# a comment\n"))
    monkeypatch.setattr("paper.studies.load_rulebook", lambda _: altered)
    assert key_of(NARROW_EXPERIMENT) != key


# Jobs


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
    book = """
title: Six regions, one step
label: diverges
figures: [cartpole-regions]
seeds: 1
study:
  kind: training
  constraints: cartpole_regions
  episodes: 40
  settings:
    enforcement: one_step
    baseline: standardised
    selection: {strategy: maximum_deviation, points: 50}
"""
    experiment = parse(book, "diverges")
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

    monkeypatch.setattr(jobs_module, "_train", full)
    job = jobs_of(NARROW_EXPERIMENT, tmp_path)[0]
    with pytest.raises(StorageFailure, match=r"seed-0: No space left on device. What was finished"):
        job.run(nothing, never)
    assert not job.done


def test_results_that_are_not_finished_are_refused(tmp_path: Path) -> None:
    jobs_of(NARROW_EXPERIMENT, tmp_path)[0].run(nothing, after(2))
    one_seed = replace(NARROW_EXPERIMENT, seeds=1)
    with pytest.raises(HandrailError, match=r"seed-0 is not finished. Run the same command again"):
        Results(tmp_path, [one_seed]).learned("narrow")


def test_what_is_read_is_what_was_recorded(tmp_path: Path) -> None:
    for job in jobs_of(NARROW_EXPERIMENT, tmp_path):
        job.run(nothing, never)
    learned = Results(tmp_path, [NARROW_EXPERIMENT]).learned("narrow")
    records = Run.open(folders_of(tmp_path, NARROW_EXPERIMENT)[1] / "run").records()
    seed = learned.seeds[1]
    assert seed.scores.tolist() == [record.score for record in records]
    assert seed.steps.tolist() == np.cumsum([record.length for record in records]).tolist()
    expected = [(r.batch_loss or 0.0) + (r.safe_loss or 0.0) for r in records]
    assert seed.losses == pytest.approx(expected)
    assert seed.violations.max() <= 1e-6
    assert np.isnan(seed.first)  # six episodes are not a hundred


# Forecasts


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


# What was measured


def test_relative_errors_are_the_papers() -> None:
    predicted = np.array([[0.011, -0.011], [-0.02, 0.02]])
    actual = np.array([[0.010, -0.010], [-0.04, 0.04]])
    one = Predicted(predicted, actual, np.array([9.0, 9.0]))
    assert one.relative_errors(0) == pytest.approx([10.0, -50.0])


def test_predictions_are_exact_to_first_order(tmp_path: Path) -> None:
    errors = []
    for step_size in (1e-3, 1e-4, 1e-5):
        study = Prediction(
            kind="prediction",
            constraints="cartpole",
            episodes=4,
            settings={**NARROW, "enforcement": "none", "step_size": step_size},
        )
        folder = tmp_path / str(step_size)
        folder.mkdir()
        predict_all(study, 0, folder, nothing)
        found = read_predicted(folder)
        assert found.predicted.shape == found.actual.shape == (4, 2)
        assert found.actual.sum(axis=1) == pytest.approx(0.0, abs=1e-12)
        errors.append(np.abs(found.predicted - found.actual)[0, 0])
    # The first update starts from the same policy: its error falls with the square of the step.
    assert errors[0] / errors[1] == pytest.approx(100.0, rel=0.25)
    assert errors[1] / errors[2] == pytest.approx(100.0, rel=0.25)


def test_averaged_predictions_are_those_of_a_mean(tmp_path: Path) -> None:
    found = []
    for averaged in (False, True):
        folder = tmp_path / str(averaged)
        folder.mkdir()
        settings = {**NARROW, "enforcement": "none"}
        study = Prediction(
            kind="prediction",
            constraints="cartpole",
            episodes=1,
            settings=settings,
            averaged=averaged,
        )
        predict_all(study, 0, folder, nothing)
        found.append(read_predicted(folder))
    summed, mean = found
    assert mean.predicted * summed.scores[0] == pytest.approx(summed.predicted)  # a point a step


def test_choices_are_what_the_update_compares(tmp_path: Path) -> None:
    study = Choosing(
        kind="choosing",
        constraints="cartpole_disks",
        episodes=3,
        maps=[0, 2, 9],
        settings={
            "network": {"hidden": [256]},
            "enforcement": "one_step",
            "baseline": "standardised",
            "selection": {"strategy": "maximum_deviation", "points": 12},
        },
    )
    choose_all(study, 1, tmp_path, nothing)
    choices = read_choices(tmp_path)
    assert choices.scores.shape == (3, 12)
    book = study.rulebook(1)
    policy = make_policy(book, book.make_environment())
    first = expand(book.constraints, policy).regional[0]
    points = first.region.cover(12)
    expected = deviations(policy, first.rows_at(points))
    assert choices.scores[0] == pytest.approx(expected, abs=1e-12)
    assert [one.episode for one in choices.maps] == [0, 2]  # there is no ninth
    star = choices.maps[0].stars[0]
    assert star == pytest.approx(points[choices.chosen[0]])
    assert choices.maps[0].trajectory.shape[1] == 4
    assert choices.worst[0] >= choices.scores[0].max()


def test_choosing_everywhere_is_refused(tmp_path: Path) -> None:
    study = Choosing(kind="choosing", constraints="cartpole_disks", episodes=1, maps=[0])
    with pytest.raises(InvalidArgument, match="needs maximum_return or maximum_deviation"):
        choose_all(study, 0, tmp_path, nothing)


def test_rising_is_what_the_last_fifty_episodes_tell() -> None:
    assert still_rising(learned([0.0] * 60 + [10.0] * 50))
    assert not still_rising(learned([10.0] * 110))
    assert not still_rising(learned([0.0] * 60 + [4.0] * 50))


def test_exponents_are_those_of_power_laws() -> None:
    sizes = np.array([10.0, 20.0, 40.0, 80.0])
    seconds = {"kernel": 3.0 * sizes**2, "update": 1.0 + 0.0 * sizes, "solve": sizes**1.5}
    times = Times(sizes, seconds)
    assert times.exponent("kernel") == pytest.approx(2.0)
    assert times.exponent("update") == pytest.approx(0.0, abs=1e-12)
    assert times.exponent("solve") == pytest.approx(1.5)
    one = Times(sizes[:1], {"kernel": np.ones(1)})
    assert np.isnan(one.exponent("kernel"))


def test_times_are_measured_for_every_size(tmp_path: Path) -> None:
    study = UpdateTimes(
        kind="update_times", width=16, batch=[5, 20, 60], constrained=[2, 9], points=[3, 8]
    )
    assert study.within(Limits(1, 1, 20)).batch == [5, 20]
    assert study.within(Limits(1, 1, 1)).constrained == [2]
    heard: list[float] = []
    time_all(study, 0, tmp_path, heard.append)
    times = read_times(tmp_path)
    assert times["batch"].sizes.tolist() == [5.0, 20.0, 60.0]
    assert times["constrained"].sizes.tolist() == [2.0, 9.0]
    assert times["points"].sizes.tolist() == [3.0, 8.0]
    for sweep in times.values():
        assert all((seconds > 0.0).all() for seconds in sweep.seconds.values())
    assert heard[-1] == 1.0


def learned(*scores: list[float], pass_mark: float = 195.0, **columns: Any) -> Learned:
    seeds = []
    for number, one in enumerate(scores):
        blank = np.full(len(one), np.nan)
        parts = dict.fromkeys(("losses", "safe_losses", "safe_sizes", "violations"), blank)
        parts |= {name: np.array(rows[number]) for name, rows in columns.items()}
        steps = np.cumsum(np.maximum(np.array(one), 1.0))
        seeds.append(Seed(number, np.array(one), steps, message="", **parts))
    return Learned(NARROW_EXPERIMENT, pass_mark, tuple(seeds))


def test_to_pass_counts_to_the_end_of_the_first_passing_window() -> None:
    at_once, later, no = [200.0] * 110, [0.0] * 7 + [200.0] * 150, [194.0] * 300
    # The window that begins at 5 has two zeros: 196 on average.
    assert learned(at_once, later, no).to_pass() == [(100, 20_000), (105, 5 + 2 + 98 * 200), None]


def test_first_met_is_where_the_worst_seed_stays_within_a_hundredth() -> None:
    scores = [[1.0] * 5] * 2
    good = [0.6, 0.005, 0.0, -0.1, -0.1]
    assert first_met(learned(*scores, violations=[good, [0.6, 0.02, 0.0, 0.0, 0.0]])) == 2
    assert first_met(learned(*scores, violations=[good, [0.6, 0.02, 0.0, 0.0, 0.011]])) is None
    assert first_met(learned(*scores, violations=[[0.0] * 5] * 2)) == 0


def test_levels_and_losses() -> None:
    climbing = [0.0] * 10 + [100.0] * 20
    assert episodes_to_level(learned(climbing, [0.0] * 30), 50.0).tolist() == [15.0, 30.0]
    sizes = [[8.0] + [1.0] * 9 + [0.5] * 20]
    assert safe_size(learned(climbing, safe_sizes=sizes)) == (8.0, 0.5)


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
    finding = content.findings[0]
    assert finding.measured == same
    assert finding.agrees == ("others" not in same)
    assert bool(finding.why) == ("others" in same)


def test_an_altered_constraint_file_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    book = load_rulebook("cartpole_disks")
    first, *rest = book.constraints
    moved = replace(first, bound=0.9)  # type: ignore[type-var]
    altered = replace(book, constraints=(moved, *rest))
    monkeypatch.setattr("paper.exhibits.constraint_tables.load_rulebook", lambda _: altered)
    content = DISKS_TABLE.build(Results(Path(), []))
    assert content.findings[0].agrees is False
    assert content.tables[0].rows[0][-1] == "bound: 0.9"


def test_the_kernel_of_figure_two_predicts_what_we_predict() -> None:
    (matrices,) = (one for one in EXHIBITS if one.name == "matrices")
    content = matrices.build(Results(Path(), []))
    assert [finding.agrees for finding in content.findings] == [True, True]
