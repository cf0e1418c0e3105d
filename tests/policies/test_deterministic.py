"""Actions without noise: what the network says is what is done."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

import handrail as hr
from handrail.policies import DeterministicPolicy, onto_range

SPACES = (gym.spaces.Box(-1.0, 1.0, (2,)), gym.spaces.Box(-3.0, 1.0, (1,)))
STATES = np.array([[0.2, -0.4], [-0.7, 0.1]])


def bounded(seed: int = 0) -> nn.Sequential:
    """Between -3 and 1."""
    torch.manual_seed(seed)
    back = onto_range(np.array([-3.0]), np.array([1.0]), torch.float64)
    return nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1), nn.Tanh(), back).double()


def test_it_does_what_the_network_says() -> None:
    network = bounded()
    policy = DeterministicPolicy(network, 0.5)
    with torch.no_grad():
        said = network(torch.as_tensor(STATES)).numpy()
    rng = np.random.default_rng(0)
    act = policy.actor(rng)
    np.testing.assert_allclose([act(one) for one in STATES], said)
    np.testing.assert_allclose(policy.draw(said, [rng, rng]), said)
    np.testing.assert_allclose(policy.mean(STATES[0]), said[0])
    assert rng.bit_generator.state == np.random.default_rng(0).bit_generator.state  # no chance


def test_changes_are_told_in_its_units() -> None:
    policy = DeterministicPolicy(nn.Linear(2, 2).double(), [0.5, 2.0])
    natural, gradients = policy.natural(np.array([[1.0, 1.0]]))
    np.testing.assert_allclose(natural, [[2.0, 0.5]])
    np.testing.assert_allclose(gradients, [[[2.0, 0.0], [0.0, 0.5]]])
    np.testing.assert_allclose(policy.scale(np.zeros((3, 2))), [[0.5, 2.0]] * 3)


def test_it_is_held_and_proven_within_its_range() -> None:
    policy = DeterministicPolicy(bounded(), 0.6)
    box = hr.Box([0.1, -0.5], [0.6, 0.5])
    held = hr.enforce(policy, [hr.AtLeast(0.5, hr.Mean(0), box)], prove=True)
    assert held.raise_if_unsatisfied().proven
    fresh = box.sample(5000, np.random.default_rng(1))
    assert policy.outputs(fresh).min() >= 0.5
    with pytest.raises(hr.errors.InvalidConstraint, match="keeps it between -3 and 1"):
        hr.enforce(policy, [hr.AtLeast(1.5, hr.Mean(0), box)])


def test_what_it_cannot_be() -> None:
    for unit in (0.0, -1.0, float("nan"), [[1.0]]):
        with pytest.raises(hr.errors.InvalidPolicy, match="unit of changes must be a positive"):
            DeterministicPolicy(bounded(), unit)  # type: ignore[arg-type]
    with pytest.raises(hr.errors.ShapeMismatch, match=r"has 2 units of changes, but .* returns 1"):
        DeterministicPolicy(bounded(), [1.0, 1.0]).outputs(STATES)


def test_reinforce_needs_noise() -> None:
    env = gym.make("Pendulum-v1")
    policy = DeterministicPolicy(nn.Linear(3, 1).double(), 0.6)
    with pytest.raises(hr.errors.InvalidPolicy, match=r"draws nothing.*GaussianPolicy"):
        hr.Reinforce(env, policy)
    assert hr.evaluate(policy, "Pendulum-v1", episodes=1).lengths == (200,)
