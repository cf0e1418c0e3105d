"""Shared by the tests: the authors' own numbers, and small policies."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from hypothesis import settings
from torch import nn

import handrail as hr
from handrail._types import Array
from tests.support.paths import GOLDEN

# With the other core busy, small two-thread operations wait for each other.
torch.set_num_threads(1)

# No test depends on luck: the same examples every time.
settings.register_profile("fixed", derandomize=True, database=None)
settings.load_profile("fixed")


@dataclass(frozen=True)
class Golden:
    """Numbers computed with the implementation of the paper's authors."""

    data: dict[str, Any]
    policy: hr.CategoricalPolicy

    def __getitem__(self, key: str) -> Array:
        return np.asarray(self.data[key])

    @property
    def step_size(self) -> float:
        return float(self.data["step_size"])

    @property
    def batch(self) -> hr.Batch:
        return hr.Batch(self["states"], self["actions"], self["normalised_returns"])

    def constraints(self, kind: type[hr.AtLeast] | type[hr.Equal]) -> list[hr.Constraint]:
        pairs = zip(self["constrained_states"], self["constrained_actions"], strict=True)
        bound = self.data["threshold"]
        return [
            kind(bound, int(action), hr.Points(state), name=f"s{i + 1}")
            for i, (state, action) in enumerate(pairs)
        ]


@pytest.fixture(params=["cartpole_width64", "lander_width48"])
def golden(request: pytest.FixtureRequest) -> Golden:
    data = json.loads((GOLDEN / f"{request.param}.json").read_text())
    weights = [
        torch.tensor(data[key], dtype=torch.float64)
        for key in ("hidden_weight", "hidden_bias", "output_weight", "output_bias")
    ]
    (width, n_observations), (n_actions, _) = weights[0].shape, weights[2].shape
    module = nn.Sequential(
        nn.Linear(n_observations, width), nn.ReLU(), nn.Linear(width, n_actions)
    ).double()
    with torch.no_grad():
        for parameter, weight in zip(module.parameters(), weights, strict=True):
            parameter.copy_(weight)
    return Golden(data, hr.CategoricalPolicy(module))


def spaces(n_observations: int, n_actions: int) -> tuple[gym.spaces.Box, gym.spaces.Discrete[Any]]:
    return gym.spaces.Box(-1.0, 1.0, (n_observations,)), gym.spaces.Discrete(n_actions)


def small_policy(
    n_observations: int = 3, n_actions: int = 3, seed: int = 0, sharpness: float = 1.0
) -> hr.CategoricalPolicy:
    policy = hr.CategoricalPolicy.mlp(spaces(n_observations, n_actions), hidden=[32], seed=seed)
    sharpen(policy, sharpness)
    return policy


def sharpen(policy: hr.CategoricalPolicy, factor: float) -> None:
    """Multiply the output weights: larger ones make the policy surer of itself."""
    last = list(policy.module.children())[-1]
    assert isinstance(last, nn.Linear)
    with torch.no_grad():
        last.weight.mul_(factor)
