"""Edits: the constraints hold, everything else stays, and what does not is told.

tests/data/cartpole_ppo.safetensors holds the weights of a PPO agent that balances perfectly. It was
trained as examples/edit_ppo.py does, but for 25,000 steps at a constant learning rate, on a
processor where that is enough: `save_file(model.policy.state_dict(), …)`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from scipy.optimize import minimize
from scipy.special import expit
from torch import nn

import handrail as hr
from handrail._types import Array
from handrail.enforcement.policy_edit import Edit
from handrail.enforcement.references import given_references, references_around, references_of_space
from handrail.learning.episode import greedy_together, play_in_parallel
from tests.conftest import small_policy
from tests.policies.test_gaussian import gaussian, states
from tests.support.cartpole import constraints as paper_constraints
from tests.support.kinds import KINDS, LEANING
from tests.support.paths import DATA
from tests.support.pendulum import TORQUE

PPO_WEIGHTS = DATA / "cartpole_ppo.safetensors"
CARTPOLE = "CartPole-v1"


def ppo() -> hr.CategoricalPolicy:
    """The actor of a PPO agent that balances for 500 steps."""
    module = nn.Sequential(
        nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2)
    )
    weights = load_file(PPO_WEIGHTS)
    names = ("mlp_extractor.policy_net.0", "mlp_extractor.policy_net.2", "action_net")
    for layer, name in zip(list(module)[::2], names, strict=True):
        layer.load_state_dict(
            {part: weights[f"{name}.{part}"] for part in ("weight", "bias")}, strict=True
        )
    return hr.CategoricalPolicy(module)


def episodes(policy: hr.CategoricalPolicy, seeds: range) -> tuple[Array, float]:
    """Visited states, and the average score of the most probable actions."""
    envs = gym.make_vec(CARTPOLE, len(seeds), vectorization_mode="sync")
    played = play_in_parallel(envs, greedy_together(policy), list(seeds))
    states = np.concatenate([one.states for one in played])
    return states, float(np.mean([one.score for one in played]))


@pytest.fixture(scope="module")
def visited() -> Array:
    return episodes(ppo(), range(4))[0][::5]


@dataclass(frozen=True)
class Edited:
    policy: hr.CategoricalPolicy
    result: Edit


@pytest.fixture(scope="module")
def edited(visited: Array) -> Edited:
    """The PPO agent, made to obey the paper's constraints, nine of whose states were given, too."""
    policy, rules = ppo(), paper_constraints()
    states = np.concatenate([visited, rules[0].states])
    return Edited(policy, hr.edit(policy, rules, states).raise_if_refused())


def weights_of(policy: hr.Policy) -> list[bytes]:
    return [p.detach().numpy().tobytes() for p in policy.parameters]


# What an edit does


def test_a_trained_agent_obeys_at_a_few_states_and_keeps_its_score(edited: Edited) -> None:
    result, rules, fresh = edited.result, paper_constraints(), range(100, 120)
    assert (result.before.violations > 0.0).sum() == 5
    assert result.before.worst_violation == pytest.approx(0.95, abs=1e-4)
    assert hr.measure(edited.policy, rules).worst_violation <= 1e-6
    assert result.enforcement.worst_violation <= 1e-6
    assert episodes(ppo(), fresh)[1] == 500.0
    assert episodes(edited.policy, fresh)[1] >= 485.0


def test_an_edit_changes_visited_states_far_less_than_enforcing_alone(
    edited: Edited, visited: Array
) -> None:
    enforced, before = ppo(), ppo().probabilities(visited)
    hr.enforce(enforced, paper_constraints()).raise_if_unsatisfied()
    alone, change = (
        np.abs(one.probabilities(visited) - before).max(axis=1) for one in (enforced, edited.policy)
    )
    assert alone.mean() > 0.1
    assert change.mean() < 0.1 * alone.mean()
    assert change.max() < 0.5 * alone.max()


def test_an_edit_on_regions_remembers_the_states_that_mattered(visited: Array) -> None:
    """Steps that forget those that are inside for the moment are taken back: 0.037 instead."""
    policy = ppo()
    result = hr.edit(policy, hr.load_rulebook("cartpole_regions").constraints, visited)
    result.raise_if_refused()
    assert result.after.worst_violation <= 0.0
    assert result.influence.mean_change < 0.01


