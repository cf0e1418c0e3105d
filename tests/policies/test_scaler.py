"""Observations in units in which they vary alike: what the layer says, and what it cures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

import handrail as hr
from handrail.errors import InvalidPolicy
from handrail.policies import Layers, Scaler
from handrail.policies.fused_network import FusedNetwork
from handrail.proof.question import provable_layers
from tests.conftest import spaces

# Pressure in Pa, temperature in K, level in m.
LOW, HIGH = np.array([1.5e5, 280.0, 0.0]), np.array([2.5e5, 320.0, 2.0])
PLANT = Box(LOW, HIGH, dtype=np.float64), Discrete(2)
VALVE = Box(LOW, HIGH, dtype=np.float64), Box(-1.0, 1.0, (1,), dtype=np.float64)
STATES = np.random.default_rng(0).uniform(LOW, HIGH, size=(40, 3))


def scaling_of(policy: hr.Policy) -> Scaler:
    layers = policy.layers()
    assert layers is not None
    assert isinstance(layers.front, Scaler)
    return layers.front


# --- what it is ---------------------------------------------------------------------------------


def test_half_the_ranges_of_the_space() -> None:
    front = scaling_of(hr.CategoricalPolicy.mlp(PLANT, [8], scale="auto"))
    np.testing.assert_allclose(
        front(torch.tensor(np.stack([LOW, HIGH]))).numpy(), [[-1] * 3, [1] * 3]
    )
    narrow = Box(np.array([3.0, -1.0]), np.array([3.0, 1.0]), dtype=np.float64)
    front = scaling_of(hr.CategoricalPolicy.mlp((narrow, Discrete(2)), [8], scale="auto"))
    np.testing.assert_allclose(front(torch.tensor([[3.0, 0.5]]).double()).numpy(), [[0.0, 0.5]])


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"scale": [2e5, 300, 1]}, STATES / [2e5, 300, 1]),
        ({"centre": [2e5, 300, 1]}, STATES - [2e5, 300, 1]),
        ({"scale": [1e5, 20, 1], "centre": [2e5, 300, 1]}, (STATES - [2e5, 300, 1]) / [1e5, 20, 1]),
        ({"scale": "auto", "centre": LOW}, (STATES - LOW) / (0.5 * (HIGH - LOW))),
    ],
)
@pytest.mark.parametrize("hidden", [[16], [8, 8]])
def test_the_network_sees_scaled_numbers(told: Any, expected: Any, hidden: list[int]) -> None:
    scaled = hr.CategoricalPolicy.mlp(PLANT, hidden, seed=3, **told)
    plain = hr.CategoricalPolicy.mlp(PLANT, hidden, seed=3)
    np.testing.assert_allclose(scaled.logits(STATES), plain.logits(expected), rtol=1e-9, atol=1e-11)
    kernel = hr.tangent.tangent_kernel(scaled, STATES[:5])
    np.testing.assert_allclose(kernel, hr.tangent.tangent_kernel(plain, expected[:5]), rtol=1e-8)


def test_observations_of_several_axes() -> None:
    images = Box(0, 255, (4, 5), dtype=np.uint8), Discrete(2)
    policy = hr.CategoricalPolicy.mlp(images, [8], scale="auto", seed=1)
    plain = hr.CategoricalPolicy.mlp(images, [8], seed=1)
    shown = np.random.default_rng(0).integers(0, 256, size=(3, 4, 5))
    np.testing.assert_allclose(policy.logits(shown), plain.logits(shown / 127.5 - 1.0), atol=1e-12)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"scale": [1.0]}, r"positive typical size for each of the 3 observations.*got \[1.0\]"),
        ({"scale": [1.0, 0.0, 1.0]}, "`scale` needs a positive typical size"),
        ({"scale": [1.0, np.inf, 1.0]}, "`scale` needs a positive typical size"),
        ({"scale": "range"}, "or 'auto' for the ranges of the observation space, but got 'range'"),
        ({"scale": ["a", "b", "c"]}, "`scale` needs"),
        ({"centre": [1.0, 2.0]}, "`centre` needs a typical value for each of the 3 observations"),
    ],
)
def test_what_cannot_be_meant(told: Any, message: str) -> None:
    with pytest.raises(InvalidPolicy, match=message):
        hr.CategoricalPolicy.mlp(PLANT, [8], **told)


@pytest.mark.parametrize("endless", [np.inf, np.finfo(np.float32).max])
def test_ranges_without_an_end_are_named(endless: float) -> None:
    high = np.array([1.0, endless, 2.0, endless])
    observations = Box(-high, high, dtype=np.float64)
    with pytest.raises(InvalidPolicy, match=r"of observation 1, 3 it has no finite one. Say typic"):
        hr.GaussianPolicy.mlp((observations, VALVE[1]), [8], scale="auto")


# --- every way through it -----------------------------------------------------------------------


def test_compiled_and_plain_passes_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = hr.CategoricalPolicy.mlp(PLANT, [300], seed=2, scale="auto")
    assert compiled.fused() is not None
    monkeypatch.setattr(FusedNetwork, "of", classmethod(lambda *_: None))
    by_torch = hr.CategoricalPolicy.mlp(PLANT, [300], seed=2, scale="auto")
    assert by_torch.fused() is None
    np.testing.assert_allclose(compiled.logits(STATES), by_torch.logits(STATES), atol=1e-13)
    batch = hr.Batch(STATES, np.arange(40) % 2, np.linspace(-1.0, 2.0, 40))
    ours, theirs = (
        hr.tangent.policy_gradient(one, batch).direction for one in (compiled, by_torch)
    )
    for part, other in zip(ours.parts, theirs.parts, strict=True):
        torch.testing.assert_close(part, other, rtol=1e-9, atol=1e-12)
    for one in (compiled, by_torch):
        changes = hr.tangent.predict_change(one, batch, STATES, 1e-3)
        np.testing.assert_allclose(
            changes, hr.tangent.predict_change(by_torch, batch, STATES, 1e-3), atol=1e-12
        )
    draws = [
        [one.act(state, np.random.default_rng(k)) for k, state in enumerate(STATES)]
        for one in (compiled, by_torch)
    ]
    assert draws[0] == draws[1]


def test_what_boxes_change_by_is_bounded() -> None:
    policy = hr.CategoricalPolicy.mlp(PLANT, [50], seed=2, scale="auto")
    network = policy.fused()
    assert network is not None
    before, old = network.copy(), policy.logits(STATES)
    with torch.no_grad():
        for parameter in policy.parameters:
            parameter.add_(0.01 * torch.randn(parameter.shape, dtype=torch.float64))
    changed = policy.logits(STATES) @ [1.0, -1.0] - old @ [1.0, -1.0]
    for low, high in ((LOW, HIGH), (STATES.min(axis=0), STATES.max(axis=0))):
        least, most = network.changes_since(before, np.array([1.0, -1.0]), low[None], high[None])[0]
        assert least <= changed.min() <= changed.max() <= most


@pytest.mark.parametrize("hidden", [[12], [6, 6]])
def test_gradients_are_those_of_finite_differences(hidden: list[int]) -> None:
    policy = hr.GaussianPolicy.mlp(VALVE, hidden, "tanh", seed=1, scale="auto")
    batch = hr.Batch(STATES, np.zeros((40, 1)), np.linspace(-1.0, 2.0, 40))
    gradient = hr.tangent.policy_gradient(policy, batch)
    for parameter, part in zip(policy.parameters, gradient.direction.parts, strict=True):
        index = tuple(size // 2 for size in parameter.shape)
        losses = []
        for step in (1e-6, -1e-6):
            with torch.no_grad():
                parameter[index] += step
            losses.append(hr.tangent.policy_gradient(policy, batch).loss)
            with torch.no_grad():
                parameter[index] -= step
        assert part[index].item() == pytest.approx(
            (losses[1] - losses[0]) / 2e-6, rel=1e-5, abs=1e-6
        )


def test_numbers_that_change_are_noticed() -> None:
    policy = hr.CategoricalPolicy.mlp(PLANT, [30], seed=2, scale="auto")
    policy.logits(STATES)
    front = scaling_of(policy)
    front.factor = 2.0 * front.factor
    with torch.no_grad():
        expected = policy.module(torch.tensor(STATES)).numpy()
    np.testing.assert_allclose(policy.logits(STATES), expected, atol=1e-12)
    front.factor.mul_(0.5)
    with torch.no_grad():
        expected = policy.module(torch.tensor(STATES)).numpy()
    np.testing.assert_allclose(policy.logits(STATES), expected, atol=1e-12)
    np.testing.assert_allclose(policy.probabilities(STATES[0]), policy.probabilities(STATES)[0])


def test_a_float32_network_stays_one() -> None:
    policy = hr.CategoricalPolicy.mlp(PLANT, [30], seed=2, scale="auto", dtype=torch.float32)
    assert policy.dtype == scaling_of(policy).factor.dtype == torch.float32
    exact = policy.in_float64(STATES)
    assert scaling_of(exact).factor.dtype == torch.float64
    np.testing.assert_allclose(exact.logits(STATES), policy.logits(STATES), atol=1e-5)


# --- what it is for -----------------------------------------------------------------------------


def asked(action: Any, low: float, high: float) -> list[hr.Constraint]:
    """Opposite things at levels that differ by 0.4 m, beside pressures of 180,000 Pa."""
    below = hr.Box([1.6e5, 285.0, 0.1], [1.8e5, 300.0, 0.8])
    above = hr.Box([1.6e5, 285.0, 1.2], [1.8e5, 300.0, 1.9])
    return [
        hr.AtLeast(high, action, below, name="open when low"),
        hr.AtMost(low, action, above, name="closed when high"),
    ]


@pytest.mark.parametrize("scale", ["auto", [2e5, 300.0, 1.0]])
def test_pascal_kelvin_metre_is_held_and_proven(scale: Any) -> None:
    valve = hr.GaussianPolicy.mlp(VALVE, [256], seed=0, scale=scale)
    result = hr.enforce(valve, asked(hr.Mean(0), -0.5, 0.5), prove=True)
    assert result.satisfied
    assert all(one.certified for one in result.certificates)
    assert len(result.certificates) == 2
    switch = hr.CategoricalPolicy.mlp(PLANT, [256], seed=0, scale="auto")
    assert hr.enforce(switch, asked(1, 0.1, 0.9), prove=True).satisfied


def test_without_it_such_states_are_the_same_to_the_network() -> None:
    valve = hr.GaussianPolicy.mlp(VALVE, [256], seed=0)
    result = hr.enforce(valve, asked(hr.Mean(0), -0.5, 0.5))
    assert not result.satisfied


def test_a_proof_is_of_the_very_same_function() -> None:
    policy = hr.GaussianPolicy.mlp(VALVE, [64], "relu", seed=4, scale="auto")
    assert isinstance(Layers.of(policy.module), Layers)
    np.testing.assert_allclose(
        provable_layers(policy).outputs(STATES), policy.mean(STATES), atol=1e-12
    )
    region = hr.Box(LOW, HIGH)
    values = policy.mean(region.sample(20_000, np.random.default_rng(0)))
    low, high = float(values.min()), float(values.max())
    answer = hr.certify(policy, hr.Between(low - 0.01, high + 0.01, hr.Mean(0), region))
    assert answer.certified
    assert answer.method == "vertex bound"
    assert hr.certify(policy, hr.AtLeast(low + 0.01, hr.Mean(0), region)).state is not None


# --- files --------------------------------------------------------------------------------------


def test_exported_files_scale_as_well(tmp_path: Path) -> None:
    policy = hr.GaussianPolicy.mlp(VALVE, [32], "tanh", seed=4, scale="auto")
    held = asked(hr.Mean(0), -0.5, 0.5)
    hr.enforce(policy, held).raise_if_unsatisfied()
    assert hr.export_numpy(policy, tmp_path / "valve.npz", held).largest_difference <= 1e-12
    assert hr.export_onnx(policy, tmp_path / "valve.onnx", held).largest_difference <= 1e-12


def test_a_saved_learner_goes_on_with_its_scaling(tmp_path: Path) -> None:
    env = gym.make("MountainCar-v0", max_episode_steps=20)
    policy = hr.CategoricalPolicy.mlp(env, [20], seed=1, scale="auto")
    agent = hr.Reinforce(env, policy, seed=1)
    agent.learn(episodes=2)
    agent.save(tmp_path / "agent.safetensors")
    loaded = hr.Reinforce.load(tmp_path / "agent.safetensors", env)
    states = np.random.default_rng(0).uniform([-1.2, -0.07], [0.6, 0.07], size=(9, 2))
    assert (loaded.policy.outputs(states) == agent.policy.outputs(states)).all()
    assert torch.equal(scaling_of(loaded.policy).factor, scaling_of(policy).factor)
    for one in (agent, loaded):
        one.learn(episodes=2)
    assert (loaded.policy.outputs(states) == agent.policy.outputs(states)).all()


def test_a_file_of_before_scaling_was_a_layer(tmp_path: Path) -> None:
    """Its network has none, and goes on without."""
    env = gym.make("CartPole-v1")
    agent = hr.Reinforce(env, hr.CategoricalPolicy.mlp(spaces(4, 2), [20]), seed=1)
    agent.save(tmp_path / "agent.safetensors")
    layers = hr.Reinforce.load(tmp_path / "agent.safetensors", env).policy.layers()
    assert layers is not None
    assert layers.front is None
