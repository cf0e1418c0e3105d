"""Environments in NormalizeObservation: constraints hold in the environment's own numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
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
from stable_baselines3.common.evaluation import evaluate_policy

import handrail as hr
from handrail._types import Array
from handrail.errors import EnvironmentFailure, InvalidPolicy, InvalidRun
from handrail.learning.player import AnyEnvironment
from tests.support.sb3_models import ppo

FALLING = np.array([0.0, 0.0, 0.2, 0.0])
RULES = [hr.AtMost(0.05, action=1, where=hr.Points(FALLING), name="left")]


def cartpole() -> gym.Env[Any, Any]:
    return gym.make("CartPole-v1")


def normalised() -> gym.Env[Any, Any]:
    return gym.wrappers.TimeLimit(NormalizeObservation(cartpole()), 50)


def frozen() -> NormalizeObservation[Any, Any, Any]:
    """By averages of its own."""
    env = NormalizeObservation(cartpole())
    env.obs_rms.mean = np.array([0.1, -0.2, 0.05, 0.3])
    env.obs_rms.var = np.array([0.5, 2.0, 0.01, 3.0])
    env.update_running_mean = False
    return env


def small(env: AnyEnvironment, seed: int = 0) -> hr.CategoricalPolicy:
    return hr.CategoricalPolicy.mlp(env, hidden=[16], seed=seed)


def shown(env: NormalizeObservation[Any, Any, Any], state: Array) -> Array:
    """As the wrapper computes it."""
    seen: Array = (state - env.obs_rms.mean) / np.sqrt(env.obs_rms.var + env.epsilon)
    return seen


class Watched(gym.Wrapper[Any, Any, Any, Any]):
    """Asks the network at every step, by the wrapper's own statistics: what acts, acts."""

    def __init__(self, env: NormalizeObservation[Any, Any, Any], network: hr.Policy) -> None:
        super().__init__(env)
        self.normalising, self.network = env, network
        self.pushes: list[float] = []
        self.means: list[tuple[float, ...]] = []

    def step(self, action: Any) -> Any:
        seen = shown(self.normalising, FALLING)
        self.pushes.append(float(self.network.outputs(seen[None])[0, 1]))
        self.means.append(tuple(self.normalising.obs_rms.mean.tolist()))
        return super().step(action)


# --- while it learns ----------------------------------------------------------------------------


def test_held_at_what_is_shown_it_would_be_violated() -> None:
    """As it once was accepted in silence: 0 violated by its own account."""
    env = NormalizeObservation(cartpole())
    network = small(env)
    hr.enforce(network, RULES).raise_if_unsatisfied()  # at the numbers that it is shown
    hr.Reinforce(env, network).learn(episodes=20, progress_bar=False)
    assert network.outputs(FALLING[None])[0, 1] < 0.06
    assert network.outputs(shown(env, FALLING)[None])[0, 1] > 0.2  # four times what is allowed


@pytest.mark.parametrize("seed", range(3))
def test_it_obeys_in_the_environments_numbers_at_every_step(seed: int) -> None:
    normalising = NormalizeObservation(cartpole())
    network = small(normalising, seed)
    env = Watched(normalising, network)
    agent = hr.Reinforce(env, network, RULES, seed=seed)
    records = agent.learn(episodes=20, progress_bar=False)
    assert len(env.pushes) == records[-1].steps
    assert max(env.pushes) <= 0.05 + 1e-6
    assert len(set(env.means)) == 20  # still during an episode, moved after each
    assert max(one.violation_before or 0.0 for one in records) <= 1e-6
    # Afterwards, too, and by its own account.
    assert network.outputs(shown(normalising, FALLING)[None])[0, 1] <= 0.05 + 1e-6
    assert agent.probabilities(FALLING)[1] <= 0.05 + 1e-6
    assert agent.evaluate(episodes=1).satisfied
    assert normalising.obs_rms.count == pytest.approx(records[-1].steps + 20 + 1e-4)
    again, _ = normalising.reset(seed=0)  # it normalises as ever, elsewhere
    raw, _ = cartpole().reset(seed=0)
    np.testing.assert_allclose(again, shown(normalising, raw), atol=1e-6)


