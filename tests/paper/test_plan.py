"""Which experiments the figures need, and in which size."""

from __future__ import annotations

from pathlib import Path

import pytest

from handrail.errors import InvalidArgument
from paper.experiment import experiments
from paper.plan import make_plan


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
    assert not make_plan(["cartpole-loss"], tmp_path, seeds=9).full
    assert make_plan(["cartpole-loss"], tmp_path, seeds=10).full


def test_a_figure_needs_only_its_own_experiments(tmp_path: Path) -> None:
    plan = make_plan(["disks-choice", "table-cartpole"], tmp_path, seeds=3)
    assert [exhibit.name for exhibit in plan.exhibits] == ["disks-choice", "table-cartpole"]
    assert {one.name for one in plan.experiments} == {"disks_deviation", "disks_return"}
    assert len(plan.jobs()) == 6


def test_what_is_not_installed_is_missed_before_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paper.plan.find_spec", lambda _: None)
    with pytest.raises(InvalidArgument) as caught:
        make_plan(["lunar-lander-loss"], tmp_path)
    assert str(caught.value) == (
        "Box2D is not installed, and lunar_lander_every_step, lunar_lander_paper needs it: pip "
        "install 'handrail[box2d]', or name other figures (--list)."
    )
    with pytest.raises(InvalidArgument, match=r"Box2D is not installed.*'handrail\[box2d\]'"):
        make_plan(["lunar-lander"], tmp_path)
    assert make_plan(["cartpole"], tmp_path).experiments
