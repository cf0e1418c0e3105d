"""Lines below and above every activation on all kinds of intervals, and what follows for proofs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import Any, get_args

import gymnasium as gym
import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
import torch
from torch import nn

import handrail as hr
from handrail._types import Array
from handrail.policies import (
    ACTIVATIONS,
    IDENTITY,
    MEAN,
    RELU,
    Activation,
    LayerArrays,
    Shape,
    SideBySide,
    Twinned,
)
from handrail.policies import activation as activation_module
from handrail.policies import layer_plan as layer_plan_module
from handrail.proof import relaxation as relaxation_module
from handrail.proof.bounder import Bounds
from handrail.proof.branch_and_bound import Judge, prove
from handrail.proof.margin import at_least
from handrail.proof.question import provable_layers
from handrail.proof.relaxation import _LINES, Relaxation, enclose_units, lines_between
from handrail.proof.rounding import FLOAT64, Rounding
from handrail.regions import Cells
from tests.conftest import spaces

ALL = list(ACTIVATIONS.values())


def by_name(activation: Activation) -> str:
    return activation.name


def intervals(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Of all widths from 1e-13 to 100, also of none, about all places where something changes."""
    places = np.array(
        [0.0, 1.0, -1.0, 1.41421356, -1.41421356, 2.39936, -2.39936, 3.436, -2.0, 20.0]
    )
    centres = np.where(
        rng.random(n) < 0.5,
        rng.choice(places, n) + rng.normal(size=n) * 10.0 ** rng.uniform(-8.0, 0.0, n),
        rng.normal(size=n) * 10.0 ** rng.uniform(-2.0, 2.0, n),
    )
    radii = 10.0 ** rng.uniform(-13.0, 1.7, n)
    radii[rng.random(n) < 0.05] = 0.0
    low = centres - radii * rng.random(n)
    return low, np.maximum(low, centres + radii * rng.random(n))


@pytest.mark.parametrize("activation", ALL, ids=by_name)
def test_lines_are_below_and_above(activation: Activation) -> None:
    rng = np.random.default_rng(0)
    low, high = intervals(rng, 20_000)
    lines = lines_between(activation, low[:, None], high[:, None])
    inside = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, 201)
    values = activation.value(inside)
    # What rounding may do, and the jump: `proof.rounding` allows for both.
    slack = activation.jump + 1e-15 * (4.0 + 8.0 * np.maximum(np.abs(low), np.abs(high)))[:, None]
    assert (lines.lower_slope * inside + lines.lower_offset <= values + slack).all()
    assert (lines.upper_slope * inside + lines.upper_offset >= values - slack).all()
    for slope in (lines.lower_slope, lines.upper_slope):
        assert (np.abs(slope) <= activation.lipschitz * (1.0 + 1e-12)).all()


@pytest.mark.parametrize("activation", ALL, ids=by_name)
def test_lines_come_together_as_intervals_shrink(activation: Activation) -> None:
    """With the square of the width, but at kinks: halving a cell must pay."""
    rng = np.random.default_rng(1)
    centres = rng.uniform(-4.0, 4.0, 500)
    centres = centres[np.abs(np.abs(centres) - 1.0) > 0.01]
    centres = centres[np.abs(centres) > 0.01][:, None]
    gaps = []
    for radius in (1e-2, 1e-3):
        low, high = centres - radius, centres + radius
        lines = lines_between(activation, low, high)
        gap = (lines.upper_slope - lines.lower_slope) * centres
        gaps.append(gap + lines.upper_offset - lines.lower_offset)
    assert (gaps[0] <= 1.0 * 1e-4 + 1e-12).all()
    assert (gaps[1] <= 1.0 * 1e-6 + 1e-12).all()


