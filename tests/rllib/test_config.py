"""PPO on a cluster: every runner's acting policy is measured at every step it takes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import ray
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.connectors.env_to_module import MeanStdFilter
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.tune.registry import register_env

import handrail as hr
from handrail._types import Array
from handrail.rllib import HeldPPO, HeldPPOConfig
from tests.support.rllib_models import (
    ACTING,
    CARTPOLE,
    MEASURED,
    TILTED,
    TOLERANCE,
    measure_acting,
    ppo,
    violation,
)


def two_runners(config: HeldPPOConfig) -> HeldPPOConfig:
    config.env_runners(num_env_runners=2)
    config.callbacks(on_episode_step=measure_acting)
    return config


def held(result: dict[str, Any]) -> dict[str, float]:
    found: dict[str, float] = result["learners"]["default_policy"]["handrail"]
    return found


def weights(algorithm: HeldPPO) -> list[dict[str, Array]]:
    """Those of the actor: of the learner, and of every runner, the local one first."""
    learned = algorithm.learner_group.get_state(components="learner/rl_module", inference_only=True)
    acting = algorithm.env_runner_group.foreach_env_runner(lambda one: one.module.get_state())
    every = (learned["learner"]["rl_module"]["default_policy"], *acting)
    return [{name: np.asarray(value) for name, value in one.items()} for one in every]


def assert_all_alike(algorithm: HeldPPO) -> None:
    first, *others = weights(algorithm)
    assert len(others) == 3
    for other in others:
        assert other.keys() == first.keys()
        assert all(np.array_equal(first[name], other[name]) for name in first)


@contextmanager
def running(algorithm: HeldPPO) -> Iterator[HeldPPO]:
    """Stopped in the end, so that others find room on the cluster."""
    try:
        yield algorithm
    finally:
        algorithm.stop()


@pytest.mark.usefixtures("cluster")
class TestTwoRunners:
    def test_no_policy_that_acts_violates(self, tmp_path: Path) -> None:
        """On LunarLander, by the bundled file, from the first step on; and from a checkpoint."""
        config = two_runners(ppo("LunarLander-v3", "lunar_lander"))
        with running(config.build_algo()) as algorithm:
            assert_all_alike(algorithm)
            broken = []
            for _ in range(4):
                result = algorithm.train()
                assert result["env_runners"][MEASURED] >= 128
                assert result["env_runners"][ACTING] <= TOLERANCE
                assert held(result)["violation_after"] <= TOLERANCE
                assert held(result)["influence"] >= 0.0
                broken.append(held(result)["violation_before"] > TOLERANCE)
                assert_all_alike(algorithm)
            assert any(broken)  # so that there was something to hold
            saved = weights(algorithm)[0]
            algorithm.save_to_path(tmp_path)
        with running(Algorithm.from_checkpoint(tmp_path)) as again:
            assert isinstance(again, HeldPPO)
            assert all(np.array_equal(saved[name], one) for name, one in weights(again)[0].items())
            assert_all_alike(again)
            assert again.train()["env_runners"][ACTING] <= TOLERANCE

    def test_a_region_and_a_runner_that_dies(self) -> None:
        """Ray starts it anew while nobody looks, with weights by chance."""
        config = two_runners(ppo(constraints=[*CARTPOLE, TILTED]))
        with running(config.build_algo()) as algorithm:
            assert algorithm.train()["env_runners"][ACTING] <= TOLERANCE
            victim = algorithm.env_runner_group._worker_manager.actors()[1]
            with pytest.raises(ray.exceptions.RayActorError):
                ray.get(victim.apply.remote(lambda _: os._exit(1)))
            wait_for(victim)
            assert ray.get(victim.apply.remote(_own_violation)) > TOLERANCE
            for _ in range(2):
                assert algorithm.train()["env_runners"][ACTING] <= TOLERANCE
            assert ray.get(victim.apply.remote(_own_violation)) <= TOLERANCE
            assert algorithm.env_runner_group.num_healthy_remote_workers() == 2

    def test_a_learner_in_a_process_of_its_own_and_evaluation(self) -> None:
        config = two_runners(ppo()).learners(num_learners=1)
        config.evaluation(
            evaluation_interval=1, evaluation_num_env_runners=1, evaluation_duration=1
        )
        with running(config.build_algo()) as algorithm:
            assert_all_alike(algorithm)
            for _ in range(2):
                result = algorithm.train()
                assert result["env_runners"][ACTING] <= TOLERANCE
                assert result["evaluation"]["env_runners"][ACTING] <= TOLERANCE
                assert held(result)["violation_after"] <= TOLERANCE

    def test_environments_that_normalise_are_refused_before_they_are_sampled(self) -> None:
        register_env(
            "normalised", lambda _: gym.wrappers.NormalizeObservation(gym.make("CartPole-v1"))
        )
        with pytest.raises(hr.errors.InvalidPolicy, match="NormalizeObservation shows the policy"):
            ppo("normalised").env_runners(num_env_runners=1).build_algo()


def _own_violation(runner: Any) -> float:
    return violation(runner.module, CARTPOLE)


def wait_for(actor: Any) -> None:
    """Until it is there again."""
    for _ in range(300):
        try:
            ray.get(actor.ping.remote())
        except ray.exceptions.RayActorError:
            time.sleep(0.2)
        else:
            return
    raise AssertionError("Ray did not start it anew")


def many_agents(config: HeldPPOConfig) -> Any:
    return config.multi_agent(policies={"a", "b"}, policy_mapping_fn=lambda *_, **__: "a")


def old_stack(config: HeldPPOConfig) -> Any:
    return config.api_stack(
        enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False
    )


def filtered(config: HeldPPOConfig) -> Any:
    return config.env_runners(env_to_module_connector=lambda *_: MeanStdFilter())


def acted_on(config: HeldPPOConfig) -> Any:
    return config.env_runners(module_to_env_connector=lambda *_: [])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda config: config.learners(num_learners=2), "num_learners is 2"),
        (many_agents, "several agents"),
        (old_stack, "new API stack only"),
        (filtered, "such as MeanStdFilter"),
        (acted_on, "module_to_env_connector"),
        (
            lambda config: config.learners(learner_class=PPOTorchLearner),
            "learner_class is PPOTorchLearner",
        ),
        (
            lambda config: config.env_runners(env_runner_cls=SingleAgentEnvRunner),
            "env_runner_cls is SingleAgentEnvRunner",
        ),
        (
            lambda config: config.evaluation(
                evaluation_parallel_to_training=True,
                evaluation_num_env_runners=1,
                evaluation_interval=1,
            ),
            "evaluation_parallel_to_training",
        ),
    ],
)
def test_refused_before_anything_starts(change: Callable[[Any], Any], words: str) -> None:
    config = change(ppo())
    with pytest.raises((hr.errors.InvalidArgument, hr.errors.InvalidPolicy), match=words):
        config.validate()


def test_nothing_to_hold() -> None:
    with pytest.raises(hr.errors.InvalidArgument, match="There is nothing to hold"):
        HeldPPOConfig().environment("CartPole-v1").validate()


def test_constraints_are_read_at_once() -> None:
    with pytest.raises(hr.errors.HandrailError, match="no_such_file"):
        HeldPPOConfig().constraints("no_such_file.yaml")
    with pytest.raises(hr.errors.InvalidArgument, match="reach"):
        HeldPPOConfig().constraints(CARTPOLE, reach=-1.0)


def test_a_configuration_survives_as_a_dictionary() -> None:
    """As Tune hands it on."""
    config = ppo()
    again = HeldPPO.get_default_config().update_from_dict(config.to_dict())
    again.validate()
    assert isinstance(again, PPOConfig)
    assert [one.name for one in again.terms.constraints] == ["s0", "s1"]
