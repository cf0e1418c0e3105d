"""Probabilities of ranges: against the normal distribution, drawn actions, and brute force."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

import handrail as hr
from handrail.constraints.constraint import Constraint, constraint_from
from handrail.constraints.drawn_actions import count_drawn
from handrail.constraints.likely_range import LikelyWithin
from handrail.errors import InvalidConstraint
from tests.conftest import small_policy
from tests.policies.test_gaussian import gaussian

BOX = hr.Box([-0.5, -0.5, -0.5], [0.5, 0.5, 0.5])


def with_std(*std: float) -> hr.GaussianPolicy:
    return hr.GaussianPolicy(gaussian(3, len(std)).module, list(std))


def bounds_of(constraint: Constraint, policy: hr.Policy) -> tuple[float, float]:
    made = constraint.for_policy(policy)
    assert isinstance(made, (hr.AtLeast, hr.AtMost, hr.Between))
    lower, upper = made.bounds
    assert isinstance(lower, float)
    assert isinstance(upper, float)
    return lower, upper


def test_one_end_is_a_bound_on_the_mean() -> None:
    policy = with_std(0.5)
    lower, upper = bounds_of(LikelyWithin(0.99, 0, BOX, low=0.25), policy)
    assert lower == pytest.approx(0.25 + norm.ppf(0.99) * 0.5, rel=1e-9)
    assert upper == math.inf
    lower, upper = bounds_of(LikelyWithin(0.9, 0, BOX, high=1.0), policy)
    assert lower == -math.inf
    assert upper == pytest.approx(1.0 - norm.ppf(0.9) * 0.5, rel=1e-9)


@given(
    probability=st.floats(0.01, 0.9999),
    low=st.floats(-5.0, 5.0),
    width=st.floats(0.1, 10.0),
    deviation=st.floats(0.01, 3.0),
)
@settings(max_examples=200, deadline=None)
def test_two_ends_are_an_interval_of_means(
    probability: float, low: float, width: float, deviation: float
) -> None:
    """Inside it is likely enough, a hair outside it is not; None where nothing is."""
    high = low + width
    rule = LikelyWithin(probability, 0, BOX, low, high)
    middle = 0.5 * (low + high)

    def chance(mean: float) -> float:
        return float(norm.cdf((high - mean) / deviation) - norm.cdf((low - mean) / deviation))

    if chance(middle) < probability - 1e-9:
        with pytest.raises(InvalidConstraint, match="cannot hold with a standard deviation of"):
            rule.for_policy(with_std(deviation))
        return
    if chance(middle) < probability + 1e-9:
        return  # nothing but rounding decides
    lower, upper = bounds_of(rule, with_std(deviation))
    assert low < upper
    assert lower + upper == pytest.approx(2.0 * middle, abs=1e-9)
    for end, outwards in ((lower, -1.0), (upper, 1.0)):
        assert chance(end) >= probability - 1e-14
        assert chance(end + outwards * 1e-4 * deviation) < probability


def test_a_weighted_sum_has_the_noise_of_its_parts() -> None:
    policy = with_std(0.3, 0.4)
    lower, _ = bounds_of(LikelyWithin(0.95, {0: 1.0, 1: -1.0}, BOX, low=0.0), policy)
    assert lower == pytest.approx(norm.ppf(0.95) * 0.5, rel=1e-9)


def test_a_held_policy_draws_within_the_range_as_often_as_was_asked() -> None:
    policy = with_std(0.5, 0.2)
    rules = [
        LikelyWithin(0.9, 0, BOX, low=0.0, name="never back"),
        LikelyWithin(0.8, 1, BOX, low=-0.4, high=0.4, name="gently"),
    ]
    enforced = hr.enforce(policy, rules)
    assert enforced.satisfied
    states = BOX.sample(400, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    outputs = np.repeat(policy.outputs(states), 50, axis=0)
    actions = outputs + policy.std * rng.standard_normal(outputs.shape)
    found = count_drawn(policy, rules, np.repeat(states, 50, axis=0), actions)
    assert found is not None
    for one, allowed in zip(found.by_constraint, (0.1, 0.2), strict=True):
        assert one.steps == 20_000
        assert one.allowed == pytest.approx(allowed)
        assert one.against / one.steps <= allowed + 4 * math.sqrt(allowed / one.steps)
    # At the state where the bound is met most closely, as often as not at all less.
    mean = policy.outputs(states)[:, 0]
    assert norm.cdf(mean / 0.5).min() >= 0.9 - 1e-12
    assert norm.cdf(mean / 0.5).min() < 0.97


def test_it_is_proven_as_a_bound_on_the_mean() -> None:
    policy = with_std(0.5, 0.2)
    rule = LikelyWithin(0.9, 0, BOX, low=0.0)
    before = hr.certify(policy, rule)
    assert before.status == "counterexample"
    hr.enforce(policy, [rule], prove=True).raise_if_unsatisfied()
    certificate = hr.certify(policy, rule)
    assert certificate.status == "certified"
    assert certificate.name == "P(action 0 >= 0) >= 0.9"
    assert certificate.lower == pytest.approx(norm.ppf(0.9) * 0.5)
    louder = hr.GaussianPolicy(policy.module, [5.0, 0.2])
    assert hr.certify(louder, rule).status == "counterexample"


def test_a_learner_holds_it_and_goes_on_from_a_file(tmp_path: Path) -> None:
    place = hr.Box([-1, -1, -1], [1, 1, 1])
    rule = LikelyWithin(0.9, 0, place, high=1.0, name="not too hard")
    agent = hr.Reinforce("Pendulum-v1", gaussian(3, 1), [rule], seed=0)
    records = agent.learn(episodes=2, progress_bar=False)
    assert all(one.violation_before is not None and one.violation_before <= 1e-6 for one in records)
    path = tmp_path / "agent.safetensors"
    agent.save(path)
    again = hr.Reinforce.load(path)
    assert again.learn(episodes=1, progress_bar=False) == agent.learn(
        episodes=1, progress_bar=False
    )


def test_it_survives_a_description() -> None:
    for rule in (
        LikelyWithin(0.9, 0, BOX, low=0.0),
        LikelyWithin(0.9, {0: 1.0, 1: 2.0}, BOX, -1.0, 1.0, "both", 2.0),
    ):
        again = constraint_from(rule.describe())
        assert again.describe() == rule.describe()
        policy = with_std(0.1, 0.1)
        assert bounds_of(again, policy) == bounds_of(rule, policy)
        assert again.name == rule.name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"probability": 1.0, "low": 0.0}, "strictly between 0 and 1, but got 1. No noise keeps"),
        ({"probability": 0.9}, "a range needs an end"),
        ({"probability": 0.9, "low": 1.0, "high": 1.0}, "must go upwards, but goes from 1 to 1"),
        ({"probability": 0.9, "low": 0.0, "action": hr.Mean(0)}, r"write action=0, not Mean\(0\)"),
        ({"probability": 0.9, "low": 0.0, "action": {0: math.sin}}, "must be numbers"),
        ({"probability": "high", "low": 0.0}, "`probability` must be a number"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidConstraint, match=message):
        LikelyWithin(**{"action": 0, "where": BOX, **arguments})  # type: ignore[arg-type]


def test_policies_that_it_is_not_about() -> None:
    rule = LikelyWithin(0.9, 1, BOX, low=0.0, name="forwards")
    with pytest.raises(InvalidConstraint, match=r"'forwards' is about a mean action, but this pol"):
        hr.enforce(small_policy(3, 2), [rule])
    with pytest.raises(InvalidConstraint, match="names action 1, but the policy has 1 actions"):
        hr.enforce(gaussian(3, 1), [rule])
    three = LikelyWithin(0.9, 2, BOX, low=0.0, name="third")
    with pytest.raises(InvalidConstraint, match="names action 2, but the policy has 2 actions"):
        hr.enforce(with_std(0.1, 0.2), [three])
    with pytest.raises(InvalidConstraint, match=r"take constraint.for_policy\(policy\)"):
        rule.rows_at(BOX.cover(3), 2)
