"""Handles of curves: what a page writes of a moved one is what the library then draws."""

from __future__ import annotations

import numpy as np
import pytest

from handrail.report import Plane
from handrail.rulebook import parse
from handrail.studio.draft import Draft, number_text
from handrail.studio.handles import line_of, shifted
from handrail.studio.messages import FormulaSlot, Handle, Shape
from handrail.studio.sketch import shapes_of
from tests.studio.conftest import TEXT

BOX = "region: {x: [-1, 1], x_dot: 0, phi: [0.1, 0.2], phi_dot: [-0.1, 0.1]}"


def with_curve(curve: str, others: str = "x: 0, x_dot: 0") -> str:
    return TEXT.replace(BOX, f"region: {{{others}, curve: {{{curve}}}}}")


def drawn(text: str) -> Shape:
    book = parse(text, "lean.yaml")
    return shapes_of(book, Plane.of(parse(TEXT, "lean.yaml")))[0]


def moved(text: str, handle: Handle, dx: float, dy: float) -> str:
    """The file after a hand has moved a handle, as the page writes it."""
    values: dict[tuple[str | int, ...], float | str] = {}
    for slots, formulas, distance in (
        (handle.across, handle.across_formulas, dx),
        (handle.up, handle.up_formulas, dy),
    ):
        values |= {tuple(one.path): one.value + distance for one in slots}
        values |= {tuple(one.path): written(one, distance) for one in formulas}
    return Draft(text, "lean.yaml").with_values(values).text


def written(slot: FormulaSlot, distance: float) -> str:
    numbers = [
        number_text(round(value + share * distance, 9))
        for value, share in zip(slot.values, slot.shares, strict=True)
    ]
    pairs = zip(numbers, slot.words[1:], strict=True)
    return slot.words[0] + "".join(number + word for number, word in pairs)


@pytest.mark.parametrize(
    "curve",
    [
        "from: 0, to: 1, phi: 0.1 + 0.1*t, phi_dot: -0.1 + 0.2*t",
        "from: 2, to: 4, phi: 0.05*t, phi_dot: 0.1",
        'from: -1, to: 1, phi: "0.1*(t + 2)", phi_dot: 0.3 - t/10',
    ],
)
def test_an_end_of_a_line_follows_the_hand_and_the_other_stays(curve: str) -> None:
    text = with_curve(curve)
    line = drawn(text)
    assert [one.role for one in line.handles] == ["move", "vertex", "vertex"]
    assert (line.meets, line.note, len(line.outlines[0])) == (True, "", 2)
    for number, handle in enumerate(line.handles[1:]):
        assert (handle.x, handle.y) == line.outlines[0][number]
        after = drawn(moved(text, handle, 0.02, -0.03)).outlines[0]
        expected = np.array(line.outlines[0])
        expected[number] += (0.02, -0.03)
        np.testing.assert_allclose(after, expected, atol=1e-9)
        assert handle.moves_across == handle.moves_up == [number]


@pytest.mark.parametrize(
    ("curve", "others"),
    [
        ("from: 0, to: 1, phi: 0.1 + 0.1*t, phi_dot: -0.1 + 0.2*t", "x: 0, x_dot: 0"),
        ("from: 0, to: 6, phi: 0.05*cos(t) - 0.2, phi_dot: 0.05*sin(t)", "x: 0, x_dot: 0"),
        ("from: 0, to: 1, phi: t**2/10", "x: 0, x_dot: 0, phi_dot: 0.1"),
    ],
)
def test_all_of_a_curve_moves_again_and_again(curve: str, others: str) -> None:
    text = with_curve(curve, others)
    before = drawn(text)
    for _ in range(3):
        text = moved(text, drawn(text).handles[0], 0.02, -0.03)
    after = drawn(text)
    expected = np.array(before.outlines[0]) + np.array([0.06, -0.09])
    np.testing.assert_allclose(after.outlines[0], expected, atol=1e-9)
    assert after.handles[0].moves_across == list(range(len(expected)))
    assert len(text) < len(with_curve(curve, others)) + 40


def test_a_bent_curve_says_where_its_form_is_changed() -> None:
    shape = drawn(with_curve("from: 0, to: 6, phi: 0.05*cos(t) - 0.2, phi_dot: 0.05*sin(t)"))
    assert [one.role for one in shape.handles] == ["move"]
    assert shape.note.startswith("Its form is given by formulas: it moves as a whole")
    away = drawn(with_curve("from: 0, to: 1, phi: 0.1*t, phi_dot: 0", "x: 1, x_dot: 0"))
    assert (away.meets, away.handles, away.note) == (False, [], "")


@pytest.mark.parametrize(
    ("text", "words", "value"),
    [
        ("sin(t) - 0.2", "sin(t) + ", -0.2),
        ("sin(t) + 1e-3", "sin(t) + ", 1e-3),
        ("sin(t)*(t - 0.2)", "sin(t)*(t - 0.2) + ", 0.0),
        ("0.2 + sin(t)", "0.2 + sin(t) + ", 0.0),
        ("sin(t) - 2*t", "sin(t) - 2*t + ", 0.0),
        ("sin(t - 0.2", "sin(t - 0.2 + ", 0.0),
    ],
)
def test_the_number_that_is_added_is_found_again(text: str, words: str, value: float) -> None:
    slot = shifted(text, ("phi",))
    assert (slot.words, slot.values, slot.shares) == ([words, ""], [value], [1.0])


def test_only_what_is_affine_in_t_is_a_line() -> None:
    assert line_of("2*(t - 1) + t") == (-2.0, 3.0)
    assert line_of(0.5) == (0.5, 0.0)
    assert line_of("t**2") is None
    assert line_of("t +") is None
