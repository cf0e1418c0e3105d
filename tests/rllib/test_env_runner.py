"""An env runner acts by weights of the learner, or not at all."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import handrail as hr
from handrail.rllib import HeldEnvRunner
from tests.support.rllib_models import CARTPOLE, TOLERANCE, learner, ppo, violation


def test_weights_by_chance_are_held_before_they_act() -> None:
    runner = HeldEnvRunner(config=ppo(), worker_index=1)
    for _ in range(2):
        runner.set_state({"num_env_steps_sampled_lifetime": 0})
        assert violation(runner.module, CARTPOLE) > 0.1
        assert sum(map(len, runner.sample(num_timesteps=4))) == 4
        assert violation(runner.module, CARTPOLE) <= TOLERANCE
        runner.make_module()


def test_weights_of_the_learner_are_left_as_they_are() -> None:
    config = ppo()
    runner = HeldEnvRunner(config=config, worker_index=1)
    state = learner(config).get_state("rl_module", inference_only=True)
    runner.set_state(state)
    runner.sample(num_timesteps=4)
    for name, one in state["rl_module"]["default_policy"].items():
        np.testing.assert_array_equal(runner.module.get_state()[name], one)


def test_the_learner_may_have_gone_back_to_older_ones() -> None:
    runner = HeldEnvRunner(config=ppo(), worker_index=1)
    fresh = {name: value.copy() for name, value in runner.module.get_state().items()}
    older = {"rl_module": fresh, "weights_seq_no": 3}
    runner.set_state({**older, "weights_seq_no": 7})
    runner.make_module()
    runner.take_over(older)
    assert runner._weights_seq_no == 3
    for name, one in fresh.items():
        np.testing.assert_array_equal(runner.module.get_state()[name], one)


def test_observations_that_are_normalised() -> None:
    def normalised(_: Any) -> Any:
        return gym.wrappers.NormalizeObservation(gym.make("CartPole-v1"))

    runner = HeldEnvRunner(config=ppo(normalised), worker_index=1)
    assert runner.refusal.startswith("NormalizeObservation shows the policy other numbers")
    with pytest.raises(hr.errors.InvalidPolicy, match="NormalizeObservation shows the policy"):
        runner.sample(num_timesteps=4)
