"""The table of activations: every entry against torch's own."""

from __future__ import annotations

from math import erfc
from typing import Any, get_args

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

import handrail as hr
from handrail.policies import ACTIVATIONS, IDENTITY, Activation
from handrail.policies.layers import Layers, Refusal
from handrail.rulebook import json_schema
from handrail.settings import ActivationName, Network
from tests.conftest import spaces

ALL = [*ACTIVATIONS.values(), IDENTITY]

# Both sides of every kink, and far out; 0 and ±1, where kinks are.
POINTS = np.concatenate([np.linspace(-50.0, 50.0, 20_001), np.linspace(-5.0, 5.0, 20_002)])


def by_name(activation: Activation) -> str:
    return activation.name


def torchs(activation: Activation, points: Any, dtype: torch.dtype) -> tuple[Any, Any]:
    """Value and derivative, by the layer itself and torch's graph."""
    before = torch.tensor(points, dtype=dtype, requires_grad=True)
    after = activation.kind()(before)
    (slope,) = torch.autograd.grad(after.sum(), before)
    return after.detach().numpy(), slope.numpy()


def test_settings_files_and_table_know_the_same_names() -> None:
    assert get_args(ActivationName) == tuple(ACTIVATIONS)
    schema = json_schema()["$defs"]["Network"]["properties"]["activation"]
    assert schema["enum"] == [*ACTIVATIONS]
    assert all(Network(activation=name).activation == name for name in get_args(ActivationName))


@pytest.mark.parametrize("activation", ALL, ids=by_name)
def test_values_are_torchs(activation: Activation) -> None:
    exact, _ = torchs(activation, POINTS, torch.float64)
    found = activation.value(POINTS.copy())
    np.testing.assert_allclose(found, exact, rtol=4e-15, atol=4e-15)
    by_function = activation.function(torch.tensor(POINTS)).numpy()
    np.testing.assert_array_equal(by_function, exact)
    single = POINTS.astype(np.float32)
    expected, _ = torchs(activation, single, torch.float32)
    assert activation.value(single).dtype == np.float32
    np.testing.assert_allclose(activation.value(single), expected, rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize("activation", ALL, ids=by_name)
def test_values_leave_what_they_are_given(activation: Activation) -> None:
    given = POINTS.copy()
    activation.value(given)[:] = 7.0
    np.testing.assert_array_equal(given, POINTS)


@pytest.mark.parametrize("activation", ALL, ids=by_name)
def test_slopes_are_those_of_torchs_graph(activation: Activation) -> None:
    _, slope = torchs(activation, POINTS, torch.float64)
    np.testing.assert_allclose(activation.slopes(POINTS.copy()), slope, rtol=1e-13, atol=2e-14)


@pytest.mark.parametrize("activation", ALL, ids=by_name)
def test_no_slope_is_steeper_than_the_lipschitz_constant(activation: Activation) -> None:
    steepest = np.abs(activation.slopes(POINTS.copy())).max()
    assert 0.999 * activation.lipschitz <= steepest <= activation.lipschitz
    values = activation.value(POINTS.copy())
    order = np.argsort(POINTS)
    rise, run = np.diff(values[order]), np.diff(POINTS[order])
    assert (np.abs(rise) <= activation.lipschitz * run + activation.jump + 1e-13).all()
    assert abs(float(activation.value(np.zeros(1))[0])) == pytest.approx(activation.at_zero, 1e-15)


def test_the_jump_of_softplus() -> None:
    """Torch returns the argument itself beyond 20; the smooth function is above it by the jump."""
    beyond = np.nextafter(20.0, 21.0)
    softplus = ACTIVATIONS["softplus"]
    values = softplus.value(np.array([20.0, beyond]))
    assert values[1] == beyond
    assert 0.999 * softplus.jump <= values[0] - values[1] <= softplus.jump


@pytest.mark.parametrize("activation", ACTIVATIONS.values(), ids=by_name)
def test_the_formula_of_files_is_the_value(activation: Activation) -> None:
    points = np.linspace(-40.0, 40.0, 4001)
    found = eval(activation.formula, {"np": np, "erfc": erfc, "z": points})
    np.testing.assert_allclose(found, activation.value(points), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize(
    "layer",
    [
        nn.ELU(alpha=0.5),
        nn.GELU(approximate="tanh"),
        nn.LeakyReLU(0.2),
        nn.Softplus(beta=2.0),
        nn.Softplus(threshold=5.0),
        nn.Hardtanh(-2.0, 1.0),
        nn.Hardtanh(-1.0, 2.0),
        nn.ReLU6(),  # a subclass of Hardtanh
    ],
    ids=str,
)
def test_other_options_are_never_ignored(layer: nn.Module) -> None:
    module = nn.Sequential(nn.Linear(3, 9), layer, nn.Linear(9, 2)).double()
    read = Layers.of(module)
    assert isinstance(read, Refusal)
    assert read.reason.startswith(f"layer '1', {layer}, ")
    policy = hr.CategoricalPolicy(module)
    states = 3.0 * np.random.default_rng(0).normal(size=(20, 3))
    one_by_one = [policy.probabilities(state) for state in states]
    np.testing.assert_allclose(one_by_one, policy.probabilities(states), rtol=1e-12)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_a_learner_with_any_activation_is_saved_and_loaded(name: str, tmp_path: Any) -> None:
    env = gym.make("CartPole-v1", max_episode_steps=15)
    policy = hr.CategoricalPolicy.mlp(spaces(4, 2), [12, 12], name, seed=2)
    agent = hr.Reinforce(env, policy)
    agent.learn(episodes=1)
    agent.save(tmp_path / "agent.safetensors")
    loaded = hr.Reinforce.load(tmp_path / "agent.safetensors")
    states = np.random.default_rng(0).normal(size=(5, 4))
    np.testing.assert_array_equal(loaded.policy.outputs(states), policy.outputs(states))
    assert type(list(loaded.policy.module.children())[1]) is ACTIVATIONS[name].kind