def test_the_influence_is_that_of_a_direct_comparison(edited: Edited, visited: Array) -> None:
    result, effects = edited.result, edited.result.influence
    before, after = ppo().probabilities(visited), edited.policy.probabilities(visited)
    change = np.abs(after - before)
    assert effects.states == len(visited)  # without the nine that had to change
    assert effects.origin == "given"
    assert effects.largest_change == pytest.approx(change.max(), rel=1e-12)
    where = change.max(axis=1).argmax()
    assert (effects.at == visited[where]).all()
    assert change[where, effects.action] == pytest.approx(change.max(), rel=1e-12)
    assert effects.mean_change == pytest.approx(change.max(axis=1).mean(), rel=1e-12)
    assert effects.changed_choices == (after.argmax(axis=1) != before.argmax(axis=1)).sum()
    start, end = _flat(ppo()), _flat(edited.policy)
    distance = np.linalg.norm(end - start)
    assert result.relative_change == pytest.approx(distance / np.linalg.norm(start), rel=1e-6)
    assert result.enforcement.parameter_change == pytest.approx(distance, rel=1e-6)


def _flat(policy: hr.CategoricalPolicy) -> Array:
    return np.concatenate([p.detach().double().numpy().ravel() for p in policy.parameters])


def test_what_holds_already_is_left_alone(visited: Array) -> None:
    policy = ppo()
    weights = weights_of(policy)
    rule = hr.AtLeast(0.9, action=1, where=hr.Points([2.0, 0.0, 0.25, 0.05]))
    result = hr.edit(policy, [rule], visited, max_change=0.0).raise_if_refused()
    assert weights_of(policy) == weights
    assert result.influence.largest_change == result.relative_change == 0.0
    assert result.enforcement.iterations == 0


def test_a_region_that_holds_already_is_left_alone() -> None:
    policy = small_policy(2, 2)
    weights = weights_of(policy)
    where = hr.Box([0.5, 0.5], [1.0, 1.0])
    low = float(policy.probabilities(where.cover(100))[:, 0].min())
    result = hr.edit(policy, [hr.AtLeast(0.5 * low, 0, where)], prove=True).raise_if_refused()
    assert weights_of(policy) == weights
    assert [one.status for one in result.enforcement.certificates] == ["certified"]


def test_regions_are_held_and_proven() -> None:
    policy, twin = small_policy(2, 3), small_policy(2, 3)
    corner = hr.Box([0.5, 0.5], [1.0, 1.0])
    rules = [hr.AtLeast(0.7, action=0, where=corner)]
    states = np.random.default_rng(0).uniform(-1.0, 1.0, (100, 2))
    result = hr.edit(policy, rules, states, prove=True).raise_if_refused()
    assert [one.status for one in result.enforcement.certificates] == ["certified"]
    assert hr.certify(policy, rules[0]).certified
    assert result.influence.states == (~corner.contains(states)).sum()
    hr.enforce(twin, rules)
    outside = given_references(states, rules).states
    before = small_policy(2, 3).probabilities(outside)
    change, enforced = (np.abs(p.probabilities(outside) - before) for p in (policy, twin))
    assert (change**2).sum() < 0.5 * (enforced**2).sum()


@pytest.mark.parametrize("selection", [hr.MaximumDeviation(points=30), hr.MaximumReturn(points=30)])
def test_the_papers_selections_hold_their_points(
    selection: hr.MaximumDeviation | hr.MaximumReturn,
) -> None:
    policy = small_policy(2, 2)
    region = hr.Box([0.5, 0.5], [1.0, 1.0])
    rules = [hr.AtLeast(0.8, action=0, where=region)]
    states = np.random.default_rng(0).uniform(-1.0, 0.4, (50, 2))
    hr.edit(policy, rules, states, selection=selection).raise_if_refused()
    assert policy.probabilities(region.cover(30))[:, 0].min() >= 0.8 - 1e-6


# As little as possible


def linear_policy() -> tuple[hr.CategoricalPolicy, Array]:
    """Two actions, log-odds w·(s, 1): everything about it can be computed by hand."""
    torch.manual_seed(0)
    module = nn.Linear(3, 2).double()
    difference = module.weight.detach()[1] - module.weight.detach()[0]
    offset = module.bias.detach()[1] - module.bias.detach()[0]
    return hr.CategoricalPolicy(module), np.append(difference.numpy(), offset.numpy())


