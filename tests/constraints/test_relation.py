"""Symmetry of means, of coordinates that change places, and on regions."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import handrail as hr
from handrail.constraints import constraint_from
from handrail.errors import InvalidConstraint

SPACE = gym.spaces.Box(-2.0, 2.0, (2,))
BOX = hr.Box([-1.0, -0.5], [1.0, 0.5])
STATES = BOX.sample(50, np.random.default_rng(0))
NEGATIVE: dict[int, Any] = {0: hr.Mean({0: -1.0})}


def gaussian(n: int = 1) -> hr.GaussianPolicy:
    return hr.GaussianPolicy.mlp((SPACE, gym.spaces.Box(-1.0, 1.0, (n,))), [20], "tanh", seed=0)


def test_a_row_is_a_mean_less_that_of_the_image() -> None:
    policy = gaussian(n=3)
    turn = [[0.0, -1.0], [1.0, 0.0]]
    swap: dict[int, Any] = {0: hr.Mean(1), 1: hr.Mean({0: 0.5, 2: -2.0})}
    rule = hr.Symmetric(hr.Points(STATES), turn, swap, within=0.1)
    rows = rule.rows(3)
    values = rows.values(policy.outputs(rows.states)).reshape(-1, 3)
    here, there = policy.mean(STATES), policy.mean(STATES @ np.transpose(turn))
    expected = [there[:, 1], 0.5 * there[:, 0] - 2.0 * there[:, 2], there[:, 2]]
    np.testing.assert_allclose(values, here - np.stack(expected, axis=1), atol=1e-12)
    np.testing.assert_array_equal(rows.upper, 0.1)


def test_means_are_made_odd_exactly_at_points() -> None:
    policy = gaussian()
    rule = hr.Symmetric(hr.Points(STATES[:10]), [-1, -1], NEGATIVE)
    assert hr.measure(policy, [rule]).worst_violation > 0.01
    hr.enforce(policy, [rule]).raise_if_unsatisfied()
    np.testing.assert_allclose(policy.mean(STATES[:10]), -policy.mean(-STATES[:10]), atol=1e-6)


@pytest.mark.parametrize("swap", [{0: 1, 1: 0}, NEGATIVE, {0: hr.Mean(1), 1: hr.Mean(0)}])
def test_saved_ones_are_read_again(swap: Any) -> None:
    rule = hr.Symmetric(BOX, [-1, 1], swap, within=0.1, name="mirror")
    again = constraint_from(rule.describe())
    rows, same = rule.rows_at(STATES, 2), again.rows_at(STATES, 2)
    np.testing.assert_array_equal(rows.weights, same.weights)
    np.testing.assert_array_equal(rows.states, same.states)
    assert rows.quantity == same.quantity


@pytest.mark.parametrize(
    ("mirror", "swap", "within", "message"),
    [
        ([-1, -1], {0: 1, 1: hr.Mean(0)}, 0.1, "mixes probabilities and means"),
        ([-1, -1], {0: hr.Mean({0: hr.Affine([1.0, 0.0])})}, 0.1, "must be a number"),
        ([-1, -1], {0: hr.Mean({0: 0.0})}, 0.1, "All weights are zero"),
        ([-1, -1], NEGATIVE, -0.1, r"`within` must be in \[0, inf\), not -0.1"),
        ([-1, -1], NEGATIVE, 0.0, "cannot be exactly symmetric on all the states of a region"),
        (np.eye(3), NEGATIVE, 0.1, r"one factor per coordinate, or a matrix \(2, 2\)"),
    ],
)
def test_refusals(mirror: Any, swap: Any, within: float, message: str) -> None:
    with pytest.raises(InvalidConstraint, match=message):
        hr.Symmetric(BOX, mirror, swap, within=within)


def test_dimensions_that_the_policy_lacks_are_refused() -> None:
    rule = hr.Symmetric(BOX, [-1, -1], {0: hr.Mean(3)}, within=0.1, name="mirror")
    with pytest.raises(InvalidConstraint, match="'mirror' names action 3"):
        hr.measure(gaussian(), [rule])
