"""Diagnosis and conflicts: the right rows, the right words, and nothing changed."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch

import handrail as hr
from handrail.constraints.expansion import expand
from handrail.enforcement import conflict as conflict_module
from handrail.enforcement import diagnosis
from handrail.enforcement.conflict import find_conflict
from tests.conftest import small_policy
from tests.support import cartpole

INF = np.inf
ORIGIN = np.zeros(3)


def at(name: str, action: int, bound: float, *state: float) -> hr.AtLeast:
    return hr.AtLeast(bound, action, hr.Points(list(state)), name=name)


def test_a_healthy_set() -> None:
    policy = hr.CategoricalPolicy.mlp(gym.make("CartPole-v1"), seed=0)
    before = [p.clone() for p in policy.parameters]
    diagnosis = hr.diagnose(policy, cartpole.constraints())
    assert diagnosis.feasible
    assert diagnosis.conflicts == ()
    assert diagnosis.n_rows == 18
    assert 1e3 < diagnosis.kernel_condition < 1e6
    assert 2 <= len(diagnosis.multipliers) <= 8
    assert len(diagnosis.redundant) == 18 - len(diagnosis.multipliers)
    assert not set(diagnosis.redundant) & set(diagnosis.multipliers)
    assert "the work is done by " in str(diagnosis)
    for parameter, original in zip(policy.parameters, before, strict=True):
        assert torch.equal(parameter, original)


def test_conflicts_are_found_one_after_the_other() -> None:
    rules: list[hr.Constraint] = [
        at("left", 0, 0.9, 0.5, 0.0, 0.0),
        at("right", 1, 0.9, 0.5, 1e-5, 0.0),
        at("up", 0, 0.9, -1.0, 0.0, 1.0),
        at("down", 2, 0.9, -1.0, 0.0, 1.00001),
        at("fine", 2, 0.5, 2.0, 2.0, 2.0),
    ]
    diagnosis = hr.diagnose(small_policy(), rules)
    found = {frozenset(conflict.labels) for conflict in diagnosis.conflicts}
    assert found == {frozenset({"left", "right"}), frozenset({"up", "down"})}
    assert not diagnosis.feasible
    assert "conflict: 'left' and 'right' ask opposite things 1e-05 apart" in str(diagnosis)
    pairs = {frozenset(pair[:2]) for pair in diagnosis.nearly_coinciding}
    assert pairs == found
    assert diagnosis.nearly_coinciding[0][2] == pytest.approx(1e-5)


def test_the_impossible_at_one_state_is_reduced_to_the_smallest_set() -> None:
    rules: list[hr.Constraint] = [
        at("a", 0, 0.4, *ORIGIN),
        at("b", 1, 0.4, *ORIGIN),
        at("c", 2, 0.4, *ORIGIN),
        hr.AtMost(0.9, 0, hr.Points(ORIGIN), name="d"),
    ]
    conflict = hr.diagnose(small_policy(), rules).conflicts[0]
    assert set(conflict.labels) == {"a", "b", "c"}
    assert conflict.at_one_state
    assert conflict.distance == 0.0


def test_weaker_rows_at_the_same_state_are_pointed_out() -> None:
    rules: list[hr.Constraint] = [
        at("strong", 0, 0.9, *ORIGIN),
        at("weak", 0, 0.6, *ORIGIN),
        at("other action", 1, 0.01, *ORIGIN),
    ]
    diagnosis = hr.diagnose(small_policy(), rules)
    assert diagnosis.dominated == (("weak", "strong"),)
    assert "'weak' says less than 'strong'" in str(diagnosis)
    assert set(diagnosis.multipliers) == {"strong"}


def test_a_conflict_of_three_rows() -> None:
    """x ≥ 1, y ≥ 1, x + y ≤ 1.5: any two are fine."""
    matrix = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -1.0]])
    lower = np.array([1.0, 1.0, -INF, -5.0])
    upper = np.array([INF, INF, 1.5, 5.0])
    rules: list[hr.Constraint] = [at(name, 0, 0.5, i, 0.0, 0.0) for i, name in enumerate("abcd")]
    rows = expand(rules, small_policy()).rows()
    conflict = find_conflict(matrix, lower, upper, np.arange(4), rows, small_policy())
    assert conflict.labels == ("a", "b", "c")
    assert conflict.distance == 2.0
    assert "cannot hold together (their states lie within 2)" in str(conflict)


def test_a_row_that_cannot_be_moved() -> None:
    matrix = np.array([[1.0, 0.0], [0.0, 0.0]])
    rows = expand([at("a", 0, 0.5, *ORIGIN), at("b", 0, 0.5, 1.0, 0.0, 0.0)], small_policy()).rows()
    conflict = find_conflict(
        matrix, np.array([1.0, 1.0]), np.full(2, INF), np.arange(2), rows, small_policy()
    )
    assert conflict.labels == ("b",)
    assert "'b' cannot be moved" in str(conflict)


def test_pairs_in_closed_form() -> None:
    """The pair with the longest answer is reported, not merely some pair."""
    angles = np.array([0.0, np.pi - 1e-3, np.pi + 1e-5])
    matrix = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    rows = expand([at(n, 0, 0.5, i, 0.0, 0.0) for i, n in enumerate("abc")], small_policy()).rows()
    conflict = find_conflict(
        matrix, np.ones(3), np.full(3, INF), np.arange(3), rows, small_policy()
    )
    assert conflict.labels == ("a", "c")


def test_large_sets_are_diagnosed_too() -> None:
    states = np.random.default_rng(0).normal(size=(600, 3))
    rules: list[hr.Constraint] = [
        hr.AtLeast(0.45, 0, hr.Points(states), name="many"),
        at("against", 1, 0.9, *(states[7] + 1e-6)),
    ]
    diagnosis = hr.diagnose(small_policy(), rules)
    assert diagnosis.n_rows == 601
    assert {"many [7]", "against"} == set(diagnosis.conflicts[0].labels)


def test_states_that_stand_for_a_region_may_be_close() -> None:
    tiny = hr.Box([0.0] * 3, [1e-9] * 3)
    rules = [hr.AtLeast(0.6, 0, tiny, name="tiny"), hr.AtLeast(0.2, 1, hr.Points(ORIGIN), name="p")]
    found = hr.diagnose(small_policy(), rules)
    assert all("p" in pair[:2] for pair in found.nearly_coinciding)


def test_states_far_apart_are_compared_without_overflow() -> None:
    policy = hr.CategoricalPolicy.mlp(gym.make("CartPole-v1"), hidden=[8], seed=0)
    far = [[x, 0, 0, 0] for x in (-1e150, 0.0, 1.0, 1e150)]
    rows = hr.constraints.expand([hr.AtLeast(0.5, 0, hr.Points(far), "far")], policy).rows()
    near = diagnosis._nearly_coinciding(rows, np.array(far), len(rows))
    assert [(i, j) for i, j, _ in near] == [(1, 2)]
    assert near[0][2] == pytest.approx(1.0)


def test_of_very_many_states_that_nearly_coincide_the_closest_are_named() -> None:
    states = np.zeros((3000, 4))
    states[:, 0] = np.linspace(1.0, 1.0 + 1e-4, 3000)
    pairs = diagnosis._close_pairs(states)
    distances = np.abs(states[pairs[:, 0], 0] - states[pairs[:, 1], 0])
    assert 2999 <= len(pairs) <= diagnosis._MOST_PAIRS
    assert distances.max() < 1e-5


def test_many_neighbours_that_ask_the_opposite_are_found_at_once() -> None:
    policy = hr.CategoricalPolicy.mlp(gym.make("CartPole-v1"), hidden=[8], seed=0)
    x = np.linspace(-1.0, 1.0, 400)
    left = np.stack([x, 0 * x, 0 * x, 0 * x], axis=1)
    rules = [
        hr.AtLeast(0.9, 0, hr.Points(left), "left"),
        hr.AtLeast(0.9, 1, hr.Points(left + 1e-6), "right"),
    ]
    found = hr.diagnose(policy, rules)
    assert len(found.conflicts) == diagnosis._MOST_CONFLICTS
    for conflict in found.conflicts:
        assert conflict.distance == pytest.approx(2e-6)


def test_rows_that_ask_the_same_at_one_state_need_no_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neighbouring regions share corners; what one row asks for is possible."""
    rules = [at("a", 0, 0.4, *ORIGIN), hr.AtLeast(0.4, 0, hr.Box(-np.ones(3), np.zeros(3)))]
    policy = small_policy()
    expansion = expand(rules, policy)
    rows = expansion.rows_with([expansion.regional[0].rows_at(ORIGIN[None])])
    monkeypatch.setattr(conflict_module, "linprog", None)
    assert conflict_module.impossible_at_one_state(rows) is None
