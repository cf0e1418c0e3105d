"""Staying close to another policy: rows, what is kept of it, what is refused."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

import handrail as hr
from handrail.constraints import CloseTo, constraint_from
from handrail.constraints import close_to as close_to_module
from handrail.errors import InvalidArgument, InvalidConstraint

SPACE = gym.spaces.Box(-2.0, 2.0, (2,))
BOX = hr.Box([-1.0, -0.5], [1.0, 0.5])
STATES = BOX.sample(50, np.random.default_rng(0))


def gaussian(seed: int = 0, n: int = 1, **options: Any) -> hr.GaussianPolicy:
    spaces = (SPACE, gym.spaces.Box(-1.0, 1.0, (n,)))
    return hr.GaussianPolicy.mlp(spaces, [6], "tanh", seed=seed, **options)


def categorical(seed: int = 0, n: int = 3) -> hr.CategoricalPolicy:
    return hr.CategoricalPolicy.mlp((SPACE, gym.spaces.Discrete(n)), [6], seed=seed)


def test_one_constraint_for_each_that_does_not_follow() -> None:
    names = [one.name for one in hr.within(gaussian(n=2), 0.1, BOX)]
    assert names == ["within: mean action 0", "within: mean action 1"]
    names = [one.name for one in hr.within(categorical(), 0.1, BOX, name="old")]
    assert names == ["old: action 0", "old: action 1", "old: action 2"]
    assert [one.name for one in hr.within(categorical(n=2), 0.1, BOX)] == ["within: action 1"]


def test_rows_are_around_what_the_other_policy_says() -> None:
    old = categorical()
    rows = CloseTo(old, 0.3, 1, BOX).rows_at(STATES, 3)
    centre = old.probabilities(STATES)[:, 1]
    reached = centre - 0.3 > 0.0
    assert 0 < reached.sum() < len(STATES)  # where it could not be left, there is no bound
    np.testing.assert_array_equal(rows.lower, np.where(reached, centre - 0.3, -np.inf))
    np.testing.assert_array_equal(rows.upper, centre + 0.3)
    np.testing.assert_array_equal(rows.weights, np.eye(3)[[1] * len(STATES)])
    means = CloseTo(gaussian(), 0.3, 0, BOX).rows_at(STATES, 1)
    np.testing.assert_allclose(means.upper - means.lower, 0.6)


def test_the_other_policy_is_kept_as_it_was() -> None:
    policy = gaussian()
    before = policy.mean(STATES)[:, 0]
    (rule,) = hr.within(policy, 0.1, BOX)
    with torch.no_grad():
        for parameter in policy.parameters:
            parameter.mul_(3.0)
    assert isinstance(rule, CloseTo)
    np.testing.assert_allclose(rule.rows_at(STATES, 1).upper, before + 0.1, atol=1e-14)
    assert hr.measure(policy, [rule]).worst_violation > 0.0


@pytest.mark.parametrize(
    "policy", [gaussian(), categorical(), gaussian(dtype=torch.float32)], ids=str
)
def test_saved_ones_are_read_again(policy: hr.Policy) -> None:
    rule = CloseTo(policy, 0.1, 0, BOX, name="old", priority=2.0)
    again = constraint_from(rule.describe())
    assert isinstance(again, CloseTo)
    assert (again.policy, again.name, again.priority) == (rule.policy, "old", 2.0)
    n_actions = policy.outputs(STATES[:1]).shape[1]
    np.testing.assert_array_equal(
        again.rows_at(STATES, n_actions).upper, rule.rows_at(STATES, n_actions).upper
    )
    assert CloseTo(gaussian(seed=5), 0.1, 0, BOX).policy != rule.policy


def test_what_is_more_than_weights_and_activations_is_kept_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever else a network's arrays may say one day: it is copied then, and not written down."""
    policy = gaussian()
    monkeypatch.setattr(close_to_module, "_is_same", lambda one, other: False)
    rule = CloseTo(policy, 0.1, 0, BOX)
    np.testing.assert_allclose(rule.rows_at(STATES, 1).upper, policy.mean(STATES)[:, 0] + 0.1)
    with pytest.raises(InvalidConstraint, match="cannot be written to a file"):
        rule.describe()


def test_what_cannot_be_saved_is_told() -> None:
    odd = hr.GaussianPolicy(nn.Sequential(nn.Linear(2, 4), nn.LayerNorm(4), nn.Linear(4, 1)), 0.1)
    (rule,) = hr.within(odd, 0.1, BOX, name="odd")
    assert isinstance(rule, CloseTo)
    with pytest.raises(InvalidConstraint, match="'odd: mean action 0' compares with a network"):
        rule.describe()


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: CloseTo(gaussian(), 0.0, 0, BOX), InvalidConstraint, "must be above 0, not 0"),
        (
            lambda: CloseTo(categorical(), 0.5, 0, BOX),
            InvalidConstraint,
            "must be above 0 and below 0.5, not 0.5",
        ),
        (lambda: CloseTo(gaussian(), 0.1, -1, BOX), InvalidConstraint, "Unknown action -1"),
        (
            lambda: CloseTo(np.eye(2), 0.1, 0, BOX),  # type: ignore[arg-type]
            InvalidConstraint,
            r"expected a policy, but got ndarray\. Around a controller, handrail\.within",
        ),
        (lambda: hr.within(gaussian(), -1.0, BOX), InvalidArgument, "must be a positive number"),
        (lambda: hr.within(gaussian, 0.1, BOX), InvalidArgument, "a Formula or a policy"),  # type: ignore[arg-type]
    ],
)
def test_refusals(make: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        make()


def test_a_policy_of_other_actions_is_refused() -> None:
    (rule,) = hr.within(categorical(n=2), 0.1, BOX)
    with pytest.raises(InvalidConstraint, match="with a policy of 2 actions, but this one has 3"):
        hr.measure(categorical(n=3), [rule])
    with pytest.raises(InvalidConstraint, match="is about the probability of an action, but"):
        hr.measure(gaussian(), [rule])