@pytest.mark.parametrize("name", ["gelu", "silu"])
def test_wide_intervals_are_bounded_almost_as_those_of_relu(name: str) -> None:
    low, high = np.array([[-30.0, -3.0, -8.0]]), np.array([[20.0, 40.0, 8.0]])
    ours, relus = lines_between(ACTIVATIONS[name], low, high), lines_between(RELU, low, high)
    middle = 0.5 * (low + high)
    above = ours.upper_slope * middle + ours.upper_offset
    below = ours.lower_slope * middle + ours.lower_offset
    assert (above <= relus.upper_slope * middle + relus.upper_offset).all()
    assert (below >= relus.lower_slope * middle + relus.lower_offset - 0.28).all()


def _gelu(h: Any) -> Any:
    return h * mpmath.ncdf(h)


def _silu(h: Any) -> Any:
    return h / (1 + mpmath.exp(-h))


@pytest.mark.parametrize(("name", "function"), [("gelu", _gelu), ("silu", _silu)])
def test_the_constants_of_the_derivation(name: str, function: Any) -> None:
    """The curvature, the inflection and the gap, on a fine grid with 30 digits."""
    lines: Any = ACTIVATIONS[name].shape
    with mpmath.workdps(30):
        grid = [mpmath.mpf(k) / 50 for k in range(400)]
        bends = [mpmath.diff(function, h, 2) for h in grid]  # even: f(h) - f(-h) = h
        # Between two points of the grid f'' changes by less than 1e-4 near its minimum.
        assert -lines.curvature <= min(bends) <= -lines.curvature + 1e-3
        assert all(bend <= 0 for h, bend in zip(grid, bends, strict=True) if h >= lines.inflection)
        assert mpmath.diff(function, lines.inflection - mpmath.mpf("0.001"), 2) > 0
        assert mpmath.diff(function, lines.inflection, 2) <= 0
        gap = max(h - function(h) for h in grid)
        assert lines.gap - 1e-3 <= gap <= lines.gap
        slopes = [mpmath.diff(function, h) for h in grid]
        assert max(slopes) <= ACTIVATIONS[name].lipschitz


# --- proofs -------------------------------------------------------------------------------------


def random_policy(name: str, rng: np.random.Generator, hidden: list[int]) -> hr.CategoricalPolicy:
    policy = hr.CategoricalPolicy.mlp(spaces(2, 2), hidden, name, seed=int(rng.integers(2**31)))
    with torch.no_grad():
        for parameter in policy.parameters:
            parameter.mul_(float(rng.uniform(1.0, 3.0)))
    return policy


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_no_false_certificates(name: str) -> None:
    """60 networks of each, with a bound that is broken by 1e-3 … 1e-9 at one state, on purpose."""
    rng = np.random.default_rng(list(ACTIVATIONS).index(name))
    found = 0
    for index in range(60):
        policy = random_policy(name, rng, [int(n) for n in rng.integers(2, 9, 1 + index % 2)])
        low = rng.uniform(-2.0, 1.0, 2)
        region = hr.Box(low, low + 10.0 ** rng.uniform(-2.0, 0.5, 2))
        states = np.concatenate([region.sample(3000, rng), region.corners])
        values = policy.probabilities(states)[:, 1]
        by = 10.0 ** rng.uniform(-9.0, -3.0)
        if index % 4 < 2:
            rule: hr.Constraint = hr.AtLeast(float(values.min() + by), 1, region)
        else:
            rule = hr.AtMost(float(values.max() - by), 1, region)
        answer = hr.certify(policy, rule, budget=hr.Budget(cells=600, seconds=2.0))
        assert answer.status != "certified"
        found += answer.status == "counterexample"
    assert found >= 30


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_what_holds_is_certified_and_close(name: str) -> None:
    rng = np.random.default_rng(7)
    for hidden in ([24], [12, 12]):
        policy = hr.CategoricalPolicy.mlp(spaces(2, 2), hidden, name, seed=1)
        with torch.no_grad():
            for parameter in policy.parameters:
                parameter.mul_(1.5)
        region = hr.Box([-1.0, -0.5], [0.5, 1.0])
        values = policy.probabilities(np.concatenate([region.sample(20_000, rng), region.corners]))
        lowest, highest = float(values[:, 0].min()), float(values[:, 0].max())
        answer = hr.certify(policy, hr.Between(lowest - 0.002, highest + 0.002, 0, region))
        assert answer.certified
        assert answer.lowest is not None
        assert answer.highest is not None
        assert lowest - 0.002 <= answer.lowest <= lowest
        assert highest <= answer.highest <= highest + 0.002


