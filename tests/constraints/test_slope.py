"""Monotone and Lipschitz: what they say in rows, in words and in files, and what they refuse."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import handrail as hr
from handrail.constraints import constraint_from, expand
from handrail.errors import InvalidConstraint

BOX = hr.Box([-1.0, 5.0, -0.2], [1.0, 5.0, 0.2])

MONOTONE: Any = hr.Monotone
LIPSCHITZ: Any = hr.Lipschitz


def linear(weights: list[list[float]], kind: Any = hr.CategoricalPolicy) -> Any:
    """A policy with these weights and no biases."""
    layer = nn.Linear(len(weights[0]), len(weights), bias=False, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weights))
    return kind(nn.Sequential(layer))


def gaussian(module: nn.Module) -> hr.GaussianPolicy:
    return hr.GaussianPolicy(module, 0.5)


def test_the_violation_is_a_slope_in_units_of_the_output_per_unit_of_the_observation() -> None:
    policy = linear([[0.5, 0.0, -2.0]], gaussian)
    rising = hr.measure(policy, [hr.Monotone(hr.Mean(0), 2, "increasing", BOX)])
    assert rising.worst_violation == pytest.approx(2.0, abs=1e-8)
    assert rising.values[0] == pytest.approx(-2.0, abs=1e-8)
    steep = hr.measure(policy, [hr.Lipschitz(1.5, hr.Mean(0), 2, BOX)])
    assert steep.worst_violation == pytest.approx(0.5, abs=1e-8)
    assert hr.measure(policy, [hr.Lipschitz(2.5, hr.Mean(0), 2, BOX)]).satisfied
    assert hr.measure(policy, [hr.Monotone(hr.Mean(0), 0, "increasing", BOX)]).satisfied


def test_of_discrete_actions_it_is_in_log_odds_against_each_other_one() -> None:
    policy = linear([[0.0, 0.0, 1.0], [0.0, 0.0, 4.0], [0.0, 0.0, 2.0]])
    rows = hr.Lipschitz(2.5, 1, 2, BOX).rows_at(BOX.cover(4), 3)
    values = rows.values(policy.outputs(rows.states))
    assert len(rows) == 2 * len(BOX.cover(4))
    assert values.reshape(-1, 2) == pytest.approx(np.tile([3.0, 2.0], (len(rows) // 2, 1)))
    worst = hr.measure(policy, [hr.Lipschitz(2.5, 1, 2, BOX)]).worst_violation
    assert worst == pytest.approx(0.5, abs=1e-8)
    assert not hr.measure(policy, [hr.Monotone(2, 2, "increasing", BOX)]).satisfied


def test_a_saturated_policy_has_slopes_still() -> None:
    """Where probabilities are 1 and 1e-87, log-odds are not lost."""
    policy = linear([[0.0, 40.0, 0.0], [0.0, 0.0, 1.0]])
    worst = hr.measure(policy, [hr.Monotone(1, 2, "decreasing", BOX)]).worst_violation
    assert worst == pytest.approx(1.0, abs=1e-6)


def test_in_float32_slopes_are_measured_in_float64() -> None:
    policy = gaussian(linear([[0.5, 0.0, -2.0]], gaussian).module.float())
    worst = hr.measure(policy, [hr.Lipschitz(1.5, hr.Mean(0), 2, BOX)]).worst_violation
    assert worst == pytest.approx(0.5, abs=1e-8)
    fresh = hr.constraints.measure_fresh(policy, [hr.Lipschitz(1.5, hr.Mean(0), 2, BOX)], 50, 0)
    assert fresh.worst_violation == pytest.approx(0.5, abs=1e-8)


def test_a_weighted_sum_of_means_has_a_slope() -> None:
    policy = linear([[0.0, 0.0, 1.0], [0.0, 0.0, 3.0]], gaussian)
    rule = hr.Lipschitz(0.5, hr.Mean({0: 3.0, 1: -1.0}), 2, BOX)
    assert hr.measure(policy, [rule]).values[0] == pytest.approx(0.0, abs=1e-8)


def test_chords_stay_within_the_bounds_of_the_region() -> None:
    rule = hr.Monotone(hr.Mean(0), 2, "increasing", BOX)
    states = np.array([[0.0, 5.0, -0.2], [0.0, 5.0, 0.2]])
    rows = rule.rows_at(states, 1)
    assert BOX.contains(rows.states).all()
    assert rows.first_states == pytest.approx(states)
    policy = linear([[0.5, 0.0, -2.0]], gaussian)
    assert rows.values(policy.outputs(rows.states)) == pytest.approx([-2.0, -2.0])


def test_margins_are_told_per_size_of_the_region() -> None:
    policy = linear([[0.0, 0.0, 1.0]], gaussian)
    (one,) = expand([hr.Monotone(hr.Mean(0), 2, "increasing", BOX)], policy).regional
    assert one.unit == pytest.approx(0.5 / 0.4)  # a standard deviation over the region
    discrete = linear([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    (one,) = expand([hr.Monotone(0, 2, "increasing", BOX)], discrete).regional
    assert one.unit == pytest.approx(1.0 / 0.4)


@pytest.mark.parametrize(
    "rule",
    [
        hr.Monotone(hr.Mean({0: 1.0, 1: -2.0}), 2, "decreasing", BOX, "slow", 2.0),
        hr.Monotone(1, 0, "increasing", BOX),
        hr.Lipschitz(2.5, hr.Mean(0), 2, BOX),
    ],
    ids=lambda one: one.name,
)
def test_described_and_read_again_it_is_the_same(rule: Any) -> None:
    again = constraint_from(json.loads(json.dumps(rule.describe())))
    assert type(again) is type(rule)
    assert again.describe() == rule.describe()
    assert again.name == rule.name


def test_names_say_what_it_is() -> None:
    assert hr.Monotone(1, 2, "increasing", BOX).name == "action 1 increasing in observation 2"
    lipschitz = hr.Lipschitz(5, hr.Mean(0), 0, BOX)
    assert lipschitz.name == "mean action 0 within 5 per observation 0"


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (
            lambda: MONOTONE(0, 3, "increasing", BOX),
            "there is no observation 3: the states have 3",
        ),
        (lambda: MONOTONE(0, True, "increasing", BOX), "`in_` is the index of an observation"),
        (lambda: MONOTONE(0, "phi", "increasing", BOX), "`in_` is the index of an observation"),
        (lambda: MONOTONE(0, 1, "increasing", BOX), "observation 1 is 5 all over the region"),
        (lambda: MONOTONE(0, 2, "up", BOX), '"increasing" or "decreasing", not \'up\''),
        (lambda: MONOTONE(-1, 2, "increasing", BOX), "-1"),
        (lambda: MONOTONE({0: 1.0, 1: 2.0}, 2, "increasing", BOX), "about one discrete action"),
        (
            lambda: MONOTONE(0, 2, "increasing", hr.Points([[0.0, 0.0, 0.0]])),
            "between Points there is none. Use a region",
        ),
        (lambda: LIPSCHITZ(0.0, 0, 2, BOX), "the constant must be above 0, not 0"),
        (lambda: LIPSCHITZ(-1.0, 0, 2, BOX), "the constant must be above 0, not -1"),
        (lambda: LIPSCHITZ(float("nan"), 0, 2, BOX), "the constant must be finite"),
        (lambda: LIPSCHITZ("2", 0, 2, BOX), "the constant must be a number"),
        (
            lambda: LIPSCHITZ(1.0, hr.Mean({0: hr.Formula("a", ["a", "b", "c"])}), 2, BOX),
            "a weight of `output` must be a number",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(make: Any, expected: str) -> None:
    with pytest.raises(InvalidConstraint) as caught:
        make()
    assert expected in str(caught.value)


def test_an_action_that_the_policy_has_not_is_refused() -> None:
    policy = linear([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    with pytest.raises(InvalidConstraint, match="action 4"):
        hr.measure(policy, [hr.Monotone(4, 2, "increasing", BOX)])
    with pytest.raises(InvalidConstraint, match="discrete actions"):
        hr.measure(policy, [hr.Monotone(hr.Mean(0), 2, "increasing", BOX)])
