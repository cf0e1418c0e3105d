"""Passes in NumPy: the same numbers as torch, where states are few."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from handrail.policies import ACTIVATIONS, CategoricalPolicy, Normaliser, Scaler


def network(activation: type[nn.Module], dtype: torch.dtype = torch.float64) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), activation(), nn.Linear(8, 5), nn.Linear(5, 2)).to(dtype)


STATES = np.random.default_rng(0).normal(size=(7, 3))


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_gradients_are_those_of_torch(name: str) -> None:
    policy = CategoricalPolicy(network(ACTIVATIONS[name].kind))
    weights = np.random.default_rng(1).normal(size=(7, 2, 2))
    in_numpy, layers = policy.in_numpy(), policy.layers()
    assert in_numpy is not None
    assert layers is not None
    expected = layers.passes(torch.as_tensor(STATES), torch.as_tensor(weights))
    for one, other in zip(in_numpy.passes(STATES, weights), expected, strict=True):
        np.testing.assert_allclose(one.inputs, other.inputs.numpy(), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(one.signals, other.signals.numpy(), rtol=1e-12, atol=1e-14)
        assert one.has_bias == other.has_bias


@pytest.mark.parametrize(
    "front",
    [Scaler([2.0, 3.0, 4.0], [0.5, 0.0, -0.5]), Normaliser([1.0, 0.0, 0.0], [2.0, 1.0, 3.0])],
)
def test_what_stands_in_front_is_passed_too(front: nn.Module) -> None:
    module = nn.Sequential(front, network(nn.Tanh)).double()
    policy = CategoricalPolicy(module)
    with torch.no_grad():
        said = module(torch.as_tensor(STATES)).numpy()
    np.testing.assert_allclose(policy.raw(STATES), said, rtol=1e-12)


def test_a_float32_network_is_evaluated_in_float32_and_differentiated_in_float64() -> None:
    policy = CategoricalPolicy(network(nn.Tanh, torch.float32))
    in_numpy = policy.in_numpy()
    assert in_numpy is not None
    raw = in_numpy.raw(STATES)
    np.testing.assert_array_equal(raw, raw.astype(np.float32))
    assert all(
        one.inputs.dtype == np.float64 for one in in_numpy.passes(STATES, np.ones((7, 1, 2)))
    )


def test_many_states_and_other_shapes_are_for_torch() -> None:
    in_numpy = CategoricalPolicy(network(nn.Tanh)).in_numpy()
    assert in_numpy is not None
    assert in_numpy.takes(np.zeros((2048, 3)))
    assert not in_numpy.takes(np.zeros((2049, 3)))
    assert not in_numpy.takes(np.zeros((1025, 3)), functionals=2)
    assert not in_numpy.takes(np.zeros((0, 3)))
    assert not in_numpy.takes(np.zeros((5, 4)))


def test_few_states_are_a_matter_of_one_thread_whoever_says_so() -> None:
    """Products of up to 2**18 multiplications, of which OpenBLAS makes one piece."""
    wide = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 256), nn.Tanh()).double()
    in_numpy = CategoricalPolicy(nn.Sequential(wide, nn.Linear(256, 2).double())).in_numpy()
    assert in_numpy is not None
    assert in_numpy.takes_one_thread(np.zeros((16, 3)))  # 16 * 64 * 256 = 2**18
    assert not in_numpy.takes_one_thread(np.zeros((17, 3)))
    assert in_numpy.takes(np.zeros((17, 3)))
    assert not in_numpy.takes_one_thread(np.zeros((16, 4)))


def test_a_policy_that_is_still_is_looked_at_again_afterwards() -> None:
    module = network(nn.Tanh)
    policy = CategoricalPolicy(module)
    before = policy.raw(STATES)
    with policy.still():
        with torch.no_grad():
            next(module.parameters()).mul_(2.0)  # weights may change
        inside = policy.raw(STATES)
    assert np.abs(inside - before).max() > 1e-3
    module[1] = nn.ReLU()
    with torch.no_grad():
        said = module(torch.as_tensor(STATES)).numpy()
    np.testing.assert_allclose(policy.raw(STATES), said, rtol=1e-12)
