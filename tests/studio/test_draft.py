"""A text that a hand changes: only what was meant, and nothing around it."""

from __future__ import annotations

import difflib

import pytest

from handrail.errors import InvalidArgument, InvalidRulebook
from handrail.rulebook import bundled, parse, read_file
from handrail.studio.draft import Draft, History, number_text
from tests.studio.conftest import TEXT

VERTICES = ("constraints", 1, "region", "polytope", "vertices")


def changes(before: Draft, after: Draft) -> list[str]:
    """Lines that went and lines that came."""
    lines = difflib.unified_diff(before.text.splitlines(), after.text.splitlines(), n=0)
    return [line for line in lines if line[0] in "+-" and line[:3] not in ("+++", "---")]


@pytest.fixture
def draft() -> Draft:
    return Draft(TEXT, "lean.yaml")


def test_a_vertex_is_two_numbers(draft: Draft) -> None:
    moved = draft.with_values({(*VERTICES, 1, 0): -0.15, (*VERTICES, 1, 1): -0.05})
    assert changes(draft, moved) == [
        "-        vertices: [[-0.3, -0.1], [-0.1, -0.1], [-0.2, 0.1]]",
        "+        vertices: [[-0.3, -0.1], [-0.15, -0.05], [-0.2, 0.1]]",
    ]


def test_a_text_is_quoted_where_it_must_be(draft: Draft) -> None:
    plain = draft.with_values({("constraints", 0, "require"): "right >= 0.8"})
    assert changes(draft, plain)[1] == "+    require: right >= 0.8"
    odd = draft.with_values({("constraints", 0, "name"): 'a: "b" # c'})
    assert changes(draft, odd)[1] == '+  - name: "a: \\"b\\" # c"  # when it leans right'


def test_vertices_come_and_go(draft: Draft) -> None:
    more = draft.with_item(VERTICES, 2, [-0.1, 0.05])
    assert more.value_at(VERTICES)[2] == [-0.1, 0.05]
    assert more.without_item(VERTICES, 2).text == draft.text
    assert draft.without_item(VERTICES, 2).value_at(VERTICES) == [[-0.3, -0.1], [-0.1, -0.1]]


def test_items_in_blocks_come_and_go() -> None:
    text = "constraints:\n  - vertices:\n      - [0, 0]  # first\n      - [1, 0]\n    name: a\n"
    draft, path = Draft(text, "x.yaml"), ("constraints", 0, "vertices")
    more = draft.with_item(path, 1, [2, 3])
    assert changes(draft, more) == ["+      - [2, 3]"]
    assert more.value_at(path) == [[0, 0], [2, 3], [1, 0]]
    assert more.without_item(path, 1).text == text


@pytest.mark.parametrize("name", bundled())
def test_a_constraint_more_and_one_less_in_every_bundled_file(name: str) -> None:
    draft = Draft(*read_file(name))
    entries = draft.value_at(("constraints",))
    entry = {"name": "new", "where": dict.fromkeys(draft.value_at(("observations",)), 0.25)}
    more = draft.with_entry({**entry, "require": "a >= 0.5"})
    assert more.value_at(("constraints",)) == [*entries, {**entry, "require": "a >= 0.5"}]
    less = more.without_item(("constraints",), 0)
    assert less.value_at(("constraints",)) == more.value_at(("constraints",))[1:]
    for line in changes(draft, more):
        assert line[0] == "+"


def test_entries_of_one_line_stay_on_it() -> None:
    draft = Draft("constraints: [{name: a, require: b >= 1}]", "x.yaml")
    more = draft.with_entry({"name": "c", "require": "b >= 0.5"})
    assert more.text == "constraints: [{name: a, require: b >= 1}, {name: c, require: b >= 0.5}]"


def test_an_anchor_moves_for_all_who_refer_to_it() -> None:
    draft = Draft(*read_file("cartpole_regions"))
    moved = draft.with_values({("constraints", 3, "region", "x", 0): -2.0})
    assert changes(draft, moved)[1] == "+  cart: &cart {x: [-2, 2.5], x_dot: 0}"
    assert parse(moved.text, "x.yaml").constraints[5].states[:, 0].min() == -2.0


def test_what_is_not_there_is_refused(draft: Draft) -> None:
    with pytest.raises(InvalidArgument, match="no number or text"):
        draft.with_values({("constraints", 9, "name"): "x"})
    with pytest.raises(InvalidArgument, match="no number or text"):
        draft.with_values({("constraints", 0, "region"): 1.0})
    with pytest.raises(InvalidArgument, match="no list"):
        draft.with_item(("constraints", 0, "name"), 1, [1.0])
    with pytest.raises(InvalidArgument, match="no item 7"):
        draft.without_item(("constraints",), 7)
    with pytest.raises(InvalidRulebook, match="this is not YAML"):
        Draft("a: [", "x.yaml").with_values({("a",): 1.0})


@pytest.mark.parametrize("value", [0.1, -3.0, 1e-7, 1 / 3, 1e300, 0.0])
def test_numbers_are_written_to_the_last_digit(value: float) -> None:
    assert float(number_text(value)) == value


def test_a_gesture_is_one_step() -> None:
    history = History("a")
    for text in ("b", "c", "d"):
        history.push(text, gesture=7)
    history.push("e", gesture=8)
    history.undo()
    assert history.text == "d"
    history.undo()
    assert (history.text, history.can_undo, history.can_redo) == ("a", False, True)
    history.redo()
    assert history.text == "d"


def test_a_new_text_ends_what_was_undone() -> None:
    history = History("a")
    history.push("b")
    history.undo()
    history.push("c")
    assert not history.can_redo
    history.undo()
    assert history.text == "a"
    history.undo()
    assert history.text == "a"


def test_it_is_not_endless() -> None:
    history = History("0")
    for number in range(1, 1000):
        history.push(str(number))
    for _ in range(1000):
        history.undo()
    assert history.text == "500"
