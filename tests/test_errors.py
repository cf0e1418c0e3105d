"""Messages about constraints, told in Python's words and in those of a file."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import handrail as hr
from handrail.errors import ActionSum, Coordinate, InvalidConstraint, Phrase, Words
from handrail.rulebook.findings import file_words

FILE = Words(
    coordinates=["x", "phi"],
    actions=["left", "right"],
    terms={Phrase.CURVE: "it"},
    says_class=False,
)


def test_fields_are_told_by_index_or_by_name() -> None:
    error = InvalidConstraint(
        "{where} has no {coordinate}: {action} is {value:.2f}.",
        about="Equal",
        where=Phrase.CURVE,
        coordinate=Coordinate(1),
        action=ActionSum({0: 0.5, 1: 1.0}, "action"),
        value=0.25,
    )
    assert str(error) == "Equal: Curve has no coordinate 1: 0.5·action 0 + action 1 is 0.25."
    assert error.told(FILE) == "it has no phi: 0.5·left + right is 0.25."


def test_a_message_without_fields_is_no_template() -> None:
    error = InvalidConstraint("Give others={0: 1.0}.")
    assert str(error) == error.told(FILE) == "Give others={0: 1.0}."


def test_words_that_a_file_has_none_for_stay() -> None:
    error = InvalidConstraint("Use {it}.", it=Phrase.POINTS)
    assert error.told(FILE) == str(error) == "Use Points."


def test_a_file_has_words_for_every_term() -> None:
    assert set(file_words().terms) == set(Phrase)


def test_errors_survive_the_way_between_processes() -> None:
    with pytest.raises(InvalidConstraint) as caught:
        hr.Polytope.from_half_spaces(np.eye(2), [1.0, 1.0])
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.told(FILE) == caught.value.told(FILE)
    assert "nothing bounds x from below" in again.told(FILE)
    assert "nothing bounds coordinate 0 from below" in str(again)
