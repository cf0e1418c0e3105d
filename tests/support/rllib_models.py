"""Small configurations of RLlib for the tests, and env runners that measure what they act by."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

import handrail as hr
from handrail.rllib import HeldPPOConfig, HeldPPOLearner, policy_of
from handrail.rulebook import constraints_of

STATES = np.array([[0.0, 0.0, -0.15, -0.5], [0.0, 0.0, 0.15, 0.5]])
CARTPOLE: list[hr.Constraint] = [
    hr.AtLeast(0.95, number, hr.Points(STATES[number : number + 1]), name=f"s{number}")
    for number in (0, 1)
]
TILTED = hr.AtLeast(0.9, 1, hr.Box([-0.5, -0.5, 0.1, 0.3], [0.5, 0.5, 0.2, 0.6]), name="tilted")
TOLERANCE = 1e-5

ACTING, MEASURED = "acting_violation", "acting_measured"


def ppo(env: Any = "CartPole-v1", constraints: Any = CARTPOLE, **settings: Any) -> HeldPPOConfig:
    """PPO in this process, with steps so large that updates break constraints."""
    settings = {"lr": 3e-3, "num_epochs": 4, "minibatch_size": 64, **settings}
    config = HeldPPOConfig().constraints(constraints)
    config.environment(env).env_runners(num_env_runners=0).debugging(seed=0)
    config.training(train_batch_size_per_learner=128, **settings)
    return config


def learner(config: HeldPPOConfig, env: str = "CartPole-v1") -> HeldPPOLearner:
    """The learner alone."""
    made = config.build_learner(env=gym.make(env))
    assert isinstance(made, HeldPPOLearner)
    return made


def violation(module: Any, constraints: Any) -> float:
    """The worst of a module, positive means broken; regions on a sample."""
    return hr.measure(policy_of(module), constraints_of(constraints)).worst_violation


def measure_acting(env_runner: Any, metrics_logger: Any, **_: Any) -> None:
    """Called by an env runner behind every step: the worst violation of the module it acts by."""
    found = violation(env_runner.module, env_runner.config.terms.constraints)
    metrics_logger.log_value(ACTING, found, reduce="max")
    metrics_logger.log_value(MEASURED, 1, reduce="sum")
