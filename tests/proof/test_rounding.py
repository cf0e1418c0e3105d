"""What is certified is true to the last digit: against 60 of them, in whatever arithmetic acts."""

from __future__ import annotations

from fractions import Fraction
from operator import mul
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import handrail as hr
from handrail._types import Array
from handrail.policies import ACTIVATIONS, IDENTITY, LayerArrays, Residual, Scaler
from handrail.policies.activation import ACTIVATION_OF
from handrail.proof.question import provable_layers
from handrail.proof.rounding import FLOAT32, FLOAT64, Rounding
from handrail.regions import Cells
from tests.support.regions import exact_weights, exactly

DIGITS = 60


def _softplus(h: Any) -> Any:
    return h if h > 20 else mpmath.log1p(mpmath.exp(h))  # as torch has it


EXACT: dict[str, Any] = {
    "relu": lambda h: max(h, mpmath.mpf(0)),
    "tanh": mpmath.tanh,
    "elu": lambda h: h if h > 0 else mpmath.expm1(h),
    "gelu": lambda h: h * mpmath.erfc(-h / mpmath.sqrt(2)) / 2,
    "silu": lambda h: h / (1 + mpmath.exp(-h)),
    "sigmoid": lambda h: 1 / (1 + mpmath.exp(-h)),
    "leaky_relu": lambda h: h if h > 0 else h * mpmath.mpf(0.01),
    "softplus": _softplus,
    "hardtanh": lambda h: max(min(h, mpmath.mpf(1)), mpmath.mpf(-1)),
}


def outputs_exactly(module: nn.Module, state: Array) -> list[Any]:
    """Of the module as it is stored, layer by layer."""
    assert isinstance(module, nn.Sequential)
    signal = [mpmath.mpf(float(value)) for value in state]
    for layer in module:
        if isinstance(layer, nn.Linear):
            signal = affine_exactly(layer.weight, layer.bias, signal)
        elif isinstance(layer, Residual):
            beside = affine_exactly(layer.gain, layer.offset, signal)
            inside = outputs_exactly(layer.network, state)
            signal = [one + other for one, other in zip(inside, beside, strict=True)]
        elif isinstance(layer, Scaler):
            parts = zip(layer.factor.tolist(), signal, layer.offset.tolist(), strict=True)
            signal = [mpmath.mpf(factor) * one + offset for factor, one, offset in parts]
        else:
            signal = [EXACT[ACTIVATION_OF[type(layer)].name](one) for one in signal]
    return signal


def affine_exactly(weight: Tensor, bias: Tensor, signal: list[Any]) -> list[Any]:
    rows = zip(weight.tolist(), bias.tolist(), strict=True)
    return [mpmath.fdot(row, signal) + constant for row, constant in rows]


def value_exactly(module: nn.Module, state: Array, weights: Array, mean: bool) -> Any:
    raw = outputs_exactly(module, state)
    if mean:
        return mpmath.fdot(map(float, weights), raw)
    highest = max(raw)
    shares = [mpmath.exp(one - highest) for one in raw]
    return mpmath.fdot(map(float, weights), shares) / mpmath.fsum(shares)


def place(rng: np.random.Generator, kind: str) -> hr.Points | hr.Region:
    """Of two coordinates."""
    at, size = rng.normal(size=2) * rng.choice([1.0, 1e4]), 10.0 ** rng.uniform(-9, 0, size=2)
    if kind == "points":
        return hr.Points(at + size * rng.normal(size=(4, 2)))
    if kind == "ball":
        return hr.Ball(at, float(max(size.max(), 1e-9 * np.abs(at).max())))
    if kind == "curve":
        first = f"{float(at[0])!r} + {float(size[0])!r}*cos(t)"
        return hr.Curve([first, float(at[1])], 0.0, 2.0)
    size = np.maximum(size, 1e-8 * np.abs(at))
    turns = np.arange(4) * np.pi / 2 + rng.uniform(0.0, 0.5)
    around = np.stack([np.cos(turns), np.sin(turns)], axis=1)
    if kind == "polygon":
        return hr.Polytope(at + size * around)
    if kind == "half-spaces":
        size = np.maximum(size, 1e-4 * np.abs(at).max())
        return hr.Polytope.from_half_spaces(around / size, around @ (at / size) + 1.0)
    return hr.Box(at - size, at + size)


