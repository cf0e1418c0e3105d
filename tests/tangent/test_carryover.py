"""Whether one state can stand for a region: what a step at one moves at another."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import handrail as hr
from handrail.tangent import carryovers
from tests.conftest import small_policy

FIRST = np.array([1.0, 0.0])


def linear_policy() -> hr.CategoricalPolicy:
    """π = 1/2 everywhere and K(s, s') ∝ 1 + s · s'."""
    layer = nn.Linear(2, 2)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return hr.CategoricalPolicy(layer)


def test_of_a_linear_network_it_is_known_in_closed_form() -> None:
    """Least is (1 - 1.5²) / (1 + 1.5²); of three parts, (1 + 0.5 · 1.5) / (1 + 1.5²) is enough."""
    (found,) = carryovers(linear_policy(), FIRST, hr.Box([-1.5, 0.0], [1.5, 0.0]))
    assert (found.coordinate, abs(found.moved), found.reached) == (0, 1.5, -found.moved)
    assert found.share == pytest.approx(-1.25 / 3.25)
    assert (found.parts, found.enough) == (3, False)
    (part,) = carryovers(linear_policy(), FIRST, hr.Box([0.5, 0.0], [1.5, 0.0]))
    assert (part.moved, part.reached, part.parts, part.enough) == (1.5, 0.5, 1, True)
    assert part.share == pytest.approx(1.75 / 3.25)


def test_a_real_step_moves_as_much() -> None:
    policy = small_policy()
    (found, *_) = carryovers(policy, np.eye(3)[1], hr.Box([-2.0, 0.1, 0.2], [2.0, 0.1, 0.2]))
    states = np.array([[found.moved, 0.1, 0.2], [found.reached, 0.1, 0.2]])
    before = policy.outputs(states)[:, 1]
    policy.module.zero_grad()
    torch.softmax(policy.module(torch.tensor(states[:1])), dim=1)[0, 1].backward()
    with torch.no_grad():
        for weight in policy.module.parameters():
            assert weight.grad is not None
            weight.add_(weight.grad, alpha=1e-6)
    changes = policy.outputs(states)[:, 1] - before
    assert changes[1] / changes[0] == pytest.approx(found.share, abs=1e-4)


def test_every_coordinate_in_which_a_region_extends_is_measured() -> None:
    flat = hr.Polytope([[0, 0], [1, 0], [0, 1]], coordinates=[0, 2], others={1: 0.3})
    found = carryovers(small_policy(), np.eye(3)[0], flat)
    assert [one.coordinate for one in found] == [0, 2]
    assert all(0.0 <= value <= 1.0 for one in found for value in (one.moved, one.reached))


def test_nothing_is_said_of_a_curve_that_runs_along_no_coordinate() -> None:
    circle = hr.Curve(["cos(t)", "sin(t)"], 0.0, 6.0)
    assert carryovers(linear_policy(), FIRST, circle) == ()
