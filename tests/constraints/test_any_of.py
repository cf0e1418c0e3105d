"""This or that: held where it is nearest, proven cell by cell, saved, refused."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import handrail as hr
from handrail._types import Array
from handrail.constraints import constraint_from
from handrail.errors import InvalidConstraint
from handrail.proof import verify_certificates, write_certificates
from tests.conftest import spaces

OBSERVED = gym.spaces.Box(-1.0, 1.0, (3,))
BOX = hr.Box([-1.0, -1.0, -1.0], [1.0, 1.0, 1.0])
HERE = hr.Points([[0.1, 0.2, 0.3]])
STATES = np.random.default_rng(0).uniform(-1.0, 1.0, (4000, 3))


def gaussian(seed: int = 0, high: tuple[float, ...] = (1.0, 1.0)) -> hr.GaussianPolicy:
    actions = gym.spaces.Box(-np.array(high), np.array(high), dtype=np.float64)
    return hr.GaussianPolicy.mlp((OBSERVED, actions), (32,), seed=seed)


def not_both(where: hr.Region | hr.Points, at: float = -0.2) -> hr.AnyOf:
    alternatives = [
        hr.AtMost(at, hr.Mean(0), where),
        hr.AtMost(hr.Affine([0.5, 0.0, 0.0], at), hr.Mean(1), where),
    ]
    return hr.AnyOf(alternatives, name="not both")


def least(means: Array, states: Array, at: float = -0.2) -> Array:
    """By hand."""
    result: Array = np.minimum(means[:, 0] - at, means[:, 1] - at - 0.5 * states[:, 0])
    return result


def test_the_violation_is_that_of_the_nearest_alternative() -> None:
    policy, rule = gaussian(), not_both(hr.Points(STATES))
    found = hr.measure(policy, [rule])
    expected = least(policy.mean(STATES), STATES)
    np.testing.assert_allclose(found.violations, np.sort(expected)[::-1], atol=1e-12)
    assert len(found) == len(STATES)
    assert found.labels[0].startswith("not both: mean action ")
    rows = rule.rows(2)
    assert len(rows) == 2 * len(STATES)
    np.testing.assert_array_equal(rows.choice, np.repeat(np.arange(len(STATES)), 2))


@pytest.mark.parametrize("seed", range(3))
def test_a_region_is_held_by_both_and_proven_by_one_at_a_time(seed: int) -> None:
    policy = gaussian(seed)
    held = hr.enforce(policy, [not_both(BOX)], prove=True)
    assert held.satisfied
    assert held.proven
    (certificate,) = held.certificates
    worst = least(policy.mean(STATES), STATES).max()
    assert certificate.slack is not None
    assert 0.0 <= certificate.slack <= -worst
    names = [name for name, _ in certificate.alternatives]
    assert names == ["mean action 0 <= -0.2", "mean action 1 <= 0.5*s0 - 0.2"]
    assert sum(n for _, n in certificate.alternatives) == sum(
        len(one.cells) for one in certificate.leaves
    )
    assert "mean action 0 <= -0.2 or mean action 1" in str(certificate)
    again = hr.certify(policy, not_both(BOX))
    assert again.certified
    neither = hr.certify(policy, not_both(BOX, at=worst - 0.3))
    assert neither.status == "counterexample"
    assert neither.state is not None
    state = np.array([neither.state])
    assert neither.violation == pytest.approx(least(policy.mean(state), state, worst - 0.3)[0])


def test_points_are_proven_one_by_one() -> None:
    policy, where = gaussian(), hr.Points(STATES[:40])
    assert hr.certify(policy, not_both(where)).status == "counterexample"
    assert hr.enforce(policy, [not_both(where)], tolerance=1e-9).satisfied
    certificate = hr.certify(policy, not_both(where), tolerance=1e-6)
    assert certificate.certified
    assert sum(n for _, n in certificate.alternatives) == 40
    assert " points" in str(certificate)


def test_what_is_nearest_is_held_and_the_other_one_left_alone() -> None:
    """In units of each action: half a newton is nearer than half a radian."""
    policy = gaussian(high=(1000.0, 0.1)).clipped_to(None)  # about means, whatever acts
    y = policy.mean(HERE.states)[0]
    rule = hr.AnyOf(
        [hr.AtMost(y[0] - 5.0, hr.Mean(0), HERE), hr.AtMost(y[1] - 0.5, hr.Mean(1), HERE)]
    )
    held = hr.enforce(policy, [rule])
    assert held.satisfied
    assert held.active == (f"{rule.name}: {rule.alternatives[0].name}",)


@pytest.mark.parametrize("beside", [HERE, hr.Points([[0.1, 0.2, 0.3001]])])
def test_an_alternative_that_contradicts_the_rest_is_given_up(beside: hr.Points) -> None:
    policy = gaussian()
    y = policy.mean(HERE.states)[0]
    rule = hr.AnyOf(
        [hr.AtMost(y[0] - 0.1, hr.Mean(0), HERE), hr.AtMost(y[1] - 0.5, hr.Mean(1), HERE)]
    )
    against = hr.AtLeast(float(y[0]), hr.Mean(0), beside, name="against")
    assert hr.diagnose(policy, [rule, against]).feasible or beside is not HERE
    assert hr.enforce(policy, [rule, against]).satisfied
    assert policy.mean(HERE.states)[0, 1] <= y[1] - 0.5 + 1e-6


def test_where_every_alternative_contradicts_it_is_said() -> None:
    policy = gaussian()
    rule, box = not_both(BOX), hr.Box([0.0, 0.0, 0.0], [0.1, 0.1, 0.1])
    against = [hr.AtLeast(0.5, hr.Mean(k), box, name=f"{k}") for k in range(2)]
    held = hr.enforce(policy, [rule, *against])
    assert "do not exist together at the same state, whichever alternative is chosen" in held.reason
    assert hr.enforce(policy, [rule, against[0]]).satisfied
    here = not_both(HERE)
    points = [hr.AtLeast(0.5, hr.Mean(k), HERE, name=f"{k}") for k in range(2)]
    held = hr.enforce(policy, [here, *points])
    assert "Other alternatives could not be held, either." in held.reason


def test_the_same_row_elsewhere_is_no_reason_to_drop_an_alternative() -> None:
    policy = gaussian()
    rules = [hr.AtMost(-0.2, hr.Mean(0), HERE, name="alone"), not_both(HERE)]
    assert hr.enforce(policy, rules).satisfied
    assert len(hr.measure(policy, rules)) == 2


def test_of_probabilities_and_preferences() -> None:
    spaces = (OBSERVED, gym.spaces.Discrete(4))
    policy = hr.CategoricalPolicy.mlp(spaces, (32,), seed=0)
    rule = hr.AnyOf([hr.AtLeast(0.4, 0, BOX), hr.Prefer(3, over=1, by=1.0, where=BOX)])
    held = hr.enforce(policy, [rule, hr.AtMost(0.1, 0, HERE)], prove=True)
    assert held.proven
    logs = policy.log_probabilities(STATES)
    assert ((logs[:, 0] >= np.log(0.4)) | (logs[:, 3] - logs[:, 1] >= 1.0)).all()


def test_brute_force_on_a_grid() -> None:
    grid = np.array(list(product(np.linspace(-1.0, 1.0, 41), np.linspace(-1.0, 1.0, 41), [0.0])))
    plane = hr.Box([-1.0, -1.0, 0.0], [1.0, 1.0, 0.0])
    for seed in range(3):
        policy = gaussian(seed)
        worst = float(least(policy.mean(grid), grid, 0.0).max())
        assert hr.certify(policy, not_both(plane, worst + 0.02)).certified
        assert hr.certify(policy, not_both(plane, worst - 0.01)).status == "counterexample"


def test_enforcement_ends_whatever_is_asked() -> None:
    """Many choices against each other: no alternative is tried twice, nothing goes in circles."""
    rng = np.random.default_rng(0)
    outcomes = set()
    for seed in range(6):
        policy, states = gaussian(seed), rng.uniform(-1.0, 1.0, (6, 3))
        rules: list[hr.Constraint] = []
        for number, state in enumerate(states):
            close = hr.Points([state + 1e-3 * rng.normal(size=3) * (number % 2)])
            up = [hr.AtLeast(0.3, hr.Mean(k), close) for k in range(2)]
            down = [hr.AtMost(-0.3, hr.Mean(k), close) for k in range(2)]
            rules.append(hr.AnyOf([up[0], down[1]], name=f"one {number}"))
            rules.append(hr.AnyOf([up[1], down[0]], name=f"other {number}"))
        before = policy.mean(states)
        held = hr.enforce(policy, rules)
        outcomes.add(held.satisfied)
        if held.satisfied:
            assert hr.measure(policy, rules).worst_violation <= 1e-6
        else:
            np.testing.assert_array_equal(policy.mean(states), before)
    assert True in outcomes


def test_it_is_saved_and_read_again(tmp_path: Path) -> None:
    rule = not_both(
        hr.Union([hr.Box([-1, -1, -1], [-0.5, 1, 1]), hr.Box([0.5, -1, -1], [1, 1, 1])])
    )
    assert constraint_from(rule.describe()).describe() == rule.describe()
    policy, rules = gaussian(), [rule, not_both(HERE)]
    rules[1] = hr.AnyOf(rules[1].alternatives, name="there")
    hr.enforce(policy, rules, prove=True)
    path = tmp_path / "certificates.json"
    write_certificates(path, policy, rules, hr.certify(policy, rules, tolerance=1e-6))
    again = verify_certificates(path, policy, rules, tolerance=1e-6)
    assert [one.status for one in again] == ["certified", "certified"]
    first, second = rule.alternatives[0], not_both(rule.where, -0.3).alternatives[1]
    others = [hr.AnyOf([first, second], "not both"), rules[1]]
    with pytest.raises(hr.errors.InvalidCertificate, match="has another alternatives"):
        verify_certificates(path, policy, others, tolerance=1e-6)


def test_a_learner_is_held_saved_and_resumed(tmp_path: Path) -> None:
    where = hr.Points(np.random.default_rng(0).uniform(-0.1, 0.1, (5, 4)))
    rule = hr.AnyOf([hr.AtLeast(0.8, 0, where), hr.AtLeast(0.8, 1, where)], name="decided")
    env = gym.make("CartPole-v1")
    policy = hr.CategoricalPolicy.mlp(env, (16,), seed=0)
    agent = hr.Reinforce(env, policy=policy, constraints=[rule], seed=0)
    agent.learn(episodes=2)
    assert policy.probabilities(where.states).max(axis=1).min() >= 0.8 - 1e-6
    agent.save(tmp_path / "agent.safetensors")
    again = hr.Reinforce.load(tmp_path / "agent.safetensors")
    records = [one.learn(episodes=2)[-1] for one in (agent, again)]
    assert records[0].violation_after == records[1].violation_after
    one_step = hr.Reinforce(env, constraints=[rule], enforcement="one_step", seed=0)
    assert one_step.learn(episodes=1)[0].violation_after is not None


@pytest.mark.parametrize(
    ("alternatives", "words"),
    [
        ([hr.AtMost(0.0, hr.Mean(0), BOX)], "two alternatives at least, but got 1"),
        ([not_both(BOX), hr.AtMost(0.0, hr.Mean(0), BOX)], "'not both' is itself a choice"),
        (
            [hr.AtMost(0.0, hr.Mean(0), BOX), hr.AtMost(0.0, hr.Mean(1), HERE)],
            "are about different states",
        ),
        (
            [hr.AtMost(0.0, hr.Mean(0), BOX), hr.AtMost(0.5, 1, BOX)],
            "a policy has only one of the two",
        ),
        ([hr.AtMost(0.0, hr.Mean(0), BOX)] * 2, "two alternatives are called"),
        (
            [hr.AtMost(0.5, 0, HERE), hr.Linear([hr.Term([0.0], 0)], upper=0.5)],
            "about one state at a time .* but got Linear",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(alternatives: list[Any], words: str) -> None:
    with pytest.raises(InvalidConstraint, match=words):
        hr.AnyOf(alternatives)


def test_where_the_choice_changes_hands_a_flank_is_found_however_steep() -> None:
    """No policy that is continuous can hold this: one of 10,000 states would tell."""
    steep, at = 1e6, 0.123456789
    policy = hr.CategoricalPolicy.mlp(spaces(1, 2), hidden=[2], seed=0)
    weight, bias, last, last_bias = policy.parameters
    with torch.no_grad():
        weight.fill_(steep)
        bias.copy_(torch.tensor([-steep * at, -steep * at - 14.0]))
        last.copy_(torch.tensor([[-1.0, 1.0], [0.0, 0.0]]))
        last_bias.copy_(torch.tensor([7.0, 0.0]))
    where = hr.Box([-0.5], [0.5])
    decided = hr.AnyOf([hr.AtLeast(0.7, 0, where), hr.AtLeast(0.7, 1, where)], name="decided")
    assert hr.measure(policy, [decided]).worst_violation < -0.29  # all states of the cover obey
    result = hr.enforce(policy, [decided])
    assert not result.satisfied
    assert "'decided' at (0.1234" in result.reason
    assert policy.parameters[0].eq(steep).all()  # as it was
