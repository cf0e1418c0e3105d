"""Several discrete actions at once: every branch is a softmax of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from sb3_contrib import MaskablePPO
from scipy.special import log_softmax, softmax
from stable_baselines3 import A2C

import handrail as hr
from handrail._types import Array
from handrail.constraints.constraint import constraint_from
from handrail.errors import InvalidConstraint, InvalidPolicy, ShapeMismatch
from handrail.export.opened_export import open_export
from handrail.policies import BranchProbability, quantity_called
from handrail.sb3 import Handrail, policy_of
from tests.support.sb3_models import Numbers

SIZES = (3, 2, 4)
SPACE = gym.spaces.MultiDiscrete(list(SIZES))
SEEN = gym.spaces.Box(-1.0, 1.0, (4,), np.float32)
QUANTITY = BranchProbability(SIZES)


def _policy(seed: int = 0, hidden: int = 16) -> hr.BranchedPolicy:
    return hr.BranchedPolicy.mlp((SEEN, SPACE), hidden=[hidden], seed=seed)


def _states(n: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (n, 4))


def _by_branch(values: Array) -> list[Array]:
    return np.split(values, np.cumsum(SIZES)[:-1], axis=1)


def test_outputs_are_a_softmax_of_each_branch() -> None:
    policy, states = _policy(), _states(5)
    raw = policy.raw(states)
    expected = np.concatenate([softmax(one, axis=1) for one in _by_branch(raw)], axis=1)
    assert np.allclose(policy.outputs(states), expected, atol=1e-15)
    for one, branch in zip(policy.probabilities(states), _by_branch(expected), strict=True):
        assert np.allclose(one, branch, atol=1e-15)


def test_the_head_and_its_jacobian() -> None:
    policy = _policy()
    raw, vectors = np.random.default_rng(1).normal(size=(2, 6, 9))
    step = 1e-6
    moved = policy.head(raw + step * vectors) - policy.head(raw - step * vectors)
    assert np.allclose(
        policy.through_head(policy.head(raw), vectors), moved / (2.0 * step), atol=1e-9
    )


def test_natural_coordinates_have_the_divergence_for_distance() -> None:
    """½ |y' - y|² is the divergence of the whole distribution, to second order."""
    policy = _policy()
    raw = np.random.default_rng(2).normal(size=(4, 9))
    near = raw + 1e-3 * np.random.default_rng(3).normal(size=raw.shape)
    one, other = policy.head(raw), policy.head(near)
    (y, slopes), (moved, _) = policy.natural(one), policy.natural(other)
    divergence = (one * np.log(one / other)).sum(axis=1)
    assert np.allclose(0.5 * ((moved - y) ** 2).sum(axis=1), divergence, rtol=1e-2)
    assert np.allclose(np.einsum("nka,na->nk", slopes, near - raw), moved - y, atol=1e-5)


def test_the_likelihood_is_that_of_independent_choices() -> None:
    policy, states = _policy(), _states(7)
    raw, outputs = policy.raw(states), policy.outputs(states)
    actions = np.random.default_rng(4).integers(0, SIZES, (7, 3))
    value, gradient = policy.likelihood(outputs, actions)
    parts = [log_softmax(one, axis=1) for one in _by_branch(raw)]
    expected = sum(part[np.arange(7), actions[:, k]] for k, part in enumerate(parts))
    assert np.allclose(value, expected)
    step = 1e-6
    for index in range(9):
        up = policy.likelihood(policy.head(raw + step * np.eye(9)[index]), actions)[0]
        down = policy.likelihood(policy.head(raw - step * np.eye(9)[index]), actions)[0]
        assert np.allclose(gradient[:, index], (up - down) / (2.0 * step), atol=1e-8)
    with pytest.raises(ShapeMismatch, match=r"an index for each of them and state"):
        policy.likelihood(outputs, actions[:, 0])
    with pytest.raises(ShapeMismatch, match=r"the branches have \(3, 2, 4\) actions"):
        policy.likelihood(outputs, actions + 4)


