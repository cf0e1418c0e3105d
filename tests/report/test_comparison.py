"""Groups side by side: numbers by hand, and what cannot be compared."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from handrail.errors import InvalidArgument
from handrail.report.comparison import Comparison, Contestant, compare_runs
from handrail.report.statistics import summarise_runs
from handrail.runs.group import start_runs
from handrail.runs.run import Run
from tests.report.groups import learned
from tests.runs.test_run import TEXT, book


def contestant(name: str, scores: list[list[float]]) -> Contestant:
    return Contestant(name, Path(name), np.array(scores), 195.0, None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two groups that differ in a setting."""
    made = tmp_path_factory.mktemp("compared")
    learned(made / "step_size=0.001", episodes=12)
    learned(made / "step_size=0.01", episodes=12, step_size=1e-2, enforcement="none")
    return made


def test_end_scores_by_hand() -> None:
    first = contestant(
        "first", [[9.0, 1.0, 3.0], [9.0, 2.0, 2.0], [9.0, 0.0, 0.0], [9.0, 8.0, 8.0]]
    )
    second = contestant("second", [[0.0, 1.0, 2.0], [0.0, 4.0, 4.0]])
    one, two = Comparison((first, second), episodes=3, last=2, remarks=()).standings
    assert (one.seeds, one.median, one.end.mean, one.end.iqm) == (4, 2.0, 3.0, 2.0)
    assert one.improvement is None
    assert two.end.mean == two.median == 2.75
    assert two.improvement is not None
    # Ends (1.5, 4) against (2, 2, 0, 8): 1.5 beats one of them, 4 beats three.
    assert two.improvement.value == 4 / 8


def test_costs_are_compared_where_there_are_some() -> None:
    first = contestant("first", [[1.0, 2.0], [1.0, 2.0]])
    second = replace(first, name="second", costs=np.array([[9.0, 1.0], [9.0, 4.0]]))
    found = Comparison((first, second), episodes=2, last=1, remarks=())
    one, two = found.standings
    assert one.cost is None
    assert two.cost is not None
    assert two.cost.mean == 2.5
    lines = str(found).splitlines()
    assert lines[0].split()[-1] == "cost"
    assert lines[2].endswith("–")
    assert lines[3].endswith("2.5 ± 2.1")
    assert "cost: average of the same episodes." in found.caption
    assert "cost" not in str(replace(found, contestants=(first,)))


def test_groups_of_a_sweep(folder: Path) -> None:
    found = compare_runs(folder, last=5)
    assert [one.name for one in found.standings] == ["step_size=0.001", "step_size=0.01"]
    assert [one.seeds for one in found.standings] == [3, 3]
    for one in found.standings:
        ends = [np.mean([r.score for r in run.records()[-5:]]) for run in start(one.folder)]
        assert one.end.mean == pytest.approx(np.mean(ends))
        assert one.worst_violation == summarise_runs(one.folder).worst_violation
    text = str(found)
    assert "Average score of the last 5 of 12 episodes. IQM: interquartile mean over s" in text
    assert text.splitlines()[2].split()[:2] == ["step_size=0.001", "3"]
    assert "step_size=0.01" in found._repr_html_()
    assert compare_runs(folder, last=5).standings == found.standings


def start(folder: Path) -> list[Run]:
    return [Run.open(one) for one in sorted(folder.glob("seed-*"))]


def test_groups_runs_and_sweeps_mix_and_each_counts_once(folder: Path) -> None:
    reference = folder / "step_size=0.01"
    found = compare_runs(reference, folder, reference / "seed-5")
    names = ["step_size=0.01", "step_size=0.001", "step_size=0.01/seed-5"]
    assert [one.name for one in found.standings] == names
    assert found.standings[0].improvement is None
    assert compare_runs(reference).standings[0].name == "step_size=0.01"
    assert compare_runs(reference / "seed-5").standings[0].seeds == 1


def test_runs_that_are_too_short_are_left_out_and_named(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "sweep")
    waiting = tmp_path / "sweep" / "step_size=0.1"
    start_runs(waiting, book(episodes=12, step_size=0.1), 1)
    settings = {"episodes": 12, "step_size": 1e-2, "enforcement": "none", "seed": 9}
    (half,) = start_runs(tmp_path / "sweep" / "step_size=0.01", book(**settings), 1)
    half.learn(stop=lambda: len(half.records()) >= 7)
    found = compare_runs(tmp_path / "sweep")
    assert [one.seeds for one in found.standings] == [3, 3]
    assert found.remarks == (
        "Left out, with fewer than 12 episodes: step_size=0.01 (1 run), step_size=0.1 (1 run).",
    )
    assert [one.seeds for one in compare_runs(tmp_path / "sweep", episodes=7).standings] == [3, 4]
    with pytest.raises(
        InvalidArgument, match="No run has recorded 13 episodes: the longest has 12"
    ):
        compare_runs(folder, episodes=13)
    with pytest.raises(InvalidArgument, match="None of these groups has a finished run"):
        compare_runs(waiting)


def test_goals_that_differ(folder: Path, tmp_path: Path) -> None:
    longer = learned(tmp_path / "longer", seeds=2, episodes=15)
    found = compare_runs(folder / "step_size=0.001", longer)
    assert found.episodes == 12
    (remark,) = found.remarks
    assert remark.startswith("Compared after 12 episodes, though ")
    assert remark.endswith("longer learned from more.")


def test_other_environments_are_refused(folder: Path, tmp_path: Path) -> None:
    text = TEXT.replace(
        "environment: Corridor-v0", "environment: {id: Corridor-v0, max_episode_steps: 9}"
    )
    other = learned(tmp_path / "other", seeds=1, text=text, episodes=2)
    with pytest.raises(InvalidArgument, match="in Corridor-v0, with other options: their scores"):
        compare_runs(folder, other)
    with pytest.raises(InvalidArgument, match="There is nothing to compare"):
        compare_runs()
