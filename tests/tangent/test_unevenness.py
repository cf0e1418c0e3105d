"""Observations of different size: measured as the network is given them, and what to write."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from torch import nn

import handrail as hr
from handrail.policies.scaler import Scale
from handrail.tangent import MAY_MATTER, Unevenness, observed_states

LOW, HIGH = np.array([1.5e5, 280, 0]), np.array([2.5e5, 320, 2])  # Pa, K, m
SPACES = (gym.spaces.Box(LOW, HIGH, dtype=np.float64), gym.spaces.Box(-1, 1, (1,)))
NAMES = ("pressure", "temperature", "level")
TANK: list[hr.Constraint] = [
    hr.AtLeast(0.5, hr.Mean(0), hr.Box([1.6e5, 285, 0.1], [1.8e5, 300, 0.8]), name="low: open"),
    hr.AtMost(-0.5, hr.Mean(0), hr.Box([1.6e5, 285, 1.2], [1.8e5, 300, 1.9]), name="high: close"),
]


def policy(scale: Scale | None = None) -> hr.GaussianPolicy:
    return hr.GaussianPolicy.mlp(SPACES, [64], seed=0, scale=scale)


def test_a_failure_names_the_observations_and_the_line_that_mends_it() -> None:
    held = hr.enforce(policy(), TANK)
    assert not held.satisfied
    assert "observation 1 (up to 3e+02) and observation 2 (up to 1.9) are small beside" in str(held)
    assert 'mlp(…, scale="auto"), or scale=[200000, 300, 2].' in held.reason
    with pytest.raises(hr.errors.UnsatisfiedConstraints, match=r"observation 0 \(up to 1.8e\+05\)"):
        held.raise_if_unsatisfied()
    assert hr.enforce(policy(scale="auto"), TANK).satisfied
    assert hr.enforce(policy(scale=[200000, 300, 2]), TANK).satisfied


def test_an_edit_says_so_too() -> None:
    refused = hr.edit(policy(), TANK)
    assert refused.refused
    assert 'Scale the observations: mlp(…, scale="auto")' in refused.reason


def test_sizes_are_those_that_the_network_is_given() -> None:
    """(s - middle) / half of the range: all within 1, whatever the units."""
    states = observed_states(SPACES[0], TANK)
    assert states == pytest.approx(np.stack([LOW, HIGH]))
    plain = Unevenness.of(policy(), states, MAY_MATTER)
    assert plain is not None
    assert plain.seen == pytest.approx(HIGH)
    assert (plain.largest, list(plain.small)) == (0, [1, 2])
    scaled = policy(scale=[1.0, 300.0, 1e-5])
    seen = scaled.seen(states)
    assert seen == pytest.approx(states / [1.0, 300.0, 1e-5])
    uneven = Unevenness.of(scaled, states, MAY_MATTER)
    assert uneven is not None
    assert list(uneven.small) == [1]
    assert Unevenness.of(policy(scale="auto"), states, MAY_MATTER) is None


def test_what_does_not_vary_need_not_be_told_apart() -> None:
    states = np.array([[1e5, 300.0, 1.0], [2e5, 300.0, 1.0]])
    assert Unevenness.of(policy(), states, MAY_MATTER) is None


def test_an_observation_without_a_range_is_as_large_as_constraints_say() -> None:
    open_end = gym.spaces.Box(
        np.array([-np.inf, 280, 0]), np.array([np.inf, 320, 2]), dtype=np.float64
    )
    states = observed_states(open_end, TANK)
    assert states == pytest.approx(np.array([[1.6e5, 280, 0], [1.8e5, 320, 2]]))


def test_nothing_is_said_of_networks_that_are_not_looked_into() -> None:
    opaque = hr.GaussianPolicy(nn.Sequential(nn.LayerNorm(3), nn.Linear(3, 1)).double(), std=[1.0])
    assert opaque.seen(np.stack([LOW, HIGH])) is None
    assert Unevenness.of(opaque, np.stack([LOW, HIGH]), MAY_MATTER) is None


def test_in_a_file_observations_have_names() -> None:
    found = Unevenness.of(policy(), np.stack([LOW, HIGH]), MAY_MATTER)
    assert found is not None
    assert str(found.named(NAMES)) == (
        "As the network is given them, temperature (up to 3.2e+02) and level (up to 2) are small "
        "beside pressure (up to 2.5e+05), so that states which differ in what is small are almost "
        "the same to it. Scale the observations: settings: {network: {scale: auto}}, or scale: "
        "{pressure: 200000, temperature: 300, level: 2}."
    )


def test_distances_between_conflicting_states_are_in_the_network_s_own_units() -> None:
    """10 Pa apart: 10 in pascals, 10 / 50,000 of half the range."""
    rules: list[hr.Constraint] = [
        hr.AtLeast(0.9, hr.Mean(0), hr.Points([2.4e5, 300.0, 1.0]), name="up"),
        hr.AtMost(-0.9, hr.Mean(0), hr.Points([2.4e5 + 10.0, 300.0, 1.0]), name="down"),
    ]
    scaled = hr.diagnose(policy(scale="auto"), rules)
    assert [near[2] for near in scaled.nearly_coinciding] == pytest.approx([2e-4])
    assert [one.distance for one in scaled.conflicts] == pytest.approx([2e-4])
    assert "ask opposite things 0.0002 apart" in str(scaled)
    plain = hr.diagnose(policy(), rules)
    assert [one.distance for one in plain.conflicts] == pytest.approx([10.0])
