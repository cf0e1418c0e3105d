"""Continuous actions: Gaussian policies, constraints on mean actions, learning with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

import handrail as hr
from handrail._types import Array
from handrail.constraints.expansion import expand
from handrail.enforcement.candidates import required_returns
from handrail.policies import MEAN
from handrail.proof.certificate_file import weights_hash
from handrail.report.film import play_episodes
from handrail.tangent.batch import policy_gradient

TORQUE = hr.Mean(0)


def spaces(n_observations: int = 3, n_actions: int = 2) -> tuple[gym.spaces.Box, gym.spaces.Box]:
    return (
        gym.spaces.Box(-1.0, 1.0, (n_observations,)),
        gym.spaces.Box(-2.0, 2.0, (n_actions,)),
    )


def gaussian(n_observations: int = 3, n_actions: int = 2, **options: Any) -> hr.GaussianPolicy:
    options = {"hidden": [50], "seed": 1, **options}
    return hr.GaussianPolicy.mlp(spaces(n_observations, n_actions), **options)


def states(n: int, n_observations: int = 3) -> Array:
    return np.random.default_rng(n).uniform(-1.0, 1.0, (n, n_observations))


# --- the policy ----------------------------------------------------------------------------------


def test_outputs_are_what_the_network_returns() -> None:
    policy = gaussian()
    some = states(5)
    expected = policy.module(torch.tensor(some)).detach().numpy()
    np.testing.assert_allclose(policy.mean(some), expected, rtol=1e-12)
    np.testing.assert_allclose(policy.mean(some[0]), expected[0], rtol=1e-12)
    assert policy.quantity is MEAN
    np.testing.assert_allclose(policy.std, [0.6, 0.6])  # 0.3 of half the range of 4


def test_draws_have_the_mean_and_the_standard_deviation() -> None:
    policy = hr.GaussianPolicy(gaussian().module, [0.5, 2.0])
    state, rng = states(1)[0], np.random.default_rng(3)
    act = policy.actor(rng)
    drawn = np.stack([act(state) for _ in range(20_000)])
    np.testing.assert_allclose(drawn.mean(axis=0), policy.mean(state), atol=0.05)
    np.testing.assert_allclose(drawn.std(axis=0), [0.5, 2.0], rtol=0.02)
    rngs = [np.random.default_rng(k) for k in range(20_000)]
    together = policy.draw(policy.outputs(np.tile(state, (20_000, 1))), rngs)
    np.testing.assert_allclose(together.mean(axis=0), policy.mean(state), atol=0.05)
    np.testing.assert_allclose(together.std(axis=0), [0.5, 2.0], rtol=0.02)


def test_likelihood_is_torchs() -> None:
    policy = hr.GaussianPolicy(gaussian().module, [0.5, 2.0])
    some, actions = states(7), np.random.default_rng(1).normal(size=(7, 2))
    outputs = policy.outputs(some)
    log_likelihood, gradient = policy.likelihood(outputs, actions)
    mean = torch.tensor(outputs, requires_grad=True)
    normal = torch.distributions.Normal(mean, torch.tensor(policy.std))
    expected = normal.log_prob(torch.tensor(actions)).sum(dim=1)
    np.testing.assert_allclose(log_likelihood, expected.detach().numpy(), rtol=1e-12)
    (by_torch,) = torch.autograd.grad(expected.sum(), mean)
    np.testing.assert_allclose(gradient, by_torch.numpy(), rtol=1e-12)


@pytest.mark.parametrize("hidden", [[40], [20, 20]])  # compiled and torch's own passes
def test_policy_gradient_is_autograds(hidden: list[int]) -> None:
    policy = gaussian(hidden=hidden)
    rng = np.random.default_rng(0)
    batch = hr.Batch(states(9), rng.normal(size=(9, 2)), rng.normal(size=9))
    found = policy_gradient(policy, batch)
    normal = torch.distributions.Normal(
        policy.module(torch.tensor(np.asarray(batch.states))), torch.tensor(policy.std)
    )
    log_prob = normal.log_prob(torch.tensor(np.asarray(batch.actions))).sum(dim=1)
    total = (torch.tensor(np.asarray(batch.returns)) * log_prob).sum()
    expected = torch.autograd.grad(total, policy.parameters)
    assert found.loss == pytest.approx(-float(total.detach()))
    for ours, theirs in zip(found.direction.parts, expected, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-9, atol=1e-12)


def test_the_kernel_and_the_predicted_change_are_those_of_the_means() -> None:
    policy = gaussian(hidden=[6])
    some = states(3)
    rows = []
    for state in some:
        for k in range(2):
            output = policy.module(torch.tensor(state[None]))[0, k]
            parts = torch.autograd.grad(output, policy.parameters)
            rows.append(torch.cat([part.flatten() for part in parts]).numpy())
    jacobian = np.stack(rows)
    kernel = hr.tangent.tangent_kernel(policy, some, flat=True)
    np.testing.assert_allclose(kernel, jacobian @ jacobian.T, rtol=1e-10, atol=1e-12)
    rng = np.random.default_rng(2)
    batch = hr.Batch(states(5), rng.normal(size=(5, 2)), rng.normal(size=5))
    direction = policy_gradient(policy, batch).direction
    flat = np.concatenate([part.numpy().ravel() for part in direction.parts])
    predicted = hr.predict_change(policy, batch, some, step_size=0.1)
    np.testing.assert_allclose(predicted.ravel(), 0.1 * jacobian @ flat, rtol=1e-9, atol=1e-12)


def test_what_cannot_be_a_gaussian_policy_is_refused() -> None:
    module = gaussian().module
    for wrong in (0.0, -1.0, float("nan"), [], [[1.0]]):
        with pytest.raises(
            hr.errors.InvalidPolicy, match="standard deviation must be a positive number"
        ):
            hr.GaussianPolicy(module, wrong)  # type: ignore[arg-type]
    with pytest.raises(
        hr.errors.ShapeMismatch, match="3 standard deviations, but its network returns 2"
    ):
        hr.GaussianPolicy(module, [1.0, 1.0, 1.0]).mean(states(1))
    discrete = (gym.spaces.Box(-1.0, 1.0, (3,)), gym.spaces.Discrete(2))
    with pytest.raises(hr.errors.InvalidPolicy, match=r"must be a Box .* Use CategoricalPolicy"):
        hr.GaussianPolicy.mlp(discrete)
    with pytest.raises(hr.errors.InvalidPolicy, match=r"must be Discrete .* Use GaussianPolicy"):
        hr.CategoricalPolicy.mlp(spaces())
    unbounded = (gym.spaces.Box(-1.0, 1.0, (3,)), gym.spaces.Box(-np.inf, np.inf, (1,)))
    with pytest.raises(hr.errors.InvalidPolicy, match=r"finite range.*TransformAction"):
        hr.GaussianPolicy.mlp(unbounded)
    grid = (gym.spaces.Box(-1.0, 1.0, (3,)), gym.spaces.Box(-1.0, 1.0, (2, 2)))
    with pytest.raises(hr.errors.InvalidPolicy, match=r"list of numbers.*shape \(2, 2\)"):
        hr.GaussianPolicy.mlp(grid)
    with pytest.raises(hr.errors.ShapeMismatch, match=r"actions of shape \(4, 1\).*2 dimensions"):
        policy_gradient(gaussian(), hr.Batch(states(4), np.zeros((4, 1)), np.ones(4)))
    batch = hr.Batch(states(4), np.zeros((4, 2)), np.ones(4))
    with pytest.raises(
        hr.errors.ShapeMismatch, match=r"actions of shape \(4, 2\).*one index per state"
    ):
        policy_gradient(hr.CategoricalPolicy(module), batch)


# --- constraints ---------------------------------------------------------------------------------


def mixed_rules() -> list[hr.Constraint]:
    at = states(6)
    return [
        hr.AtLeast(5.0, hr.Mean(0), hr.Points(at[0]), name="far up"),
        hr.AtMost(-3.0, hr.Mean(1), hr.Points(at[1:3]), name="down"),
        hr.Equal(0.25, hr.Mean(1), hr.Points(at[3]), name="exactly"),
        hr.Between(1.0, 1.1, hr.Mean({0: 1.0, 1: -2.0}), hr.Points(at[4]), name="difference"),
        hr.Linear([hr.Term(at[0], TORQUE), hr.Term(at[5], TORQUE, -1.0)], lower=1.0, name="apart"),
    ]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("hidden", [[200], [64, 64]])
def test_constraints_on_means_are_enforced(dtype: torch.dtype, hidden: list[int]) -> None:
    made = gaussian(hidden=hidden, dtype=dtype, activation="tanh" if len(hidden) > 1 else "relu")
    policy = hr.GaussianPolicy(made.module, made.std.tolist())  # of no environment: nothing clips
    rules = mixed_rules()
    assert not hr.measure(policy, rules).satisfied
    tolerance = 1e-6 if dtype is torch.float64 else 1e-5
    result = hr.enforce(policy, rules, tolerance).raise_if_unsatisfied()
    assert result.iterations <= 8
    mean = policy.mean(states(6))
    assert mean[0, 0] >= 5.0 - tolerance
    assert (mean[1:3, 1] <= -3.0 + tolerance).all()
    assert abs(mean[3, 1] - 0.25) <= tolerance
    assert 1.0 - tolerance <= mean[4, 0] - 2.0 * mean[4, 1] <= 1.1 + tolerance
    assert mean[0, 0] - mean[5, 0] >= 1.0 - tolerance
    assert hr.measure(policy, rules).worst_violation == pytest.approx(result.worst_violation)


def test_the_least_change_of_a_linear_policy_has_a_closed_form() -> None:
    """mean = W s + b: to raise dimension 0 at s by d, the least change is d (s, 1) / (|s|² + 1)."""
    module = nn.Linear(3, 2, dtype=torch.float64)
    policy = hr.GaussianPolicy(nn.Sequential(module), 1.0)
    weight, bias = module.weight.detach().numpy().copy(), module.bias.detach().numpy().copy()
    state = np.array([0.5, -1.0, 2.0])
    target = float(policy.mean(state)[0]) + 3.0
    hr.enforce(policy, [hr.Equal(target, TORQUE, hr.Points(state))], 1e-12).raise_if_unsatisfied()
    length = float(state @ state) + 1.0
    np.testing.assert_allclose(module.weight.detach().numpy()[0] - weight[0], 3 * state / length)
    np.testing.assert_allclose(module.bias.detach().numpy() - bias, [3 / length, 0.0], atol=1e-12)
    np.testing.assert_array_equal(module.weight.detach().numpy()[1], weight[1])


def test_a_safe_return_pushes_as_hard_as_a_likelihood_does() -> None:
    """The paper's step, one row: the safe return is the missing mean over α K / σ."""
    policy = hr.GaussianPolicy(gaussian(n_actions=1, hidden=[30]).module, 0.5)
    state = states(1)
    rules = [hr.AtLeast(float(policy.mean(state)[0, 0]) + 0.2, TORQUE, hr.Points(state))]
    batch = hr.Batch(states(2), np.zeros((2, 1)), np.zeros(2))  # asks for nothing
    answer = hr.safe_returns(policy, batch, rules, step_size=0.01)
    kernel = float(hr.tangent.tangent_kernel(policy, state, flat=True)[0, 0])
    assert answer.values[0] == pytest.approx(0.2 / (0.01 * kernel / 0.5))
    rows = expand(rules, policy).fixed
    assert rows is not None
    assert required_returns(policy, rows, None, 0.01)[0] == pytest.approx(answer.values[0])
    hr.enforcement.update(policy, answer)
    assert hr.measure(policy, rules).worst_violation <= 1e-2


