"""Shapes: outlines of the library's regions, handles on the numbers of the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from handrail.report import Plane
from handrail.rulebook import bundled, load_rulebook, parse
from handrail.studio.cards import cards_of
from handrail.studio.draft import Draft
from handrail.studio.messages import Handle
from handrail.studio.sketch import constraints_by_entry, shapes_of
from tests.studio.conftest import TEXT

BOOK = parse(TEXT, "lean.yaml")


def moved(text: str, handle: Handle, dx: float, dy: float) -> str:
    """The file after a hand has moved a handle."""
    values = {tuple(slot.path): slot.value + dx for slot in handle.across}
    values |= {tuple(slot.path): slot.value + dy for slot in handle.up}
    return Draft(text, "lean.yaml").with_values(values).text


def test_every_part_is_drawn_once() -> None:
    shapes = shapes_of(BOOK, Plane.of(BOOK))
    assert [(one.entry, one.kind) for one in shapes] == [
        (0, "box"),
        (1, "polygon"),
        (2, "point"),
        (2, "point"),
    ]
    assert all(one.meets for one in shapes)
    assert shapes[1].outlines == [[(-0.3, -0.1), (-0.1, -0.1), (-0.2, 0.1), (-0.3, -0.1)]]
    assert sorted(handle.role for handle in shapes[0].handles).count("corner") == 4


@pytest.mark.parametrize("name", bundled())
def test_outlines_of_every_bundled_file_follow_their_handles(name: str) -> None:
    """What a page predicts of a moved handle is what the library draws of the changed file."""
    book = load_rulebook(name)
    plane = Plane.of(book)
    for index, shape in enumerate(shapes_of(book, plane)[:12]):
        move = next((one for one in shape.handles if one.role == "move"), None)
        if move is None or not (move.across and move.up) or not shape.meets:
            continue
        after = shapes_of(parse(moved(book.text, move, 0.01, -0.01), book.name), plane)[index]
        expected = np.array(shape.outlines[0]) + np.array([0.01, -0.01])
        np.testing.assert_allclose(after.outlines[0], expected, atol=1e-12)


def test_a_corner_moves_two_numbers_and_the_outline_with_them() -> None:
    plane = Plane.of(BOOK)
    box = shapes_of(BOOK, plane)[0]
    corner = next(one for one in box.handles if one.role == "corner" and one.x == 0.2 and one.y > 0)
    after = shapes_of(parse(moved(TEXT, corner, 0.05, 0.02), "lean.yaml"), plane)[0]
    predicted = np.array(box.outlines[0])
    predicted[corner.moves_across, 0] += 0.05
    predicted[corner.moves_up, 1] += 0.02
    np.testing.assert_allclose(after.outlines[0], predicted)


def test_a_ball_has_a_centre_and_a_radius() -> None:
    book = load_rulebook("cartpole_disks")
    ball = shapes_of(book, Plane.of(book))[0]
    assert [one.role for one in ball.handles] == ["move", "radius"]
    assert ball.handles[1].across[0].value == 0.05
    assert ball.handles[1].x == pytest.approx(-0.15)


def test_words_instead_of_numbers_are_left_to_the_text() -> None:
    """`any` is the environment's, and `others` are several: neither follows a hand."""
    box = "region: {x: [-1, 1], x_dot: 0, phi: [0.1, 0.2], phi_dot: [-0.1, 0.1]}"
    point = "where: {x: 0, x_dot: 0, phi: 0.05, phi_dot: [0, 0.02]}"
    text = TEXT.replace(box, "region: {phi: any, phi_dot: [-0.1, 0.1], others: 0}")
    text = text.replace(point, "where: {phi: 0.05, others: 0.02}")
    book = parse(text, "lean.yaml")
    wide, _, state = shapes_of(book, Plane.of(book, at={"x": 0.02, "x_dot": 0.02}))
    assert {tuple(slot.path[-2:]) for one in wide.handles for slot in (*one.across, *one.up)} <= {
        ("phi_dot", 0),
        ("phi_dot", 1),
    }
    assert state.outlines == [[(0.05, 0.02)]]
    (move,) = state.handles
    assert [slot.path[-1] for slot in move.across] == ["phi"]
    assert move.up == []


def test_half_spaces_are_drawn_by_their_outline_and_changed_in_the_text() -> None:
    vertices = "vertices: [[-0.3, -0.1], [-0.1, -0.1], [-0.2, 0.1]]"
    sides = "half_spaces: [phi_dot >= -0.1, phi_dot <= 2*phi + 0.5, phi_dot <= -2*phi - 0.3]"
    book = parse(TEXT.replace(vertices, sides), "lean.yaml")
    shape = shapes_of(book, Plane.of(book))[1]
    assert (shape.kind, shape.meets, shape.handles) == ("polygon", True, [])
    corners = {(round(x, 9), round(y, 9)) for x, y in shape.outlines[0]}
    assert corners == {(-0.3, -0.1), (-0.1, -0.1), (-0.2, 0.1)}
    assert shape.note == "It is given by half-spaces. Change it in the text."
    assert cards_of(book, [shape])[1].notes == [shape.note]


def test_what_the_plane_misses_is_shown_as_such() -> None:
    plane = Plane.of(BOOK, at={"x": 3.0})
    assert [one.meets for one in shapes_of(BOOK, plane)] == [False, False, False, False]
    box = shapes_of(BOOK, plane)[0]
    assert box.outlines[0][0] == (0.1, -0.1)
    assert box.handles == []
    assert box.middle == [0.0, 0.0, pytest.approx(0.15), 0.0]


def test_bounds_that_depend_on_the_state_have_level_lines() -> None:
    text = TEXT.replace("right >= 0.9", "right >= 0.5 + 2*phi")
    levels = shapes_of(parse(text, "lean.yaml"), Plane.of(BOOK))[0].levels
    assert {one.side for one in levels} == {"lower"}
    for level in levels:
        across = np.array(level.line)[:, 0]
        np.testing.assert_allclose(0.5 + 2 * across, level.value, atol=1e-9)


def test_an_entry_of_several_requirements_has_several_constraints() -> None:
    text = TEXT.replace("require: left >= 0.9", "require: [left >= 0.9, right <= 0.2]")
    book = parse(text, "lean.yaml")
    assert constraints_by_entry(book) == [[0], [1, 2], [3]]


def test_states_of_a_file_are_drawn_and_not_moved(tmp_path: Path) -> None:
    np.save(tmp_path / "seen.npy", [[0.0, 0.0, 0.2, 0.1], [0.0, 0.0, 0.1, 0.0]])
    head = TEXT.partition("constraints:")[0]
    entry = "constraints: [{name: seen, where: {states: seen.npy}, require: right >= 0.9}]\n"
    book = parse(head + entry, "seen.yaml", tmp_path)
    shapes = shapes_of(book, Plane.of(book, over=("phi", "phi_dot")))
    assert [one.outlines for one in shapes] == [[[(0.2, 0.1)]], [[(0.1, 0.0)]]]
    assert not any(one.handles for one in shapes)
    (card,) = cards_of(book, shapes)
    assert card.notes == ["They are in an array file, which is not changed here."]
