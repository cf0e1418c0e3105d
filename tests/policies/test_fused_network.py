"""The compiled passes against torch's own, and when they are left to torch."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

import handrail as hr
from handrail.policies import fused_network as fused_module
from handrail.policies.categorical import softmax
from handrail.policies.fused_network import FusedNetwork
from handrail.tangent.batch import policy_gradient
from handrail.tangent.gradient import push_forward
from tests.conftest import spaces

Dispatcher = pytest.importorskip("numba").core.dispatcher.Dispatcher
RNG = np.random.default_rng(0)


def policy_of(n_observations: int, n_actions: int, width: int, fused: bool) -> hr.CategoricalPolicy:
    with pytest.MonkeyPatch.context() as patch:
        if not fused:
            patch.setattr(FusedNetwork, "of", classmethod(lambda *_: None))
        policy = hr.CategoricalPolicy.mlp(spaces(n_observations, n_actions), hidden=[width], seed=3)
    assert (policy.fused() is not None) == fused
    return policy


@pytest.mark.parametrize(
    ("n_observations", "n_actions", "width", "n"),
    [
        (1, 2, 1, 1),
        (3, 2, 255, 9),
        (4, 2, 256, 8),
        (5, 3, 257, 17),
        (8, 4, 1000, 50),
        (11, 7, 40, 3),
        (4, 2, 1025, 6),
        (2, 2, 2100, 21),
    ],
)
def test_every_pass_is_torchs(n_observations: int, n_actions: int, width: int, n: int) -> None:
    """Sizes around every block boundary."""
    ours, torchs = (policy_of(n_observations, n_actions, width, fused) for fused in (True, False))
    states = RNG.normal(size=(n, n_observations))
    np.testing.assert_allclose(ours.logits(states), torchs.logits(states), rtol=1e-12, atol=1e-13)
    batch = hr.Batch(states, RNG.integers(0, n_actions, n), RNG.normal(size=n))
    one, other = policy_gradient(ours, batch), policy_gradient(torchs, batch)
    assert one.loss == pytest.approx(other.loss, rel=1e-12)
    for a, b in zip(one.direction.parts, other.direction.parts, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        push_forward(ours, states, one.direction),
        push_forward(torchs, states, other.direction),
        rtol=1e-9,
        atol=1e-12,
    )
    np.testing.assert_allclose(
        hr.tangent.tangent_kernel(ours, states),
        hr.tangent.tangent_kernel(torchs, states),
        rtol=1e-10,
        atol=1e-12,
    )


@pytest.mark.parametrize(
    ("n", "r", "n_actions", "width"), [(1, 1, 2, 1), (7, 1, 2, 257), (9, 3, 5, 300)]
)
def test_factors_of_gradients_are_those_of_torch(
    n: int, r: int, n_actions: int, width: int
) -> None:
    policy = policy_of(5, n_actions, width, fused=True)
    states, weights = RNG.normal(size=(n, 5)), RNG.normal(size=(n, r, n_actions))
    layers, fused = policy.layers(), policy.fused()
    assert layers is not None
    assert fused is not None
    expected = layers.passes(torch.from_numpy(states), torch.from_numpy(weights))
    for own, torchs in zip(fused.passes(states, weights), expected, strict=True):
        assert own.has_bias == torchs.has_bias
        np.testing.assert_allclose(own.inputs, torchs.inputs, atol=1e-13)
        np.testing.assert_allclose(own.signals, torchs.signals, atol=1e-13)


def test_a_rough_kernel_is_that_of_a_part_of_the_units() -> None:
    whole, part = (policy_of(3, 2, width, fused=True) for width in (600, 256))
    with torch.no_grad():
        for one, other in zip(part.parameters, whole.parameters, strict=True):
            one.copy_(other[tuple(slice(0, n) for n in one.shape)])
    states, weights = RNG.normal(size=(10, 3)), RNG.normal(size=(10, 2))
    few, many = part.fused(), whole.fused()
    assert few is not None
    assert many is not None
    expected = few.kernel(states, weights)
    np.testing.assert_allclose(many.rough_kernel(states, weights), expected, rtol=1e-12)
    np.testing.assert_array_equal(few.rough_kernel(states, weights), expected)
    assert not np.allclose(many.kernel(states, weights), expected)


def test_draws_follow_the_probabilities_whatever_evaluates_them() -> None:
    ours, torchs = (policy_of(3, 4, 64, fused) for fused in (True, False))
    states = RNG.normal(size=(300, 3))
    a, b = np.random.default_rng(1), np.random.default_rng(1)
    assert [ours.act(s, a) for s in states] == [torchs.act(s, b) for s in states]
    act = ours.actor(np.random.default_rng(2))
    shares = np.bincount([act(states[0]) for _ in range(4000)], minlength=4) / 4000
    np.testing.assert_allclose(shares, softmax(ours.logits(states[:1]))[0], atol=0.03)


@pytest.mark.parametrize(
    ("n_observations", "n_actions", "width"),
    [(1, 2, 1), (3, 3, 255), (4, 2, 1025), (8, 4, 5000), (9, 2, 30), (3, 5, 30)],
)
@pytest.mark.parametrize("size", [1e-30, 1.0, 1e4, 1e12])
def test_draws_by_rounded_weights_are_those_of_float64(
    n_observations: int, n_actions: int, width: int, size: float
) -> None:
    """Also by numbers on the edge between two actions, where float32 knows nothing."""
    policy = policy_of(n_observations, n_actions, width, fused=True)
    with torch.no_grad():
        policy.parameters[0].mul_(size)
        policy.parameters[2].mul_(5.0 / size)
    states = RNG.normal(size=(200, n_observations)) * RNG.choice([0.1, 1.0, 50.0], (200, 1))
    edges = policy.outputs(states)[:, 0] + RNG.choice([0.0, 1e-16, -1e-9, 1e-7], 200)
    numbers = [*RNG.random(200).tolist(), *np.clip(edges, 0.0, 1.0).tolist()]
    fused = policy.fused()
    assert fused is not None
    act = fused.drawer(iter(numbers).__next__, fused.draw)
    pairs = list(zip([*states, *states], numbers, strict=True))
    assert [act(state) for state, _ in pairs] == [fused.draw(*pair) for pair in pairs]


def test_few_draws_need_float64() -> None:
    policy = policy_of(4, 2, 5000, fused=True)
    fused, rng = policy.fused(), np.random.default_rng(0)
    assert fused is not None
    act = fused.drawer(rng.random, lambda _state, _number: -1)
    drawn = [act(state) for state in RNG.normal(size=(2000, 4))]
    assert set(drawn) == {-1, 0, 1}
    assert drawn.count(-1) < 40


def test_actions_that_hardly_differ_are_drawn_as_in_float64() -> None:
    """Where float64 itself loses what the draw depends on."""
    policy = policy_of(3, 2, 64, fused=True)
    with torch.no_grad():
        policy.parameters[2].mul_(1e-9).add_(1e4)
        policy.parameters[3].add_(1e7)
    fused, states = policy.fused(), RNG.normal(size=(300, 3))
    assert fused is not None
    numbers = np.clip(policy.outputs(states)[:, 0] + RNG.normal(size=300) * 1e-9, 0.0, 1.0)
    act = fused.drawer(iter(numbers.tolist()).__next__, fused.draw)
    exact = [fused.draw(state, number) for state, number in zip(states, numbers, strict=True)]
    assert [act(state) for state in states] == exact


def test_an_actor_draws_by_one_number_after_the_other() -> None:
    for fused in (True, False):
        policy = policy_of(3, 4, 64, fused)
        act, rng = policy.actor(np.random.default_rng(3)), np.random.default_rng(3)
        states = RNG.normal(size=(200, 3))
        assert [act(state) for state in states] == [policy.act(state, rng) for state in states]


def test_an_update_in_place_is_seen_at_once() -> None:
    policy = policy_of(3, 2, 32, fused=True)
    state = np.array([[0.1, 0.2, 0.3]])
    before = policy.logits(state)
    with torch.no_grad():
        for parameter in policy.parameters:
            parameter.mul_(2.0)
    assert np.abs(policy.logits(state) - before).max() > 0.01
    np.testing.assert_allclose(
        policy.logits(state), policy.module(torch.tensor(state)).detach().numpy(), rtol=1e-12
    )


def test_swapped_layers_and_frozen_parameters_are_noticed() -> None:
    policy = policy_of(3, 2, 32, fused=True)
    assert isinstance(policy.module, nn.Sequential)
    policy.module[2] = nn.Linear(32, 2, dtype=torch.float64)
    state = np.array([[0.1, 0.2, 0.3]])
    np.testing.assert_allclose(
        policy.logits(state), policy.module(torch.tensor(state)).detach().numpy(), rtol=1e-12
    )
    policy.module[0].bias.requires_grad_(False)
    assert policy.fused() is None
    policy.module[0].bias.requires_grad_(True)
    policy.module.float()
    assert policy.logits(state).shape == (1, 2)


def test_pictures_are_flattened() -> None:
    shape = gym.spaces.Box(0.0, 1.0, (2, 3, 4))
    policy = hr.CategoricalPolicy.mlp((shape, gym.spaces.Discrete(3)), hidden=[64])
    assert policy.fused() is not None
    states = RNG.uniform(size=(5, 2, 3, 4))
    with torch.no_grad():
        expected = policy.module(torch.tensor(states)).numpy()
    np.testing.assert_allclose(policy.logits(states), expected, rtol=1e-12)
    assert policy.act(states[0], np.random.default_rng(0)) in (0, 1, 2)


def test_states_of_another_size_are_refused() -> None:
    policy = policy_of(3, 2, 32, fused=True)
    with pytest.raises(hr.errors.ShapeMismatch, match=r"refused states of shape \(4,\)"):
        policy.logits(np.zeros((2, 4)))
    with pytest.raises(hr.errors.ShapeMismatch, match=r"where the network takes \(3,\)"):
        policy.act(np.zeros(4), np.random.default_rng(0))


def test_what_is_not_finite_is_refused() -> None:
    policy = policy_of(3, 2, 32, fused=True)
    for bad in (np.nan, np.inf):
        with pytest.raises(hr.errors.InvalidPolicy, match="not finite"):
            policy.logits([[0.0, bad, 0.0]])
        with pytest.raises(hr.errors.InvalidPolicy, match="not finite"):
            policy.act([0.0, bad, 0.0], np.random.default_rng(0))


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)),  # float32
        nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)).double(),
        nn.Sequential(nn.Linear(3, 8, bias=False), nn.ReLU(), nn.Linear(8, 2)).double(),
        nn.Sequential(nn.Linear(3, 2)).double(),
        nn.Linear(3, 2).double(),
    ],
)
def test_other_networks_are_left_to_torch(module: nn.Module) -> None:
    assert hr.CategoricalPolicy(module).fused() is None


def test_weights_laid_out_by_rows_are_left_to_torch() -> None:
    module = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)).double()
    assert hr.CategoricalPolicy(module).fused() is None
    assert hr.CategoricalPolicy(module).probabilities(np.zeros((2, 3))).shape == (2, 2)


def test_everything_works_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_spec(name: str) -> Any:
        return None

    monkeypatch.setattr(fused_module, "find_spec", find_spec)
    policy = hr.CategoricalPolicy.mlp(spaces(4, 2), hidden=[64])
    assert policy.fused() is None
    agent = hr.Reinforce(gym.make("CartPole-v1", max_episode_steps=20), policy)
    assert len(agent.learn(episodes=2)) == 2


@pytest.mark.parametrize("size", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("width", [1, 40, 300])
def test_changes_of_the_weights_change_no_state_by_more_than_their_bound(
    size: float, width: int
) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        policy = hr.CategoricalPolicy.mlp(spaces(3, 3), hidden=[width], seed=seed)
        before = fused_of(policy).copy()
        with torch.no_grad():
            for parameter in policy.parameters:
                parameter.add_(torch.from_numpy(rng.normal(size=parameter.shape)), alpha=size)
        now = fused_of(policy)
        centres, radii = rng.normal(size=(8, 3)), rng.choice([0.0, 0.01, 0.3, 3.0], size=(8, 3))
        functional = rng.normal(size=3)
        low, high = centres - radii, centres + radii
        bounds = now.changes_since(before, functional, low, high)
        for k in range(8):
            states = rng.uniform(low[k], high[k], size=(500, 3))
            states[:8] = np.where(rng.random((8, 3)) < 0.5, low[k], high[k])
            changes = (now.raw(states) - before.raw(states)) @ functional
            assert bounds[k, 0] - 1e-9 <= changes.min()
            assert changes.max() <= bounds[k, 1] + 1e-9


def test_a_change_of_units_that_are_on_is_bounded_by_itself() -> None:
    """Opposite changes of two units cancel where both are affine, and so does their bound."""
    policy = policy_of(1, 2, 2, fused=True)
    inward, inward_bias, outward, outward_bias = policy.parameters
    with torch.no_grad():
        inward.fill_(1.0)
        inward_bias.fill_(5.0)
        outward.fill_(1.0)
        outward_bias.zero_()
        before = fused_of(policy).copy()
        inward.add_(torch.tensor([[0.5], [-0.5]], dtype=torch.float64))
    one, box = np.array([1.0, 0.0]), (np.array([[-1.0]]), np.array([[1.0]]))
    bounds = fused_of(policy).changes_since(before, one, *box)
    np.testing.assert_allclose(bounds, [[0.0, 0.0]], atol=1e-12)


def fused_of(policy: hr.CategoricalPolicy) -> FusedNetwork:
    fused = policy.fused()
    assert fused is not None
    return fused


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(("width", "n"), [(1, 1), (257, 6), (600, 1), (3, 9)])
def test_a_layer_by_itself_is_summed_up_and_differentiated(
    compiled: bool, width: int, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused_module, "find_spec", lambda _: True if compiled else None)
    weights, biases = RNG.normal(size=(width, 3)), RNG.normal(size=width)
    factors, states = RNG.normal(size=width), RNG.normal(size=(n, 3))
    layer = fused_module.ReluLayer(weights, biases)
    units = np.maximum(states @ weights.T + biases, 0.0)
    np.testing.assert_allclose(layer.sums(factors, states), units @ factors, atol=1e-12)
    slopes, offsets = layer.tangents(factors, states)
    touching = (slopes * states).sum(axis=1) + offsets
    np.testing.assert_allclose(touching, units @ factors, atol=1e-12)
    np.testing.assert_allclose(slopes, ((units > 0.0) * factors) @ weights, atol=1e-12)


@pytest.mark.parametrize(
    ("n_observations", "n_actions", "width", "n"),
    [(4, 2, 300, 10), (4, 2, 2049, 40), (8, 4, 2500, 33), (3, 7, 130, 70), (5, 9, 140, 70)],
)
def test_weights_that_are_not_balanced_are_pulled_back_one_by_one(
    n_observations: int, n_actions: int, width: int, n: int
) -> None:
    """Those that add up to 0 have a shorter way, where the last action has none of its own."""
    fused = policy_of(n_observations, n_actions, width, fused=True).fused()
    assert fused is not None
    states, other = RNG.normal(size=(n, n_observations)), RNG.normal(size=(n, n_actions))
    one = other - other.mean(axis=1, keepdims=True)
    # What is linear in the weights is so whichever way is taken.
    parts = (fused.pull_back(states, some) for some in (one, other, other - one))
    for short, long, rest in zip(*parts, strict=True):
        np.testing.assert_allclose(short + rest, long, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n", [1, 15, 16, 17, 32, 33, 200])
def test_a_pass_knows_what_was_on(n: int) -> None:
    """However many states a pattern has left, gradients are those of a pass of their own."""
    fused = policy_of(3, 3, 300, fused=True).fused()
    assert fused is not None
    states, weights = RNG.normal(size=(n, 3)), RNG.normal(size=(n, 3))
    passed = fused.passed(states)
    np.testing.assert_allclose(passed.raw, fused.raw(states), rtol=1e-12, atol=1e-14)
    together = passed.pull_back(weights)
    alone = [fused.pull_back(states[[k]], weights[[k]]) for k in range(n)]
    for part, own in zip(together, zip(*alone, strict=True), strict=True):
        np.testing.assert_allclose(part, sum(own), rtol=1e-9, atol=1e-12)


def test_compiled_functions_call_those_of_their_own_file_only() -> None:
    """What numba keeps on the disk is renewed with the file of the function, and no other."""
    names = [f"handrail.policies.compiled.{one}" for one in ("passes", "patterns", "quick_draw")]
    for name in [*names, "handrail.proof._cell_bounds"]:
        module = import_module(name)
        own = {key: one for key, one in vars(module).items() if isinstance(one, Dispatcher)}
        assert own
        assert {one.py_func.__module__ for one in own.values()} == {name}


@pytest.mark.parametrize("n", [20, 40])
def test_a_gradient_of_what_is_no_number_is_none(n: int) -> None:
    """However many states there are: nothing is left out in silence."""
    policy = policy_of(3, 2, 50, fused=True)
    states, weights = RNG.normal(size=(n, 3)), RNG.normal(size=(n, 2))
    states[5, 1] = np.nan
    fused = policy.fused()
    assert fused is not None
    of_inward, *_ = fused.pull_back(states, weights)
    assert of_inward.isnan().any()