def test_a_region_is_held_and_proven_in_the_environments_numbers() -> None:
    env = NormalizeObservation(cartpole())
    low, high = [-0.5, 0.0, 0.15, 0.0], [0.5, 0.0, 0.2, 0.2]
    rules = [hr.AtMost(0.05, action=1, where=hr.Box(low, high))]
    agent = hr.Reinforce(env, small(env), rules, reach=10)
    agent.learn(episodes=3, progress_bar=False)
    assert hr.certify(agent.policy, rules[0]).certified
    states = np.random.default_rng(0).uniform(low, high, size=(2000, 4))
    assert agent.probabilities(states)[:, 1].max() <= 0.05


def test_frozen_statistics_stay_as_they_are() -> None:
    env = frozen()
    network = small(env)
    agent = hr.Reinforce(env, network, RULES)
    agent.learn(episodes=5, progress_bar=False)
    assert env.obs_rms.mean.tolist() == [0.1, -0.2, 0.05, 0.3]
    assert network.outputs(shown(env, FALLING)[None])[0, 1] <= 0.05 + 1e-6


def test_a_vector_of_environments() -> None:
    envs = ClipReward(NormalizeTogether(SyncVectorEnv([cartpole] * 2)), -1, 1)
    network = small(envs)
    agent = hr.Reinforce(envs, network, RULES, episodes_per_update=2)
    records = agent.learn(episodes=8, progress_bar=False)
    assert max(one.violation_after or 0.0 for one in records) <= 1e-6
    assert envs.env.obs_rms.count == pytest.approx(records[-1].steps + 8 + 1e-4)  # type: ignore[attr-defined]
    assert network.outputs(shown(envs.env, FALLING)[None])[0, 1] <= 0.05 + 1e-6  # type: ignore[arg-type]


def test_statistics_that_move_elsewhere_are_noticed() -> None:
    env = NormalizeObservation(cartpole())
    network = small(env)
    agent = hr.Reinforce(env, network, RULES)
    agent.learn(episodes=2, progress_bar=False)
    scores, _ = evaluate_policy(agent, env, n_eval_episodes=2, warn=False)  # type: ignore[arg-type]
    assert float(np.mean(scores)) > 0.0
    records = agent.learn(episodes=1, progress_bar=False)
    assert records[0].violation_before is not None
    assert records[0].violation_before <= 1e-6
    assert network.outputs(shown(env, FALLING)[None])[0, 1] <= 0.05 + 1e-6


def test_a_failed_update_leaves_the_statistics() -> None:
    env = NormalizeObservation(cartpole())
    agent = hr.Reinforce(env, small(env), RULES)
    agent.learn(episodes=1, progress_bar=False)
    before = env.obs_rms.mean.tolist(), env.obs_rms.count

    def fail(*_: Any) -> Any:
        raise RuntimeError("planned")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("handrail.enforcement.rail.Rail.keep", fail)  # which comes first
        with pytest.raises(RuntimeError, match="planned"):
            agent.learn(episodes=1, progress_bar=False)
    assert (env.obs_rms.mean.tolist(), env.obs_rms.count) == before
    assert agent.probabilities(FALLING)[1] <= 0.05 + 1e-6


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    env = NormalizeObservation(cartpole())
    whole = hr.Reinforce(env, small(env), RULES)
    records = whole.learn(episodes=8, progress_bar=False)
    env = NormalizeObservation(cartpole())
    first = hr.Reinforce(env, small(env), RULES)
    first.learn(episodes=4, progress_bar=False)
    first.save(tmp_path / "learner.safetensors")
    other = NormalizeObservation(cartpole())
    second = hr.Reinforce.load(tmp_path / "learner.safetensors", env=other)
    assert second.learn(episodes=4, progress_bar=False) == records[4:]
    assert second.probabilities(FALLING).tolist() == whole.probabilities(FALLING).tolist()
    with pytest.raises(InvalidRun, match=r"through NormalizeObservation, which is not around this"):
        hr.Reinforce.load(tmp_path / "learner.safetensors", env=cartpole())
    plain = hr.Reinforce(cartpole(), small(cartpole()))
    plain.save(tmp_path / "plain.safetensors")
    with pytest.raises(InvalidRun, match="saw observations as they are, but NormalizeObservation"):
        hr.Reinforce.load(tmp_path / "plain.safetensors", env=NormalizeObservation(cartpole()))