def test_draws_follow_the_probabilities_of_each_branch() -> None:
    policy, state = _policy(), _states(1)[0]
    act, rng = policy.actor(np.random.default_rng(5)), np.random.default_rng(6)
    drawn = np.array([act(state) for _ in range(4000)])
    together = policy.draw(np.repeat(policy.outputs(state[None]), 4000, axis=0), [rng] * 4000)
    for k, branch in enumerate(policy.probabilities(state[None])):
        for several in (drawn, together):
            shares = np.bincount(several[:, k], minlength=SIZES[k]) / 4000
            assert np.allclose(shares, branch[0], atol=0.03)
    best = policy.likeliest(policy.outputs(state[None]))[0]
    assert best.tolist() == [int(one[0].argmax()) for one in policy.probabilities(state[None])]


def test_a_sum_is_about_the_branch_that_its_weights_are_in() -> None:
    weights = np.zeros((2, 9))
    weights[0, 3], weights[1, [5, 7]] = 1.0, [1.0, -0.5]
    assert QUANTITY.among(weights).tolist() == [
        [False] * 3 + [True] * 2 + [False] * 4,
        [False] * 5 + [True] * 4,
    ]
    lowest, highest = QUANTITY.reach(weights)
    assert lowest.tolist() == [0.0, -0.5]
    assert highest.tolist() == [1.0, 1.0]
    outputs = _policy().outputs(_states(2))
    odds, slope = QUANTITY.coordinate(weights[:1], outputs[:1])
    chance = outputs[0, 3]
    assert odds[0] == pytest.approx(np.log(chance / (1.0 - chance)))
    assert slope[0] == pytest.approx(1.0 / (chance * (1.0 - chance)))
    assert QUANTITY.changed_choices(outputs, outputs) == 0
    assert quantity_called(QUANTITY.full_name) == QUANTITY
    assert QUANTITY.of_action(4) == "the probability of action 1 of branch 1"


REGION = hr.Box([-0.5, -0.5, 0.0, 0.0], [0.5, 0.5, 0.0, 0.2])
RULES: list[Any] = [
    hr.AtLeast(0.8, hr.Branch(SPACE, 0, action=2), REGION, name="first"),
    hr.AtMost(0.2, hr.Branch(SPACE, 2, {0: 1.0, 3: 1.0}), REGION, name="third"),
]


def test_regions_of_branches_are_held_and_proven() -> None:
    policy = _policy()
    result = hr.enforce(policy, RULES, prove=True).raise_if_unsatisfied()
    inside = REGION.sample(2000, np.random.default_rng(0))
    first, _, third = policy.probabilities(inside)
    proven = {one.name: one for one in result.certificates}
    lowest, highest = proven["first"].lowest, proven["third"].highest
    assert lowest is not None
    assert highest is not None
    assert 0.8 <= lowest <= first[:, 2].min()
    assert third[:, [0, 3]].sum(axis=1).max() <= highest <= 0.2


def test_a_bound_is_refuted_by_a_state() -> None:
    """Of a fresh network: a third of the probability is not 0.8 of it."""
    certificate = hr.certify(_policy(), RULES[0])
    assert not certificate.certified
    assert certificate.state is not None
    assert _policy().probabilities([certificate.state])[0][0, 2] < 0.8


def test_bounds_that_depend_on_the_state_are_proven_in_a_branch() -> None:
    policy = _policy()
    bound = hr.Formula("0.5 + 0.2*x", ["x", "y", "u", "v"])
    for action in (hr.Branch(SPACE, 1, 0), hr.Branch(SPACE, 2, {1: 1.0, 2: 0.9})):
        rule = hr.AtLeast(bound, action, REGION, name="b")
        hr.enforce(policy, [rule], prove=True).raise_if_unsatisfied()
        assert hr.certify(policy, rule).certified
        inside = REGION.sample(2000, np.random.default_rng(1))
        weights = np.zeros(9)
        weights[3 if action.branch == 1 else [6, 7]] = 1.0 if action.branch == 1 else [1.0, 0.9]
        assert (policy.outputs(inside) @ weights >= 0.5 + 0.2 * inside[:, 0]).all()


