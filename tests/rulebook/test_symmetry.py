"""Symmetry in files: which constraint it becomes, and how it is said."""

from __future__ import annotations

import numpy as np
import pytest

import handrail as hr
from handrail.rulebook import parse

CARTPOLE = """\
environment: CartPole-v1
observations: [x, x_dot, phi, phi_dot]
actions: [left, right]
constraints:
  - name: mirror
    region: {x: 0, x_dot: [-1, 1], phi: [0.05, 0.2], phi_dot: [-1, 1]}
    symmetric:
      mirror: {x: -x, x_dot: -x_dot, phi: -phi, phi_dot: -phi_dot}
      swap: {left: right, right: left}
      within: 0.05
"""

PENDULUM = """\
environment: Pendulum-v1
observations: [cos, sin, speed]
actions: {torque: [-2, 2]}
constraints:
  - name: odd
    where: {cos: [0.8, 0.9], sin: 0.5, speed: 1}
    symmetric: {mirror: {sin: -sin, speed: -speed}, swap: {torque: -torque}}
"""

LEGS = """\
environment: MountainCarContinuous-v0
observations: [left, right]
actions: {first: [-1, 1], second: [-1, 1]}
constraints:
  - name: legs
    region: {left: [0, 1], right: [-1, 0]}
    symmetric:
      mirror: {left: right, right: left}
      swap: {first: second, second: 0.5*first - second}
      within: 0.1
"""


def test_discrete_actions_change_places() -> None:
    book = parse(CARTPOLE, "cartpole")
    (rule,) = book.constraints
    assert isinstance(rule, hr.Symmetric)
    assert dict(rule.swap) == {0: 1, 1: 0}
    assert rule.within == 0.05
    np.testing.assert_array_equal(rule.mirror, -np.eye(4))
    assert book.sentences[0] == (
        "mirror: symmetric within 0.05 (x to -x, x_dot to -x_dot, phi to -phi, phi_dot to "
        "-phi_dot, left to right, right to left) everywhere in a box (x 0, x_dot from -1 to 1, phi "
        "from 0.05 to 0.2, phi_dot from -1 to 1)"
    )


def test_a_mean_becomes_its_negative() -> None:
    (rule,) = parse(PENDULUM, "pendulum").constraints
    assert isinstance(rule, hr.Symmetric)
    policy = hr.GaussianPolicy.mlp(parse(PENDULUM, "pendulum").make_environment(), [20], seed=0)
    hr.enforce(policy, [rule]).raise_if_unsatisfied()
    here = np.array([[0.8, 0.5, 1.0], [0.9, 0.5, 1.0]])
    np.testing.assert_allclose(policy.mean(here), -policy.mean(here * [1.0, -1.0, -1.0]), atol=2e-6)


def test_observations_change_places_and_actions_are_mixed() -> None:
    (rule,) = parse(LEGS, "legs").constraints
    assert isinstance(rule, hr.Symmetric)
    np.testing.assert_array_equal(rule.mirror, [[0.0, 1.0], [1.0, 0.0]])
    assert dict(rule.swap) == {0: hr.Mean({1: 1.0}), 1: hr.Mean({0: 0.5, 1: -1.0})}


@pytest.mark.parametrize("text", [CARTPOLE, PENDULUM, LEGS])
def test_it_is_held_as_any_other(text: str) -> None:
    """What is left out stays itself; a priority and a name are as ever."""
    book = parse(text.replace("    symmetric:", "    priority: 2\n    symmetric:"), "a")
    assert [one.priority for one in book.constraints] == [2.0]