# --- evaluated ----------------------------------------------------------------------------------


def test_a_policy_is_evaluated_by_what_it_is_shown() -> None:
    env = frozen()
    network = small(env)
    wrong = hr.evaluate(network, env, RULES, episodes=2)
    assert wrong.worst_violation == pytest.approx(
        network.outputs(shown(env, FALLING)[None])[0, 1] - 0.05, abs=1e-9
    )
    agent = hr.Reinforce(env, network, RULES)
    for stage in (env, cartpole()):  # its policy normalises by itself
        found = hr.evaluate(agent, stage, RULES, episodes=3)
        assert found.satisfied
        assert found.scores == agent.evaluate(episodes=3).scores
    moving = NormalizeObservation(cartpole())
    hr.evaluate(small(moving), moving, RULES, episodes=1)
    assert moving.obs_rms.count == 1e-4


def test_models_of_other_libraries_see_what_is_shown() -> None:
    """Their policy would have to be changed."""
    env = NormalizeObservation(cartpole())
    with pytest.raises(InvalidPolicy, match="NormalizeObservation shows the policy other numbers"):
        hr.evaluate(ppo(), env, RULES, episodes=1)


# --- what is refused ----------------------------------------------------------------------------


class Doubled(gym.Wrapper[Any, Any, Any, Any]):
    """Changes observations without saying so."""

    def step(self, action: Any) -> Any:
        observed, *rest = super().step(action)
        return 2.0 * observed, *rest


MOVING = "on a scale that moves with every step"
OWN = "by averages of its own"  # true of all of them: in other processes, nobody asks further
NORMALISED: dict[str, tuple[Callable[[], AnyEnvironment], str]] = {
    "two": (lambda: NormalizeObservation(normalised()), MOVING),
    "of a frozen one": (lambda: NormalizeObservation(frozen()), MOVING),
    "one that is changed": (
        lambda: TransformObservation(normalised(), lambda seen: np.clip(seen, -1, 1), None),
        MOVING,
    ),
    "a vector of them": (lambda: SyncVectorEnv([normalised] * 2), MOVING),
    "a vector of frozen ones": (lambda: SyncVectorEnv([frozen] * 2), OWN),
    "a vector of them in processes": (lambda: AsyncVectorEnv([normalised] * 2), OWN),
    "of a vector of them": (
        lambda: ClipReward(NormalizeTogether(SyncVectorEnv([normalised] * 2)), -1, 1),
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
        rf"speak of, {how}: they would be held .* One of them can be followed, around the env",
    ):
        hr.Reinforce(env, policy, RULES)
    env.close()


def test_wrappers_that_leave_observations_alone_may_be_around() -> None:
    env = RecordEpisodeStatistics(Autoreset(normalised()))
    agent = hr.Reinforce(env, small(env), RULES)
    agent.learn(episodes=2, progress_bar=False)
    assert agent.evaluate(episodes=1).satisfied


def test_a_wrapper_that_changes_observations_in_secret_is_found_out() -> None:
    env = Doubled(NormalizeObservation(cartpole()))
    agent = hr.Reinforce(env, small(env), RULES)
    with pytest.raises(
        EnvironmentFailure, match=r"Episode 0: A wrapper around NormalizeObs.* chang"
    ):
        agent.learn(episodes=1, progress_bar=False)


def test_a_policy_that_normalises_by_itself() -> None:
    env = NormalizeObservation(cartpole())
    agent = hr.Reinforce(env, small(env), RULES)
    with pytest.raises(InvalidPolicy, match="normalises observations itself, and so does the env"):
        hr.Reinforce(env, agent.policy, RULES)


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