def test_a_small_edit_of_a_linear_network_is_the_closed_form() -> None:
    """min Σ_s (∇y(s)·Δw)² subject to ∇π(s*)·Δw = b, by Lagrange: Δw = b H⁻¹a / aᵀH⁻¹a.

    y is the angle whose squared change is twice the divergence: ∇y = ∇π / √(π (1 - π)).
    """
    policy, w = linear_policy()
    states = np.random.default_rng(1).normal(size=(60, 3))
    known = np.array([1.0, -1.0, 0.5])
    before = expit(np.append(known, 1.0) @ w)
    asked = 1e-3
    hr.edit(policy, [hr.AtLeast(before + asked, 1, hr.Points(known))], states, tolerance=1e-9)
    inputs = np.column_stack([states, np.ones(60)])
    start = expit(inputs @ w)
    slope = start * (1.0 - start)
    gradients = np.sqrt(slope)[:, None] * inputs
    at_known = before * (1.0 - before) * np.append(known, 1.0)
    step = np.linalg.solve(gradients.T @ gradients, at_known)
    expected = slope * (inputs @ step) * asked / (at_known @ step)
    change = policy.probabilities(states)[:, 1] - start
    assert np.abs(change - expected).max() < 0.01 * np.abs(expected).max()


def angle(probability: Array) -> Array:
    """Its squared change is twice the divergence of two actions, to first order."""
    return 2.0 * np.arcsin(np.sqrt(probability))


def test_a_large_edit_of_a_linear_network_is_what_another_solver_finds() -> None:
    policy, w = linear_policy()
    states = np.random.default_rng(1).normal(size=(60, 3))
    inputs = np.column_stack([states, np.ones(60)])
    known = np.array([[1.0, -1.0, 0.5], [0.0, 1.0, 1.0]])
    start = expit(inputs @ w)

    def squares(x: Array) -> float:
        return float(((angle(expit(inputs @ x)) - angle(start)) ** 2).sum())

    low = np.log(0.8) - np.log(0.2)
    best = minimize(
        squares,
        w,
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda x: np.column_stack([known, [1, 1]]) @ x - low},
        options={"ftol": 1e-12, "maxiter": 500},
    )
    result = hr.edit(policy, [hr.AtLeast(0.8, 1, hr.Points(known))], states).raise_if_refused()
    assert policy.probabilities(known)[:, 1].min() >= 0.8 - 1e-6
    assert result.influence.largest_change > 0.05
    found = float(((angle(policy.probabilities(states)[:, 1]) - angle(start)) ** 2).sum())
    assert best.fun * 0.999 < found < best.fun * 1.02


# Refusals


def test_too_large_an_influence_is_refused_and_nothing_changes(visited: Array) -> None:
    policy, rules = ppo(), paper_constraints()
    weights = weights_of(policy)
    result = hr.edit(policy, rules, visited[::4], max_change=1e-4)
    assert weights_of(policy) == weights
    assert result.refused
    assert result.enforcement.satisfied
    assert result.after.worst_violation <= 1e-6  # as it would have been
    effects = result.influence
    words = (
        rf"changes the probability of action {effects.action} by {effects.largest_change:.3g} at "
        r"\(.*\), a reference state .* at most 0.0001 is allowed \(max_change\)\. Allow more"
    )
    with pytest.raises(hr.errors.ExcessiveInfluence, match=words):
        result.raise_if_refused()
    assert str(result).startswith("Refused, and the policy left as it was: Holding")


def test_contradictions_are_refused_and_nothing_changes() -> None:
    policy = small_policy(2, 3)
    weights = weights_of(policy)
    rules = [
        hr.AtLeast(0.6, action=a, where=hr.Points([0.1, 0.2]), name=f"rule {a}") for a in (0, 1)
    ]
    result = hr.edit(policy, rules)
    assert weights_of(policy) == weights
    assert result.refused
    assert result.influence.largest_change == 0.0
    np.testing.assert_array_equal(result.after.violations, result.before.violations)
    with pytest.raises(
        hr.errors.UnsatisfiedConstraints, match="'rule 0' and 'rule 1' ask for prob"
    ):
        result.raise_if_refused()


