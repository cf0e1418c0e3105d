"""A fence adds what it is given inside a box, and nothing elsewhere."""

from __future__ import annotations

import copy
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

import handrail as hr
from handrail._types import Array
from handrail.policies import FenceBuilder, Layers, Normaliser, Scaler

LOW, HIGH = np.array([-0.5, 0.2, -1.0]), np.array([0.5, 0.3, 1.0])
PUSH = np.array([0.0, 4.0, -1.5])
BAND = 0.05  # of the width of the box, beyond each side
KINDS = [nn.Tanh, nn.Sigmoid, nn.Hardtanh, nn.ReLU]


def network(
    kind: type[nn.Module], depth: int = 2, dtype: torch.dtype = torch.float64
) -> nn.Sequential:
    torch.manual_seed(3)
    layers: list[nn.Module] = []
    widths = [3, *[40] * depth]
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), kind()]
    return nn.Sequential(*layers, nn.Linear(40, 3)).to(dtype)


def layers_of(module: nn.Module) -> Layers:
    layers = Layers.of(module)
    assert isinstance(layers, Layers)
    return layers


def fenced(module: nn.Module, push: Array, low: Array = LOW, high: Array = HIGH) -> FenceBuilder:
    layers = layers_of(module)
    assert FenceBuilder.can_have_fences(layers)
    builder = FenceBuilder(layers)
    assert builder.add(low, high, push)
    return builder


def states(count: int, spread: float = 3.0) -> Array:
    return np.random.default_rng(0).uniform(-spread, spread, (count, 3))


def linear(module: nn.Sequential, index: int) -> nn.Linear:
    found = module[index]
    assert isinstance(found, nn.Linear)
    return found


def of(module: nn.Module, at: Array) -> Array:
    dtype = next(module.parameters()).dtype
    with torch.no_grad():
        result: Array = module(torch.as_tensor(at, dtype=dtype)).double().numpy()
    return result


