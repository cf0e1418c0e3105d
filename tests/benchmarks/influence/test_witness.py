"""What holdings change at states that are visited and are no references."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import nn

from benchmarks.influence.places import Places
from benchmarks.influence.witness import Witness, probabilities
from handrail import AtLeast, Box, Points
from handrail.sb3 import Handrail

NOWHERE = Places.of([], 2)
STATES = np.random.default_rng(0).uniform(-0.05, 0.05, (400, 4)).astype(np.float32)


def network(model: PPO) -> ActorCriticPolicy:
    assert isinstance(model.policy, ActorCriticPolicy)
    return model.policy


def model() -> PPO:
    return PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=64, seed=0, device="cpu")


def push(policy: ActorCriticPolicy, by: float) -> None:
    """The log-odds of going right, everywhere."""
    assert isinstance(policy.action_net, nn.Linear)
    with torch.no_grad():
        policy.action_net.bias.add_(torch.tensor([0.0, by]))


def test_each_change_is_that_of_one_holding() -> None:
    policy, witness = network(model()), Witness(NOWHERE)
    witness.begins(policy)
    push(policy, 2.0)
    witness.comes(policy)
    witness.acts(policy)
    assert witness.changes == []  # nothing was visited yet
    witness.visited(STATES, policy)
    # A fresh network is all but undecided: from a half to the logistic function of two.
    assert witness.first_change == pytest.approx(1.0 / (1.0 + np.exp(-2.0)) - 0.5, abs=0.01)
    push(policy, 1.0)  # learned: nobody's influence
    witness.comes(policy)
    witness.acts(policy)
    witness.comes(policy)
    push(policy, -3.0)
    witness.acts(policy)
    none, back = witness.changes
    assert none == 0.0
    assert back == pytest.approx(1.0 / (1.0 + np.exp(-3.0)) - 0.5, abs=0.01)
    first = witness.first_change
    witness.visited(STATES, policy)
    assert witness.first_change == first


def test_what_is_constrained_is_not_looked_at() -> None:
    policy = network(model())
    right = Places.of([AtLeast(0.9, 1, Box([-1, -1, 0, -1], [1, 1, 1, 1]))], 2)
    witness = Witness(right)
    witness.begins(policy)
    before = probabilities(policy, STATES[2::4])
    assert isinstance(policy.action_net, nn.Linear)
    with torch.no_grad():  # by another amount at every state
        policy.action_net.weight.mul_(200.0)
    change = np.abs(probabilities(policy, STATES[2::4]) - before).max(axis=1)
    witness.visited(STATES, policy)
    outside = STATES[2::4, 2] < 0.0
    assert 0 < outside.sum() < len(outside)
    assert witness.first_change == pytest.approx(change[outside].mean(), rel=1e-6)
    assert witness.first_change != pytest.approx(change.mean(), rel=1e-3)


def test_between_a_rail_and_its_learner() -> None:
    """A look by itself, at all states of the rollout, agrees."""
    told, witness = model(), Witness(NOWHERE)
    rail = Handrail([AtLeast(0.95, 1, Points([0, 0, 0.2, 0.1]))])
    told.learn(128, callback=[witness.before, rail, witness.after])
    assert witness.first_change is not None
    assert 0.0 < witness.first_change < 0.5
    assert len(witness.changes) == 1  # before the second rollout
    assert witness.changes[0] < 0.3