def test_interrupted_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = small_policy(2, 2)
    weights = weights_of(policy)

    def interrupt(*_: object) -> None:
        assert weights_of(policy) != weights
        raise KeyboardInterrupt

    monkeypatch.setattr("handrail.enforcement.policy_edit.influence_between", interrupt)
    with pytest.raises(KeyboardInterrupt):
        hr.edit(policy, [hr.AtLeast(0.9, 0, hr.Points([0.1, 0.2]))], [[1.0, 1.0]])
    assert weights_of(policy) == weights


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (
            {"max_change": -0.1},
            hr.errors.InvalidArgument,
            "max_change must be a number from 0 on, not",
        ),
        (
            {"max_change": "a"},
            hr.errors.InvalidArgument,
            "max_change must be a number from 0 on, not 'a'",
        ),
        ({"tolerance": "a"}, hr.errors.InvalidArgument, "must be a finite number above 0, not 'a'"),
        (
            {"tolerance": 0.0},
            hr.errors.InvalidArgument,
            "tolerance must be a finite number above 0, not 0.0",
        ),
        (
            {"selection": hr.Everywhere(), "prove": True},
            hr.errors.InvalidArgument,
            "Say how regions are held once",
        ),
        (
            {"references": [[0.0, 1.0, 2.0]]},
            hr.errors.InvalidArgument,
            r"shape \(n, 2\) with n > 0, as the constraints' states have, but got \(1, 3\)",
        ),
        (
            {"references": [[0.0, np.nan]]},
            hr.errors.InvalidArgument,
            "Reference state 0 is not finite",
        ),
        (
            {"references": [["a", "b"]]},
            hr.errors.InvalidArgument,
            "Reference states are an array of numbers",
        ),
        (
            {"references": [[0.1, 0.2]]},
            hr.errors.InvalidArgument,
            "All 1 reference states are constrained themselves",
        ),
        (
            {"policy": "ppo.zip"},
            hr.errors.InvalidPolicy,
            "but got str. Of a learner give its policy",
        ),
        ({"constraints": []}, hr.errors.InvalidConstraint, "there is nothing to obey"),
        (
            {"max_change_in": hr.Box([1.0, 1.0], [2.0, 2.0])},
            hr.errors.InvalidArgument,
            "`max_change_in` needs to know by how much .* max_change above 0, not None",
        ),
    ],
)
def test_what_cannot_be_meant(
    arguments: dict[str, object], error: type[Exception], words: str
) -> None:
    meant: dict[str, object] = {
        "policy": small_policy(2, 2),
        "constraints": [hr.AtLeast(0.9, 0, hr.Points([0.1, 0.2]))],
    }
    with pytest.raises(error, match=words):
        hr.edit(**{**meant, **arguments})  # type: ignore[arg-type]


def test_an_edit_tells_what_it_did() -> None:
    rule = hr.AtLeast(0.9, action=0, where=hr.Points([0.1, 0.2]))
    module = small_policy(2, 2).module
    result = hr.edit(module, [rule])  # a bare module is a policy as well
    assert isinstance(result, Edit)
    assert hr.CategoricalPolicy(module).probabilities([[0.1, 0.2]])[0, 0] >= 0.9 - 1e-6
    assert str(result).startswith("1 of 1 constraint row violated before, none now. On 4,000")
    assert "random, around the constrained states, denser in the middle" in str(result)


# Reference states


def test_sampled_states_lie_around_the_constraints() -> None:
    rules = [hr.AtLeast(0.9, 0, hr.Points([[0.0, 2.0, 0.0], [1.0, 2.0, 0.0]]))]
    states = references_around(rules).states
    assert (states.min(axis=0) >= [-1.0, 0.0, -1.0]).all()
    assert (states.max(axis=0) <= [2.0, 4.0, 1.0]).all()
    assert np.ptp(states, axis=0) == pytest.approx([3.0, 4.0, 2.0], rel=0.05)


def test_states_of_an_unbounded_space_lie_around_the_constraints() -> None:
    space = gym.make(CARTPOLE).observation_space
    assert isinstance(space, gym.spaces.Box)
    found = references_of_space(space, paper_constraints(), sizes=(1.0, 2.0, 1.0, 1.0))
    assert "where that has no bounds, around" in found.origin
    assert np.abs(found.states).max(axis=0) == pytest.approx([4.8, 2.0, 0.41888, 1.05], rel=0.05)
    bounded = references_of_space(
        gym.spaces.Box(-1.0, 1.0, (4,)), paper_constraints(), sizes=(1.0,) * 4
    )
    assert bounded.origin == "random, of the observation space, denser in the middle"
    assert np.abs(bounded.states).max() <= 1.0


def test_a_state_is_recognised_however_it_was_rounded() -> None:
    """Environments observe in float32, and zero has two signs."""
    rules = [hr.AtLeast(0.9, 0, hr.Points([[0.1, 0.2], [0.0, 0.3]]))]
    visited = np.array([[0.1, 0.2], [-0.0, 0.3], [0.1, 0.3]], dtype=np.float32)
    kept = given_references(visited, rules).states
    np.testing.assert_array_equal(kept, visited[2:])
    nearby = [[0.1 + 1e-6, 0.2], [0.1, 0.3]]
    assert len(given_references(nearby, rules)) == 2


