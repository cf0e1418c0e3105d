"""Proofs over regions: sound before everything, then useful."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import handrail as hr
from handrail._types import Array
from handrail.policies import (
    ACTIVATIONS,
    IDENTITY,
    MEAN,
    PROBABILITY,
    RELU,
    LayerArrays,
    Quantity,
    Residual,
    Scaler,
)
from handrail.proof.judgement import certify
from handrail.proof.margin import LinearMargin, SoftmaxMargin, at_least, at_most
from handrail.proof.question import provable_layers
from handrail.proof.relaxation import Relaxation
from handrail.proof.rounding import FLOAT64, Rounding
from handrail.proof.vertex_bound import VertexBound
from handrail.regions.cells import Cells
from tests.conftest import sharpen, small_policy, spaces


def network(*layers: tuple[Array, Array], activation: type[nn.Module] = nn.ReLU) -> Any:
    """A policy with these weights and biases."""
    modules: list[nn.Module] = []
    for weight, bias in layers:
        layer = nn.Linear(weight.shape[1], weight.shape[0], dtype=torch.float64)
        with torch.no_grad():
            layer.weight.copy_(torch.as_tensor(weight))
            layer.bias.copy_(torch.as_tensor(bias))
        modules += [layer, activation()]
    return hr.CategoricalPolicy(nn.Sequential(*modules[:-1]))


# --- soundness: planted violations ------------------------------------------------------------


def planted(rng: np.random.Generator, region: hr.Region, kind: str, width: float) -> Any:
    """A policy that obeys π_0 ≥ 0.9 but for a tent, a corner or an edge; and the violated state."""
    low, high = region.bounds
    varying = np.flatnonzero(high > low)
    corners = region.corners
    if kind == "tent" or not len(corners):
        at = region.sample(1, rng)[0]
    elif kind == "vertex":
        at = corners[rng.integers(len(corners))]
    else:
        a, b = rng.choice(len(corners), 2, replace=False)
        at = corners[a] + rng.random() * (corners[b] - corners[a])
    normal = np.zeros(len(low))
    normal[varying] = rng.normal(size=len(varying))
    if kind == "vertex":  # outwards, so that only a corner of this size is cut off
        normal[varying] = (at - 0.5 * (low + high))[varying] * rng.uniform(0.5, 1.5, len(varying))
    normal /= np.linalg.norm(normal)
    base_weight = rng.normal(size=(12, len(low)))
    base_bias = rng.normal(size=12)
    base_out = rng.normal(size=12)
    sample = np.concatenate([region.sample(400, rng), at[None]])
    base = np.maximum(sample @ base_weight.T + base_bias, 0.0) @ base_out
    base_out *= 0.3 / max(float(np.ptp(base)), 1e-9)
    base *= 0.3 / max(float(np.ptp(base)), 1e-9)
    # log-odds of action 0: 3 ± 0.3 almost everywhere, log(9) - 0.2 at the planted state.
    depth = 3.0 + base[-1] - base.mean() - np.log(9.0) + 0.2
    offsets = np.array([-width, 0.0, width]) - normal @ at
    tent = depth / width * np.array([1.0, -2.0, 1.0])
    inward = np.concatenate([base_weight, np.tile(normal, (3, 1))])
    inward_bias = np.concatenate([base_bias, offsets])
    outward = np.concatenate([base_out, -tent])
    return at, inward, inward_bias, outward, 3.0 - base.mean()


def boxes_and_others(rng: np.random.Generator) -> hr.Region:
    kind = rng.integers(5)
    if kind == 0:
        dimensions = int(rng.integers(1, 5))
        low = rng.uniform(-2.0, 0.0, dimensions)
        return hr.Box(low, low + rng.uniform(0.2, 2.0, dimensions))
    if kind == 1:  # some coordinates fixed
        low = rng.uniform(-1.0, 0.0, 5)
        high = low + np.where(np.arange(5) < 2, rng.uniform(0.2, 2.0, 5), 0.0)
        return hr.Box(low, high)
    if kind == 2:
        return hr.Ball(rng.uniform(-1, 1, 3), float(rng.uniform(0.1, 1.0)), coordinates=[0, 2])
    angles = np.sort(rng.uniform(0.0, 2.0 * np.pi, 5))
    radii = rng.uniform(0.3, 1.0, 5)
    polygon = np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=1)
    others = {1: (-1.0, 1.0)} if kind == 3 else {1: 0.3}
    try:
        return hr.Polytope(polygon, coordinates=[0, 2], others=others)
    except hr.errors.InvalidConstraint:  # nearly flat: rare
        return hr.Box([-1.0, 0.0, -1.0], [1.0, 1.0, 1.0])


KINDS = ("tent", "vertex", "edge")
WIDTHS = (1e-1, 1e-2, 1e-3, 1e-4)


def check_planted(
    policy: hr.CategoricalPolicy, region: hr.Region, at: Array, off: float = 1e-12
) -> str:
    rule = hr.AtLeast(0.9, action=0, where=region)
    assert policy.probabilities(at)[0] < 0.9  # it is planted
    answer = certify(policy, rule, budget=hr.Budget(cells=4_000, seconds=20.0))
    assert answer.status != "certified"
    if answer.status == "counterexample":
        state = np.array(answer.state)
        assert region.contains(state[None])[0]
        assert answer.violation is not None
        assert answer.violation > 0.0
        assert policy.probabilities(state)[0] == pytest.approx(0.9 - answer.violation, abs=off)
    return answer.status


@pytest.mark.parametrize(("kind", "width"), list(product(KINDS, WIDTHS)))
def test_no_false_certificates_one_hidden_layer(kind: str, width: float) -> None:
    """12 x 90 = 1,080 networks."""
    rng = np.random.default_rng([KINDS.index(kind), WIDTHS.index(width)])
    found = 0
    for _ in range(90):
        region = boxes_and_others(rng)
        at, inward, inward_bias, outward, offset = planted(rng, region, kind, width)
        both = np.stack([outward, np.zeros_like(outward)])
        policy = network((inward, inward_bias), (both, np.array([offset, 0.0])))
        found += check_planted(policy, region, at) == "counterexample"
    assert found >= 80  # most are found, not only not proven


@pytest.mark.parametrize("width", WIDTHS)
def test_no_false_certificates_deep(width: float) -> None:
    """4 x 40 = 160 networks with two hidden layers that compute the same."""
    rng = np.random.default_rng(WIDTHS.index(width))
    for index in range(40):
        region = boxes_and_others(rng)
        at, inward, inward_bias, outward, offset = planted(rng, region, KINDS[index % 3], width)
        through = np.stack([outward, -outward])
        policy = network(
            (inward, inward_bias),
            (through, np.array([offset, -offset])),
            (np.array([[1.0, -1.0], [0.0, 0.0]]), np.zeros(2)),
        )
        check_planted(policy, region, at)


DRESSED = ("scaled", "bounded", "residual")


def dressed(rng: np.random.Generator, plain: hr.CategoricalPolicy, kind: str) -> Any:
    """Almost the same function of the same states, with layers that are not learned."""
    layers: list[Any] = list(plain.module.children())
    first, last = layers[0], layers[-1]
    n = first.in_features
    if kind == "residual":  # the same for both logits: no probability changes
        gain = np.tile(rng.normal(size=(1, n)), (2, 1))
        beside = Residual(nn.Sequential(*layers), gain, [rng.normal()] * 2, torch.float64)
        return hr.CategoricalPolicy(nn.Sequential(beside))
    with torch.no_grad():
        if kind == "scaled":
            factor, offset = (
                torch.tensor(10.0 ** rng.uniform(-5, 3, n)),
                torch.tensor(rng.normal(size=n)),
            )
            first.weight.div_(factor)
            first.bias.sub_(first.weight @ offset)
            layers = [Scaler(factor.numpy(), offset.numpy(), torch.float64), *layers]
        else:  # a range far wider than what matters here, so almost linear
            last.weight.div_(200.0)
            last.bias.div_(200.0)
            layers += [nn.Tanh(), Scaler([200.0] * 2, [0.0] * 2, torch.float64)]
    return hr.CategoricalPolicy(nn.Sequential(*layers))


def count_of_planted(dress: str, number: int, seed: int) -> int:
    """How many of these violations are found; none may be certified."""
    rng = np.random.default_rng([seed, DRESSED.index(dress)])
    found = 0
    for index in range(number):
        region, kind = boxes_and_others(rng), KINDS[index % 3]
        at, inward, inward_bias, outward, offset = planted(rng, region, kind, WIDTHS[index % 4])
        both = np.stack([outward, np.zeros_like(outward)])
        plain = network((inward, inward_bias), (both, np.array([offset, 0.0])))
        policy = dressed(rng, plain, dress)
        if policy.probabilities(at)[0] < 0.9:
            found += check_planted(policy, region, at, off=1e-8) == "counterexample"
    return found


@pytest.mark.parametrize("dress", DRESSED)
def test_no_false_certificates_with_fixed_layers(dress: str) -> None:
    """3 x 18 networks."""
    assert count_of_planted(dress, 18, seed=0) >= 12


@pytest.mark.slow
@pytest.mark.parametrize("dress", DRESSED)
def test_no_false_certificates_with_fixed_layers_often(dress: str) -> None:
    """3 x 1,200 networks."""
    assert count_of_planted(dress, 1_200, seed=1) >= 1_000


# --- soundness: the bound is below the truth ---------------------------------------------------


def random_cells(rng: np.random.Generator, dimensions: int, k: int) -> Cells:
    n = 3
    low = rng.normal(size=(n, dimensions))
    size = 10.0 ** rng.uniform(-3.0, 0.5)
    high = low + size * rng.random((n, dimensions))
    if k == 0:
        return Cells.boxes(low, high)
    simplex = size * rng.normal(size=(n, k + 1, k)) + low[:, None, :k]
    low[:, :k], high[:, :k] = simplex.min(axis=1), simplex.max(axis=1)
    return Cells(low, high, simplex, np.arange(k))


def states_in(cells: Cells, rng: np.random.Generator) -> Array:
    """(n, 6, n_coordinates) random states of each cell, its vertices among them."""
    n, k = len(cells), len(cells.simplex_coordinates)
    uniform = rng.random((n, 6, cells.low.shape[1]))
    states = cells.low[:, None] + uniform * (cells.high - cells.low)[:, None]
    if k:
        mixture = rng.dirichlet(np.full(k + 1, 0.7), size=(n, 6))
        states[:, :, cells.simplex_coordinates] = mixture @ cells.simplex
    return np.concatenate([states, cells.vertices()], axis=1)


NETWORKS: dict[str, Any] = {
    "seed": st.integers(0, 2**31),
    "n_actions": st.integers(2, 4),
    "names": st.lists(st.sampled_from([*ACTIVATIONS]), min_size=4, max_size=4),
    "last": st.booleans(),
    "hidden": st.lists(st.integers(1, 9), min_size=0, max_size=3),
    "scale": st.floats(0.1, 30.0),
    "upper": st.booleans(),
    "quantity": st.sampled_from([PROBABILITY, MEAN]),
}


@settings(max_examples=2_000, deadline=None, derandomize=True, database=None)
@given(**NETWORKS)
def test_bounds_are_below_the_margin(**case: Any) -> None:
    check_bounds(**case)


@pytest.mark.slow
@settings(max_examples=10_000, deadline=None, derandomize=True, database=None)
@given(**NETWORKS)
def test_bounds_are_below_the_margin_often(**case: Any) -> None:
    check_bounds(**case)


def check_bounds(
    seed: int,
    n_actions: int,
    names: list[str],
    last: bool,
    hidden: list[int],
    scale: float,
    upper: bool,
    quantity: Quantity,
) -> None:
    rng = np.random.default_rng(seed)
    dimensions = int(rng.integers(1, 4))
    sizes = [dimensions, *hidden, n_actions]
    between = [ACTIVATIONS[name] for name in names[: len(hidden)]]
    layers = LayerArrays(
        tuple(rng.normal(scale=scale**0.5, size=(b, a)) for a, b in pairwise(sizes)),
        tuple(rng.normal(size=b) for b in sizes[1:]),
        (*between, ACTIVATIONS[names[3]] if last else IDENTITY),
    )
    cells = random_cells(rng, dimensions, int(rng.integers(0, dimensions + 1)))
    weights = rng.choice([0.0, 1.0, 0.5, -0.5], size=n_actions)
    if np.ptp(weights) == 0.0:
        weights[0] += 1.0
    threshold = float(rng.uniform(weights.min(), weights.max()))
    margin = (at_most if upper else at_least)(quantity, weights, threshold)
    if isinstance(margin, SoftmaxMargin) and not (len(margin.positive) and len(margin.negative)):
        return
    states = states_in(cells, rng)
    bounders: list[Any] = [Relaxation(layers, margin)]
    if layers.activations == (RELU, IDENTITY):
        bounders.append(VertexBound.of(layers, margin))
    for bounder in bounders:
        true = bounder.margins(states.reshape(-1, dimensions)).reshape(states.shape[:2])
        rounding = Rounding(layers, FLOAT64)
        slack = rounding.of_bounds(cells.low.min(axis=0), cells.high.max(axis=0), margin.size)
        assert (bounder.bounds(cells).lowest <= true.min(axis=1) + slack).all()
        one = cells.take(np.array([0]))
        narrowed = bounder.narrowed(one)
        np.testing.assert_allclose(narrowed.margins(states[0]), true[0], rtol=1e-9, atol=slack)
        halves = one.halves(bounder.importance)
        assert (narrowed.bounds(halves).lowest.min() <= true[0].min() + slack).all()
    if true[0, 0] < 0.0:
        assert np.isnan(margin.worst_value(float(true[0, 0])))
        return
    worst = margin.worst_value(float(true[0, 0]))
    value = _values(layers, weights, states[0, :1], quantity)[0]
    assert isinstance(margin, SoftmaxMargin | LinearMargin)
    assert margin.sign * (value - worst) >= -1e-9 * max(1.0, abs(value))


def _values(layers: LayerArrays, weights: Array, states: Array, quantity: Quantity) -> Array:
    logits = layers.outputs(states)
    if quantity == MEAN:
        return logits @ weights
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    result: Array = (odds / odds.sum(axis=1, keepdims=True)) @ weights
    return result


def test_rounding_covers_what_float64_does() -> None:
    """Against the same network in higher precision (long double), on wide and deep ones."""
    rng = np.random.default_rng(0)
    for hidden in ([5000], [200, 200, 200]):
        policy = hr.CategoricalPolicy.mlp(spaces(6, 3), hidden=hidden, seed=1)
        layers = provable_layers(policy)
        states = rng.uniform(-3.0, 3.0, size=(50, 6))
        values = states.astype(np.longdouble)
        for weight, bias in zip(layers.weights[:-1], layers.biases[:-1], strict=True):
            values = np.maximum(values @ weight.T.astype(np.longdouble) + bias, 0.0)
        exact = values @ layers.weights[-1].T.astype(np.longdouble) + layers.biases[-1]
        error = float(np.abs(policy.logits(states) - exact).max())
        allowed = Rounding(layers, FLOAT64).of_bounds(np.full(6, -3.0), np.full(6, 3.0), 1.0)
        assert error <= allowed <= 1e-8


# --- usefulness --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kwargs",
    [
        {"hidden": [300]},
        {"hidden": [24, 24]},
        {"hidden": [24, 24], "activation": "tanh"},
        {"hidden": [16, 16, 16]},
        {"hidden": [40], "activation": "sigmoid"},
    ],
)
@pytest.mark.parametrize("n_actions", [2, 4])
def test_the_certified_worst_case_is_true_and_close(kwargs: Any, n_actions: int) -> None:
    policy = hr.CategoricalPolicy.mlp(spaces(3, n_actions), seed=3, **kwargs)
    sharpen(policy, 5.0)
    region = hr.Box([-0.5, 0.2, -0.4], [0.5, 0.2, 0.4])
    rng = np.random.default_rng(0)
    for action in ({0: 1.0}, {0: 1.0, 1: 1.0}, {0: 1.0, 1: -0.5}):
        weights = np.zeros(n_actions)
        weights[list(action)] = list(action.values())
        if np.ptp(weights) == 0.0:
            continue
        values = policy.probabilities(region.sample(50_000, rng)) @ weights
        low, high = float(values.min()), float(values.max())
        inside = hr.Between(low - 0.002, high + 0.002, action, region)
        answer = certify(policy, inside)
        assert answer.certified
        assert answer.lowest is not None
        assert answer.highest is not None
        assert low - 0.002 <= answer.lowest <= low
        assert high <= answer.highest <= high + 0.002
        assert answer.worst_violation <= 0.0
        for broken in (
            hr.AtLeast(low + 0.002, action, region),
            hr.AtMost(high - 0.002, action, region),
        ):
            answer = certify(policy, broken)
            assert answer.status == "counterexample"
            assert region.contains(np.array([answer.state]))[0]
            value = policy.probabilities(np.array(answer.state)) @ weights
            assert isinstance(answer.lower, float)
            assert isinstance(answer.upper, float)
            assert answer.violation == pytest.approx(
                max(answer.lower - value, value - answer.upper), abs=1e-12
            )


def test_a_linear_policy_is_worst_at_a_corner() -> None:
    policy = network((np.array([[1.0, -2.0], [0.0, 0.0]]), np.array([0.5, 0.0])))
    region = hr.Box([0.0, 0.0], [1.0, 1.0])
    truth = 1.0 / (1.0 + np.exp(1.5))  # at (0, 1)
    answer = certify(policy, hr.AtLeast(truth - 0.01, 0, region))
    assert answer.certified
    assert answer.lowest == pytest.approx(truth, abs=1e-9)
    assert answer.cells == 1
    assert certify(policy, hr.AtLeast(truth + 0.01, 0, region)).state == (0.0, 1.0)


def test_every_shape() -> None:
    policy = small_policy(3, 2, seed=1, sharpness=4.0)
    rng = np.random.default_rng(1)
    disk = hr.Ball([0.1, 0.2, 0.3], 0.4, coordinates=[0, 2], ranges={1: (0.0, 0.5)})
    triangle = hr.Polytope([[0, 0], [1, 0], [0, 1]], coordinates=[2, 1], others={0: (-1.0, 0.0)})
    ring = hr.Curve(["0.5*cos(t)", 0.1, "0.5*sin(t)"], 0.0, 6.28)
    callable_ring = hr.Curve(
        lambda t: np.stack([0.5 * np.cos(t), 0.1 + 0.0 * t, 0.5 * np.sin(t)], axis=1),
        0.0,
        6.28,
        speed=[0.5, 0.0, 0.5],
    )
    for region in (disk, triangle, ring, callable_ring, hr.Union([disk, triangle])):
        # A uniform sample misses the worst corner of the triangle by more than 0.005.
        states = np.concatenate([region.sample(20_000, rng), region.corners])
        low = float(policy.probabilities(states)[:, 0].min())
        answer = certify(policy, hr.AtLeast(low - 0.005, 0, region))
        assert answer.certified, (region, answer)
        assert answer.lowest is not None
        assert low - 0.005 <= answer.lowest <= low + 1e-12
        answer = certify(policy, hr.AtLeast(low + 0.01, 0, region))
        assert answer.status == "counterexample"
        assert region.contains(np.array([answer.state]))[0]


def test_points_are_evaluated() -> None:
    policy = small_policy()
    states = np.random.default_rng(0).normal(size=(20, 3))
    values = policy.probabilities(states)[:, 1]
    low = float(values.min())
    answer = certify(policy, hr.AtLeast(low - 0.01, 1, hr.Points(states)))
    assert (answer.status, answer.method) == ("certified", "evaluation")
    assert answer.lowest == pytest.approx(low, abs=1e-9)
    answer = certify(policy, hr.AtLeast(low + 0.01, 1, hr.Points(states)))
    assert answer.status == "counterexample"
    assert answer.state == tuple(states[values.argmin()])
    assert certify(policy, hr.AtLeast(low, 1, hr.Points(states))).status == "unknown"


def test_tolerance_is_allowed_and_bound() -> None:
    policy = small_policy(2, 2, sharpness=4.0)
    region = hr.Box([-0.5, -0.5], [0.5, 0.5])
    low = float(policy.probabilities(region.grid(201))[:, 0].min())
    rule = hr.AtLeast(low + 0.001, 0, region)
    assert certify(policy, rule).status == "counterexample"
    answer = certify(policy, rule, tolerance=0.01)
    assert answer.certified
    assert 0.0 < answer.worst_violation <= 0.01


def test_layers_that_change_nothing_are_looked_through() -> None:
    plain = small_policy(3, 2)
    parts = list(plain.module.children())
    nested = nn.Sequential(
        nn.Sequential(parts[0], parts[1], nn.Dropout(0.5)), nn.Identity(), parts[2]
    )
    rule = hr.AtLeast(0.05, 0, hr.Box([-1.0] * 3, [1.0] * 3))
    assert certify(hr.CategoricalPolicy(nested.eval()), rule).lowest == certify(plain, rule).lowest


def test_a_float32_network_is_proven_with_its_own_rounding() -> None:
    policy = hr.CategoricalPolicy.mlp(spaces(2, 2), hidden=[50], seed=0, dtype=torch.float32)
    region = hr.Box([-1.0, -1.0], [1.0, 1.0])
    states = region.grid(101)
    exact = policy.in_float64(states).probabilities(states)[:, 0].min()
    answer = certify(policy, hr.AtLeast(float(exact) - 0.01, 0, region))
    assert answer.certified
    assert answer.lowest is not None
    assert answer.lowest <= policy.probabilities(states)[:, 0].min()
    assert policy.dtype == torch.float32
    # Nearer to the bound than float32 can tell: known of the same weights in float64 alone.
    near = hr.AtLeast(float(exact) - 1e-8, 0, region)
    answer = certify(policy, near)
    assert answer.status == "unknown"
    assert answer.reason.startswith("a value is too near to its bound for float32. Hold it fur")
    assert answer.cells <= 5_000
    assert certify(policy.in_float64(states), near).certified
    torch.set_float32_matmul_precision("medium")
    try:
        answer = certify(policy, hr.AtLeast(float(exact) - 0.01, 0, region))
    finally:
        torch.set_float32_matmul_precision("highest")
    assert answer.status == "unknown"
    assert answer.reason.startswith("torch may round products in float32 to fewer bits")


def test_precisions_of_backends_that_differ_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's newer settings, one for each backend, make the older question an error."""

    def mixed() -> str:
        raise RuntimeError("you have used mix of the legacy and new APIs")

    monkeypatch.setattr(torch, "get_float32_matmul_precision", mixed)
    rule = hr.AtLeast(0.01, 0, hr.Box([-1.0, -1.0], [1.0, 1.0]))
    policy = hr.CategoricalPolicy.mlp(spaces(2, 2), hidden=[8], seed=0, dtype=torch.float32)
    answer = certify(policy, rule)
    assert answer.status == "unknown"
    assert answer.reason.startswith("torch may round products in float32 to fewer bits")
    assert certify(policy.in_float64([[0.0, 0.0]]), rule).certified


