"""Which action is likeliest: margins between logits, held, proven, saved, refused."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import handrail as hr
from handrail.constraints import constraint_from
from handrail.errors import InvalidConstraint
from handrail.proof import verify_certificates, write_certificates

SPACES = (gym.spaces.Box(-1.0, 1.0, (3,)), gym.spaces.Discrete(4))
LEFT, RIGHT = hr.Box([-1.0, -1.0, -1.0], [0.0, 1.0, 1.0]), hr.Box([0.1, -1, -1], [1.0, 1.0, 1.0])
STATES = np.random.default_rng(0).uniform(-1.0, 1.0, (200, 3))


def fresh(
    seed: int = 0, hidden: tuple[int, ...] = (32,), dtype: torch.dtype = torch.float64
) -> hr.CategoricalPolicy:
    return hr.CategoricalPolicy.mlp(SPACES, hidden, "tanh", seed=seed, dtype=dtype)


def leads(policy: hr.CategoricalPolicy, states: Any, action: int, over: int | None = None) -> Any:
    """How far the logit of an action is above another's, or above the highest of all others'."""
    z = policy.logits(states)
    return z[:, action] - (np.delete(z, action, axis=1).max(axis=1) if over is None else z[:, over])


@pytest.mark.parametrize("over", ["all", 3])
@pytest.mark.parametrize("by", [0.0, 1.5, -0.5, hr.Affine([1.0, 0.0, -1.0], 0.3)], ids=str)
def test_violations_are_missing_log_odds(over: Any, by: Any) -> None:
    policy, where = fresh(), hr.Points(STATES)
    found = hr.measure(policy, [hr.Prefer(1, over, by, where=where)])
    margins = by.at(STATES) if isinstance(by, hr.Affine) else by
    expected = margins - leads(policy, STATES, 1, None if over == "all" else over)
    assert found.worst_violation == pytest.approx(expected.max(), abs=1e-12)
    assert len(found) == len(STATES) * (3 if over == "all" else 1)


def test_a_saturated_policy_is_measured_and_moved_all_the_same() -> None:
    """Its probabilities differ by a factor of e^40: in units of these there is nothing to see."""
    policy = fresh()
    with torch.no_grad():
        for parameter in policy.parameters:
            parameter.mul_(6.0)
        policy.parameters[-1].copy_(torch.tensor([40.0, 0.0, 0.0, 0.0]))
    rule = hr.Prefer(2, by=0.1, where=hr.Points(STATES[:5]))
    before = hr.measure(policy, [rule]).worst_violation
    assert before == pytest.approx((0.1 - leads(policy, STATES[:5], 2)).max())
    assert before > 30.0
    assert hr.enforce(policy, [rule]).satisfied
    assert leads(policy, STATES[:5], 2).min() >= 0.1 - 1e-6


@pytest.mark.parametrize("hidden", [(32,), (12, 12)])
def test_points_and_regions_are_held_together_and_proven(hidden: tuple[int, ...]) -> None:
    policy = fresh(1, hidden)
    rising = hr.Affine([1.0, 0.0, 0.0], 0.2)
    rules = [
        hr.Prefer(2, by=0.5, where=LEFT),
        hr.Prefer(1, over=3, by=rising, where=RIGHT),
        hr.AtLeast(0.3, 0, where=hr.Points([[0.05, 0.9, 0.9]])),
    ]
    held = hr.enforce(policy, rules, prove=True)
    assert held.satisfied
    assert held.proven
    states = LEFT.sample(20_000, np.random.default_rng(0))
    lead = leads(policy, states, 2).min()
    lowest = held.certificates[0].lowest
    assert lowest is not None
    assert 0.5 <= lowest <= lead
    states = RIGHT.sample(20_000, np.random.default_rng(0))
    assert (leads(policy, states, 1, 3) >= rising.at(states)).all()
    assert "never below 0.5" in str(held.certificates[0])


def test_float32_and_soft_and_one_step() -> None:
    rule = hr.Prefer(3, by=0.2, where=LEFT)
    policy = fresh(2, dtype=torch.float32)
    assert hr.enforce(policy, [rule], prove=True).proven
    policy, batch = fresh(2), hr.Batch(STATES[:4], np.array([0, 1, 2, 3]), np.ones(4))
    returns = hr.enforcement.safe_returns(policy, batch, [rule], step_size=1e-3)
    assert returns.satisfied
    assert np.isfinite(returns.safe_loss)
    here = hr.Points(STATES[:1])
    opposite = [hr.Prefer(3, by=0.2, where=here), hr.Prefer(0, over=3, by=0.2, where=here)]
    with pytest.raises(hr.errors.InfeasibleConstraints, match="do not exist together"):
        hr.enforcement.safe_returns(policy, batch, opposite, step_size=1e-3)


@pytest.mark.parametrize(
    ("other", "possible"),
    [
        (hr.Prefer(1, over=0, by=-2.0, where=hr.Points(STATES[:1])), True),
        (hr.Prefer(1, over=0, by=-0.9, where=hr.Points(STATES[:1])), False),
        (hr.AtLeast(0.5, 1, hr.Points(STATES[:1])), False),  # π₀ ≥ e π₁
        (hr.AtLeast(0.2, 1, hr.Points(STATES[:1])), True),
        (hr.AtMost(0.01, 0, hr.Points(STATES[:1])), True),
    ],
)
def test_what_contradicts_a_preference_is_told(other: hr.Constraint, possible: bool) -> None:
    first = hr.Prefer(0, over=1, by=1.0, where=hr.Points(STATES[:1]))
    held = hr.enforce(fresh(), [first, other])
    assert held.satisfied == possible
    assert possible or "do not exist together at the same state" in held.reason


def test_a_circle_of_preferences_is_no_preference() -> None:
    """Probabilities could all be 0: only the logits see it."""
    here = hr.Points(STATES[:1])
    circle = [hr.Prefer(a, over=b, by=0.1, where=here) for a, b in ((0, 1), (1, 2), (2, 0))]
    assert "do not exist together" in hr.enforce(fresh(), circle).reason
    assert hr.enforce(fresh(), circle[:2]).satisfied


def test_brute_force_on_a_grid_agrees_with_the_proof() -> None:
    """Just below what a fine grid finds it is proven, above it is not."""
    grid = np.array(list(product(np.linspace(-1, 0, 25), np.linspace(-1, 1, 25), [0.0, 0.4])))
    where = hr.Box([-1.0, -1.0, 0.0], [0.0, 1.0, 0.4])
    for seed in range(3):
        policy = fresh(seed)
        lead = float(leads(policy, grid, 1).min())
        below = hr.certify(policy, hr.Prefer(1, by=lead - 0.05, where=where))
        above = hr.certify(policy, hr.Prefer(1, by=lead + 0.01, where=where))
        assert below.certified
        assert above.status == "counterexample"
        assert above.state is not None
        there = leads(policy, np.array([above.state]), 1)[0]
        assert above.violation == pytest.approx(lead + 0.01 - there, abs=1e-12)
        within = hr.certify(policy, hr.Prefer(1, by=lead + 0.01, where=where), tolerance=0.06)
        assert within.certified


def test_it_is_saved_and_read_again(tmp_path: Path) -> None:
    where, by = hr.Union([LEFT, RIGHT]), hr.Formula("0.1*a + 0.2", ["a", "b", "c"])
    for rule in (hr.Prefer(2, where=where), hr.Prefer(2, 0, by, where=where, priority=2.0)):
        assert constraint_from(rule.describe()).describe() == rule.describe()
    policy, points = fresh(), hr.Points(np.array([[1.1, 0.0, 0.0], [1.2, 0.5, 0.5]]))
    rules = [hr.Prefer(2, by=0.1, where=LEFT), hr.Prefer(1, where=points)]
    hr.enforce(policy, rules, prove=True)
    certificates = hr.certify(policy, rules)
    path = tmp_path / "certificates.json"
    write_certificates(path, policy, rules, certificates)
    again = verify_certificates(path, policy, rules)
    assert [one.status for one in again] == ["certified", "certified"]
    others = [hr.Prefer(2, over=1, by=0.1, where=LEFT, name=rules[0].name), rules[1]]
    with pytest.raises(hr.errors.InvalidCertificate, match="has another weights"):
        verify_certificates(path, policy, others)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"action": 1, "over": 1}, "action 1 cannot be preferred over itself"),
        ({"action": 1, "over": "others"}, "index of another action, or \"all\", but got 'others'"),
        ({"action": 1.5}, "An action is an index"),
        ({"action": -1}, "Unknown action -1"),
        ({"action": hr.Mean(0)}, "AtLeast\\(by, Mean\\({0: 1, 1: -1}\\), where\\)"),
        ({"action": 1, "by": np.inf}, "The margin `by` must be finite"),
        ({"action": 1, "by": "much"}, "The margin `by` must be a number"),
        ({"action": 1, "by": hr.Formula("log(a)", ["a", "b", "c"])}, "is (-inf|nan)"),
        ({"action": 1, "where": [1.0]}, "`where` must be a place"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidConstraint, match=words):
        hr.Prefer(**{"where": LEFT, **arguments})


def test_actions_that_the_policy_has_not() -> None:
    for rule in (hr.Prefer(4, where=LEFT), hr.Prefer(0, over=7, where=LEFT)):
        with pytest.raises(InvalidConstraint, match="but the policy has 4 actions"):
            hr.enforce(fresh(), [rule])
    gaussian = hr.GaussianPolicy.mlp((SPACES[0], gym.spaces.Box(-1.0, 1.0, (2,))), (8,))
    with pytest.raises(InvalidConstraint, match="about the probability of an action"):
        hr.enforce(gaussian, [hr.Prefer(0, where=LEFT)])


def test_names() -> None:
    names = [
        hr.Prefer(1, where=LEFT).name,
        hr.Prefer(1, 0, 1.5, where=LEFT).name,
        hr.Prefer(1, by=hr.Formula("a", ["a", "b", "c"]), where=LEFT).name,
    ]
    assert names == [
        "action 1 over all others",
        "action 1 over action 0 by 1.5",
        "action 1 over all others by a",
    ]


def test_a_learner_is_held_saved_and_resumed(tmp_path: Path) -> None:
    upright = hr.Box([-0.1, -0.1, 0.1, 0.0], [0.1, 0.1, 0.15, 0.5])
    rules = [
        hr.Prefer(1, by=0.5, where=upright, name="leans right"),
        hr.Prefer(0, by=0.5, where=hr.Points([[0.0, 0.0, -0.1, -0.2]]), name="leans left"),
        hr.AtMost(0.4, 1, hr.Points([[0.0, 0.0, -0.2, -0.2]])),
    ]
    env = gym.make("CartPole-v1")
    policy = hr.CategoricalPolicy.mlp(env, (16,), seed=0)
    agent = hr.Reinforce(env, policy=policy, constraints=rules, seed=0)
    agent.learn(episodes=2)
    assert leads(policy, upright.sample(500, np.random.default_rng(0)), 1).min() >= 0.5
    agent.save(tmp_path / "agent.safetensors")
    again = hr.Reinforce.load(tmp_path / "agent.safetensors")
    assert isinstance(again, hr.Reinforce)
    records = [one.learn(episodes=2)[-1] for one in (agent, again)]
    assert records[0].violation_after == records[1].violation_after
