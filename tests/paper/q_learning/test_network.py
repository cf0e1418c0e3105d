"""What is written by hand, beside what torch computes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from paper.q_learning.network import Adam, Network

SIZES = (3, 16, 8, 4)


def twin(network: Network) -> torch.nn.Sequential:
    """The same network in torch, whose weights are (outputs, inputs)."""
    layers: list[torch.nn.Module] = []
    start = 0
    for before, after in pairwise(SIZES):
        linear = torch.nn.Linear(before, after)
        part = torch.from_numpy(network.parameters[start : start + (before + 1) * after].copy())
        with torch.no_grad():
            linear.weight.copy_(part[: before * after].reshape(before, after).T)
            linear.bias.copy_(part[before * after :])
        start += (before + 1) * after
        layers += [linear, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def flat(tensors: list[torch.Tensor]) -> np.ndarray:
    """In the order of `Network.parameters`."""
    return np.concatenate([one.detach().numpy().T.ravel() for one in tensors])


@pytest.fixture
def network() -> Network:
    return Network.fresh(SIZES, np.random.default_rng(0))


def test_values_and_gradient_are_torchs(network: Network) -> None:
    rng = np.random.default_rng(1)
    states = rng.normal(size=(5, 3)).astype(np.float32)
    slopes = rng.normal(size=(5, 4)).astype(np.float32)
    torchs = twin(network)
    values = torchs(torch.from_numpy(states))
    np.testing.assert_allclose(network.values(states), values.detach().numpy(), rtol=1e-5)
    np.testing.assert_allclose(network.values(states[2]), values[2].detach().numpy(), rtol=1e-5)
    values.backward(torch.from_numpy(slopes))
    expected = flat([one.grad for one in torchs.parameters() if one.grad is not None])
    found = network.gradient(network.outputs(states), slopes)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_adam_is_torchs(network: Network) -> None:
    parameters = network.parameters.copy()
    torchs = torch.from_numpy(parameters.copy()).requires_grad_()
    theirs = torch.optim.Adam([torchs], lr=0.01)
    ours = Adam(parameters.size)
    rng = np.random.default_rng(2)
    for _ in range(5):
        gradient = rng.normal(size=parameters.size).astype(np.float32)
        torchs.grad = torch.from_numpy(gradient.copy())
        theirs.step()
        ours.descend(parameters, gradient, step_size=0.01)
    np.testing.assert_allclose(parameters, torchs.detach().numpy(), rtol=1e-5, atol=1e-6)
    assert ours.count == 5


def test_fresh_layers_are_as_wide_as_torchs(network: Network) -> None:
    first, second = network.parameters[: 4 * 16], network.parameters[4 * 16 : 4 * 16 + 17 * 8]
    assert 0.9 < np.abs(first).max() * np.sqrt(3) <= 1.0
    assert 0.9 < np.abs(second).max() * np.sqrt(16) <= 1.0


def test_a_copy_stays_as_it_was(network: Network) -> None:
    copy, state = network.copy(), np.ones(3, np.float32)
    before = copy.values(state)
    network.parameters += 1.0  # in place: the network has views of them
    assert not np.allclose(network.values(state), before)
    np.testing.assert_array_equal(copy.values(state), before)
