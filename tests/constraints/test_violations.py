"""Measuring: the sign convention, the order, and the table people read."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import handrail as hr
from handrail.constraints import concatenate, expand, violations_together
from handrail.constraints.violations import measure_rows
from tests.conftest import small_policy, spaces


def policy_with_probabilities(*probabilities: float) -> hr.CategoricalPolicy:
    """A policy that is the same in every state."""
    layer = nn.Linear(1, len(probabilities)).double()
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.copy_(torch.tensor(probabilities).log())
    return hr.CategoricalPolicy(layer)


AT = hr.Points([0.0])


@pytest.mark.parametrize(
    ("rule", "violation"),
    [
        (hr.AtLeast(0.5, 0, AT), 0.3),
        (hr.AtLeast(0.1, 0, AT), -0.1),
        (hr.AtMost(0.5, 2, AT), 0.0),
        (hr.AtMost(0.1, 1, AT), 0.2),
        (hr.Equal(0.25, 1, AT), 0.05),
        (hr.Equal(0.35, 1, AT), 0.05),
        (hr.Between(0.1, 0.4, 1, AT), -0.1),
        (hr.Between(0.4, 0.6, 1, AT), 0.1),
        (hr.AtLeast(0.6, {0: 1, 1: 1}, AT), 0.1),
        (hr.Linear([hr.Term([0.0], 0), hr.Term([1.0], 1, -1)], lower=0.0), 0.1),
    ],
)
def test_positive_means_broken(rule: hr.Constraint, violation: float) -> None:
    measured = hr.measure(policy_with_probabilities(0.2, 0.3, 0.5), [rule])
    assert measured.worst_violation == pytest.approx(violation, abs=1e-7)
    assert measured.satisfied == (measured.worst_violation <= 0.0)


def test_worst_first() -> None:
    policy = policy_with_probabilities(0.2, 0.3, 0.5)
    rules = [hr.AtLeast(0.25, 0, AT, "a"), hr.AtLeast(0.9, 1, AT, "b"), hr.AtMost(0.9, 2, AT, "c")]
    measured = hr.measure(policy, rules)
    assert measured.labels == ("b", "a", "c")
    np.testing.assert_allclose(measured.violations, [0.6, 0.05, -0.4], atol=1e-7)
    assert len(measured) == 3


def test_prints_as_a_table() -> None:
    policy = policy_with_probabilities(0.2, 0.3, 0.5)
    rules = [
        hr.AtLeast(0.25, 0, AT, "push"),
        hr.AtMost(0.9, 2, AT, "pull"),
        hr.Equal(0.25, 1, AT, "hold"),
        hr.Between(0.1, 0.2, 1, hr.Points([2.5]), "between"),
    ]
    text = str(hr.measure(policy, rules))
    assert "3 of 4 constraint rows beyond their bounds, by up to 0.1" in text
    for piece in (
        "push",
        "≥ 0.25",
        "0.200000",
        "+5.00e-02",
        "≤ 0.9",
        "= 0.25",
        "0.1 … 0.2",
        "(2.5)",
    ):
        assert piece in text


def test_long_tables_are_cut_and_say_so() -> None:
    states = np.linspace(0.0, 1.0, 30)[:, None]
    rule = hr.AtLeast(0.5, 0, hr.Points(states), name="many")
    text = str(hr.measure(policy_with_probabilities(0.2, 0.8), [rule]))
    assert "30 of 30 constraint rows beyond their bounds, by up to 0.3" in text
    assert "10 further rows no worse" in text


def test_several_regions_in_one_pass_are_each_by_itself() -> None:
    policy = small_policy(2, 3)
    box = hr.Box([-1.0, -1.0], [1.0, 1.0])
    rules = [
        hr.AtLeast(0.4, 0, box, name="one"),
        hr.Symmetric(box, mirror=[-1, 1], swap={0: 2, 2: 0}, within=0.1, name="two"),
        hr.Between(0.2, 0.4, {1: 1, 2: 1}, box, name="three"),
    ]
    regional = expand(rules, policy).regional
    blocks = [box.spread(5 + k) for k in range(3)]
    together = violations_together(policy, regional, blocks)
    for one, states, violations in zip(regional, blocks, together, strict=True):
        rows = one.rows_at(states)
        each = rows.violations_of(policy).reshape(len(states), -1).max(axis=1)
        assert violations.tobytes() == each.tobytes()


def test_what_was_met_several_times_is_shown_once() -> None:
    """Corners of boxes are drawn again and again."""
    states = np.repeat([[1.0, 1.0], [0.0, 0.5]], 30, axis=0)
    policy = hr.CategoricalPolicy.mlp(spaces(2, 2), [8], seed=0)
    rules = [
        hr.AtLeast(bound, 1, hr.Box([0.0, 0.0], [1.0, 1.0]), f"{bound}") for bound in (0.8, 0.9)
    ]
    rows = concatenate([rule.rows_at(states, 2) for rule in rules])
    measured = measure_rows(policy, rows)
    assert len(measured) == 120
    assert measured.table().row_count == 4  # two states, of which two constraints speak
    assert measured.table().caption == "116 further rows no worse"
    assert measured.table(at_most=3).row_count == 3
    assert measured.table(at_most=3).caption == "117 further rows no worse"
