"""Bounds and weights that depend on the state, as rows; what cannot be meant is refused."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import handrail as hr
from handrail.constraints import constraint_from
from handrail.errors import InvalidConstraint

NAMES = ["x", "y"]
BOX = hr.Box([-1.0, -1.0], [1.0, 1.0])
STATES = BOX.sample(50, np.random.default_rng(0))
SPACES = (gym.spaces.Box(-1.0, 1.0, (2,)), gym.spaces.Box(-3.0, 3.0, (1,)))


def test_rows_have_a_bound_of_their_own() -> None:
    rule = hr.Between(hr.Affine([1.0, 0.0], -1.0), hr.Formula("x + 1", NAMES), hr.Mean(0), BOX)
    rows = rule.rows_at(STATES, 1)
    np.testing.assert_allclose(rows.lower, STATES[:, 0] - 1.0)
    np.testing.assert_allclose(rows.upper, STATES[:, 0] + 1.0)
    assert rule.depends_on_state
    assert rule.name == "1*s0 - 1 <= mean action 0 <= x + 1"
    assert not hr.AtLeast(0.5, hr.Mean(0), BOX).depends_on_state


def test_a_python_function_is_held_on_a_searched_region() -> None:
    swing: Any = lambda s: np.sin(3.0 * s[:, 0]) - 1.0  # noqa: E731
    rules = [hr.AtLeast(swing, hr.Mean(0), BOX, name="swing")]
    policy = hr.GaussianPolicy.mlp(SPACES, [50], "tanh", seed=0)
    assert hr.measure(policy, rules).worst_violation > -1.0
    hr.enforce(policy, rules).raise_if_unsatisfied()
    states = BOX.sample(20_000, np.random.default_rng(1))
    assert (policy.outputs(states)[:, 0] - swing(states)).min() >= 0.0


def test_a_tube_around_a_linear_controller_is_held_and_proven() -> None:
    gain = np.array([[1.5, 0.5]])
    policy = hr.GaussianPolicy.mlp(SPACES, [50], "tanh", seed=0)
    tube = hr.within(gain, 0.2, BOX, name="lqr")
    assert [one.name for one in tube] == ["lqr: mean action 0"]
    hr.enforce(policy, tube, prove=True).raise_if_unsatisfied()
    states = BOX.sample(20_000, np.random.default_rng(1))
    assert np.abs(policy.outputs(states)[:, 0] + states @ gain[0]).max() <= 0.2
    assert hr.certify(policy, tube[0]).certified
    old = hr.GaussianPolicy.mlp(SPACES, [50], "tanh", seed=0)
    near = hr.within(old, 0.3, BOX)
    assert hr.measure(policy, near).worst_violation > 0.0
    hr.enforce(policy, near).raise_if_unsatisfied()
    assert np.abs(policy.outputs(states) - old.outputs(states)).max() <= 0.3


def test_saved_ones_are_read_again() -> None:
    rule = hr.AtMost(
        hr.Formula("x**2 - 1", NAMES), hr.Mean({0: hr.Affine([0.5, 0.0], 1.0)}), BOX, name="a"
    )
    again = constraint_from(rule.describe())
    rows, same = rule.rows_at(STATES, 1), again.rows_at(STATES, 1)
    np.testing.assert_array_equal(rows.upper, same.upper)
    np.testing.assert_array_equal(rows.weights, same.weights)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: hr.AtLeast(hr.Formula("0.5 + x", NAMES), 0, BOX),
            r"AtLeast: at \(-1, -1\), 0.5 \+ x is -0.5, but what it bounds is always between 0 and",
        ),
        (
            lambda: hr.AtLeast(hr.Formula("log(x)", NAMES), hr.Mean(0), BOX),
            r"at \(-1, -1\), log\(x\) is nan",
        ),
        (
            lambda: hr.Between(hr.Formula("x", NAMES), 0.0, hr.Mean(0), BOX),
            r"at \(1, -1\), the lower bound 1 is above the upper bound 0",
        ),
        (
            lambda: hr.AtLeast(hr.Affine([1.0, 2.0, 3.0]), hr.Mean(0), BOX),
            "is a function of 3 coordinates, but the states have 2",
        ),
        (
            lambda: hr.Equal(hr.Formula("x", NAMES), hr.Mean(0), BOX),
            "a network cannot keep a mean action at one value",
        ),
        (lambda: hr.within([[1.0, 0.5]], 0.0, BOX), "The distance must be a positive number"),
    ],
)
def test_what_cannot_be_meant(make: Any, message: str) -> None:
    with pytest.raises((InvalidConstraint, hr.errors.InvalidArgument), match=message):
        make()
