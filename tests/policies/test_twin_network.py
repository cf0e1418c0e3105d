"""Two networks of the same layers as one, and lines around what they differ by."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch

import handrail as hr
from handrail._types import Array
from handrail.policies import ACTIVATIONS, LayerArrays, TwinNetwork
from handrail.policies.activation import twinned
from handrail.proof import provable_layers
from handrail.proof.relaxation import lines_between
from handrail.proof.slope_range import slope_range

SPACES = (gym.spaces.Box(-1, 1, (3,)), gym.spaces.Discrete(2))


def layers(hidden: list[int], activation: str, seed: int = 0, moved: float = 0.0) -> LayerArrays:
    policy = hr.CategoricalPolicy.mlp(SPACES, hidden, activation, seed=seed)
    noise = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for one in policy.parameters:
            one.add_(moved * torch.randn(one.shape, generator=noise, dtype=one.dtype))
    return provable_layers(policy)


def states() -> Array:
    return np.random.default_rng(0).normal(size=(40, 3))


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("hidden", [[7], [5, 6], [4, 4, 4]])
def test_outputs_are_those_of_both(hidden: list[int], activation: str) -> None:
    first, second = layers(hidden, activation), layers(hidden, activation, moved=0.1)
    twin = TwinNetwork.of(first, second)
    assert twin is not None
    expected = np.concatenate([first.outputs(states()), second.outputs(states())], axis=1)
    np.testing.assert_allclose(twin.layers.outputs(states()), expected, atol=1e-13)
    for one, size in zip(twin.layers.weights, twin.sizes.weights, strict=True):
        assert (np.abs(one) <= size).all()


def test_of_other_layers_there_is_none() -> None:
    plain = layers([7], "relu")
    for other in (layers([8], "relu"), layers([7], "tanh"), layers([7, 7], "relu")):
        assert TwinNetwork.of(plain, other) is None
    assert TwinNetwork.of(layers([], "relu"), layers([], "relu")) is None


@pytest.mark.parametrize("activation", ACTIVATIONS.values(), ids=lambda one: one.name)
def test_slopes_and_lines_are_around_all_differences(activation: hr.policies.Activation) -> None:
    rng = np.random.default_rng(0)
    n = 4000
    low = rng.normal(scale=2.5, size=(n, 1))
    high = low + 10.0 ** rng.uniform(-6.0, 0.7, size=(n, 1))
    less = rng.normal(size=(n, 1)) * 10.0 ** rng.uniform(-6.0, 0.5, size=(n, 1))
    more = less + 10.0 ** rng.uniform(-6.0, 0.5, size=(n, 1))
    least, most = slope_range(activation, low, high)
    lines = lines_between(
        twinned(activation), np.concatenate([low, less], 1), np.concatenate([high, more], 1)
    )
    for share in (0.0, 0.2, 0.5, 0.9, 1.0):
        for part in (0.0, 0.3, 0.5, 0.8, 1.0):
            h = low + share * (high - low)
            d = less + part * (more - less)
            inside = low + part * (high - low)
            chord = activation.value(inside) - activation.value(h)
            assert (chord <= np.maximum(least * (inside - h), most * (inside - h)) + 1e-8).all()
            assert (chord >= np.minimum(least * (inside - h), most * (inside - h)) - 1e-8).all()
            gap = activation.value(h + d) - activation.value(h)
            upper = lines.upper_slope[:, 1:] * d + lines.upper_offset[:, 1:]
            lower = lines.lower_slope[:, 1:] * d + lines.lower_offset[:, 1:]
            jump = 2.0 * activation.jump
            assert (gap <= upper + 1e-14 + jump).all()
            assert (gap >= lower - 1e-14 - jump).all()
