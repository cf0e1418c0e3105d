"""Noise that depends on the state: its head, its gradients, its range, held, proven and saved."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import gymnasium as gym
import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import nn
from torch.distributions import Normal

import handrail as hr
from handrail._types import Array
from handrail.errors import InvalidConstraint, InvalidPolicy, InvalidRun, ShapeMismatch
from handrail.policies import quantity_called
from handrail.tangent import Batch, policy_gradient

RNG = np.random.default_rng(0)
STATES = RNG.uniform(-1.0, 1.0, (40, 3))
BOX = hr.Box([-0.5, -0.5, -0.5], [0.5, 0.5, 0.5])
HERE = hr.Points([0.2, -0.1, 0.4])
LEAST, MOST = [0.1, 0.2], [1.0, 3.0]
SPACES = (gym.spaces.Box(-1.0, 1.0, (3,)), gym.spaces.Box(np.array([-1, -4]), np.array([1, 4])))


def varying(seed: int = 0, hidden: int = 24, n_actions: int = 2) -> hr.VaryingGaussianPolicy:
    torch.manual_seed(seed)
    layers = nn.Linear(3, hidden), nn.Tanh(), nn.Linear(hidden, 2 * n_actions)
    return hr.VaryingGaussianPolicy(
        nn.Sequential(*layers).double(), LEAST[:n_actions], MOST[:n_actions]
    )


def outputs_in_torch(policy: hr.VaryingGaussianPolicy, states: Array) -> tuple[torch.Tensor, ...]:
    mean, noise = policy.module(torch.as_tensor(states)).chunk(2, dim=1)
    least, most = (torch.as_tensor(one) for one in policy.std_range)
    return mean, 0.5 * (least + most) + 0.5 * (most - least) * torch.tanh(noise)


def test_the_gradient_of_the_likelihood_is_that_of_torch() -> None:
    policy = varying()
    outputs = policy.outputs(STATES)
    actions = policy.draw(outputs, [np.random.default_rng(k) for k in range(len(STATES))])
    returns = np.random.default_rng(1).standard_normal(len(STATES))
    mean, std = outputs_in_torch(policy, STATES)
    np.testing.assert_allclose(outputs, torch.cat([mean, std], 1).detach(), rtol=1e-12)
    likelihoods = Normal(mean, std).log_prob(torch.as_tensor(actions)).sum(dim=1)
    np.testing.assert_allclose(
        policy.likelihood(outputs, actions)[0], likelihoods.detach(), rtol=1e-10
    )
    expected = torch.autograd.grad(likelihoods @ torch.as_tensor(returns), policy.parameters)
    found = policy_gradient(policy, Batch(STATES, actions, returns)).direction
    for one, other in zip(found.parts, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-12)


def test_a_standard_deviation_never_leaves_its_range() -> None:
    policy = varying()
    with torch.no_grad():
        for parameter in policy.parameters:
            parameter.mul_(1e3)
    std = policy.std(STATES)
    assert (std >= LEAST).all()
    assert (std <= MOST).all()
    np.testing.assert_allclose([std.min(axis=0), std.max(axis=0)], [LEAST, MOST], rtol=1e-12)
    assert policy.std(STATES[0]).tolist() == std[0].tolist()
    assert policy.mean(STATES).shape == (40, 2)


@pytest.mark.parametrize("bounded", [None, "tanh", "hardtanh"])
def test_a_fresh_one_begins_with_what_was_declared(
    bounded: Literal["tanh", "hardtanh"] | None,
) -> None:
    policy = hr.VaryingGaussianPolicy.mlp(
        SPACES, [16], std=0.25, std_range=(0.5, 3.0), bounded=bounded, residual=np.ones((2, 3))
    )
    np.testing.assert_allclose(policy.std(STATES), np.tile([0.25, 1.0], (40, 1)), rtol=1e-12)
    assert [one.tolist() for one in policy.std_range] == [[0.125, 0.5], [0.75, 3.0]]
    rule = hr.AtMost(0.15, hr.Std(0), BOX)
    assert hr.enforce(policy, [rule], prove=True).raise_if_unsatisfied().certificates[0].certified
    assert policy.std(BOX.cover(500))[:, 0].max() <= 0.15
    if bounded:
        assert np.abs(policy.mean(STATES * 100) / [1, 4]).max() <= 1.0


def test_bounds_are_held_and_proven_over_regions_and_nothing_false_is() -> None:
    policy = varying(n_actions=2)
    rules = [
        hr.AtMost(0.3, hr.Std(0), BOX, name="quiet"),
        hr.AtLeast(1.0, hr.Std(1), hr.Points([[0.9, 0.9, 0.9]]), name="try something"),
        hr.Between(-0.1, 0.1, hr.Mean(1), HERE, name="straight on"),
    ]
    result = hr.enforce(policy, rules, prove=True).raise_if_unsatisfied()
    proven = result.certificates[0]
    fresh = np.random.default_rng(5).uniform(-0.5, 0.5, (20_000, 3))
    largest = policy.std(fresh)[:, 0].max()
    assert largest <= proven.highest <= 0.3  # type: ignore[operator]
    assert hr.measure(policy, rules).satisfied
    assert hr.certify(policy, rules[1]).certified
    # A bound between what was found and what is asked is broken at a state that certify must find.
    planted = hr.AtMost(float(largest) - 1e-3, hr.Std(0), BOX)
    found = hr.certify(policy, planted)
    assert found.status == "counterexample"
    assert policy.std(np.array(found.state))[0] > largest - 1e-3
    sloped = hr.AtMost(hr.Affine([0.2, 0.0, 0.0], 0.41), hr.Std(0), BOX, name="more at the right")
    assert hr.certify(policy, sloped).certified


@pytest.mark.parametrize(
    ("probability", "low", "high"),
    [(0.99, 0.0, np.inf), (0.2, -np.inf, 0.3), (0.9, -1.0, 0.8), (0.5, -0.5, 0.5)],
)
def test_draws_lie_where_they_are_asked_to(probability: float, low: float, high: float) -> None:
    policy = varying(n_actions=1)
    rule = hr.LikelyWithin(probability, 0, BOX, low, high, name="likely")
    result = hr.enforce(policy, [rule], prove=True).raise_if_unsatisfied()
    assert result.certificates[0].certified
    states = BOX.cover(2000)
    mean, std = policy.mean(states)[:, 0], policy.std(states)[:, 0]
    assert np.ptp(std) > 1e-3
    chance = norm.cdf(high, mean, std) - norm.cdf(low, mean, std)
    assert chance.min() >= probability
    at = int(chance.argmin())
    drawn = [policy.act(states[at], rng) for rng in [np.random.default_rng(7)] for _ in range(4000)]
    inside = np.mean((np.array(drawn) >= low) & (np.array(drawn) <= high))
    assert inside == pytest.approx(chance[at], abs=0.03)


def test_what_is_asked_of_two_ends_is_hardly_more_than_the_range() -> None:
    """Against the normal distribution, at every mean and deviation of a grid."""
    policy = varying(n_actions=1)
    for probability in (0.5, 0.9, 0.999):
        made = hr.LikelyWithin(probability, 0, HERE, -1.0, 0.6).for_policy(policy)
        mean, std = (one.ravel() for one in np.mgrid[-1.2:0.8:200j, 0.1:1.0:200j])
        outputs = np.column_stack([mean, std])
        states = np.tile(HERE.states, (len(mean), 1))
        violation = made.violated_at(states, 2)(outputs)  # type: ignore[attr-defined]
        chance = norm.cdf(0.6, mean, std) - norm.cdf(-1.0, mean, std)
        assert not (violation[chance < probability] <= 0.0).any()
        missed = (chance >= probability) & (violation > 0.0)
        assert missed.sum() <= 0.06 * (chance >= probability).sum()
        assert violation[missed].max(initial=0.0) < 0.03


def test_one_end_is_exact() -> None:
    policy = varying(n_actions=1)
    mean, std = (one.ravel() for one in np.mgrid[-3:3:101j, 0.1:1.0:101j])
    states = np.tile(HERE.states, (len(mean), 1))
    for sign in (1.0, -2.0):
        made = hr.LikelyWithin(0.95, {0: sign}, HERE, low=0.25).for_policy(policy)
        violation = made.violated_at(states, 2)(np.column_stack([mean, std]))  # type: ignore[attr-defined]
        quantile = norm.ppf(0.05, sign * mean, abs(sign) * std)
        np.testing.assert_allclose(violation, 0.25 - quantile, atol=1e-9)


def test_what_cannot_be_is_refused_in_words() -> None:
    policy = varying()
    beyond = "names action 2, but the policy has 2 actions: 0 to 1"
    wider = "keeps it between 0.1 and 1, .* Choose a bound inside, or another range of the standard"
    refused: list[tuple[hr.Constraint, str]] = [
        (hr.AtMost(0.5, hr.Mean(2), HERE), beyond),
        (hr.AtMost(0.5, hr.Std(2), HERE), beyond),
        (hr.AtMost(0.05, hr.Std(0), HERE), wider),
        (hr.LikelyWithin(0.9, {0: 1.0, 1: -1.0}, HERE, low=0.0), "that of the sum is not linear"),
        (hr.LikelyWithin(0.3, 0, HERE, 0.0, 1.0), "asks for less than one half"),
        (hr.LikelyWithin(0.99, 0, HERE, 0.0, 0.1), "cannot hold with a standard deviation of 0.1"),
    ]
    for rule, words in refused:
        with pytest.raises(InvalidConstraint, match=words):
            hr.measure(policy, [rule])
    with pytest.raises(InvalidConstraint, match="A standard deviation is always above 0"):
        hr.AtMost(0.0, hr.Std(0), HERE)
    with pytest.raises(InvalidConstraint, match="no distance is known"):
        hr.constraints.CloseTo(policy, 0.1, 0, HERE)
    with pytest.raises(InvalidConstraint, match="Std stands nowhere else"):
        hr.Symmetric(HERE, [-1, 1, 1], swap={0: hr.Std(0)})  # type: ignore[arg-type]
    with pytest.raises(InvalidPolicy, match="least < most"):
        hr.VaryingGaussianPolicy(policy.module, [0.1, 0.2], [0.1, 0.3])
    with pytest.raises(InvalidPolicy, match="least < 1 < most, but got"):
        hr.VaryingGaussianPolicy.mlp(SPACES, [4], std_range=(0.1, 1.0))
    with pytest.raises(ShapeMismatch, match="must return 2 numbers, 1 means and 1 for the noise"):
        hr.VaryingGaussianPolicy(policy.module, [0.1], [0.3]).outputs(STATES)


def test_symmetry_is_of_means() -> None:
    policy = varying()
    rule = hr.Symmetric(HERE, [-1.0, -1.0, -1.0], swap={0: hr.Mean({0: -1}), 1: hr.Mean({1: -1})})
    assert len(hr.measure(policy, [rule])) == 2
    hr.enforce(policy, [rule]).raise_if_unsatisfied()
    pair = policy.mean(np.concatenate([HERE.states, -HERE.states]))
    np.testing.assert_allclose(pair[0], -pair[1], atol=1e-6)


def test_noise_that_is_the_same_everywhere_keeps_a_bound_or_not() -> None:
    policy = hr.GaussianPolicy(nn.Linear(3, 2).double(), 0.4)
    mean = hr.AtMost(5.0, hr.Mean(0), HERE)
    kept, broken = hr.AtMost(0.4, hr.Std(1), BOX), hr.AtMost(0.3, hr.Std(1), BOX)
    assert hr.measure(policy, [mean, kept]).satisfied
    assert hr.certify(policy, kept).certified
    for rules in ([broken], [mean, broken]):
        with pytest.raises(
            InvalidConstraint, match=r"the same at every state of this policy: .*0.4"
        ):
            hr.enforce(policy, rules)
    with pytest.raises(InvalidConstraint, match=r"there is nothing to hold\. Leave it out"):
        hr.measure(policy, [kept])
    learning = policy.learning_std(0.5, 2.0)
    with pytest.raises(InvalidConstraint, match=r"anything from \[0.2, 0.2\] to \[0.8, 0.8\]"):
        hr.certify(learning, kept)
    with pytest.raises(InvalidConstraint, match="TD3 draws nothing, and SAC before its tanh"):
        hr.measure(hr.DeterministicPolicy(policy.module, 1.0), [kept])


RULES: list[hr.Constraint] = [
    hr.AtMost(0.2, hr.Std(0), hr.Points([1.0, 0.0, 0.0]), name="quiet"),
    hr.AtMost(0.5, hr.Std(0), hr.Box([0.9, -0.1, -1.0], [1.0, 0.1, 1.0]), name="quiet near it"),
    hr.LikelyWithin(0.9, 0, hr.Box([-1, -0.1, -1], [-0.9, 0.1, 1]), low=-1.0, name="along"),
]


def test_a_saved_learner_goes_on_exactly(tmp_path: Path) -> None:
    env = gym.make("Pendulum-v1", max_episode_steps=20)
    policy = hr.VaryingGaussianPolicy.mlp(env, [16], seed=0)
    agent = hr.Reinforce(env, policy, RULES, step_size=1e-3, seed=0)
    before = policy.std(STATES)
    agent.learn(episodes=2, progress_bar=False)
    assert np.abs(policy.std(STATES) - before).max() > 1e-6
    assert hr.measure(policy, RULES).worst_violation <= 1e-6
    path = tmp_path / "agent.safetensors"
    agent.save(path)
    again = hr.Reinforce.load(path)
    assert isinstance(again.policy, hr.VaryingGaussianPolicy)
    assert again.policy.quantity == policy.quantity
    first, second = (one.learn(episodes=2, progress_bar=False) for one in (agent, again))
    assert first == second
    assert again.policy.outputs(STATES).tolist() == policy.outputs(STATES).tolist()
    hr.Reinforce(env, policy, seed=0).save(path)
    wider = hr.VaryingGaussianPolicy(policy.module, [0.01], [2.0])
    with pytest.raises(
        InvalidRun, match=r"decides by mean and std from \[0.06.*\] to \[1.2\], but"
    ):
        hr.Reinforce.load(path, policy=wider)


def test_exported_files_say_the_same(tmp_path: Path) -> None:
    policy = varying(n_actions=1)
    rules = [hr.AtMost(0.5, hr.Std(0), BOX, name="quiet")]
    hr.enforce(policy, rules).raise_if_unsatisfied()
    done = hr.export_numpy(policy, tmp_path / "policy.npz", rules, prove=True)
    assert done.largest_difference <= 1e-12
    assert done.certificates is not None
    assert done.certificates[0].certified
    opened = hr.export.open_export(tmp_path / "policy.npz").policy
    assert opened.quantity == policy.quantity == quantity_called(policy.quantity.full_name)
    np.testing.assert_allclose(opened.outputs(STATES), policy.outputs(STATES), rtol=1e-12)
    runtime = pytest.importorskip("onnxruntime")
    hr.export_onnx(policy, tmp_path / "policy.onnx", rules)
    session = runtime.InferenceSession(tmp_path / "policy.onnx")
    mean, std = session.run(["mean", "std"], {"observations": STATES})
    np.testing.assert_allclose(std, policy.std(STATES), atol=1e-6)
    np.testing.assert_allclose(mean, policy.mean(STATES), atol=1e-6)
    again = hr.export.open_export(tmp_path / "policy.onnx").policy
    np.testing.assert_allclose(again.outputs(STATES), policy.outputs(STATES), rtol=1e-12)
