"""Back and forth between texts."""

from __future__ import annotations

from handrail.studio.history import History


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
