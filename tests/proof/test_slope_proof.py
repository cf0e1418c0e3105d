"""Proofs about slopes: sound before everything, then useful."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import handrail as hr
from handrail._types import Array, Mask
from handrail.policies import ACTIVATIONS
from handrail.proof import provable_layers, verify_certificates, write_certificates
from handrail.proof.slope_relaxation import slopes_at
from tests.proof.test_certificate import boxes_and_others

Layer = tuple[Array, Array]

BOX = hr.Box([-1.0, -0.5, -0.2, -1.0], [1.0, 0.5, 0.2, 1.0])


def mean_policy(*layers: Layer, activation: str = "relu") -> hr.GaussianPolicy:
    """With these weights and biases."""
    modules: list[nn.Module] = []
    for weight, bias in layers:
        layer = nn.Linear(weight.shape[1], weight.shape[0], dtype=torch.float64)
        with torch.no_grad():
            layer.weight.copy_(torch.as_tensor(weight))
            layer.bias.copy_(torch.as_tensor(bias))
        modules += [layer, ACTIVATIONS[activation].kind()]
    return hr.GaussianPolicy(nn.Sequential(*modules[:-1]), 1.0)


def slope(policy: hr.Policy, along: int, state: Array) -> float:
    return float(slopes_at(provable_layers(policy), along, np.atleast_2d(state))[0, 0])


# --- soundness: planted violations ------------------------------------------------------------

# The slope of one unit is a bump, or that of three which are steps, apart: a plateau.
BUMPS, STEPS = ("tanh", "sigmoid"), ("relu", "leaky_relu", "elu", "softplus", "gelu", "silu")
WIDTHS = (1e-1, 1e-2, 1e-3)


def bump(rng: np.random.Generator, at: Array, varies: Mask, activation: str, width: float) -> Any:
    """Units whose sum has a slope of `normal` at a state, and little further away than a width."""
    normal = np.where(varies, rng.normal(size=len(at)), 0.0)
    normal /= np.linalg.norm(normal)
    if activation in BUMPS:
        sharp, offsets, factors = 2.0 / width, np.zeros(1), np.ones(1)
        factors /= ACTIVATIONS[activation].slopes(np.zeros(1))
    else:
        sharp, factors = 20.0 / width, np.array([1.0, -2.0, 1.0])
        offsets = np.array([0.5, -0.5, -1.5]) * width
    inward = np.tile(sharp * normal, (len(offsets), 1))
    return (inward, sharp * (offsets - normal @ at)), factors / sharp


def check_planted(rng: np.random.Generator, kind: str) -> str:
    """What is said about a policy with one narrow violation; it must not be certified."""
    region = boxes_and_others(rng)
    low, high = region.bounds
    along = int(rng.choice(np.flatnonzero(high > low)))
    activation, width = str(rng.choice(BUMPS + STEPS)), float(rng.choice(WIDTHS))
    at = region.sample(1, rng)[0]
    (inward, bias), factors = bump(rng, at, high > low, activation, width)
    base = rng.normal(size=(8, len(at)))
    outward = 0.2 * np.abs(rng.normal(size=8)) * np.sign(base[:, along])  # no slope is negative
    inward, bias = np.concatenate([base, inward]), np.concatenate([rng.normal(size=8), bias])

    def with_bump(size: float) -> hr.GaussianPolicy:
        out = np.concatenate([outward, size * factors])[None]
        if activation == "relu" and rng.random() < 0.5:  # the same with two hidden layers
            both, none = np.concatenate([out, -out]), np.zeros(2)
            return mean_policy((inward, bias), (both, none), (np.array([[1.0, -1.0]]), none[:1]))
        return mean_policy((inward, bias), (out, np.zeros(1)), activation=activation)

    without = slope(with_bump(0.0), along, at)
    per_size = slope(with_bump(1.0), along, at) - without
    excess = float(rng.uniform(0.02, 0.2))
    rule: Any = hr.Monotone(hr.Mean(0), along, "increasing", region)
    wanted = -excess
    if kind == "lipschitz":
        constant = float(0.4 * np.abs(base[:, along]).sum())
        rule = hr.Lipschitz(constant, hr.Mean(0), along, region)
        wanted = -constant - excess
    policy = with_bump((wanted - without) / per_size)
    assert slope(policy, along, at) == pytest.approx(wanted, abs=1e-6)  # it is planted
    answer = hr.certify(policy, rule, budget=hr.Budget(cells=4_000, seconds=20.0))
    assert answer.status != "certified", (activation, width)
    if answer.status == "counterexample":
        state = np.array(answer.state)
        found = slope(policy, along, state)
        lower, upper = rule.slope_bounds
        assert region.contains(state[None])[0]
        assert answer.violation == pytest.approx(max(lower - found, found - upper), abs=1e-9)
        assert answer.violation is not None
        assert answer.violation > 0.0
    return str(answer.status)


@pytest.mark.parametrize("kind", ["monotone", "lipschitz"])
def test_no_false_certificates(kind: str) -> None:
    rng = np.random.default_rng(len(kind))
    found = [check_planted(rng, kind) for _ in range(40)]
    assert found.count("counterexample") >= 25  # most are found, not only not proven


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["monotone", "lipschitz"])
def test_no_false_certificates_of_many(kind: str) -> None:
    rng = np.random.default_rng(100 + len(kind))
    found = [check_planted(rng, kind) for _ in range(1200)]
    assert found.count("counterexample") >= 800


# --- what is said --------------------------------------------------------------------------------


def test_of_a_linear_policy_the_slope_is_proven_to_the_last_digits() -> None:
    policy = mean_policy((np.array([[0.3, -0.2, 1.7, 0.0]]), np.zeros(1)))
    rising = hr.certify(policy, hr.Monotone(hr.Mean(0), 2, "increasing", BOX))
    assert rising.certified
    assert rising.lowest == pytest.approx(1.7, abs=1e-12)
    assert rising.highest is None
    falling = hr.certify(policy, hr.Monotone(hr.Mean(0), 1, "decreasing", BOX))
    assert falling.highest == pytest.approx(-0.2, abs=1e-12)
    both = hr.certify(policy, hr.Lipschitz(1.8, hr.Mean(0), 2, BOX))
    assert (both.lowest, both.highest) == pytest.approx((1.7, 1.7), abs=1e-12)
    assert both.worst_violation == pytest.approx(-0.1)
    wrong = hr.certify(policy, hr.Lipschitz(1.6, hr.Mean(0), 2, BOX))
    assert wrong.status == "counterexample"
    assert wrong.violation == pytest.approx(0.1)
    assert hr.certify(policy, hr.Lipschitz(1.6, hr.Mean(0), 2, BOX), tolerance=0.11).certified
    assert "(≥ 0) holds at every state: never below 1.699999" in str(rising)


def test_a_slope_of_zero_is_too_near_to_tell() -> None:
    twice = np.array([[0.3, -0.2, 1.7, 0.4]] * 2)
    policy = mean_policy(
        (twice, np.zeros(2)), (np.array([[1.0, -1.0]]), np.zeros(1)), activation="elu"
    )
    answer = hr.certify(policy, hr.Monotone(hr.Mean(0), 3, "increasing", BOX))
    assert answer.status == "unknown"
    assert answer.reason == "a slope is too near to its bound for float64"


def test_a_kink_between_two_good_slopes_is_no_violation() -> None:
    """relu(s) + 0.1·relu(s + 5)."""
    policy = mean_policy(
        (np.ones((2, 1)), np.array([0.0, 5.0])), (np.array([[1.0, 0.1]]), np.zeros(1))
    )
    answer = hr.certify(policy, hr.Monotone(hr.Mean(0), 0, "increasing", hr.Box([-1.0], [1.0])))
    assert answer.lowest == pytest.approx(0.1)


@pytest.mark.parametrize(
    "region",
    [
        BOX,
        hr.Ball([0.0, 0.0, 0.0, 0.0], 0.4, coordinates=[0, 2]),
        hr.Polytope(
            [[-0.3, -0.2], [0.3, -0.2], [0.0, 0.3]],
            coordinates=[0, 2],
            others={1: 0.1, 3: (-1.0, 1.0)},
        ),
        hr.Union([hr.Box([-1.0] * 4, [-0.5] * 4), hr.Box([0.5] * 4, [1.0] * 4)]),
    ],
    ids=lambda one: type(one).__name__,
)
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_what_is_proven_holds_for_pairs_of_states(region: hr.Region, activation: str) -> None:
    rng = np.random.default_rng(3)
    policy = mean_policy(
        (rng.normal(size=(24, 4)), rng.normal(size=24)),
        (rng.normal(size=(1, 24)), np.zeros(1)),
        activation=activation,
    )
    limit = hr.certify(policy, hr.Lipschitz(1e3, hr.Mean(0), 2, region))
    assert limit.lowest is not None
    assert limit.highest is not None
    states = region.sample(3000, rng)
    slopes = slopes_at(provable_layers(policy), 2, states)
    assert limit.lowest <= slopes.min()
    assert slopes.max() <= limit.highest
    tight = float(np.abs(slopes).max()) + 1.0
    rule = hr.Lipschitz(tight, hr.Mean(0), 2, region)
    assert hr.certify(policy, rule).certified
    part = region.parts[0]
    ends = np.minimum(states + 0.05 * np.eye(4)[2], part.bounds[1])
    both = part.contains(states) & part.contains(ends)
    change = np.abs(policy.outputs(ends) - policy.outputs(states))[both, 0]
    assert (change <= tight * (ends - states)[both, 2] + 1e-12).all()


def test_of_three_actions_the_odds_against_each_other_one_rise() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3)).double()
    policy = hr.CategoricalPolicy(module)
    rule = hr.Monotone(1, 2, "increasing", BOX)
    held = hr.enforce(policy, [rule], selection=hr.Everywhere(prove=True))
    assert held.proven
    states = BOX.sample(2000, np.random.default_rng(0))
    ahead = states.copy()
    ahead[:, 2] = np.minimum(ahead[:, 2] + 0.03, 0.2)
    before, after = policy.probabilities(states), policy.probabilities(ahead)
    for other in (0, 2):
        assert (after[:, 1] / after[:, other] >= before[:, 1] / before[:, other]).all()
    assert (after[:, 1] >= before[:, 1]).all()


def test_float32_weights_are_held_and_proven() -> None:
    """About the network with real numbers, measured in float64."""
    torch.manual_seed(1)
    module = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
    policy = hr.GaussianPolicy(module, 0.5)
    rules = [
        hr.Monotone(hr.Mean(0), 2, "decreasing", BOX),
        hr.Lipschitz(0.2, hr.Mean(0), 3, BOX),
        hr.AtMost(0.5, hr.Mean(0), BOX),
    ]
    assert hr.measure(policy, rules).worst_violation > 0.0
    held = hr.enforce(policy, rules, selection=hr.Everywhere(prove=True))
    assert held.proven
    assert hr.measure(policy, rules).satisfied
    assert module[0].weight.dtype == torch.float32
    assert hr.certify(policy, rules).certified


@pytest.mark.parametrize("activation", [nn.Tanh, nn.ReLU])
def test_slopes_of_two_hidden_layers_are_held_and_proven(activation: type[nn.Module]) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Linear(4, 12), activation(), nn.Linear(12, 12), activation(), nn.Linear(12, 1)
    ).double()
    policy = hr.GaussianPolicy(module, 0.5)
    rule = hr.Monotone(hr.Mean(0), 2, "increasing", BOX)
    held = hr.enforce(policy, [rule], selection=hr.Everywhere(prove=True, margin=0.1))
    assert held.proven


def test_certificates_of_slopes_are_written_and_proven_again(tmp_path: Path) -> None:
    policy = mean_policy((np.array([[0.3, -0.2, 1.7, 0.0]]), np.zeros(1)))
    rules = [
        hr.Monotone(hr.Mean(0), 2, "increasing", BOX),
        hr.Lipschitz(0.5, hr.Mean(0), 0, BOX),
    ]
    path = tmp_path / "certificate.json"
    write_certificates(path, policy, rules, list(hr.certify(policy, rules)))
    assert all(one.certified for one in verify_certificates(path, policy, rules))
    first = json.loads(path.read_text())["certificates"][0]
    assert first["quantity"] == "slope of raw mean along observation 2, with real numbers"
    assert (first["lower"], first["upper"], first["weights"]) == (0.0, None, [[1.0]])
    other = [hr.Monotone(hr.Mean(0), 0, "increasing", BOX, rules[0].name), rules[1]]
    with pytest.raises(hr.errors.InvalidCertificate, match="another quantity"):
        verify_certificates(path, policy, other)


def test_other_policies_are_refused() -> None:
    policy = mean_policy((np.ones((1, 3)), np.zeros(1)))
    with pytest.raises(
        hr.errors.ShapeMismatch, match="has 4 coordinates but the policy observes 3"
    ):
        hr.certify(policy, hr.Monotone(hr.Mean(0), 2, "increasing", BOX))
    wide = mean_policy((np.ones((1, 4)), np.zeros(1)))
    with pytest.raises(hr.errors.InvalidConstraint, match="actions of this policy are continuous"):
        hr.certify(wide, hr.Monotone(0, 2, "increasing", BOX))


def test_what_is_not_known_is_bounded_still() -> None:
    rng = np.random.default_rng(0)
    policy = mean_policy(
        (rng.normal(size=(16, 4)), rng.normal(size=16)),
        (rng.normal(size=(1, 16)), np.zeros(1)),
        activation="tanh",
    )
    proven = hr.certify(policy, hr.Lipschitz(1e3, hr.Mean(0), 2, BOX))
    assert proven.highest is not None
    assert proven.lowest is not None
    constant = 0.7 * max(proven.highest, -proven.lowest)
    rule = hr.Lipschitz(constant, hr.Mean(0), 2, BOX)
    answer = hr.certify(policy, rule, budget=hr.Budget(cells=16))
    assert answer.status == "unknown"
    assert answer.remainder is not None
    assert 0.0 < answer.remainder.proven_share < 1.0
    relaxed = hr.Lipschitz(constant + answer.worst_violation + 1e-9, hr.Mean(0), 2, BOX)
    assert hr.certify(policy, relaxed).certified


def test_weights_that_are_not_finite_prove_nothing() -> None:
    policy = mean_policy((np.full((1, 4), np.nan), np.zeros(1)))
    answer = hr.certify(policy, hr.Monotone(hr.Mean(0), 2, "increasing", BOX))
    assert (answer.status, answer.reason) == ("unknown", "a weight of the network is not finite")
