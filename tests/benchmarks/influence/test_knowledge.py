"""Sets are what they are called: one-sided, of fixed seeds, many."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.influence.knowledge import (
    BOXES,
    FULL,
    NOTHING,
    is_one_sided,
    one_sided,
    sets_of,
)
from benchmarks.influence.navigation import DISK, DOWN, LEFT, RIGHT, UP
from benchmarks.influence.setting import SETTINGS
from handrail.constraints import PlacedConstraint
from handrail.regions import Box

_N_ACTIONS = {"cartpole": 2, "lunar_lander": 4, "acrobot": 3, "mountain_car": 3, "navigation": 4}


def test_there_are_enough_one_sided_sets() -> None:
    assert {one.environment for one in SETTINGS} == set(_N_ACTIONS)
    assert sum(len(one_sided(environment)) for environment in _N_ACTIONS) >= 20


@pytest.mark.parametrize("environment", _N_ACTIONS)
def test_one_sided_sets_leave_a_side_without_advocate(environment: str) -> None:
    sets = sets_of(environment)
    for name in one_sided(environment):
        assert is_one_sided(sets[name], _N_ACTIONS[environment]), name


@pytest.mark.parametrize("environment", ["cartpole", "lunar_lander"])
def test_knowledge_in_full_covers_both_sides(environment: str) -> None:
    for name in (FULL, BOXES):
        assert not is_one_sided(sets_of(environment)[name], _N_ACTIONS[environment]), name


@pytest.mark.parametrize("environment", _N_ACTIONS)
def test_sets_are_the_same_whenever_they_are_made(environment: str) -> None:
    first = {name: [one.states for one in known] for name, known in sets_of(environment).items()}
    sets_of.cache_clear()
    again = {name: [one.states for one in known] for name, known in sets_of(environment).items()}
    assert first.keys() == again.keys()
    assert first[NOTHING] == []
    for name, states in first.items():
        np.testing.assert_equal(again[name], states)


def test_names_are_names_of_files() -> None:
    for environment in _N_ACTIONS:
        assert all(name.replace("_", "").isalnum() for name in sets_of(environment))


def test_the_boxes_of_one_environment_do_not_overlap() -> None:
    for environment in ("cartpole", "lunar_lander"):
        boxes = [_bounds(one) for one in sets_of(environment)[BOXES]]
        for i, (low, high) in enumerate(boxes):
            for other_low, other_high in boxes[:i]:
                assert (high < other_low).any() or (other_high < low).any()


def _bounds(constraint: object) -> tuple[np.ndarray, np.ndarray]:
    assert isinstance(constraint, PlacedConstraint)
    assert isinstance(constraint.where, Box)
    return constraint.where.bounds


@pytest.mark.parametrize(
    ("name", "direction"), [("in_front", RIGHT), ("above", DOWN), ("below", UP)]
)
def test_donts_are_true_of_the_disk(name: str, direction: int) -> None:
    """A step there in that direction comes nearer to the disk; no other does so as fast."""
    (known,) = sets_of("navigation")[name]
    steps = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, -1.0], [0.0, 1.0]])
    assert (LEFT, RIGHT, DOWN, UP) == (0, 1, 2, 3)
    distances = np.linalg.norm(known.states[:, None] + 0.1 * steps, axis=2)
    assert (distances.argmin(axis=1) == direction).all()
    assert np.linalg.norm(known.states, axis=1).min() >= DISK - 1e-9