def test_contradictions_are_named() -> None:
    policy = gaussian()
    here = hr.Points(states(1))
    high = hr.AtLeast(1.0, TORQUE, here, name="high")
    low = hr.AtMost(0.5, TORQUE, here, name="low")
    reason = hr.enforce(policy, [high, low]).reason
    assert "'high' and 'low' ask for mean actions that do not exist together" in reason
    # Any mean exists, unlike probabilities above 1 together.
    both = [hr.AtLeast(0.9, hr.Mean(k), here, name=str(k)) for k in (0, 1)]
    assert hr.enforce(policy, both).satisfied
    assert hr.diagnose(policy, [high, low]).conflicts[0].labels == ("high", "low")


def test_probabilities_and_means_are_not_confused() -> None:
    probable = [hr.AtLeast(0.9, 0, hr.Points(states(1)), name="probable")]
    mean = [hr.AtLeast(0.9, TORQUE, hr.Points(states(1)), name="mean")]
    with pytest.raises(
        hr.errors.InvalidConstraint, match=r"'probable'.*continuous.*Mean\(0\) to Mean\(1"
    ):
        hr.enforce(gaussian(), probable)
    categorical = hr.CategoricalPolicy(gaussian().module)
    with pytest.raises(
        hr.errors.InvalidConstraint, match=r"'mean'.*2 discrete actions.*action=0, 1"
    ):
        hr.enforce(categorical, mean)
    with pytest.raises(hr.errors.InvalidConstraint, match="names action 2, but the policy has 2"):
        hr.enforce(gaussian(), [hr.AtLeast(0.9, hr.Mean(2), hr.Points(states(1)))])
    with pytest.raises(hr.errors.InvalidConstraint, match="An action is an index"):
        hr.AtLeast(0.9, hr.Mean("torque"), hr.Points(states(1)))  # type: ignore[arg-type]
    with pytest.raises(hr.errors.InvalidConstraint, match="The bound must be finite"):
        hr.AtLeast(float("inf"), TORQUE, hr.Points(states(1)))
    with pytest.raises(hr.errors.InvalidConstraint, match="cannot keep a mean action at one value"):
        hr.Equal(0.0, TORQUE, hr.Box([0, 0, 0], [1, 1, 1]))
    terms = [hr.Term(states(1)[0], 0), hr.Term(states(2)[1], TORQUE)]
    with pytest.raises(hr.errors.InvalidConstraint, match="only one of the two"):
        hr.Linear(terms, lower=0.0)
    mirror = hr.Symmetric(hr.Points(states(1)), [-1, -1, -1], {0: 1, 1: 0})
    with pytest.raises(
        hr.errors.InvalidConstraint,
        match="'symmetric' is about the probability of",
    ):
        hr.enforce(gaussian(), [mirror])