def test_mixed_activations_and_one_at_the_end() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(
        *(nn.Linear(2, 10), nn.GELU(), nn.Linear(10, 10), nn.Softplus(), nn.Linear(10, 6)),
        *(nn.Linear(6, 1), nn.Tanh()),
    ).double()
    policy = hr.GaussianPolicy(module, 0.1)
    region = hr.Box([-1.0, -1.0], [1.0, 1.0])
    states = np.concatenate([region.sample(20_000, np.random.default_rng(0)), region.corners])
    lowest = float(policy.mean(states).min())
    mean = hr.Mean(0)
    answer = hr.certify(policy, hr.AtLeast(lowest - 0.001, mean, region))
    assert answer.certified
    assert answer.lowest is not None
    assert lowest - 0.001 <= answer.lowest <= lowest
    assert hr.certify(policy, hr.AtLeast(lowest + 0.001, mean, region)).status == "counterexample"


@pytest.mark.parametrize("name", ["gelu", "softplus"])
def test_a_region_is_enforced_and_proven(name: str) -> None:
    policy = hr.CategoricalPolicy.mlp(gym.make("CartPole-v1"), [32], name, seed=0)
    rule = hr.AtLeast(0.9, 1, hr.Box([-0.1, -0.1, 0.05, 0.1], [0.1, 0.1, 0.2, 0.5]))
    result = hr.enforce(policy, [rule], prove=True).raise_if_unsatisfied()
    assert [one.status for one in result.certificates] == ["certified"]
    assert hr.certify(policy, rule, tolerance=1e-6).certified