# --- unknown and refused -----------------------------------------------------------------------


def test_nan_weights_prove_nothing() -> None:
    rule = hr.AtLeast(0.1, 0, hr.Box([-1.0] * 3, [1.0] * 3))
    for value in (np.nan, np.inf):
        policy = small_policy()
        with torch.no_grad():
            next(iter(policy.module.parameters()))[0, 0] = value
        answer = certify(policy, rule)
        assert answer.status == "unknown"
        assert answer.reason == "a weight of the network is not finite"
        assert not answer.worst_violation <= 0.0


def test_budgets_end_in_unknown() -> None:
    policy = small_policy(3, 3, sharpness=20.0)
    region = hr.Box([-3.0] * 3, [3.0] * 3)
    states = np.concatenate([region.sample(50_000, np.random.default_rng(0)), region.corners])
    low = float(policy.probabilities(states)[:, 0].min())
    rule = hr.AtLeast(low * 0.9, 0, region)
    few = certify(policy, rule, budget=hr.Budget(cells=10))
    assert (few.status, few.reason) == ("unknown", f"gave up after {few.cells:,} cells")
    short = certify(policy, rule, budget=hr.Budget(seconds=1e-9))
    assert short.status == "unknown"
    assert short.reason.startswith("gave up after 1e-09 s and ")
    seen: list[tuple[int, int]] = []
    certify(policy, rule, budget=hr.Budget(cells=500), watch=lambda *n: seen.append(n))
    assert seen