def test_an_edit_of_means() -> None:
    policy = gaussian(3, 2, hidden=[64]).clipped_to(None)  # about means, whatever acts
    some = states(400)
    before = policy.mean(some)
    result = hr.edit(policy, [hr.AtLeast(2.0, TORQUE, hr.Points([0.1, 0.2, 0.3]))], some)
    result.raise_if_refused()
    change = np.abs(policy.mean(some) - before)
    assert policy.mean([0.1, 0.2, 0.3])[0] >= 2.0 - 1e-6
    assert result.influence.largest_change == pytest.approx(change.max())
    assert result.influence.changed_choices is None
    assert "the largest change of a mean action is" in str(result)
    refused = hr.edit(policy, [hr.AtLeast(9.0, TORQUE, hr.Points([0.1, 0.2, 0.3]))], some, 0.01)
    assert refused.refused
    assert re.search(r"changes mean action [01] by \d.* at most 0.01 is allowed", refused.reason)
    np.testing.assert_allclose(policy.mean([0.1, 0.2, 0.3])[0], 2.0, atol=0.1)


def test_the_influence_of_an_edit_is_counted_on_what_acts() -> None:
    rule = hr.AtLeast(2.0, TORQUE, hr.Points([0.1, 0.2, 0.3]))
    policy, some, limits = gaussian(3, 2, hidden=[64]), states(400), (-0.1, [0.1, 0.2])
    before = policy.mean(some)
    result = hr.edit(policy, [rule], some, limits=limits)
    assert result.enforcement.satisfied
    acting = [np.clip(one, *map(np.asarray, limits)) for one in (before, policy.mean(some))]
    change = np.abs(acting[1] - acting[0])
    assert 0.0 < change.max() < np.abs(policy.mean(some) - before).max()
    assert result.influence.largest_change == pytest.approx(change.max())
    assert result.influence.mean_change == pytest.approx(change.max(axis=1).mean())
    with pytest.raises(
        hr.errors.ShapeMismatch, match=r"have 2 dimensions, but limits have the shape \(3"
    ):
        hr.edit(policy, [rule], some, limits=(0.0, [1.0, 2.0, 3.0]))
    of_actions = [hr.AtLeast(0.9, 0, hr.Points([0.1, 0.2, 0.3]))]
    with pytest.raises(hr.errors.InvalidArgument, match="limits are those of continuous actions"):
        hr.edit(small_policy(), of_actions, some, limits=(0.0, 1.0))


def test_a_region_is_kept_and_that_is_proven() -> None:
    policy = small_policy(2, 2, seed=1)
    rules = [hr.AtLeast(0.9, 0, hr.Box([0.8, 0.3], [1.0, 0.5]), name="corner")]
    region = hr.Box([-1.0, -0.5], [0.0, 0.5])
    states = region.sample(20_000, np.random.default_rng(0))
    before = policy.outputs(states)
    result = hr.edit(policy, rules, states[:50], max_change=0.1, max_change_in=region, prove=True)
    result.raise_if_refused()
    largest = float(np.abs(policy.outputs(states) - before).max())
    assert result.proven_change is not None
    assert largest <= result.proven_change <= 0.1
    assert "In the region of max_change_in, by at most" in str(result)
    assert len(result.before) == len(hr.measure(policy, rules))  # of the constraints themselves


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_constraint_can_be_edited_in_and_proven(kind: str) -> None:
    rule = KINDS[kind]
    policy = hr.CategoricalPolicy.mlp(gym.make("CartPole-v1"), [32], "tanh", seed=1)
    before = hr.measure(policy, [rule]).worst_violation
    assert before > 0.0
    edit = hr.edit(policy, [rule], prove=True).raise_if_refused()
    assert edit.enforcement.proven
    assert edit.before.worst_violation == before
    assert edit.after.worst_violation <= 0.0
    assert hr.certify(policy, rule).certified


def test_a_choice_that_is_nearly_even_is_taken_alike_everywhere() -> None:
    """Next door the other alternative is a little nearer, but no network does both side by side."""
    rule = KINDS["any of"]
    policy = hr.CategoricalPolicy.mlp(gym.make("CartPole-v1"), [32], "tanh", seed=1)
    states = LEANING.sample(2000, np.random.default_rng(0))
    nearer = policy.outputs(states)[:, 1] > 0.5
    assert nearer.any()
    assert not nearer.all()
    hr.edit(policy, [rule]).raise_if_refused()
    outputs = policy.outputs(states)
    assert (outputs[:, 1] >= 0.7).all() or (outputs[:, 0] >= 0.7).all()
