"""Environments that show the policy other numbers than the constraints are about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from gymnasium.wrappers import (
    Autoreset,
    NormalizeObservation,
    RecordEpisodeStatistics,
    TransformObservation,
)
from gymnasium.wrappers.vector import ClipReward
from gymnasium.wrappers.vector import NormalizeObservation as NormalizeTogether

import handrail as hr
from handrail.errors import InvalidPolicy
from handrail.learning.player import AnyEnvironment

RULES = [hr.AtMost(0.05, action=1, where=hr.Points([0.0, 0.0, 0.2, 0.0]), name="left")]


def cartpole() -> gym.Env[Any, Any]:
    return gym.make("CartPole-v1")


def normalised() -> gym.Env[Any, Any]:
    return gym.wrappers.TimeLimit(NormalizeObservation(cartpole()), 50)


def frozen() -> gym.Env[Any, Any]:
    env = NormalizeObservation(cartpole())
    env.update_running_mean = False
    return env


MOVING = "on a scale that moves with every step"
OWN = "by averages of its own"  # true of all of them: in other processes, nobody asks further
NORMALISED: dict[str, tuple[Callable[[], AnyEnvironment], str]] = {
    "one": (lambda: NormalizeObservation(cartpole()), MOVING),
    "one, inside another wrapper": (normalised, MOVING),
    "one, inside many": (lambda: RecordEpisodeStatistics(Autoreset(normalised())), MOVING),
    "one that is frozen": (frozen, OWN),
    "a vector of them": (lambda: SyncVectorEnv([normalised] * 2), MOVING),
    "a vector of frozen ones": (lambda: SyncVectorEnv([frozen] * 2), OWN),
    "a vector of them in processes": (lambda: AsyncVectorEnv([normalised] * 2), OWN),
    "of a vector": (lambda: NormalizeTogether(SyncVectorEnv([cartpole] * 2)), MOVING),
    "of a vector, inside another wrapper": (
        lambda: ClipReward(NormalizeTogether(SyncVectorEnv([cartpole] * 2)), -1, 1),
        MOVING,
    ),
}


@pytest.mark.parametrize("name", NORMALISED)
def test_they_are_refused_however_deep_inside_and_for_what_is_true_of_them(name: str) -> None:
    make, how = NORMALISED[name]
    env = make()
    policy = hr.CategoricalPolicy.mlp(env, hidden=[8])
    with pytest.raises(
        InvalidPolicy,
        match=r"NormalizeObservation shows the policy other numbers than those that constraints "
        rf"speak of, {how}: they would be held .* Remove it, or scale by fixed numbers",
    ):
        hr.Reinforce(env, policy, RULES)
    env.close()


def test_so_they_are_when_an_agent_is_evaluated() -> None:
    env = NormalizeObservation(cartpole())
    policy = hr.CategoricalPolicy.mlp(env, hidden=[8])
    with pytest.raises(InvalidPolicy, match="NormalizeObservation shows the policy other numbers"):
        hr.evaluate(policy, env, RULES, episodes=1)
    assert hr.evaluate(policy, env, episodes=1).violations is None


def test_without_constraints_there_is_nothing_to_be_wrong_about() -> None:
    env = NormalizeObservation(cartpole())
    policy = hr.CategoricalPolicy.mlp(env, hidden=[8])
    assert len(hr.Reinforce(env, policy).learn(episodes=1)) == 1


def test_fixed_units_are_the_users_own() -> None:
    sizes = np.array([2.0, 2.0, 0.2, 2.0])
    space = gym.spaces.Box(-np.inf, np.inf, (4,), dtype=np.float64)
    env = TransformObservation(cartpole(), lambda seen: seen / sizes, space)
    rules = [hr.AtMost(0.05, action=1, where=hr.Points([0.0, 0.0, 1.0, 0.0]), name="left")]
    agent = hr.Reinforce(env, hr.CategoricalPolicy.mlp(env, hidden=[8]), rules)
    assert agent.evaluate(episodes=2).satisfied
