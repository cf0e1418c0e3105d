"""Two networks as one compute what each computes by itself."""

from __future__ import annotations

from itertools import product

import gymnasium as gym
import numpy as np
import pytest

import handrail as hr
from handrail._types import Array
from handrail.policies import RELU, LayerArrays, SideBySide, joined, mirrored
from handrail.proof import provable_layers
from handrail.proof.relaxation import has_lines, lines_between

SHAPES = [([], "relu"), ([7], "relu"), ([5], "tanh"), ([4, 6], "gelu"), ([3, 3, 3], "relu")]


def layers(hidden: list[int], activation: str, seed: int = 0) -> LayerArrays:
    spaces = (gym.spaces.Box(-1, 1, (3,)), gym.spaces.Discrete(2))
    return provable_layers(hr.CategoricalPolicy.mlp(spaces, hidden, activation, seed=seed))


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