def added(module: nn.Module, at: Array, low: Array = LOW, high: Array = HIGH) -> Array:
    """What the fence adds: the same units, given nothing to add, are the comparison."""
    without = copy.deepcopy(module)
    fenced(without, np.zeros(3), low, high)
    fenced(module, PUSH, low, high)
    return of(module, at) - of(without, at)


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("kind", KINDS)
def test_inside_all_of_it_and_outside_nothing(
    kind: type[nn.Module], dtype: torch.dtype, depth: int
) -> None:
    box = hr.Box(LOW, HIGH)
    inside = np.concatenate([box.corners, box.spread(500)])
    beyond = BAND * (HIGH - LOW)
    around = states(4000, 1.5)
    outside = around[((around < LOW - beyond) | (around > HIGH + beyond)).any(axis=1)]
    pushed = added(network(kind, depth, dtype), np.concatenate([inside, outside]))
    np.testing.assert_allclose(pushed[: len(inside)], np.tile(PUSH, (len(inside), 1)), atol=5e-3)
    np.testing.assert_allclose(pushed[len(inside) :], 0.0, atol=5e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_in_between_it_goes_from_one_to_the_other(kind: type[nn.Module]) -> None:
    # Out of the box across its second side, from its middle.
    across = np.linspace(HIGH[1], HIGH[1] + 2 * BAND * (HIGH - LOW)[1], 200)
    at = np.stack([np.zeros(200), across, np.zeros(200)], axis=1)
    pushed = added(network(kind), at)[:, 1]
    assert (np.diff(pushed) < 1e-9).all()
    assert pushed[0] == pytest.approx(4.0, abs=5e-3)
    assert pushed[-1] == pytest.approx(0.0, abs=5e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_coordinate_may_be_fixed(kind: type[nn.Module]) -> None:
    low, high = np.array([-0.5, 0.2, 1.0]), np.array([0.5, 0.3, 1.0])
    inside = np.concatenate([hr.Box(low, high).corners, hr.Box(low, high).spread(100)])
    pushed = added(
        network(kind), np.concatenate([inside, inside + np.array([0, 0, 0.06])]), low, high
    )
    np.testing.assert_allclose(pushed[: len(inside), 1], 4.0, atol=5e-3)
    np.testing.assert_allclose(pushed[len(inside) :, 1], 0.0, atol=5e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_behind_a_layer_that_scales(kind: type[nn.Module]) -> None:
    # A factor below 0 turns the sides round.
    scaler = Scaler([2.0, -0.1, 5.0], [0.3, -1.0, 0.0], torch.float64)
    box = hr.Box(LOW, HIGH)
    pushed = added(nn.Sequential(scaler, *network(kind)), box.spread(100))
    np.testing.assert_allclose(pushed, np.tile(PUSH, (100, 1)), atol=5e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_it_knows_what_it_adds(kind: type[nn.Module]) -> None:
    module = network(kind)
    builder = fenced(module, PUSH)
    wide = BAND * (HIGH - LOW)
    at = np.stack([LOW, HIGH + 0.9 * wide, HIGH + 1.1 * wide, LOW - [0, 1.1 * wide[1], 0]])
    unknown = [np.nan] * 3
    np.testing.assert_array_equal(builder.added(at), [PUSH, unknown, [0.0] * 3, [0.0] * 3])
    at, without = states(2000, 0.6), network(kind)
    fenced(without, np.zeros(3))
    said, known = of(module, at) - of(without, at), ~np.isnan(builder.added(at)).any(axis=1)
    assert known.mean() > 0.9
    np.testing.assert_allclose(said[known], builder.added(at)[known], atol=5e-3)


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_what_flows_backwards_goes_round_it(kind: type[nn.Module], depth: int) -> None:
    module = network(kind, depth, torch.float32)
    builder, before = fenced(module, PUSH), copy.deepcopy(module)
    going_on = True
    handles = builder.fences.keep_from_learning(layers_of(module), lambda: going_on)
    optimiser = torch.optim.Adam(module.parameters(), lr=0.01)
    inside = hr.Box(LOW, HIGH).cover(50).copy()
    at = torch.as_tensor(np.concatenate([states(500), inside])).float()

    def learn() -> None:
        for _ in range(5):
            optimiser.zero_grad()
            module(at).square().mean().backward()
            optimiser.step()

    learn()
    layers, units = range(0, 2 * depth + 1, 2), builder.fences.units
    for number, index in enumerate(layers):
        now, then = linear(module, index), linear(before, index)
        mine = torch.zeros_like(now.weight, dtype=torch.bool)
        if number < depth:
            mine[units[number]] = True
            assert torch.equal(now.bias[units[number]], then.bias[units[number]])
        if number:
            mine[:, units[number - 1]] = True
        moved = now.weight != then.weight
        assert not moved[mine].any()
        assert moved[~mine].float().mean() > 0.5
    # What it adds is what it was.
    without = copy.deepcopy(module)
    with torch.no_grad():
        linear(without, 2 * depth).weight[:, units[-1]] = 0.0
    gate = of(module, inside) - of(without, inside)
    np.testing.assert_allclose(gate, np.tile(gate[:1], (len(inside), 1)), atol=0.01)
    going_on = False  # interrupted, say: whatever was left behind does nothing
    learn()
    now, then = linear(module, 2 * depth), linear(before, 2 * depth)
    assert (now.weight != then.weight)[:, units[-1]].all()
    assert len(handles) == 2 * (depth + 1)


def test_what_does_not_learn_needs_no_way_round() -> None:
    module = network(nn.Tanh)
    builder = fenced(module, PUSH)
    linear(module, 4).weight.requires_grad_(False)
    handles = builder.fences.keep_from_learning(layers_of(module), lambda: True)
    assert len(handles) == 5


def test_units_are_those_that_the_next_layer_heeds_least() -> None:
    module = network(nn.Tanh)
    with torch.no_grad():
        linear(module, 2).weight[:, 10:16] *= 1e-6
        linear(module, 4).weight[:, 7] = 0.0
    before = copy.deepcopy(module)
    fenced(module, PUSH)
    rows = (linear(module, 0).weight != linear(before, 0).weight).any(dim=1)
    columns = (linear(module, 4).weight != linear(before, 4).weight).any(dim=0)
    assert rows.nonzero().ravel().tolist() == list(range(10, 16))
    assert columns.nonzero().ravel().tolist() == [7]


def test_no_more_fences_than_a_quarter_of_the_units() -> None:
    module = network(nn.Tanh)  # 40 units: a fence in three dimensions takes six of the first layer
    builder = fenced(module, PUSH)
    before = copy.deepcopy(module.state_dict())
    assert not builder.add(LOW + 2.0, HIGH + 2.0, PUSH)
    for name, tensor in module.state_dict().items():
        assert torch.equal(tensor, before[name])


def plain(*layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(*layers).double()


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (plain(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2)), True),
        (plain(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)), False),
        (plain(nn.Linear(3, 8), nn.GELU(), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 2)), False),
        (plain(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)), False),
        (
            plain(
                nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2), nn.Tanh()
            ),
            False,
        ),
        (
            plain(
                nn.Linear(3, 8, bias=False),
                nn.ReLU(),
                nn.Linear(8, 8),
                nn.ReLU(),
                nn.Linear(8, 2),
            ),
            False,
        ),
        (
            nn.Sequential(
                Normaliser(np.zeros(3), np.ones(3), dtype=torch.float64),
                *network(nn.Tanh),
            ),
            False,
        ),
    ],
)
def test_which_networks_can_have_fences(module: nn.Sequential, expected: bool) -> None:
    assert FenceBuilder.can_have_fences(layers_of(module)) == expected