def test_an_activation_without_lines_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the table, but not yet in the proofs: everything works but these."""
    mish = replace(ACTIVATIONS["silu"], name="mish", kind=nn.Mish, shape=None)
    monkeypatch.setitem(activation_module.ACTIVATION_OF, nn.Mish, mish)
    monkeypatch.setitem(layer_plan_module.OPTIONS, nn.Mish, ())
    monkeypatch.setitem(layer_plan_module._FORWARDS, nn.Mish, nn.Mish.forward)
    monkeypatch.setitem(layer_plan_module._ATTRIBUTES, nn.Mish, frozenset(nn.Mish().__dict__))
    policy = hr.CategoricalPolicy(nn.Sequential(nn.Linear(2, 4), nn.Mish(), nn.Linear(4, 2)))
    assert policy.layers() is not None
    with pytest.raises(hr.errors.InvalidPolicy, match="no lines are known between which mish lies"):
        hr.certify(policy, hr.AtLeast(0.1, 0, hr.Box([0.0, 0.0], [1.0, 1.0])))


def test_every_activation_of_the_table_has_lines() -> None:
    # Two networks as one have what is made of those of the table.
    assert {type(one.shape) for one in ACTIVATIONS.values()} | {SideBySide, Twinned} == set(_LINES)
    assert set(_LINES) == set(get_args(Shape))


# --- rounding -----------------------------------------------------------------------------------


EXACT: dict[str, Any] = {
    "relu": lambda h: max(h, mpmath.mpf(0)),
    "tanh": mpmath.tanh,
    "elu": lambda h: h if h > 0 else mpmath.expm1(h),
    "gelu": _gelu,
    "silu": _silu,
    "sigmoid": lambda h: 1 / (1 + mpmath.exp(-h)),
    "leaky_relu": lambda h: h if h > 0 else h * mpmath.mpf(0.01),
    "softplus": lambda h: mpmath.log1p(mpmath.exp(h)),
    "hardtanh": lambda h: max(min(h, mpmath.mpf(1)), mpmath.mpf(-1)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_rounding_covers_what_float64_does(name: str) -> None:
    """Against 50 digits, with outputs that almost cancel: σ(0) and its slope must be counted."""
    rng = np.random.default_rng(3)
    for large, small in product((1.0, 1e8), (1e-9, 1.0, 30.0)):
        weights = (small * rng.normal(size=(5, 2)), large * rng.normal(size=(2, 5)))
        biases = (small * rng.normal(size=5), rng.normal(size=2))
        activations = (ACTIVATIONS[name], activation_module.IDENTITY)
        layers = LayerArrays(weights, biases, activations)
        states = rng.uniform(-1.0, 1.0, size=(4, 2))
        allowed = Rounding(layers, FLOAT64).of_bounds(np.full(2, -1.0), np.full(2, 1.0), 1.0)
        with mpmath.workdps(50):
            for state, found in zip(states, layers.outputs(states), strict=True):
                exact = outputs_exactly(layers, EXACT[name], state)
                assert all(abs(a - b) <= allowed for a, b in zip(exact, found, strict=True))
        scale = large * max(small, 1.0)
        assert allowed <= 1e-12 * scale + 1e3 * activations[0].jump * large


def outputs_exactly(layers: LayerArrays, function: Any, state: Array) -> list[Any]:
    (inward, outward), (inward_bias, outward_bias) = layers.weights, layers.biases
    hidden = [
        function(mpmath.fdot(map(float, row), map(float, state)) + float(bias))
        for row, bias in zip(inward, inward_bias, strict=True)
    ]
    return [
        mpmath.fdot(map(float, row), hidden) + float(bias)
        for row, bias in zip(outward, outward_bias, strict=True)
    ]


def test_a_sigmoid_that_cancels_is_not_certified() -> None:
    """Hidden values are 0.5 whatever the first weights: outputs are sums of ±0.5 · 1e9."""
    rng = np.random.default_rng(0)
    outward = np.round(rng.normal(size=6) * 1024) / 1024 * 1e9
    outward[-1] = -outward[:-1].sum()
    module = nn.Sequential(nn.Linear(2, 6), nn.Sigmoid(), nn.Linear(6, 2)).double()
    with torch.no_grad():
        inward, inward_bias, outer, outer_bias = module.parameters()
        inward.mul_(1e-9)
        inward_bias.mul_(1e-9)
        outer[:] = torch.tensor(np.stack([np.zeros(6), outward]))
        outer_bias[:] = 0.0
    policy = hr.CategoricalPolicy(module)
    low, high = np.array([0.3, -0.2]), np.array([0.3 + 1e-12, -0.2])
    rounding = Rounding(provable_layers(policy), FLOAT64).of_bounds(low, high, 1.0)
    assert rounding >= 0.5 * np.abs(outward).sum() * 2.0**-53
    value = float(policy.probabilities(low)[1])
    for where in (hr.Box(low, high), hr.Points([low])):
        answer = hr.certify(policy, hr.AtLeast(value, 1, where), budget=hr.Budget(cells=64))
        assert answer.status != "certified"


def test_overflow_proves_nothing() -> None:
    """Infinite bounds against infinite rounding, and differences of infinities."""
    inward, inward_bias = [[0.85e308], [0.95e308]], [0.0, -1.7e308]
    module = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 2)).double()
    with torch.no_grad():
        values = (inward, inward_bias, np.eye(2), np.zeros(2))
        for parameter, value in zip(module.parameters(), values, strict=True):
            parameter[:] = torch.tensor(np.array(value))
    policy = hr.CategoricalPolicy(module)
    for where in (hr.Box([2.0 - 1e-9], [2.0]), hr.Points([[2.0]])):
        for rule in (hr.AtLeast(0.5, 1, where), hr.AtMost(0.5, 1, where)):
            answer = hr.certify(policy, rule)
            assert answer.status == "unknown"
            assert answer.reason == "weights or states are so large that float64 might overflow"


@pytest.mark.parametrize("lowest", [np.nan, np.inf, -np.inf])
def test_a_bound_that_is_not_a_number_proves_nothing(lowest: float) -> None:
    region = hr.Box([0.0], [1.0])

    class Broken:
        importance, levels = np.ones(1), 10

        def narrowed(self, cell: Any) -> Any:
            del cell
            return self

        def bounds(self, cells: Any, deadline: Any) -> Any:
            del deadline
            return Bounds(np.full(len(cells), lowest), cells.centres)

    found: Any = Broken()
    judge = Judge(region.contains, lambda s: np.zeros(len(s), bool), "too near")
    proof = prove(found, region.covers(), 1e-9, judge, hr.Budget())
    assert not proof.proven
    assert proof.reason == "a bound is not a number"


def with_gains(rng: np.random.Generator, widths: Sequence[int]) -> LayerArrays:
    """Observations are added at every layer, in front of its activation."""
    shapes = list(pairwise([2, *widths]))
    names = rng.choice(["relu", "tanh", "softplus", "hardtanh"], size=len(shapes) - 1)
    return LayerArrays(
        tuple(rng.normal(size=(n_out, n_in)) / np.sqrt(n_in) for n_in, n_out in shapes),
        tuple(rng.normal(size=n_out) for _, n_out in shapes),
        (*(ACTIVATIONS[str(name)] for name in names), IDENTITY),
        gains=tuple(rng.normal(size=(n_out, 2)) for _, n_out in shapes),
    )


def test_no_state_is_below_the_bound_where_observations_are_added_at_several_layers() -> None:
    """As of two networks of different depth, each beside a controller."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        layers = with_gains(rng, [5, 4, 2])
        low = rng.uniform(-1.0, 0.5, size=2)
        high = low + 10.0 ** rng.uniform(-3, 0, size=2)
        cells = Cells.boxes(low[None], high[None])
        states = rng.uniform(low, high, size=(200, 2))
        bounder = Relaxation(layers, at_least(MEAN, np.array([1.0, -0.5]), 0.3))
        lowest = bounder.bounds(cells).lowest[0]
        assert bounder.margins(states).min() >= lowest - 1e-12
        # Almost nothing is lost on small cells, so that the bound does say something.
        middle = Cells.boxes(cells.centres - 1e-5, cells.centres + 1e-5)
        assert bounder.bounds(middle).lowest[0] == pytest.approx(
            bounder.margins(cells.centres)[0], abs=1e-3
        )


