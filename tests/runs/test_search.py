"""Searches: what Optuna is told, what is kept, and how a search goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handrail.errors import InvalidArgument
from handrail.executors import Outcome
from handrail.runs.group import open_groups
from handrail.runs.run import Run
from handrail.runs.search import Search, Span
from handrail.runs.sweep import Axis
from tests.runs.test_run import book

pytest.importorskip("optuna", reason='a search needs Optuna: pip install "handrail[optuna]"')

SPACE = (Span("step_size", 1e-4, 1e-1, log=True), Axis("hidden", (4, [4, 4])))


class Learner:
    """Learns in this process, and remembers how far."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.stages: list[tuple[int, int]] = []
        self._left = stop_after

    def __call__(self, runs: Sequence[Run], until: int) -> Outcome:
        if self._left is not None:
            self._left -= 1
        if self._left == -1:
            return Outcome(stopped=True, failures=())
        self.stages.append((until, len(runs)))
        for run in runs:
            run.learn(stop=lambda run=run: len(run.records()) >= until)  # type: ignore[misc]
        return Outcome(stopped=False, failures=())


def search(folder: Path, **changes: Any) -> Search:
    rules = book(episodes=8, enforcement="none")
    given = {"rulebook": rules, "space": SPACE, "seeds": 1, "last": 4, **changes}
    return Search(folder, **given)


def test_trials_are_ordinary_groups_and_poor_ones_are_pruned(tmp_path: Path) -> None:
    found, learner = search(tmp_path / "sweep"), Learner()
    assert found.run(trials=9, at_once=3, learn=learner) == Outcome(False, ())
    trials = found.trials()
    assert sorted(one.number for one in trials) == list(range(9))
    states = [one.state for one in trials]
    assert set(states) == {"complete", "pruned"}
    assert states == sorted(states)  # the complete ones come first
    groups = {group.folder: group for group in open_groups(tmp_path / "sweep")}
    for one in trials:
        lengths = {len(run.records()) for run in groups[one.folder].runs}
        assert (lengths == {8}) == (one.state == "complete") or len(groups) < len(trials)
        scores = [[r.score for r in run.records()] for run in groups[one.folder].runs]
        if one.state == "complete":
            assert one.score == pytest.approx(np.mean([np.mean(each[-4:]) for each in scores]))
            assert one.folder.name == str(one.choice)
        settings = groups[one.folder].runs[0].rulebook.settings
        assert 1e-4 <= settings.step_size <= 1e-1
        assert settings.network.hidden in ([4], [4, 4])
    best = [one.score for one in trials if one.state == "complete"]
    assert best == sorted(best, reverse=True)  # type: ignore[type-var]
    assert learner.stages[:4] == [(2, 3), (4, 3), (6, 3), (8, 3)]


def test_a_search_that_was_stopped_goes_on(tmp_path: Path) -> None:
    whole = search(tmp_path / "whole")
    whole.run(trials=2, at_once=1, learn=Learner())
    halted = search(tmp_path / "halted")
    assert halted.run(trials=2, at_once=1, learn=Learner(stop_after=2)).stopped
    assert [one.state for one in halted.trials()] == ["running"]
    again = Learner()
    assert not search(tmp_path / "halted").run(trials=2, at_once=1, learn=again).stopped
    # The first trial goes on from the second stage, which had not been told.
    assert again.stages[:4] == [(2, 0), (4, 0), (6, 1), (8, 1)]
    first = {one.number: one for one in halted.trials()}[0]
    expected = {one.number: one for one in whole.trials()}[0]
    assert (first.choice, first.score) == (expected.choice, expected.score)
    assert len(halted.trials()) == 2
    assert not search(tmp_path / "halted").run(2, 1, Learner(stop_after=0)).stopped  # all is done


def test_a_search_is_of_one_thing(tmp_path: Path) -> None:
    search(tmp_path).run(trials=1, at_once=1, learn=Learner())
    for changes, words in (
        ({"seeds": 3}, "holds a search with other seeds"),
        ({"rulebook": book(episodes=9, enforcement="none")}, "holds a search with other settings"),
        ({"space": SPACE[:1]}, "holds a search with other space"),
    ):
        with pytest.raises(InvalidArgument, match=words):
            search(tmp_path, **changes).run(trials=2, at_once=1, learn=Learner())


def test_a_trial_that_fails_is_told_to_optuna(tmp_path: Path) -> None:
    def refuse(runs: Sequence[Run], until: int) -> Outcome:
        return Outcome(stopped=False, failures=("no room",))

    found = search(tmp_path, space=[Axis("baseline", ("none",))])
    outcome = found.run(trials=1, at_once=1, learn=refuse)
    assert outcome.failures[-1] == "no room"
    assert [(one.state, one.score) for one in found.trials()] == [("fail", None)]


def test_spaces_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"step_size=1\.\.0: expected a range with low < h"):
        Span("step_size", 1, 0)
    with pytest.raises(InvalidArgument, match=r"range with 0 < low < high"):
        Span("step_size", 0, 1, log=True)
    with pytest.raises(InvalidArgument, match=r"discount=2: .* less than or equal to 1"):
        search(tmp_path, space=[Span("discount", 0.5, 2)])
    with pytest.raises(InvalidArgument, match="every setting once"):
        search(tmp_path, space=[Axis("hidden", (4,)), Axis("network.hidden", (8,))])
