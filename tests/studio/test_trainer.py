"""Training: an ordinary run that outlives the page, and runs to compare with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import handrail as hr
from handrail.rulebook import parse
from handrail.studio.engine import Inbox, Signal, Target
from handrail.studio.messages import Note, Trained
from handrail.studio.trainer import FindRuns, FoundRuns, TellRun, TrainedWeights, TrainPolicy
from handrail.studio.workbench import Workbench
from tests.studio.conftest import TEXT
from tests.studio.test_behaviour import reports_of, weights

STATE = [0.0, 0.0, 0.1, 0.0]


@pytest.fixture
def bench() -> Workbench:
    made = Workbench(Target(TEXT, "lean.yaml"))
    made.draw(0, TEXT, None)
    made.hold(0, 3)
    return made


def trained(bench: Workbench, runs: Path, episodes: int, inbox: Inbox | None = None) -> list[Any]:
    job = TrainPolicy(TEXT, weights(bench).held, episodes, free=False, runs=runs)
    return reports_of(job, bench, inbox)


def test_a_policy_learns_from_where_it_is(bench: Workbench, tmp_path: Path) -> None:
    curve, learned = trained(bench, tmp_path, 4)[-2:]
    assert isinstance(curve, Trained)
    assert isinstance(learned, TrainedWeights)
    assert (curve.status, len(curve.scores)) == ("done", 4)
    assert max(one for one in curve.violations if one is not None) <= 1e-6
    bench.adopt(learned.arrays)
    bench.draw(1, TEXT, None)
    assert bench.hold(1, 3).words == "Every constraint holds already."
    assert bench.probe(STATE).before == bench.probe(STATE).outputs
    bench.adopt(None)
    bench.draw(2, TEXT, None)
    bench.hold(2, 3)
    assert bench.probe(STATE).before != bench.probe(STATE).outputs


def test_what_is_learned_is_an_ordinary_run(bench: Workbench, tmp_path: Path) -> None:
    """From the policy that was shown, with the text that was drawn; the next one is another."""
    curve, learned = trained(bench, tmp_path, 3)[-2:]
    assert curve.folder == str(tmp_path / "lean" / "seed-0")
    (run,) = hr.runs.open_runs(tmp_path / "lean")
    assert run.rulebook.text == TEXT
    assert [one.score for one in run.records()] == curve.scores
    assert run.finished
    bench.adopt(learned.arrays)
    bench.draw(1, TEXT, None)
    bench.hold(1, 3)
    assert run.agent().policy.outputs([STATE])[0].tolist() == bench.probe(STATE).outputs
    assert trained(bench, tmp_path, 1)[-2].folder == str(tmp_path / "lean-2" / "seed-0")


def test_without_rules_they_are_measured_only(bench: Workbench, tmp_path: Path) -> None:
    job = TrainPolicy(TEXT, weights(bench).before, 2, free=True, runs=tmp_path)
    curve = reports_of(job, bench)[-1]
    assert isinstance(curve, Trained)
    assert curve.label == "without rules"
    assert min(one for one in curve.violations if one is not None) > 0.0
    (run,) = hr.runs.open_runs(tmp_path / "lean-without-rules")
    assert run.rulebook.settings.enforcement == "none"


def test_whoever_stops_gets_what_was_learned_and_may_go_on(
    bench: Workbench, tmp_path: Path
) -> None:
    inbox = Inbox()
    inbox.hear(Signal("stop"))
    curve, learned = trained(bench, tmp_path, 50, inbox)[-2:]
    assert isinstance(curve, Trained)
    assert (curve.status, len(curve.scores)) == ("stopped", 1)
    assert isinstance(learned, TrainedWeights)
    (run,) = hr.runs.open_runs(tmp_path / "lean")
    assert (run.saved_episodes, run.finished) == (1, False)
    assert run.with_episodes(3).learn().episodes == 3


def test_a_network_that_the_file_does_not_describe_learns_without_a_run(tmp_path: Path) -> None:
    """A policy of a file has its own; a run of it could not be resumed."""
    book = parse(TEXT.replace("[32]", "[8]"), "lean.yaml")
    env = book.make_environment()
    hr.export_numpy(hr.runs.make_policy(book, env), tmp_path / "small.npz", book)
    bench = Workbench(Target(TEXT, "lean.yaml", tmp_path / "small.npz"))
    bench.draw(0, TEXT, None)
    bench.hold(0, 3)
    said, *_, curve, _ = trained(bench, tmp_path / "runs", 2)
    assert isinstance(said, Note)
    assert said.text.startswith("No run is written. A run is learned on with the network that")
    assert (curve.status, curve.folder, len(curve.scores)) == ("done", "", 2)
    assert not (tmp_path / "runs").exists()


def test_runs_are_found_and_told(bench: Workbench, tmp_path: Path) -> None:
    trained(bench, tmp_path / "runs", 2)
    (tmp_path / "runs" / "notes").mkdir()
    (found,) = reports_of(FindRuns(tmp_path / "runs"), bench)
    folder = tmp_path / "runs" / "lean" / "seed-0"
    assert found == FoundRuns([folder])
    (curve,) = reports_of(TellRun(folder), bench)
    assert (curve.label, curve.wanted) == (f"run {folder}", 2)
    assert curve.scores == [one.score for one in hr.Run.open(folder).records()]
    (note,) = reports_of(TellRun(tmp_path / "runs" / "notes"), bench)
    assert "holds no run" in note.text
    assert reports_of(FindRuns(tmp_path / "nothing"), bench) == [FoundRuns([])]
