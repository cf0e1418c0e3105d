"""Normalised observations as a layer: every way through it, and what is proven of the whole."""

from __future__ import annotations

import copy
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn

import handrail as hr
from handrail._types import Array
from handrail.errors import InvalidPolicy
from handrail.policies import Architecture, Layers, Normaliser, Policy, Refusal, normaliser_in
from handrail.policies.fused_network import FusedNetwork
from handrail.proof.certificate_file import weights_hash

# A temperature in K that hardly varies beside an angle that does.
MEAN, SIZE = np.array([300.0, 0.1]), np.array([30.0, 0.2])
LOW, HIGH = MEAN - 4.0 * SIZE, MEAN + 4.0 * SIZE
SPACES = Box(LOW, HIGH, dtype=np.float64), Discrete(3)
STATES = np.random.default_rng(0).uniform(LOW, HIGH, size=(60, 2))
LIMITS = [np.inf, 1.5]


def by_hand(states: Array, limit: float) -> Array:
    seen: Array = np.clip((states - MEAN) / SIZE, -limit, limit)
    return seen


def inner(hidden: list[int], dtype: torch.dtype = torch.float64, activation: str = "relu") -> Any:
    policy = hr.CategoricalPolicy.mlp(SPACES, hidden, seed=3, dtype=dtype, activation=activation)
    with torch.no_grad():  # outputs that vary
        for parameter in policy.parameters:
            parameter.mul_(3.0)
    return policy


def normalised(policy: Policy, limit: float) -> Policy:
    front = Normaliser(MEAN, SIZE, limit, policy.dtype)
    return policy.with_module(nn.Sequential(front, *policy.module.children()))


# --- every way through it -----------------------------------------------------------------------


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("hidden", [[16], [8, 8]])
def test_the_network_sees_normalised_numbers(limit: float, hidden: list[int]) -> None:
    plain = inner(hidden)
    policy, seen = normalised(plain, limit), by_hand(STATES, limit)
    expected = plain.logits(seen)
    assert (np.abs(seen) == limit).any() == np.isfinite(limit)
    np.testing.assert_allclose(policy.raw(STATES), expected, atol=1e-12)
    with torch.no_grad():
        by_torch = policy.module(torch.tensor(STATES)).numpy()
    np.testing.assert_allclose(by_torch, expected, atol=1e-12)
    one_by_one = np.stack([policy._raw_of_one(state) for state in STATES])
    np.testing.assert_allclose(one_by_one, expected, atol=1e-12)
    layers = policy.layers()
    assert layers is not None
    np.testing.assert_allclose(layers.arrays().outputs(STATES), expected, atol=1e-8)
    kernel = hr.tangent.tangent_kernel(policy, STATES[:5])
    np.testing.assert_allclose(kernel, hr.tangent.tangent_kernel(plain, seen[:5]), rtol=1e-9)


def test_compiled_passes_agree() -> None:
    policy = normalised(inner([300]), 1.5)
    assert policy.fused() is not None
    by_torch = normalised(inner([300]), 1.5)
    by_torch._fused = None
    batch = hr.Batch(STATES, np.arange(60) % 3, np.linspace(-1.0, 2.0, 60))
    ours, theirs = (hr.tangent.policy_gradient(one, batch).direction for one in (policy, by_torch))
    for part, other in zip(ours.parts, theirs.parts, strict=True):
        torch.testing.assert_close(part, other, rtol=1e-9, atol=1e-12)


def test_in_float32_the_mean_keeps_its_digits() -> None:
    """Of 200,000 Pa, float32 knows 0.016 Pa: 0.0005 of a size of 30 Pa."""
    plain = inner([8, 8], torch.float32, "tanh")
    mean = np.array([2e5, 0.1])
    policy = plain.with_module(
        nn.Sequential(Normaliser(mean, SIZE, 10.0, torch.float32), *plain.module.children())
    )
    states = mean + SIZE * np.array([[0.123456, -0.5], [1.0001, 0.25]])
    expected = plain.logits((states - mean) / SIZE)
    assert policy.raw(states).tolist() == expected.tolist()
    one_by_one = np.stack([policy._raw_of_one(state) for state in states])
    np.testing.assert_allclose(one_by_one, expected, atol=1e-6)
    exact = policy.in_float64(states)
    assert exact.dtype == torch.float64
    np.testing.assert_allclose(exact.raw(states), expected, atol=1e-5)


def test_copies_keep_the_statistics_in_float64() -> None:
    front = Normaliser(MEAN + 0.1, SIZE, 5.0, torch.float32)
    for copied in (copy.deepcopy(front).float(), copy.deepcopy(front).double(), front):
        assert copied.mean.tolist() == (MEAN + 0.1).tolist()
        assert copied.size.tolist() == SIZE.tolist()
    assert copy.deepcopy(front).double()(torch.tensor(STATES)).dtype == torch.float64
    assert front.double()(torch.tensor(STATES)).dtype == torch.float64
    assert front.float()(torch.tensor(STATES)).dtype == torch.float32


