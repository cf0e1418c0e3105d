"""The mathematics of a page: the library's own numbers, to the last digit."""

from __future__ import annotations

import base64

import numpy as np
import pytest

import handrail as hr
from handrail.enforcement import references_before_experience
from handrail.errors import InvalidArgument
from handrail.report import Plane
from handrail.rulebook import parse
from handrail.runs import make_policy
from handrail.studio import workbench
from handrail.studio.engine import Superseded, Target
from handrail.studio.messages import Map, View
from handrail.studio.stage import view_of
from handrail.studio.workbench import Workbench
from tests.studio.conftest import TEXT

N = 7

APART = "[[-0.3, -0.1], [-0.1, -0.1], [-0.2, 0.1]]"
CONFLICT = TEXT.replace(APART, "[[0, 0], [0.3, 0], [0.15, 0.3]]")


@pytest.fixture
def bench() -> Workbench:
    return Workbench(Target(TEXT, "lean.yaml"))


def library_policy(text: str) -> tuple[hr.Policy, hr.Enforcement]:
    book = parse(text, "lean.yaml")
    env = book.make_environment()
    policy = make_policy(book, env)
    references = references_before_experience(None, env.observation_space, book)
    env.close()
    return policy, hr.enforce(policy, book, references=references)


def test_a_page_shows_what_the_library_computes(bench: Workbench) -> None:
    drawing = bench.draw(3, TEXT, None)
    held = bench.hold(3, N)
    policy, enforcement = library_policy(TEXT)
    assert drawing.revision == held.revision == 3
    assert held.satisfied
    _, _, states = Plane.of(parse(TEXT, "lean.yaml")).states(N)
    expected = policy.outputs(states).T.reshape(2, N, N)
    np.testing.assert_array_equal(outputs_of(held.map), expected)
    assert enforcement.influence is not None
    names = ["x", "x_dot", "phi", "phi_dot"], ["left", "right"]
    assert held.influence == enforcement.influence.with_names(*names)
    state = [0.0, 0.0, 0.05, 0.02]
    assert bench.probe(state).outputs == policy.outputs([state])[0].tolist()


def outputs_of(shown: Map | None) -> np.ndarray:
    """(2, N, N)."""
    assert shown is not None
    return np.frombuffer(base64.b64decode(shown.values)).reshape(2, N, N)


def test_the_map_and_the_cursor_read_one_policy_also_while_a_conflict_stands(
    bench: Workbench,
) -> None:
    """That of before: not the one that was held before the conflict."""
    _, _, states = Plane.of(parse(TEXT, "lean.yaml")).states(N)
    for revision, text in enumerate((TEXT, CONFLICT, TEXT)):
        bench.draw(revision, text, None)
        held = bench.hold(revision, N)
        assert held.satisfied == (text == TEXT)
        read = [bench.probe(state) for state in states.tolist()]
        assert {one.revision for one in read} == {revision}
        shown = outputs_of(held.map).reshape(2, -1).T
        np.testing.assert_allclose(shown, [one.outputs for one in read], rtol=1e-12)
        before = outputs_of(held.before).reshape(2, -1).T
        np.testing.assert_allclose(before, [one.before for one in read], rtol=1e-12)
        assert (held.map == held.before) == (not held.satisfied)