def network(rng: np.random.Generator, name: str, kind: str, dtype: torch.dtype) -> nn.Sequential:
    kinds = ACTIVATIONS[name].kind
    layers: list[nn.Module] = [nn.Linear(2, 5), kinds()]
    if rng.random() < 0.5:
        layers += [nn.Linear(5, 4), kinds()]
    last = 4 if len(layers) > 2 else 5
    module = nn.Sequential(*layers, nn.Linear(last, 3)).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.tensor(rng.normal(size=tuple(parameter.shape))))
        first, outer = module[0], module[-1]
        assert isinstance(first, nn.Linear)
        assert isinstance(outer, nn.Linear)
        if kind == "cancelling":  # large weights that add up to little
            outer.weight.mul_(10.0 ** rng.uniform(2, 9))
            outer.weight[:, -1] = -outer.weight[:, :-1].sum(dim=1)
            first.weight.mul_(1e-3)
        if kind == "denormal":
            first.weight.mul_(1e-310 if dtype == torch.float64 else 1e-42)
        if kind == "large":
            first.weight.mul_(10.0 ** rng.uniform(1, 4))
        if kind == "huge":
            outer.weight.mul_(10.0 ** rng.uniform(30, 307))
    return nn.Sequential(*dressed(rng, [*module], kind)).to(dtype)


def dressed(rng: np.random.Generator, layers: list[nn.Module], kind: str) -> list[nn.Module]:
    """With what is not learned around it."""
    if kind in ("scaled", "all"):
        layers = [scaling(rng), *layers]
    if kind in ("residual", "all"):
        size = rng.choice([0.1, 1.0, 1e6])
        gain, offset = size * rng.normal(size=(3, 2)), size * rng.normal(size=3)
        layers = [Residual(nn.Sequential(*layers), gain, offset)]
    if kind in ("bounded", "all"):
        bounding = nn.Tanh() if rng.random() < 0.5 else nn.Hardtanh()
        middle = rng.normal(size=3) * rng.choice([0.0, 1.0, 1e3])
        layers += [bounding, Scaler(10.0 ** rng.uniform(-3, 3, size=3), middle)]
    return layers


def scaling(rng: np.random.Generator) -> Scaler:
    """From mild to one that cancels almost all digits."""
    factor = 10.0 ** rng.uniform(-5, 3, size=2) * rng.choice([1.0, -1.0], size=2)
    return Scaler(factor, rng.normal(size=2) * rng.choice([0.0, 1.0, 1e4, 1e9]))


def sound(seed: int, name: str, kind: str, where: str, dtype: torch.dtype, mean: bool) -> str:
    """Ask for almost what the worst state of a sample has; whatever is answered must be true."""
    rng = np.random.default_rng(seed)
    module = network(rng, name, kind, dtype)
    region = place(rng, where)
    policy: Any = hr.GaussianPolicy(module, 1.0) if mean else hr.CategoricalPolicy(module)
    layers = provable_layers(policy)
    if isinstance(region, hr.Points):
        states = region.states
    else:
        states = np.concatenate([region.spread(60, seed=seed), region.corners])
    weights = np.array([1.0, 0.0, 0.0]) if rng.random() < 0.6 else rng.choice([0.0, 1, -0.5, 2], 3)
    if np.ptp(weights) == 0.0:
        weights[0] += 1.0
    sign = rng.choice([1.0, -1.0])
    with mpmath.workdps(DIGITS), np.errstate(all="ignore"):
        rough = np.nan_to_num(layers.outputs(states) @ weights) if mean else None
        order = np.arange(len(states)) if rough is None else np.argsort(sign * rough)
        values = [value_exactly(module, states[i], weights, mean) for i in order[:12]]
        worst = min(values, key=lambda value: sign * value)
        away = sign * float(rng.choice([-1e-2, -1e-6, -1e-12, 1e-15, 1e-12, 1e-6]))
        bound = float(worst + away * max(1, abs(worst)))
        rule = hr.AtLeast if sign > 0 else hr.AtMost
        action = {index: float(weight) for index, weight in enumerate(weights) if weight}
        try:
            asked = rule(bound, hr.Mean(action) if mean else action, region, name="asked")
            answer = hr.certify(policy, asked, budget=hr.Budget(cells=300, seconds=2.0))
        except hr.errors.InvalidConstraint:  # no softmax is so near to its end
            return "refused"
        if answer.certified:
            assert sign * (worst - mpmath.mpf(bound)) >= 0
            claimed = answer.lowest if sign > 0 else answer.highest
            assert claimed is not None
            assert np.isfinite(claimed)
            assert sign * (worst - mpmath.mpf(claimed)) >= 0
            acting = policy.outputs(states.astype(np.float64)) @ weights
            head = 1e-14 * max(1.0, float(np.abs(acting).max()))
            assert (sign * (acting - claimed) >= -head).all()
        if answer.state is not None:
            state = np.array(answer.state)
            value = value_exactly(module, state, weights, mean)
            assert sign * (mpmath.mpf(bound) - value) > 0
            if isinstance(region, hr.Points):
                assert (state == region.states).all(axis=1).any()
            else:
                assert region.contains(state[None]).all()
    return answer.status


