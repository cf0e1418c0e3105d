"""A quick look finds what a whole measurement finds, or asks for one."""

from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import pytest
import torch

import handrail as hr
from handrail.constraints import Tolerance, expand
from handrail.enforcement import Enforcer, make_enforcer
from handrail.learning.lookout import Lookout
from handrail.settings import Everywhere, MaximumDeviation, Selection

SPACES = (gym.spaces.Box(-1.0, 1.0, (2,)), gym.spaces.Box(-2.0, 2.0, (1,)))
BOX = hr.Box([-0.5, -0.5], [0.5, 0.5])


def held(
    constraints: list[hr.Constraint], selection: Selection | None = None
) -> tuple[hr.GaussianPolicy, Enforcer]:
    policy = hr.GaussianPolicy.mlp(SPACES, [32], seed=0)
    chosen = Everywhere() if selection is None else selection
    enforcer = make_enforcer(expand(constraints, policy), chosen, policy, Tolerance())
    assert enforcer.hold(policy).satisfied
    return policy, enforcer


def shifted(policy: hr.GaussianPolicy, by: float) -> hr.GaussianPolicy:
    """All means by so much."""
    other = copy.deepcopy(policy)
    with torch.no_grad():
        other.parameters[-1].add_(by)
    return other


def test_few_points_are_all_looked_at() -> None:
    states = np.array([[0.0, 0.0], [0.5, 0.5], [-0.5, 0.2]])
    policy, enforcer = held([hr.AtLeast(0.3, hr.Mean(0), hr.Points(states))])
    lookout = Lookout(policy, enforcer)
    lowest = float(policy.mean(states).min())
    for by, obeys in ((0.0, True), (0.1, True), (0.3 - lowest - 1e-4, False)):
        worst, found = lookout.look(shifted(policy, by))
        assert worst == pytest.approx(0.3 - lowest - by)
        assert found == obeys


@pytest.mark.parametrize("selection", [Everywhere(), MaximumDeviation(states=4, points=500)])
def test_regions_are_looked_at_where_they_are_nearest(selection: Selection) -> None:
    policy, enforcer = held([hr.AtLeast(0.3, hr.Mean(0), BOX)], selection)
    lookout = Lookout(policy, enforcer)
    worst, obeys = lookout.look(policy)
    assert obeys
    assert worst == pytest.approx(enforcer.measure(policy).worst_violation, abs=1e-4)
    worse = shifted(policy, -0.05)
    worst, obeys = lookout.look(worse)
    assert not obeys
    assert worst == pytest.approx(enforcer.measure(worse).worst_violation, abs=1e-4)


def test_what_has_moved_far_is_not_taken_for_granted() -> None:
    """Nothing that is looked at is violated, but much might be."""
    policy, enforcer = held([hr.AtLeast(-1.5, hr.Mean(0), BOX)])  # of 3000 states, none is near
    lookout = Lookout(policy, enforcer)
    room = -enforcer.measure(policy).worst_violation
    assert room > 0.5
    assert lookout.look(shifted(policy, -0.2 * room))[1]
    assert not lookout.look(shifted(policy, -0.8 * room))[1]
    assert lookout.look(shifted(policy, 0.8 * room))[1]  # away from the bound


@pytest.mark.parametrize("corner", [(1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0)])
def test_what_changes_in_one_corner_only_is_seen(corner: tuple[float, float]) -> None:
    """A unit that is on in a fiftieth of the region, and nothing else, has moved."""
    policy, enforcer = held([hr.AtLeast(-1.5, hr.Mean(0), BOX)])
    bent = copy.deepcopy(policy)
    with torch.no_grad():
        bent.parameters[0][0] = torch.tensor(corner) * 100.0
        bent.parameters[1][0] = -80.0  # on where the two add up to 0.8 of at most 1
        bent.parameters[2][0, 0] = -1.0
        policy.parameters[2][0, 0] = 0.0  # as if it had not been there
    lookout = Lookout(policy, enforcer)
    middle = np.array([[0.0, 0.0], [0.3, -0.2]])
    np.testing.assert_allclose(bent.mean(middle), policy.mean(middle), atol=1e-12)
    assert not lookout.look(bent)[1]


def test_alternatives_are_looked_at_together() -> None:
    points = hr.Points([[0.0, 0.0], [0.4, 0.4]])
    low, high = hr.AtMost(-0.3, hr.Mean(0), points), hr.AtLeast(0.3, hr.Mean(0), points)
    policy, enforcer = held([hr.AnyOf([low, high], name="not idle")])
    lookout = Lookout(policy, enforcer)
    assert lookout.look(policy)[1]
    flat = copy.deepcopy(policy)
    with torch.no_grad():
        for one in flat.parameters[-2:]:
            one.zero_()
    worst, obeys = lookout.look(flat)
    assert worst == pytest.approx(0.3)
    assert not obeys