def test_units_are_enclosed_with_what_observations_add() -> None:
    rng = np.random.default_rng(1)
    for _ in range(30):
        layers = with_gains(rng, [5, 4, 2])
        low = rng.uniform(-1.0, 0.5, size=2)
        high = low + 10.0 ** rng.uniform(-3, 0, size=2)
        states = signal = rng.uniform(low, high, size=(200, 2))
        units = enclose_units(layers, Cells.boxes(low[None], high[None]))
        for depth, enclosed in enumerate(units[:-1]):
            weight, bias, gain = layers.weights[depth], layers.biases[depth], layers.gain_at(depth)
            assert enclosed is not None
            assert gain is not None
            given = signal @ weight.T + bias + states @ gain.T
            assert (given >= enclosed.low - 1e-12).all()
            assert (given <= enclosed.high + 1e-12).all()
            signal = np.asarray(layers.activations[depth].value(given))


def test_products_of_all_cells_say_the_same_as_those_of_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(2)
    for widths in ([7, 5, 2], [6, 5, 4, 2]):
        layers = with_gains(rng, widths)
        for one in (layers, replace(layers, gains=None)):
            low = rng.uniform(-1.0, 0.5, size=(9, 2))
            cells = Cells.boxes(low, low + rng.uniform(0.01, 0.5, size=(9, 2)))
            together = enclose_units(one, cells)
            with monkeypatch.context() as patched:
                patched.setattr(relaxation_module, "_NARROW", 0)
                each = enclose_units(one, cells)
            for a, b in zip(together[:-1], each[:-1], strict=True):
                assert a is not None
                assert b is not None
                np.testing.assert_allclose(a.low, b.low, atol=1e-13)
                np.testing.assert_allclose(a.high, b.high, atol=1e-13)