def refusals() -> list[tuple[Any, Any, type[Exception], str]]:
    box = hr.Box([-1.0] * 3, [1.0] * 3)
    rule = hr.AtLeast(0.5, 0, box)
    policy = small_policy()
    normalised = nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 2))
    own = hr.CategoricalPolicy(normalised)
    twice = hr.CategoricalPolicy(
        nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.ReLU(), nn.Linear(8, 2)).double()
    )
    linear = hr.Linear([hr.Term([0.0, 0.0, 0.0], 0)], lower=0.1, name="sum")
    short = hr.AtLeast(0.5, 0, hr.Box([0.0, 0.0], [1.0, 1.0]), name="leaning")
    curve = hr.Curve(lambda t: np.stack([t, t, t], axis=1), 0.0, 1.0)
    return [
        (
            own,
            rule,
            hr.errors.InvalidPolicy,
            r"Nothing can be proven about this network: layer '1', LayerNorm\(\(8,\), .*, is of no "
            r"kind .* can still be made to obey on samples of a region \(prove=False\)",
        ),
        (twice, rule, hr.errors.InvalidPolicy, r"layer '2', ReLU\(\), does not follow a Linear"),
        (policy, linear, hr.errors.InvalidConstraint, "'sum' relates several states"),
        (
            policy,
            short,
            hr.errors.ShapeMismatch,
            "'leaning' has 2 coordinates but the policy observes 3. Give a range or a value",
        ),
        (
            policy,
            hr.AtLeast(0.5, 0, curve),
            hr.errors.InvalidConstraint,
            "can be proven only with a bound on its speed",
        ),
        (policy, hr.AtLeast(0.5, 7, box), hr.errors.InvalidConstraint, "names action 7"),
    ]


@pytest.mark.parametrize(("policy", "rule", "kind", "text"), refusals())
def test_refusals(policy: Any, rule: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        certify(policy, rule)


def test_a_negative_tolerance_is_refused() -> None:
    with pytest.raises(hr.errors.InvalidArgument, match="a finite number from 0 on, not -1"):
        certify(small_policy(), hr.AtLeast(0.5, 0, hr.Box([0.0] * 3, [1.0] * 3)), tolerance=-1.0)
