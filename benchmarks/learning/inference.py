"""One observation through the policy, next to a step of the environment and to plain torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch.distributions import Categorical

import handrail as hr
from benchmarks.harness import take_turns, torch_threads
from benchmarks.plan import Plan

ENVIRONMENTS = ("CartPole-v1", "LunarLander-v3")
# Calls per turn: with actions 0 and 1 in turns, no episode ends in fewer than 20 steps.
_CALLS = 15


@final
@dataclass(frozen=True)
class InferenceResults:
    """One environment: seconds of one call (medians), and the ratios."""

    environment: str
    act_seconds: float
    environment_seconds: float
    torch_seconds: float
    act_over_environment: float
    torch_over_act: float


def measure_inference(plan: Plan) -> list[InferenceResults]:
    """Time `policy.actor`, `env.step`, and torch module + Categorical.sample, one thread."""
    return [_measure(plan, environment) for environment in ENVIRONMENTS]


def _measure(plan: Plan, environment: str) -> InferenceResults:
    env = gym.make(environment)
    policy = hr.CategoricalPolicy.mlp(env, hidden=[plan.width])
    observation, _ = env.reset(seed=0)
    tasks = {
        "act": _acting(policy, observation),
        "environment": _stepping(env),
        "torch": _sampling(policy, observation),
    }
    with torch_threads(1):
        timings = take_turns(
            tasks, plan.inference_rounds, prepare=lambda: env.reset(seed=0), warm_up=5
        )
    return InferenceResults(
        environment=environment,
        act_seconds=timings.median("act") / _CALLS,
        environment_seconds=timings.median("environment") / _CALLS,
        torch_seconds=timings.median("torch") / _CALLS,
        act_over_environment=timings.ratio("act", "environment"),
        torch_over_act=timings.ratio("torch", "act"),
    )


def _acting(policy: hr.CategoricalPolicy, observation: NDArray[Any]) -> Callable[[], None]:
    act = policy.actor(np.random.default_rng(0))  # as collecting does: once per episode
    state = observation.astype(np.float64)

    def run() -> None:
        for _ in range(_CALLS):
            act(state)

    return run


def _stepping(env: gym.Env[Any, Any]) -> Callable[[], None]:
    def run() -> None:
        for step in range(_CALLS):
            env.step(step % 2)

    return run


def _sampling(policy: hr.CategoricalPolicy, observation: NDArray[Any]) -> Callable[[], None]:
    def run() -> None:
        with torch.no_grad():
            for _ in range(_CALLS):
                inputs = torch.as_tensor(observation, dtype=torch.float64)
                Categorical(logits=policy.module(inputs)).sample().item()

    return run