def test_what_no_branch_can_do_is_refused() -> None:
    for given in (3, "32", (3, 2.5)):
        with pytest.raises(InvalidPolicy, match=r"how many actions each .* has, such as \(3, 2\)"):
            hr.Branch(given, 1, 2)
    with pytest.raises(InvalidConstraint, match="3 branches, 0 to 2, but got 3"):
        hr.Branch(SPACE, 3, 0)
    with pytest.raises(InvalidConstraint, match="branch 1 has 2 actions, 0 to 1, but got action 2"):
        hr.Branch(SIZES, 1, 2)
    with pytest.raises(InvalidConstraint, match="branch 1 action 0 cannot be bounded by 1"):
        hr.AtLeast(1.0, hr.Branch(SIZES, 1, 0), REGION)
    every = hr.AtLeast(0.5, hr.Branch(SIZES, 1, {0: 1.0, 1: 1.0}), REGION, name="all")
    with pytest.raises(InvalidConstraint, match="'all' weighs all 2 actions alike"):
        hr.enforce(_policy(), [every])
    with pytest.raises(InvalidConstraint, match=r"chooses in 3 branches, .* action=Branch\("):
        hr.enforce(_policy(), [hr.AtLeast(0.5, 0, REGION, name="a")])
    other = hr.AtLeast(0.5, hr.Branch((2, 2), 0, 1), REGION, name="b")
    with pytest.raises(InvalidConstraint, match="'b' is about the probability of an action of a b"):
        hr.measure(_policy(), [other])
    with pytest.raises(InvalidPolicy, match=r"returns 9 logits, but the branches have 4"):
        hr.BranchedPolicy(_policy().module, (2, 2)).outputs(_states(1))
    with pytest.raises(InvalidPolicy, match="Use BranchedPolicy"):
        hr.CategoricalPolicy.mlp((SEEN, SPACE))
    with pytest.raises(InvalidPolicy, match=r"for a policy of several branches.*Use Categorical"):
        hr.BranchedPolicy.mlp((SEEN, gym.spaces.Discrete(3)))
    with pytest.raises(InvalidPolicy, match=r"branches of \(3, 2, 4\) actions, but .* \(2, 2\)"):
        hr.evaluate(_policy(), Numbers(actions=gym.spaces.MultiDiscrete([2, 2])), episodes=1)


