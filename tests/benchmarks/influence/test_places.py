"""What is said where, on states and bounds made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.influence.places import Places, against
from handrail import AtLeast, AtMost, Between, Box, Points
from handrail.errors import InvalidArgument

_DO = AtLeast(0.9, 1, Box([0.0], [1.0]), "do")
_DONT = AtMost(0.1, {0: 1.0, 2: 1.0}, Box([2.0], [3.0]), "don't")
_PLACES = Places.of([_DO, _DONT, AtLeast(0.9, 0, Points([[9.0]]))], 3)
_STATES = np.array([[0.5], [1.5], [2.5], [9.0]])


def test_places_are_regions_and_say_what_is_against_them() -> None:
    assert _PLACES.inside(_STATES).tolist() == [True, False, True, False]
    assert _PLACES.forbidden(_STATES).tolist() == [
        [True, False, True],
        [False] * 3,
        [True, False, True],
        [False] * 3,
    ]


def test_bounds_that_leave_the_choice_open_forbid_nothing() -> None:
    with pytest.raises(InvalidArgument, match="'open' leaves the choice open"):
        against(Between(0.3, 0.6, 0, Box([0.0], [1.0]), "open"), 2)


def test_a_bound_is_broken_where_it_speaks_and_nowhere_else() -> None:
    probabilities = np.array(
        [[0.2, 0.8, 0.0], [1.0, 0.0, 0.0], [0.05, 0.91, 0.04], [0.0, 1.0, 0.0]]
    )
    assert _PLACES.broken(_STATES, probabilities).tolist() == [True, False, False, False]
    probabilities[[0, 2]] = [[0.04, 0.92, 0.04], [0.1, 0.85, 0.05]]
    assert _PLACES.broken(_STATES, probabilities).tolist() == [False, False, True, False]
