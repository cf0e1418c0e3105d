"""Sets are what they are called: one-sided, of fixed seeds, many."""

from __future__ import annotations

from itertools import product
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from scipy.linalg import solve_discrete_are

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
from handrail._types import Array
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


def test_a_controller_agrees_with_the_boxes_of_the_pole_but_at_corners() -> None:
    """There, bringing the cart back takes another push than the one that is asked for."""
    gain = _lqr_gain()
    right, left = (_bounds(one) for one in sets_of("cartpole")[BOXES])
    for (low, high), side in ((right, 1.0), (left, -1.0)):
        assert side * (0.5 * (low + high) @ gain) > 0.0
        pushes = side * (_corners(low, high) @ gain)
        assert pushes.min() < 0.0 < np.median(pushes)


def _lqr_gain() -> Array:
    """Force on the cart per state (4,), of the linearised pole, with costs of one."""
    pole: Any = gym.make("CartPole-v1").unwrapped
    turn = pole.length * (4.0 / 3.0 - pole.masspole / pole.total_mass)
    lean, push = pole.gravity / turn, -1.0 / (pole.total_mass * turn)  # of the angle's speed
    share = -pole.polemass_length / pole.total_mass  # of that in the cart's
    flow = np.array([[0, 1, 0, 0], [0, 0, share * lean, 0], [0, 0, 0, 1], [0, 0, lean, 0]])
    force = np.array([[0.0], [1.0 / pole.total_mass + share * push], [0.0], [push]])
    a, b = np.eye(4) + pole.tau * flow, pole.tau * force
    p = solve_discrete_are(a, b, np.eye(4), np.eye(1))
    gain: Array = -np.linalg.solve(np.eye(1) + b.T @ p @ b, b.T @ p @ a)[0]
    return gain


def _corners(low: Array, high: Array) -> Array:
    return np.array(list(product(*zip(low, high, strict=True))))