# --- regions and proofs --------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", [[100], [20, 20]])
def test_a_region_is_held_and_proven(hidden: list[int]) -> None:
    policy = gaussian(2, 2, hidden=hidden)
    box = hr.Box([-0.5, -0.2], [0.5, 0.4])
    rules = [
        hr.AtLeast(1.0, hr.Mean(0), box, name="up"),
        hr.Between(-0.5, 0.5, hr.Mean({0: 1.0, 1: 1.0}), box, name="balanced"),
    ]
    result = hr.enforce(policy, rules, prove=True).raise_if_unsatisfied()
    assert all(one.certified for one in result.certificates)
    fresh = box.sample(20_000, np.random.default_rng(1))
    mean = policy.mean(fresh)
    assert mean[:, 0].min() >= 1.0
    total = mean.sum(axis=1)
    assert -0.5 <= total.min() <= total.max() <= 0.5
    up, balanced = (hr.certify(policy, rule) for rule in rules)
    assert up.lowest is not None
    assert 1.0 <= up.lowest <= mean[:, 0].min()
    assert balanced.lowest is not None
    assert balanced.highest is not None
    assert balanced.lowest <= total.min() <= total.max() <= balanced.highest


def test_a_violation_is_found_not_proven() -> None:
    policy = gaussian(2, 1, hidden=[100])
    box = hr.Box([-1.0, -1.0], [1.0, 1.0])
    lowest = policy.mean(box.sample(50_000, np.random.default_rng(0))).min()
    certificate = hr.certify(policy, hr.AtLeast(float(lowest) + 1e-4, TORQUE, box))
    assert certificate.status == "counterexample"
    assert certificate.state is not None
    assert policy.mean(np.array(certificate.state))[0] < lowest + 1e-4
    assert hr.certify(policy, hr.AtLeast(float(lowest) - 0.05, TORQUE, box)).certified