KINDS = (
    "plain",
    "cancelling",
    "denormal",
    "large",
    "huge",
    "scaled",
    "residual",
    "bounded",
    "all",
)

CASES = {
    "seed": st.integers(0, 2**32 - 1),
    "name": st.sampled_from(sorted(ACTIVATIONS)),
    "kind": st.sampled_from(sorted(KINDS)),
    "where": st.sampled_from(["points", "box", "ball", "polygon", "half-spaces", "curve"]),
    "dtype": st.sampled_from([torch.float64, torch.float32]),
    "mean": st.booleans(),
}


@settings(max_examples=120, deadline=None, derandomize=True, database=None)
@given(**CASES)
def test_whatever_is_answered_is_true(**case: Any) -> None:
    assert sound(**case) in ("certified", "counterexample", "unknown", "refused")


@pytest.mark.slow
@settings(max_examples=4_000, deadline=None, derandomize=True, database=None)
@given(**CASES)
def test_whatever_is_answered_is_true_often(**case: Any) -> None:
    assert sound(**case) in ("certified", "counterexample", "unknown", "refused")


def test_a_range_is_that_of_the_precision_that_acts() -> None:
    assert sound(13811, "elu", "bounded", "points", torch.float32, mean=True) == "certified"


def test_all_three_answers_are_met() -> None:
    met = {
        sound(seed, name, kind, "box", dtype, mean=False)
        for seed in range(12)
        for name, kind, dtype in [
            ("relu", "plain", torch.float64),
            ("tanh", "plain", torch.float32),
            ("relu", "cancelling", torch.float32),
        ]
    }
    assert {"certified", "counterexample", "unknown"} <= met


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_acting_policy_is_as_near_as_the_model_says(name: str, dtype: torch.dtype) -> None:
    """One state at a time, as a batch, and with torch: whatever the order of summation."""
    rng = np.random.default_rng(1)
    for kind in ("plain", "large", "cancelling", "scaled", "residual", "bounded", "all"):
        policy = hr.GaussianPolicy(network(rng, name, kind, dtype), 1.0)
        layers = provable_layers(policy)
        states = rng.normal(size=(8, 2))
        used = FLOAT64 if dtype == torch.float64 else FLOAT32
        allowed = Rounding(layers, used).of_values(states, 1.0)
        with torch.no_grad():
            by_torch = policy.module(torch.tensor(states, dtype=dtype)).double().numpy()
        with mpmath.workdps(DIGITS):
            for index, state in enumerate(states):
                exact = outputs_exactly(policy.module, state)
                for found in (policy.raw(states)[index], by_torch[index]):
                    off = max(abs(a - float(b)) for a, b in zip(exact, found, strict=True))
                    assert off <= allowed[index]
        jump = 1e10 * ACTIVATIONS[name].jump
        assert allowed.max() <= 1e9 * (1e-8 if used is FLOAT64 else 1.0) + 1e3 * jump


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_violation_counts_by_the_rounding_of_its_own_state(dtype: torch.dtype) -> None:
    """Near 0 numbers are known far better than at the other end of the box."""
    linear = nn.Linear(1, 1).to(dtype)
    nn.init.ones_(linear.weight)
    nn.init.zeros_(linear.bias)
    policy = hr.GaussianPolicy(nn.Sequential(linear), 1.0)
    layers, end = provable_layers(policy), np.array([1e6])
    over_the_box = Rounding(layers, FLOAT64).of_bounds(0.0 * end, end, 1.0)
    for where in (hr.Box([0.0], end), hr.Points([[0.0]])):
        for bound, status in ((1e-11, "counterexample"), (1e-16, "unknown")):
            assert bound < over_the_box
            answer = hr.certify(policy, hr.AtLeast(bound, hr.Mean(0), where, name="asked"))
            assert answer.status == status
            if answer.state is not None:
                assert answer.state[0] < bound  # the value is the state itself
                assert answer.violation == pytest.approx(bound, rel=1e-3)


