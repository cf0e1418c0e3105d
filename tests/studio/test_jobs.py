"""What the process of an engine is asked to do: files of the policy that is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import handrail as hr
from handrail.errors import InvalidArgument
from handrail.studio import workbench
from handrail.studio.engine import Inbox, Target
from handrail.studio.jobs import ExportPolicy, HoldProven
from handrail.studio.messages import ExportFormat, Verdict
from handrail.studio.verdicts import EntryProof
from handrail.studio.workbench import Workbench
from tests.studio.conftest import TEXT
from tests.studio.test_workbench import CONFLICT

STATES = np.random.default_rng(0).uniform(-0.3, 0.3, (20, 4))


@pytest.fixture
def bench() -> Workbench:
    made = Workbench(Target(TEXT, "lean.yaml"))
    made.draw(2, TEXT, None)
    made.hold(2, 3)
    return made


def exported(bench: Workbench, path: Path, format: ExportFormat, prove: bool = False) -> str:
    told: list[Any] = []
    ExportPolicy(2, path, format, prove).run(bench, Inbox(), told.append)
    (note,) = told
    assert note.what == "exported"
    return str(note.text)


@pytest.mark.parametrize(("format", "ending"), [("onnx", ".onnx"), ("numpy", ".npz")])
def test_what_is_exported_is_the_policy_that_is_shown(
    bench: Workbench, tmp_path: Path, format: ExportFormat, ending: str
) -> None:
    path = tmp_path / f"lean{ending}"
    words = exported(bench, path, format)
    assert words.startswith(f"{path}: ")
    assert "constraints satisfied (rows at points: 2, regions: 2)" in words
    opened = hr.export.open_export(path)
    assert opened.metadata["constraints"] == TEXT
    shown = [bench.probe(state).outputs for state in STATES.tolist()]
    np.testing.assert_allclose(opened.policy.outputs(STATES), shown, rtol=0.0, atol=1e-6)


def test_a_certificate_of_the_very_file_goes_inside(bench: Workbench, tmp_path: Path) -> None:
    words = exported(bench, tmp_path / "lean.npz", "numpy", prove=True)
    assert "\nOf this file, in float64: " in words
    assert words.count("holds at every state") == 3
    assert "certificate" in hr.export.open_export(tmp_path / "lean.npz").metadata


def test_a_learner_goes_on_from_the_policy_that_is_shown(bench: Workbench, tmp_path: Path) -> None:
    exported(bench, tmp_path / "lean.safetensors", "learner")
    agent = hr.Reinforce.load(tmp_path / "lean.safetensors")
    shown = [bench.probe(state).outputs for state in STATES.tolist()]
    np.testing.assert_allclose(agent.policy.outputs(STATES), shown, rtol=1e-12)
    assert agent.episodes == 0
    assert max(one.violation_after or 0.0 for one in agent.learn(2, progress_bar=False)) <= 1e-6


def test_a_policy_that_does_not_obey_is_not_exported(bench: Workbench, tmp_path: Path) -> None:
    bench.draw(2, CONFLICT, None)
    bench.hold(2, 3)
    with pytest.raises(InvalidArgument, match="not exported: 'push right' and 'push left' ask"):
        exported(bench, tmp_path / "lean.npz", "numpy")
    bench.draw(3, TEXT, None)
    bench.hold(3, 3)
    with pytest.raises(InvalidArgument, match="The text is not valid, so no policy obeys it"):
        exported(bench, tmp_path / "lean.npz", "numpy")
    assert list(tmp_path.iterdir()) == []


def test_what_a_proof_has_found_broken_is_not_exported(
    bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However good it looked where it was tried."""
    broken = Verdict(entry=0, status="violated", violation=0.1, words="violated by 0.1 at (0, 0)")
    monkeypatch.setattr(workbench, "prove_entry", lambda *_: EntryProof(broken))
    bench.prove(2, lambda: None)
    with pytest.raises(InvalidArgument, match=r"not exported: violated by 0\.1 at \(0, 0\)"):
        exported(bench, tmp_path / "lean.npz", "numpy")


def told_by(bench: Workbench, text: str) -> list[Any]:
    told: list[Any] = []
    HoldProven(3, text, None).run(bench, Inbox(), told.append)
    return told


def test_a_policy_is_held_with_a_proof_or_as_before(bench: Workbench) -> None:
    drawing, held = told_by(bench, TEXT)
    assert (drawing.revision, held.revision, held.satisfied) == (3, 3, True)
    _, note, held = told_by(bench, CONFLICT)
    assert note.text.startswith("It could not be held with a proof. 'push right' and 'push left'")
    assert (held.revision, held.satisfied, held.conflict) == (3, False, [0, 1])