@pytest.mark.parametrize("selection", [hr.MaximumDeviation(), hr.MaximumReturn()])
def test_chosen_states_of_a_region(selection: Any) -> None:
    policy = gaussian(2, 1, hidden=[100])
    rules = [hr.AtLeast(1.0, TORQUE, hr.Box([-0.5, -0.2], [0.5, 0.4]), name="up")]
    hr.enforce(policy, rules, selection=selection).raise_if_unsatisfied()
    rows = expand(rules, policy).rows(per_region=50)
    assert rows.violations(rows.values(policy.outputs(rows.states))).max() <= 0.05


# --- learning ------------------------------------------------------------------------------------


class Aim(gym.Env[Any, Any]):
    """One step: the reward is how near the action comes to twice the observation."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float64)
    action_space = gym.spaces.Box(-2.0, 2.0, (1,), np.float64)

    def __init__(self) -> None:
        self.taken: list[Array] = []
        self._left = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, Any]:
        super().reset(seed=seed)
        self._left = 20
        return self._observe(), {}

    def _observe(self) -> Array:
        self._state = self.np_random.uniform(-1.0, 1.0, size=1)
        return self._state

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self.taken.append(np.array(action))
        reward = -float(((action - 2.0 * self._state) ** 2).sum())
        self._left -= 1
        return self._observe(), reward, self._left == 0, False, {}


def test_reinforce_learns_continuous_actions_and_obeys() -> None:
    env = Aim()
    rules = [
        hr.AtLeast(1.8, TORQUE, hr.Points([1.0]), name="right"),
        hr.AtMost(-1.0, TORQUE, hr.Box([-1.0], [-0.8]), name="left"),
    ]
    policy = hr.GaussianPolicy.mlp(env, hidden=[300], std=0.15)
    agent = hr.Reinforce(env, policy, rules, step_size=1e-4, episodes_per_update=4)
    assert policy.mean([1.0])[0] >= 1.8 - 1e-6
    records = agent.learn(400, progress_bar=False)
    first, last = (np.mean([r.score for r in part]) for part in (records[:40], records[-40:]))
    assert last > 0.7 * first  # scores are negative, and the noise alone costs 1.8
    assert max(r.violation_after or -1.0 for r in records) <= 1e-6
    grid = np.linspace(-1.0, 1.0, 21)[:, None]
    assert np.abs(policy.mean(grid) - 2.0 * grid).mean() < 0.2
    taken = np.stack(env.taken)
    assert taken.min() >= -2.0
    assert taken.max() <= 2.0
    assert (np.abs(taken) == 2.0).any()  # what exceeded the range was clipped, not drawn again


def test_vector_environments_and_predict() -> None:
    envs = gym.make_vec("Pendulum-v1", num_envs=2, vectorization_mode="sync")
    agent = hr.Reinforce(envs, hr.GaussianPolicy.mlp(envs, hidden=[30]), episodes_per_update=2)
    agent.learn(2, progress_bar=False)
    observation = np.array([0.1, -0.2, 0.3])
    action, _ = agent.predict(observation, deterministic=True)
    expected = np.clip(agent.policy.outputs(observation[None])[0], -2.0, 2.0)
    np.testing.assert_allclose(action, expected)
    many, _ = agent.predict(np.tile(observation, (500, 1)))
    assert many.shape == (500, 1)
    assert np.abs(many).max() <= 2.0
    with pytest.raises(
        hr.errors.InvalidPolicy, match=r"is about one choice among discrete actions"
    ):
        agent.probabilities(observation)
    envs.close()


def test_a_saved_learner_goes_on_exactly(tmp_path: Path) -> None:
    env = gym.make("Pendulum-v1")
    region = hr.Box([-1.0, -0.1, -1.0], [-0.9, 0.1, 1.0])
    rules = [
        hr.AtLeast(0.5, TORQUE, hr.Points([1.0, 0.0, -1.0]), name="point"),
        hr.AtMost(1.0, hr.Mean({0: 2.0}), region, name="region"),
    ]
    policy = hr.GaussianPolicy.mlp(env, hidden=[40], std=0.2)
    agent = hr.Reinforce(env, policy, rules, seed=3)
    agent.learn(2, progress_bar=False)
    agent.save(tmp_path / "agent.safetensors")
    again = hr.Reinforce.load(tmp_path / "agent.safetensors")
    assert isinstance(again.policy, hr.GaussianPolicy)
    np.testing.assert_array_equal(again.policy.std, policy.std)
    assert [r.score for r in again.learn(2, progress_bar=False)] == [
        r.score for r in agent.learn(2, progress_bar=False)
    ]
    some = states(5)
    np.testing.assert_array_equal(again.policy.outputs(some), agent.policy.outputs(some))
    env.close()


def test_a_policy_that_does_not_fit_is_refused() -> None:
    env = gym.make("Pendulum-v1")
    with pytest.raises(
        hr.errors.InvalidPolicy, match="2 mean actions, but the environment takes 1"
    ):
        hr.Reinforce(env, gaussian(3, 2))
    with pytest.raises(
        hr.errors.InvalidPolicy, match=r"Discrete\(2\), but the policy is a Gaussian"
    ):
        hr.Reinforce("CartPole-v1", gaussian(4, 1))
    env.close()


# --- what a review found --------------------------------------------------------------------------


def test_a_certificate_is_about_what_the_policy_decides() -> None:
    box = hr.Box([-1.0, -1.0, -1.0], [1.0, 1.0, 1.0])
    with pytest.raises(hr.errors.InvalidConstraint, match="is about the probability of an action"):
        hr.certify(gaussian(), hr.AtLeast(0.2, 0, box))
    with pytest.raises(hr.errors.InvalidConstraint, match="is about a mean action"):
        hr.certify(hr.CategoricalPolicy(gaussian().module), hr.AtMost(0.9, TORQUE, box))
    same = gaussian().module
    assert weights_hash(hr.CategoricalPolicy(same)) != weights_hash(hr.GaussianPolicy(same, 1.0))


def test_a_certified_mean_is_rounded_to_the_safe_side() -> None:
    policy = gaussian(2, 1, hidden=[50])
    box = hr.Box([-1.0, -1.0], [1.0, 1.0])
    certificate = hr.certify(policy, hr.AtMost(1e10, TORQUE, box))
    assert certificate.highest is not None
    assert certificate.highest >= policy.mean(box.sample(20_000, np.random.default_rng(0))).max()


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_margins_of_regions_are_in_standard_deviations(size: float) -> None:
    module = gaussian(2, 1, hidden=[100]).module
    with torch.no_grad():
        module[2].weight.mul_(size)  # type: ignore[index]
        module[2].bias.mul_(size)  # type: ignore[index]
    policy = hr.GaussianPolicy(module, 0.3 * size)
    box = hr.Box([-0.5, -0.2], [0.5, 0.4])
    hr.enforce(policy, [hr.AtLeast(size, TORQUE, box)], 1e-6 * size).raise_if_unsatisfied()
    lowest = policy.mean(box.sample(5000, np.random.default_rng(0))).min()
    assert size <= lowest <= 1.05 * size


class Picky(gym.Wrapper[Any, Any, Any, Any]):
    """Takes nothing but what its action space contains."""

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        return super().step(action)


def test_environments_get_actions_that_their_space_contains() -> None:
    policy = hr.GaussianPolicy(gaussian(3, 1, hidden=[20]).module, 5.0)
    env = Picky(gym.make("Pendulum-v1", max_episode_steps=30))
    agent = hr.Reinforce(env, policy)
    agent.learn(1, progress_bar=False)
    assert env.action_space.contains(agent.predict(np.zeros(3))[0])
    assert hr.evaluate(policy, env, episodes=1).lengths == (30,)
    assert play_episodes(env, policy, seed=0, episodes=1, deterministic=False)[0].score < 0.0


def test_noise_is_saved_and_kept(tmp_path: Path) -> None:
    env = gym.make("Pendulum-v1")

    def own() -> nn.Module:  # an architecture that a file cannot describe
        return nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 1)).double()

    agent = hr.Reinforce(env, hr.GaussianPolicy(own(), 0.2))
    agent.save(tmp_path / "agent.safetensors")
    with pytest.raises(
        hr.errors.InvalidRun, match=r"standard deviation 0.2, but .* passed has 5.0"
    ):
        hr.Reinforce.load(tmp_path / "agent.safetensors", env, hr.GaussianPolicy(own(), 5.0))
    hr.Reinforce.load(tmp_path / "agent.safetensors", env, hr.GaussianPolicy(own(), 0.2))
    known = hr.Reinforce(env, hr.GaussianPolicy.mlp(env, hidden=[8]))
    known.save(tmp_path / "known.safetensors")
    with pytest.raises(
        hr.errors.InvalidRun, match="saved policy has continuous actions, but the env"
    ):
        hr.Reinforce.load(tmp_path / "known.safetensors", "CartPole-v1")


def test_more_that_is_refused() -> None:
    box = hr.Box([-1.0, -1.0, -1.0], [1.0, 1.0, 1.0])
    with pytest.raises(
        hr.errors.InvalidConstraint, match="Between: a network cannot keep a mean action"
    ):
        hr.Between(0.5, 0.5, TORQUE, box)
    with pytest.raises(hr.errors.InvalidConstraint, match="An action is an index"):
        hr.AtLeast(0.1, hr.Mean([0]), box)  # type: ignore[arg-type]
    with pytest.raises(hr.errors.InvalidConstraint, match="all weights are zero"):
        hr.Linear([hr.Term(states(1)[0], TORQUE, 0.0)], lower=1.0)
    with pytest.raises(
        hr.errors.InvalidPolicy, match="standard deviation must be a positive number"
    ):
        hr.GaussianPolicy(gaussian().module, "abc")  # type: ignore[arg-type]
    with pytest.raises(hr.errors.InvalidPolicy, match="`std` must be one positive number, a part"):
        gaussian(std="abc")
    two = hr.GaussianPolicy(gaussian(3, 1).module, [0.5, 2.0])
    with pytest.raises(hr.errors.ShapeMismatch, match="2 standard deviations"):
        two.act(states(1)[0], np.random.default_rng(0))
    integers = (gym.spaces.Box(-1.0, 1.0, (3,)), gym.spaces.Box(-3, 3, (1,), np.int64))
    with pytest.raises(hr.errors.InvalidPolicy, match="must be a Box of floats"):
        hr.GaussianPolicy.mlp(integers)
    with pytest.raises(hr.errors.InvalidBatch, match="actions of a batch must be numbers"):
        hr.Batch([[1.0, 2.0]], [["a"]], [1.0])


def test_enforcing_inside_no_grad() -> None:
    policy = gaussian(3, 1, hidden=[20, 20])
    with torch.no_grad():
        hr.enforce(policy, [hr.AtLeast(1.0, TORQUE, hr.Points(states(2)))]).raise_if_unsatisfied()
