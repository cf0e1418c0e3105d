"""Folders of runs: which groups are in them, and in which order."""

from __future__ import annotations

from pathlib import Path

import pytest

from handrail.errors import InvalidRun
from handrail.runs.group import open_groups, start_runs
from tests.runs.test_run import book


def test_groups_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    names = ["a=0.0003,b=9", "a=0.0003,b=10", "a=0.002,b=9", "a=1e-05,b=9", "exact", "none"]
    for name in names:
        start_runs(tmp_path / name, book(), 1)
    found = [group.folder.name for group in open_groups(tmp_path)]
    assert found == ["a=1e-05,b=9", *names[:3], "exact", "none"]


def test_a_group_and_a_run_are_groups(tmp_path: Path) -> None:
    start_runs(tmp_path / "group", book(), 2)
    (group,) = open_groups(tmp_path / "group")
    assert (group.folder, [run.seed for run in group.runs]) == (tmp_path / "group", [4, 5])
    (alone,) = open_groups(tmp_path / "group" / "seed-5")
    assert [run.seed for run in alone.runs] == [5]


def test_nothing_is_followed_out_of_a_folder(tmp_path: Path) -> None:
    start_runs(tmp_path / "elsewhere", book(), 1)
    start_runs(tmp_path / "sweep" / "a=1", book(), 1)
    (tmp_path / "sweep" / "a=2").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidRun, match="is a symbolic link"):
        open_groups(tmp_path / "sweep")
    with pytest.raises(InvalidRun, match="holds no run"):
        open_groups(tmp_path / "nothing")
