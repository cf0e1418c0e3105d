"""The action that is valued most, and constraints on the order of values."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

import handrail as hr
from handrail.policies import VALUE, GreedyPolicy

BOX = hr.Box([-0.5, -0.5], [0.5, 0.5])


def network(scale: float = 1.0, dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 3)).to(dtype)
    with torch.no_grad():
        for one in layers[2].parameters():
            one.mul_(scale)
    return layers


def test_it_takes_what_it_values_most() -> None:
    module = network()
    policy = GreedyPolicy(module)
    states = np.random.default_rng(0).normal(size=(50, 2))
    with torch.no_grad():
        said = module(torch.as_tensor(states)).numpy()
    np.testing.assert_allclose(policy.values(states), said, rtol=1e-12)
    np.testing.assert_allclose(policy.values(states[0]), said[0], rtol=1e-12)
    np.testing.assert_array_equal(policy.likeliest(said), said.argmax(axis=1))
    rng = np.random.default_rng(0)
    act = policy.actor(rng)
    assert [act(one) for one in states] == said.argmax(axis=1).tolist()
    assert rng.bit_generator.state == np.random.default_rng(0).bit_generator.state  # no chance


@pytest.mark.parametrize("scale", [1.0, 300.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_preferences_are_in_units_of_values(scale: float, dtype: torch.dtype) -> None:
    policy = GreedyPolicy(network(scale=scale, dtype=dtype))
    asked = [hr.Prefer(2, by=0.5, where=BOX, name="two")]
    hr.enforce(policy, asked).raise_if_unsatisfied()
    values = policy.values(BOX.sample(4000, np.random.default_rng(1)))
    margin = values[:, 2] - values[:, :2].max(axis=1)
    assert margin.min() >= 0.5
    assert (values.argmax(axis=1) == 2).all()
    measured = hr.measure(policy, asked)
    states = np.asarray(measured.states[:1])
    there = policy.values(states)[0]
    assert measured.worst_violation == pytest.approx(0.5 - (there[2] - there[:2].max()), abs=1e-4)


def test_differences_beyond_what_a_softmax_can_tell() -> None:
    """With a third action far above both, probabilities of the two would be 0 and 0."""
    module = nn.Linear(2, 3).double()
    with torch.no_grad():
        module.weight.zero_()
        module.bias.copy_(torch.tensor([10.0, 15.0, 5000.0]))
    asked = [hr.Prefer(0, over=1, by=1.0, where=hr.Points([[0.0, 0.0]]))]
    assert hr.measure(GreedyPolicy(module), asked).worst_violation == pytest.approx(6.0)


def test_one_action_over_another() -> None:
    policy = GreedyPolicy(network())
    where = hr.Points(BOX.sample(5, np.random.default_rng(2)))
    hr.enforce(policy, [hr.Prefer(0, over=1, by=2.0, where=where)]).raise_if_unsatisfied()
    values = policy.values(where.states)
    assert (values[:, 0] - values[:, 1]).min() >= 2.0 - 1e-6


def test_proof_agrees_with_brute_force() -> None:
    policy = GreedyPolicy(network(scale=5.0))
    asked = hr.Prefer(1, by=0.3, where=BOX)
    assert not hr.certify(policy, asked).certified
    result = hr.enforce(policy, [asked], prove=True).raise_if_unsatisfied()
    (certificate,) = result.certificates
    assert certificate.certified
    grid = np.stack(np.meshgrid(*[np.linspace(-0.5, 0.5, 101)] * 2), axis=-1).reshape(-1, 2)
    values = policy.values(grid)
    least = (values[:, 1] - values[:, [0, 2]].max(axis=1)).min()
    assert 0.3 <= 0.3 - certificate.worst_violation <= least + 1e-9


def test_what_else_stays_are_the_values() -> None:
    policy = GreedyPolicy(network(scale=20.0))
    far = np.random.default_rng(3).uniform(-3.0, 3.0, (300, 2))
    far = far[np.abs(far).max(axis=1) > 1.0]
    before = policy.values(far)
    asked = [hr.Prefer(2, by=0.5, where=hr.Points([[0.1, 0.1], [-0.2, 0.3]]))]
    close = hr.enforce(policy, asked, references=far, reach=0.001)
    assert close.satisfied
    moved = np.abs(policy.values(far) - before).mean()
    other = GreedyPolicy(network(scale=20.0))
    hr.enforce(other, asked, references=far, reach=10.0)
    assert moved < 0.5 * np.abs(other.values(far) - before).mean()
    assert close.influence is not None
    at_each = np.abs(policy.values(far) - before).max(axis=1)
    assert close.influence.mean_change == pytest.approx(at_each.mean())


def test_what_is_not_about_values() -> None:
    policy, points = GreedyPolicy(network()), hr.Points([[0.0, 0.0]])
    for other in (
        hr.AtLeast(0.9, 1, points),
        hr.Equal(0.5, 1, points),
        hr.AnyOf([hr.AtLeast(0.9, 1, points), hr.AtLeast(0.9, 2, points)]),
        hr.AtLeast(0.9, hr.Mean(0), points),
    ):
        with pytest.raises(
            hr.errors.InvalidConstraint,
            match=r"but this policy takes the one of 3 actions that it values most.*Prefer\(action",
        ):
            hr.enforce(policy, [other])
    with pytest.raises(hr.errors.InvalidConstraint, match="CloseTo keeps probabilities or mean"):
        hr.within(policy, 0.1, BOX)


def test_ties_decide_nothing() -> None:
    policy, points = GreedyPolicy(network()), hr.Points([[0.0, 0.0]])
    with pytest.raises(hr.errors.InvalidConstraint, match="asks for a margin of 0 between"):
        hr.enforce(policy, [hr.Prefer(1, where=points)])
    with pytest.raises(hr.errors.InvalidArgument, match="1e-07 between two values is no more than"):
        hr.enforce(policy, [hr.Prefer(1, by=1e-7, where=points)])


def test_the_constraint_is_still_one_of_probabilities_elsewhere() -> None:
    asked = hr.Prefer(1, by=0.2, where=BOX)
    assert asked.for_policy(GreedyPolicy(network())).quantity == VALUE
    assert asked.quantity != VALUE
    spaces = (gym.spaces.Box(-1.0, 1.0, (2,)), gym.spaces.Discrete(3))
    policy = hr.CategoricalPolicy.mlp(spaces, [16], seed=0)
    assert hr.enforce(policy, [asked]).satisfied


def test_reinforce_needs_chance() -> None:
    env = gym.make("CartPole-v1")
    policy = GreedyPolicy(nn.Linear(4, 2).double())
    with pytest.raises(hr.errors.InvalidPolicy, match="GreedyPolicy draws nothing"):
        hr.Reinforce(env, policy)
    scores = {hr.evaluate(policy, env, episodes=2, seed=seed).scores for seed in (0, 0)}
    assert len(scores) == 1


@pytest.mark.parametrize("ending", ["npz", "onnx"])
def test_files(ending: str, tmp_path: Path) -> None:
    policy, path = GreedyPolicy(network()), tmp_path / f"values.{ending}"
    export = hr.export_numpy if ending == "npz" else hr.export_onnx
    export(policy, path, [hr.Prefer(1, by=0.3, where=BOX)])
    opened = hr.export.open_export(path).policy
    assert isinstance(opened, GreedyPolicy)
    states = BOX.sample(20, np.random.default_rng(0))
    np.testing.assert_allclose(opened.values(states), policy.values(states), atol=1e-9)
