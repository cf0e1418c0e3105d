"""Two networks as one compute what each computes by itself."""

from __future__ import annotations

from itertools import product

import gymnasium as gym
import numpy as np
import pytest
import torch

import handrail as hr
from handrail._types import Array
from handrail.policies import (
    ACTIVATIONS,
    RELU,
    LayerArrays,
    SideBySide,
    TwinNetwork,
    joined,
    mirrored,
)
from handrail.policies.activation import twinned
from handrail.proof import provable_layers
from handrail.proof.relaxation import has_lines, lines_between
from handrail.proof.slope_range import slope_range

SHAPES = [([], "relu"), ([7], "relu"), ([5], "tanh"), ([4, 6], "gelu"), ([3, 3, 3], "relu")]


SPACES = (gym.spaces.Box(-1, 1, (3,)), gym.spaces.Discrete(2))


def layers(hidden: list[int], activation: str, seed: int = 0, moved: float = 0.0) -> LayerArrays:
    policy = hr.CategoricalPolicy.mlp(SPACES, hidden, activation, seed=seed)
    noise = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for one in policy.parameters:
            one.add_(moved * torch.randn(one.shape, generator=noise, dtype=one.dtype))
    return provable_layers(policy)


def states(n: int = 20) -> Array:
    return np.random.default_rng(0).normal(size=(n, 3))


@pytest.mark.parametrize(("one", "other"), list(product(SHAPES, SHAPES)), ids=str)
def test_outputs_are_those_of_both(
    one: tuple[list[int], str], other: tuple[list[int], str]
) -> None:
    first, second = layers(*one), layers(*other, seed=1)
    both = joined(first, second)
    expected = np.concatenate([first.outputs(states()), second.outputs(states())], axis=1)
    np.testing.assert_allclose(both.outputs(states()), expected, atol=1e-14)
    assert len(both.weights) == max(len(first.weights), len(second.weights))
    assert all(map(has_lines, both.activations))


def test_what_is_the_same_stays_what_it_is() -> None:
    both = joined(layers([7], "relu"), layers([9], "relu", seed=1))
    assert both.activations[0] is RELU
    assert [one.shape for one in both.weights] == [(16, 3), (4, 16)]


@pytest.mark.parametrize(
    "matrix",
    [
        np.diag([-1.0, 1.0, -1.0]),
        np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]),
        np.random.default_rng(0).normal(size=(3, 3)),
    ],
)
def test_a_mirrored_network_sees_the_image(matrix: Array) -> None:
    plain = layers([6], "tanh")
    image = mirrored(plain, matrix)
    np.testing.assert_allclose(
        image.outputs(states()), plain.outputs(states() @ matrix.T), atol=1e-14
    )
    exact = np.isin(matrix, (-1.0, 0.0, 1.0)).all()
    assert len(image.weights) == (2 if exact else 3)  # only what rounds is a layer of its own


def test_lines_side_by_side_are_around_both() -> None:
    both = joined(layers([5], "tanh"), layers([4, 4], "relu"))
    activation = both.activations[0]
    assert isinstance(activation.shape, SideBySide)
    rng = np.random.default_rng(0)
    low = rng.normal(size=(50, 9))
    high = low + rng.random((50, 9))
    lines = lines_between(activation, low, high)
    for share in np.linspace(0.0, 1.0, 11):
        at = low + share * (high - low)
        value = activation.value(at)
        assert (lines.lower_slope * at + lines.lower_offset <= value + 1e-14).all()
        assert (lines.upper_slope * at + lines.upper_offset >= value - 1e-14).all()


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("hidden", [[7], [5, 6], [4, 4, 4]])
def test_outputs_of_twins_are_those_of_both(hidden: list[int], activation: str) -> None:
    first, second = layers(hidden, activation), layers(hidden, activation, moved=0.1)
    twin = TwinNetwork.of(first, second)
    assert twin is not None
    expected = np.concatenate([first.outputs(states()), second.outputs(states())], axis=1)
    np.testing.assert_allclose(twin.layers.outputs(states()), expected, atol=1e-13)
    for one, size in zip(twin.layers.weights, twin.sizes.weights, strict=True):
        assert (np.abs(one) <= size).all()


def test_of_other_layers_there_are_no_twins() -> None:
    plain = layers([7], "relu")
    for other in (layers([8], "relu"), layers([7], "tanh"), layers([7, 7], "relu")):
        assert TwinNetwork.of(plain, other) is None
    assert TwinNetwork.of(layers([], "relu"), layers([], "relu")) is None


@pytest.mark.parametrize("activation", ACTIVATIONS.values(), ids=lambda one: one.name)
def test_slopes_and_lines_are_around_all_differences(
    activation: hr.policies.Activation,
) -> None:
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