class Asking(Numbers):
    """Refuses actions that are none of its space; the first branch pays for action 2."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        observation, _, *rest = super().step(action)
        return observation, float(action[0] == np.asarray(_start(self.action_space))), *rest


def _start(space: Any) -> int:
    start = getattr(space, "start", np.array([0]))
    return int(start[0]) + 1


SPACES = [gym.spaces.MultiDiscrete([3, 2], start=[5, 1]), gym.spaces.MultiBinary(2)]


@pytest.mark.parametrize("space", SPACES, ids=["MultiDiscrete", "MultiBinary"])
@pytest.mark.parametrize("n", [0, 2])
def test_a_learner_acts_in_branches(space: gym.Space[Any], n: int, tmp_path: Path) -> None:
    def make() -> gym.Env[Any, Any]:
        return Asking(actions=space)

    env: Any = gym.vector.SyncVectorEnv([make] * n) if n else make()
    rules = [hr.AtLeast(0.9, hr.Branch(space, 0, 1), hr.Box([-1] * 4, [1] * 4), name="pays")]
    policy = hr.BranchedPolicy.mlp(env, hidden=[16], seed=0)
    learner = hr.Reinforce(env, policy, constraints=rules, seed=0, step_size=1e-3)
    learner.learn(episodes=2)
    found = hr.evaluate(learner.policy, make(), rules, episodes=2)
    assert found.satisfied
    assert found.mean >= 0.8 * 20
    assert found.drawn is not None
    assert found.drawn.share is not None
    assert found.drawn.share <= 0.3
    action, _ = learner.predict(np.zeros(4))
    assert space.contains(action)
    learner.save(tmp_path / "learner.safetensors")
    again = hr.Reinforce.load(tmp_path / "learner.safetensors", env=env, constraints=rules)
    assert isinstance(again.policy, hr.BranchedPolicy)
    assert np.array_equal(again.policy.outputs(_states(3)), learner.policy.outputs(_states(3)))


@pytest.mark.parametrize("space", [SPACE, gym.spaces.MultiBinary(3)], ids=["discrete", "binary"])
@pytest.mark.parametrize("kind", [A2C, MaskablePPO])
def test_a_model_of_stable_baselines3_is_held_in_branches(kind: Any, space: gym.Space[Any]) -> None:
    """By the probabilities that Stable-Baselines3 itself computes."""
    batch = {"batch_size": 4} if kind is MaskablePPO else {}
    model = kind("MlpPolicy", Numbers(actions=space), n_steps=4, seed=0, device="cpu", **batch)
    states = _states(2)
    rules = [hr.AtLeast(0.9, hr.Branch(space, 1, 1), hr.Points(states), name="second")]
    rail = Handrail(rules)
    model.learn(8, callback=rail, **({"use_masking": False} if kind is MaskablePPO else {}))
    assert rail.worst_violation <= 1e-5
    with torch.no_grad():
        found = model.policy.get_distribution(torch.as_tensor(states, dtype=torch.float32))
    if kind is A2C and isinstance(space, gym.spaces.MultiBinary):
        chances = found.distribution.probs[:, 1]
    else:
        branches = found.distributions if kind is MaskablePPO else found.distribution
        chances = branches[1].probs[:, 1]
    assert (chances.numpy() >= 0.9 - 1e-4).all()
    region = [hr.AtLeast(0.6, hr.Branch(space, 0, 1), REGION, name="everywhere")]
    result = hr.enforce(policy_of(model), region, prove=True).raise_if_unsatisfied()
    assert result.certificates[0].certified


@pytest.mark.parametrize("ending", ["npz", "onnx"])
def test_an_export_has_the_same_branches(ending: str, tmp_path: Path) -> None:
    policy = _policy()
    hr.enforce(policy, RULES[:1]).raise_if_unsatisfied()
    write: Any = hr.export_numpy if ending == "npz" else hr.export_onnx
    exported = write(policy, tmp_path / f"policy.{ending}", RULES[:1], prove=True)
    assert exported.largest_difference <= 1e-9
    assert exported.certificates.certified
    opened = open_export(tmp_path / f"policy.{ending}")
    assert isinstance(opened.policy, hr.BranchedPolicy)
    assert opened.policy.quantity == QUANTITY
    assert np.allclose(opened.policy.outputs(_states(5)), policy.outputs(_states(5)), atol=1e-12)


def test_every_kind_of_bound_takes_a_branch() -> None:
    policy, states = _policy(), _states(3, seed=9)
    points = hr.Points(states)
    rules: list[hr.Constraint] = [
        hr.Equal(0.4, hr.Branch(SPACE, 1, 0), points, name="equal"),
        hr.Between(0.1, 0.2, hr.Branch(SPACE, 0, 1), points, name="between"),
        hr.AnyOf(
            [
                hr.AtLeast(0.8, hr.Branch(SPACE, 2, 0), points, name="one"),
                hr.AtLeast(0.8, hr.Branch(SPACE, 2, 3), points, name="or other"),
            ],
            name="any",
        ),
    ]
    hr.enforce(policy, rules).raise_if_unsatisfied()
    first, second, third = policy.probabilities(states)
    assert np.allclose(second[:, 0], 0.4, atol=1e-5)
    assert ((first[:, 1] >= 0.1 - 1e-6) & (first[:, 1] <= 0.2 + 1e-6)).all()
    assert (np.maximum(third[:, 0], third[:, 3]) >= 0.8 - 1e-6).all()


def test_a_constraint_on_a_branch_is_read_again_from_what_it_says() -> None:
    for rule in RULES:
        again: Any = constraint_from(json.loads(json.dumps(rule.describe())))
        assert again.action == rule.action
        assert again.describe() == rule.describe()


def test_a_preference_is_among_the_actions_of_a_branch() -> None:
    """By the logits themselves, which other branches have nothing to do with."""
    policy, states = _policy(), _states(40, seed=3)
    region = hr.Box([-1, -1, -1, -1], [0, 1, 1, 1])
    rules = [
        hr.Prefer(hr.Branch(SPACE, 2, 1), by=0.5, where=hr.Points(states[:3]), name="all"),
        hr.Prefer(hr.Branch(SPACE, 0, 2), over=0, by=0.2, where=region, name="one"),
    ]
    before = policy.raw(states)
    result = hr.enforce(policy, rules, prove=True).raise_if_unsatisfied()
    assert [one.certified for one in result.certificates] == [True]
    first, _, third = _by_branch(policy.raw(states))
    assert (third[:3, [1]] - np.delete(third[:3], 1, axis=1) >= 0.5 - 1e-6).all()
    inside = region.contains(states)
    assert (first[inside, 2] - first[inside, 0] >= 0.2).all()
    assert not np.array_equal(policy.raw(states), before)
    measured = hr.measure(policy, rules[:1])
    least = (third[:3, [1]] - np.delete(third[:3], 1, axis=1)).min()
    assert measured.worst_violation == pytest.approx(0.5 - least, abs=1e-9)
    again: Any = constraint_from(json.loads(json.dumps(rules[1].describe())))
    assert again.describe() == rules[1].describe()


def test_slopes_are_those_of_the_odds_in_a_branch() -> None:
    policy, region = _policy(), hr.Box([-1, -0.5, 0, 0], [1, 0.5, 0, 0])
    rules: list[hr.Constraint] = [
        hr.Monotone(hr.Branch(SPACE, 1, 1), 0, "increasing", region, name="rises"),
        hr.Lipschitz(0.5, hr.Branch(SPACE, 0, 0), 0, region, name="steady"),
    ]
    result = hr.enforce(policy, rules, prove=True).raise_if_unsatisfied()
    assert all(one.certified for one in result.certificates)
    line = np.linspace([-1, 0.2, 0, 0], [1, 0.2, 0, 0], 500)
    first, second, _ = _by_branch(policy.raw(line))
    assert (np.diff(second[:, 1] - second[:, 0]) >= -1e-9).all()
    slopes = np.diff(first[:, [0]] - first[:, 1:], axis=0) / (2 / 499)
    assert np.abs(slopes).max() <= 0.5 + 1e-6


def test_what_is_not_known_of_branches() -> None:
    policy, points = _policy(), hr.Points(_states(1))
    with pytest.raises(InvalidConstraint, match=r"names action 2, but .*2 actions: 0 to 1"):
        hr.measure(policy, [hr.Prefer(hr.Branch(SPACE, 1, 0), over=2, where=points, name="a")])
    with pytest.raises(InvalidConstraint, match="branch 1 action 0 cannot be preferred over its"):
        hr.Prefer(hr.Branch(SPACE, 1, 0), over=0, where=points)
    with pytest.raises(InvalidConstraint, match="is about one discrete action"):
        hr.Lipschitz(1.0, hr.Branch(SPACE, 0, {0: 1, 1: 1}), 0, hr.Box([0] * 4, [1] * 4))
    with pytest.raises(InvalidConstraint, match=r"chooses in 3 branches.*Bound .* at both states"):
        hr.measure(policy, [hr.Symmetric(points, [-1] * 4, {0: 1, 1: 0}, name="mirrored")])