# --- other statistics ---------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", [[16], [8, 8]])
def test_new_statistics_are_seen_by_every_pass(hidden: list[int]) -> None:
    plain = inner(hidden)
    policy = normalised(plain, 2.0)
    policy.raw(STATES)
    front = normaliser_in(policy.module)
    assert front is not None
    before = weights_hash(policy)
    front.set(MEAN + SIZE, 2.0 * SIZE, 2.0)
    expected = plain.logits(np.clip((STATES - MEAN - SIZE) / (2.0 * SIZE), -2.0, 2.0))
    np.testing.assert_allclose(policy.raw(STATES), expected, atol=1e-12)
    np.testing.assert_allclose(policy._raw_of_one(STATES[0]), expected[0], atol=1e-12)
    assert weights_hash(policy) != before
    front.set(MEAN, SIZE, 3.0)
    assert weights_hash(policy) != before
    front.set(MEAN, SIZE, 2.0)
    assert weights_hash(policy) == before


def test_what_was_known_of_other_statistics_is_forgotten() -> None:
    """Of a compiled network, bounds follow its weights from update to update: not through this."""
    policy = normalised(inner([16]), 2.0)
    first = policy.fused()
    assert isinstance(first, FusedNetwork)
    then, front = first.copy(), normaliser_in(policy.module)
    assert front is not None
    assert first.has_shape_of(then)
    front.set(MEAN + SIZE, SIZE, 2.0)
    second = policy.fused()
    assert second is not None
    assert not second.has_shape_of(then)


@pytest.mark.parametrize(
    ("mean", "size", "limit"),
    [
        ([0.0, np.nan], [1.0, 1.0], 1.0),
        ([0.0, 0.0], [1.0, 0.0], 1.0),
        ([0.0], [1.0, 1.0], 1.0),
        ([0.0, 0.0], [1.0, 1.0], 0.0),
    ],
)
def test_what_cannot_be_meant(mean: Any, size: Any, limit: float) -> None:
    with pytest.raises(InvalidPolicy, match="need a finite mean and a positive size each, and a p"):
        Normaliser(mean, size, limit)


def test_where_it_stands() -> None:
    front = Normaliser(MEAN, SIZE)
    for layers, reason in (
        ([nn.Linear(2, 2), front], "is not in front of all others"),
        ([front, Normaliser(MEAN, SIZE), nn.Linear(2, 2)], "is not in front of all others"),
        ([front, nn.Linear(3, 2)], "does not fit 2 scaled observations"),
        ([front, nn.Linear(2, 2).double()], "has another precision or device"),
    ):
        read = Layers.of(nn.Sequential(*layers))
        assert isinstance(read, Refusal)
        assert reason in read.reason
    assert Architecture.of(nn.Sequential(front, nn.Linear(2, 2))) is None


# --- what is proven -----------------------------------------------------------------------------


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("hidden", [[16], [8, 8]])
def test_bounds_of_a_box_are_those_of_a_grid(
    limit: float, dtype: torch.dtype, hidden: list[int]
) -> None:
    """The box reaches from inside the limit to far outside."""
    policy = normalised(inner(hidden, dtype, "relu"), limit)
    low, high = MEAN - [0.5, 2.0] * SIZE, MEAN + [3.0, 1.0] * SIZE
    axes = [np.linspace(a, b, 161) for a, b in zip(low, high, strict=True)]
    worst = policy.outputs(np.array(list(product(*axes))))[:, 1].min()
    where = hr.Box(low, high)
    holds = hr.certify(policy, hr.AtLeast(0.9 * worst, 1, where))
    assert holds.certified, holds
    broken = hr.certify(policy, hr.AtLeast(1.01 * worst, 1, where))
    assert broken.state is not None
    counterexample = np.array(broken.state)
    assert (low <= counterexample).all()
    assert (counterexample <= high).all()
    assert policy.outputs(counterexample[None])[0, 1] < 1.01 * worst


@pytest.mark.parametrize("limit", LIMITS)
def test_a_region_is_held_and_proven_in_raw_numbers(limit: float) -> None:
    policy = normalised(inner([8, 8], torch.float32, "tanh"), limit)
    where = hr.Box(MEAN - SIZE, MEAN + 2.0 * SIZE)
    constraint = hr.AtLeast(0.6, 2, where)
    hr.enforce(policy, [constraint], prove=True).raise_if_unsatisfied()
    states = np.random.default_rng(1).uniform(MEAN - SIZE, MEAN + 2.0 * SIZE, size=(4000, 2))
    assert policy.outputs(states)[:, 2].min() >= 0.6
    assert hr.certify(policy, constraint).certified


@pytest.mark.parametrize("limit", LIMITS)
def test_slopes_are_those_over_raw_numbers(limit: float) -> None:
    """Per raw unit: by the size of an observation smaller than per normalised one."""
    spaces = SPACES[0], Box(-1.0, 1.0, (1,), dtype=np.float64)
    policy = normalised(hr.GaussianPolicy.mlp(spaces, [12], seed=0, activation="tanh"), limit)
    axis = np.linspace(MEAN[1] - SIZE[1], MEAN[1] + SIZE[1], 4001)
    means = policy.outputs(np.stack([np.full(4001, MEAN[0]), axis], axis=1))[:, 0]
    steepest = np.abs(np.diff(means) / np.diff(axis)).max()
    where = hr.Box([MEAN[0], MEAN[1] - SIZE[1]], [MEAN[0], MEAN[1] + SIZE[1]])
    assert hr.certify(policy, hr.Lipschitz(1.01 * steepest, hr.Mean(0), 1, where)).certified
    broken = hr.certify(policy, hr.Lipschitz(0.99 * steepest, hr.Mean(0), 1, where))
    assert broken.status == "counterexample"