def test_a_state_that_float32_cannot_hold() -> None:
    """16777217 is 16777216 in float32: the hidden unit is 1 to the proof, and 0 to the policy."""
    module = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 2)).float()
    values: list[Any] = [[[1.0]], [-16777216.0], [[0.0], [10.0]], [0.0, -5.0]]
    with torch.no_grad():
        for parameter, value in zip(module.parameters(), values, strict=True):
            parameter[:] = torch.tensor(value)
    policy = hr.CategoricalPolicy(module)
    for where in (hr.Box([16777217.0], [16777217.5]), hr.Points([[16777217.0]])):
        rule = hr.AtLeast(0.99, 1, where, name="held")
        assert hr.certify(policy, rule).status == "unknown"
        assert hr.certify(policy.in_float64([[0.0]]), rule).certified
    answer = hr.enforce(policy, [hr.AtLeast(0.99, 1, hr.Box([16777217.0], [16777217.5]))])
    assert not answer.satisfied or policy.probabilities([[16777217.0]])[0, 1] >= 0.99


def lost_by_halving(k: int, rng: np.random.Generator) -> float:
    """How far, in units of its coordinates, a state of a simplex gets from ever smaller cells."""
    corners = rng.normal(size=(k + 1, k)) + rng.choice([0.0, 3.0])
    known = exactly(corners)
    shares = [*(Fraction(int(share)) for share in rng.integers(1, 5, k)), Fraction(0)]
    state = tuple(
        sum(map(mul, shares, column), start=Fraction(0)) / sum(shares)
        for column in zip(*known, strict=True)
    )  # on a face
    sizes = [max(map(abs, column)) for column in zip(*known, strict=True)]
    cells = Cells(corners.min(axis=0)[None], corners.max(axis=0)[None], corners[None], np.arange(k))
    lost = 0.0
    for _ in range(40 * k):
        cells = cells.halves(np.ones(k))
        weights = [exact_weights(exactly(one), state) for one in cells.simplex]
        best = max(range(2), key=lambda i: min(weights[i] or [Fraction(-(10**9))]))
        inside = [max(weight, Fraction(0)) for weight in weights[best] or []]
        if not inside:  # as flat as float64 makes them
            break
        for x, size, column in zip(
            state, sizes, zip(*exactly(cells.simplex[best]), strict=True), strict=True
        ):
            nearest = sum(map(mul, inside, column), start=Fraction(0)) / sum(inside)
            lost = max(lost, float(abs(x - nearest) / size) * 2.0**53)
        cells = cells.take(np.array([best]))
    return lost


def test_what_halving_loses_is_allowed_for() -> None:
    rng = np.random.default_rng(0)
    lost = [lost_by_halving(k, rng) for k in (2, 3) for _ in range(12)]
    assert 1.0 < max(lost) < 64.0
    # A policy that returns its state: known up to 128 units on simplices.
    layers = LayerArrays((np.eye(2),), (np.zeros(2),), (IDENTITY,))
    low, high = np.zeros(2), np.ones(2)
    for used in (FLOAT64, FLOAT32):
        boxes = Rounding(layers, used).of_bounds(low, high, 1.0)
        simplices = Rounding(layers, used).of_bounds(low, high, 1.0, simplices=True)
        assert simplices - boxes == pytest.approx(2.0 * 128.0 * 2.0**-53, rel=1e-3)


def test_rounding_has_no_bound_where_sums_could_overflow() -> None:
    weights = (np.full((2, 1), 1e200), np.full((2, 2), 1e200))
    layers = LayerArrays(weights, (np.zeros(2), np.zeros(2)), (ACTIVATIONS["relu"], IDENTITY))
    rounding = Rounding(layers, FLOAT64)
    assert rounding.of_bounds(np.array([1.0]), np.array([2.0]), 1.0) == np.inf
    assert rounding.of_values(np.array([[1.0]]), 1.0).tolist() == [np.inf]
    assert rounding.of_values(np.array([[np.nan]]), 1.0).tolist() == [np.inf]
    small = LayerArrays((np.eye(1),), (np.zeros(1),), (IDENTITY,))
    assert Rounding(small, FLOAT32).of_values(np.array([[1e38]]), 1.0).tolist() == [np.inf]
    assert Rounding(small, FLOAT64).of_values(np.array([[1.0]]), 0.0)[0] <= 1e-13
    assert 1e-7 <= Rounding(small, FLOAT32).of_values(np.array([[1.0]]), 0.0)[0] <= 1e-5
