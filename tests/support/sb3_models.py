"""Small environments and models of Stable-Baselines3 for the tests."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn

import handrail as hr
from handrail._types import Array


class Pictures(gym.Env[Any, Any]):
    """Random pictures; action 1 pays."""

    def __init__(self, shape: tuple[int, ...] = (36, 36, 1)) -> None:
        self.observation_space = gym.spaces.Box(0, 255, shape, np.uint8)
        self.action_space = gym.spaces.Discrete(3)
        self.steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._look(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self._look(), float(action == 1), self.steps >= 20, False, {}

    def _look(self) -> Any:
        return self.np_random.integers(0, 256, self.observation_space.shape, dtype=np.uint8)


class Numbers(gym.Env[Any, Any]):
    """Random numbers of any shape; any actions; the first number pays."""

    def __init__(
        self,
        shape: tuple[int, ...] = (4,),
        actions: gym.Space[Any] | None = None,
        observations: gym.Space[Any] | None = None,
    ) -> None:
        self.observation_space = observations or gym.spaces.Box(-1.0, 1.0, shape)
        self.action_space = actions or gym.spaces.Discrete(3)
        self.steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self.observation_space.sample(), 1.0, self.steps >= 20, False, {}


class Masked(Numbers):
    """Action 2 is never allowed, and taking it is an error."""

    def action_masks(self) -> Any:
        return np.array([True, True, False])

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert action != 2
        return super().step(action)


class Two(BaseFeaturesExtractor):
    """Two features that are learned."""

    def __init__(self, observation_space: gym.Space[Any]) -> None:
        super().__init__(observation_space, features_dim=2)
        self.linear = nn.Linear(int(np.prod(observation_space.shape or ())), 2)

    def forward(self, observations: Tensor) -> Tensor:
        features: Tensor = torch.tanh(self.linear(observations.flatten(1)))
        return features


def ppo(env: Any = "CartPole-v1", policy: Any = "MlpPolicy", **settings: Any) -> PPO:
    """A small PPO with a fixed seed."""
    settings = {"n_steps": 64, "batch_size": 32, "n_epochs": 2, **settings}
    return PPO(policy, env, seed=0, device="cpu", **settings)


def probabilities(model: BaseAlgorithm, states: Array) -> Array:
    """As Stable-Baselines3 itself computes them, in float32."""
    policy: Any = model.policy
    observations = torch.as_tensor(states, dtype=torch.float32)
    with torch.no_grad():
        result: Array = policy.get_distribution(observations).distribution.probs.double().numpy()
    return result


def values(model: BaseAlgorithm, states: Array) -> Tensor:
    """What the critic says."""
    policy: Any = model.policy
    with torch.no_grad():
        found: Tensor = policy.predict_values(torch.as_tensor(states, dtype=torch.float32))
    return found


def at_least(states: Array, bound: float = 0.9) -> list[hr.Constraint]:
    """One action at each state: 0, 1, 0, 1, …"""
    return [
        hr.AtLeast(bound, number % 2, hr.Points(states[number : number + 1]), name=f"s{number}")
        for number in range(len(states))
    ]


CARTPOLE_STATES = np.array([[0.0, 0.0, -0.15, -0.5], [0.0, 0.0, 0.15, 0.5]])
CARTPOLE = at_least(CARTPOLE_STATES, 0.95)