def test_whoever_looks_elsewhere_sees_the_policy_that_is_there(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is held and proven once; the plane alone is another."""
    bench.draw(0, TEXT, None)
    first, proof = bench.hold(0, N), bench.prove(0, lambda: None)
    influences = bench.influences(lambda: None)
    for name in ("enforce", "prove_entry"):
        monkeypatch.setattr(workbench, name, None)
    view = View(across=2, up=3, across_range=(0, 0.2), up_range=(0, 0.1), at=[0, 0, 0, 0])
    bench.draw(0, TEXT, view)
    again, nearer = bench.hold(0, N), bench.prove(0, lambda: None)
    assert again.model_copy(update={"map": first.map, "before": first.before}) == first
    assert again.map is not None
    assert again.map.view == view
    corner = bench.probe([0, 0, 0.2, 0.1])
    assert outputs_of(again.map)[:, -1, -1].tolist() == corner.outputs
    assert nearer.verdicts == proof.verdicts
    assert bench.influences(lambda: None) == influences


def test_a_policy_is_held_with_a_proof_and_stays_so(bench: Workbench) -> None:
    bench.draw(1, TEXT, None)
    held = bench.hold_proven(1, N)
    assert held.satisfied
    assert [one.status for one in bench.prove(1, lambda: None).verdicts] == ["proven"] * 3
    read = bench.probe([0.0, 0.0, 0.15, 0.0])
    assert bench.hold(1, N) == held
    assert bench.probe([0.0, 0.0, 0.15, 0.0]) == read


def test_what_cannot_be_held_with_a_proof_is_said_why(bench: Workbench) -> None:
    bench.draw(1, CONFLICT, None)
    with pytest.raises(InvalidArgument, match=r"held with a proof\. 'push right' and"):
        bench.hold_proven(1, N)
    with pytest.raises(Superseded):
        bench.probe([0.0, 0.0, 0.15, 0.0])
    chosen = TEXT.replace("settings:", "settings:\n  selection: {strategy: maximum_deviation}")
    bench.draw(2, chosen, None)
    with pytest.raises(InvalidArgument, match="chooses states by maximum_deviation, and only"):
        bench.hold_proven(2, N)


def test_nothing_is_read_of_a_policy_that_is_not_held_yet(bench: Workbench) -> None:
    bench.draw(0, TEXT, None)
    with pytest.raises(Superseded):
        bench.probe([0.0, 0.0, 0.05, 0.0])


def test_answers_do_not_depend_on_the_way_there(bench: Workbench) -> None:
    bench.draw(0, TEXT, None)
    first = bench.hold(0, N)
    bench.draw(1, TEXT.replace("right >= 0.9", "right >= 0.6"), None)
    bench.hold(1, N)
    bench.draw(2, TEXT, None)
    assert bench.hold(2, N).map == first.map


def test_verdicts_are_proven_cell_by_cell(bench: Workbench) -> None:
    bench.draw(0, TEXT, None)
    held = bench.hold(0, N)
    assert [one.status for one in held.verdicts] == ["holds"] * 3
    proof = bench.prove(0, lambda: None)
    assert [one.status for one in proof.verdicts] == ["proven"] * 3
    assert proof.words == "3 of 3 proven at every state"
    assert {cell.entry for cell in proof.cells} == {0, 1}
    assert all(cell.margin >= 0.0 for cell in proof.cells)
    influences = bench.influences(lambda: None)
    assert sorted(influences) == [0, 1, 2]
    assert influences[0].startswith("P(right) ")


def test_a_conflict_names_both_and_a_state(bench: Workbench) -> None:
    drawing = bench.draw(0, CONFLICT, None)
    assert not drawing.error
    held = bench.hold(0, N)
    assert not held.satisfied
    assert held.conflict == [0, 1]
    assert "do not exist together" in held.conflict_words
    assert 0.1 <= held.conflict_state[2] <= 0.2
    assert {one.status for one in held.verdicts[:2]} == {"violated"}


def test_other_kinds_are_cards_by_their_words_and_shapes_by_their_place(bench: Workbench) -> None:
    """A preference has a line of its own, a symmetry is said in words; both are held and proven."""
    text = TEXT.replace("require: right >= 0.9", "prefer: right over left by 1")
    text = text.replace("phi: 0.05, phi_dot: [0, 0.02]}", "phi: 0.3, phi_dot: [0, 0.02]}")
    mirror = "mirror: {x: -x, x_dot: -x_dot, phi: -phi, phi_dot: -phi_dot}"
    symmetric = f"symmetric: {{{mirror}, swap: {{left: right, right: left}}, within: 0.3}}"
    text = text.replace("require: 0.3 <= right <= 0.7", symmetric)
    drawing = bench.draw(0, text, None)
    assert drawing.error == ""
    assert [one.text for one in drawing.cards[0].requirements] == ["right over left by 1"]
    assert drawing.cards[2].requirements == []
    assert drawing.cards[2].sentences[0].startswith("at rest: symmetric within 0.3")
    assert [(one.entry, one.kind) for one in drawing.shapes][-1] == (2, "point")
    held = bench.hold(0, N)
    assert [one.status for one in held.verdicts] == ["holds"] * 3
    assert bench.prove(0, lambda: None).verdicts[0].status == "proven"
    assert "hr.Prefer(" in bench.as_python()


def test_what_is_wrong_with_a_text_is_said_as_the_library_says_it(bench: Workbench) -> None:
    drawing = bench.draw(0, TEXT.replace("right >= 0.9", "rigt >= 0.9"), None)
    assert drawing.error.startswith("lean.yaml, line 8: unknown action or observation 'rigt'.")
    assert drawing.line == 8
    with pytest.raises(Superseded):
        bench.hold(0, N)


def test_a_plane_is_the_one_that_is_looked_at(bench: Workbench) -> None:
    view = View(across=0, up=1, across_range=(-1, 1), up_range=(-2, 2), at=[0, 0, 0.15, 0])
    drawing = bench.draw(0, TEXT, view)
    assert drawing.view == view
    assert [one.meets for one in drawing.shapes] == [True, False, False, False]
    other = View(across=0, up=1, across_range=(-1, 1), up_range=(-2, 2), at=[0, 0])
    assert bench.draw(1, TEXT, other).view == view_of(Plane.of(parse(TEXT, "lean.yaml")))


def test_a_proof_that_nobody_waits_for_ends(bench: Workbench) -> None:
    bench.draw(0, TEXT, None)
    bench.hold(0, N)

    def moved_on() -> None:
        raise Superseded

    with pytest.raises(Superseded):
        bench.prove(0, moved_on)


def test_the_constraints_as_python_hold_the_same(bench: Workbench) -> None:
    bench.draw(0, TEXT, None)
    program = bench.as_python()
    names: dict[str, object] = {}
    exec(program.replace("print(", "result = ("), names)
    result, constraints = names["result"], names["constraints"]
    assert isinstance(result, hr.Enforcement)
    assert result.satisfied
    assert isinstance(constraints, list)
    policy, _ = library_policy(TEXT)
    assert hr.measure(policy, constraints).worst_violation <= 1e-6
