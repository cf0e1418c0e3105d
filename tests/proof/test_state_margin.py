"""Bounds and weights that depend on the state: what is proven is so, what is not so is found."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import handrail as hr
from handrail._types import Array
from handrail.constraints import Amount, Bounded
from handrail.errors import InvalidConstraint
from handrail.proof import verify_certificates, write_certificates

NAMES = ["x", "y", "z"]
BOX = hr.Box([-1.0, -0.5, 0.2], [1.0, 0.5, 0.9])
SPACE = gym.spaces.Box(-2.0, 2.0, (3,))
BOUNDS: list[Amount] = [
    hr.Affine([0.5, -1.0, 0.2], 0.1),
    hr.Formula("0.5*x - y*z", NAMES),
    hr.Formula("sin(2*x) + sqrt(z) - abs(y)", NAMES),
    hr.Formula("max(x, y)/(1 + z**2)", NAMES),
]


def gaussian(seed: int, hidden: list[int], activation: str, n_actions: int = 1) -> hr.Policy:
    actions = gym.spaces.Box(-3.0, 3.0, (n_actions,))
    return hr.GaussianPolicy.mlp((SPACE, actions), hidden, activation, seed=seed)


def categorical(seed: int, hidden: list[int], activation: str) -> hr.Policy:
    return hr.CategoricalPolicy.mlp((SPACE, gym.spaces.Discrete(3)), hidden, activation, seed=seed)


def worst(policy: hr.Policy, rule: Bounded, n: int = 40_000) -> float:
    """The largest violation at many states, corners of the region among them."""
    assert isinstance(rule.where, hr.Region)
    states = rule.where.sample(n, np.random.default_rng(1))
    low, high = rule.where.bounds
    corners = np.stack(np.meshgrid(*zip(low, high, strict=True)), axis=-1).reshape(-1, len(low))
    states = np.concatenate([states, corners])
    asked = rule.asked_at(states, policy.outputs(states[:1]).shape[1])
    return float(asked.violations(policy.outputs(states)).max())


def with_offset(bound: Amount, by: float) -> Amount:
    """The bound, moved."""
    if isinstance(bound, hr.Affine):
        return hr.Affine(bound.gain, bound.offset + by)
    assert isinstance(bound, hr.Formula)
    return hr.Formula(f"{bound.text} + ({by!r})", bound.names)


@pytest.mark.parametrize("bound", BOUNDS, ids=str)
@pytest.mark.parametrize(("hidden", "activation"), [([30], "relu"), ([8, 8], "tanh")])
@pytest.mark.parametrize("upper", [True, False])
def test_just_inside_is_proven_and_just_outside_is_not(
    bound: Any, hidden: list[int], activation: str, upper: bool
) -> None:
    kind: Any = hr.AtMost if upper else hr.AtLeast
    for seed in range(2):
        policy = gaussian(seed, hidden, activation)
        off = worst(policy, kind(bound, hr.Mean(0), BOX))
        sign = 1.0 if upper else -1.0
        inside = kind(with_offset(bound, sign * (off + 0.05)), hr.Mean(0), BOX)
        answer = hr.certify(policy, inside)
        assert answer.certified, str(answer)
        assert answer.slack is not None
        assert 0.0 <= answer.slack <= 0.05 + 1e-9
        assert answer.worst_violation == -answer.slack
        assert "never nearer than" in str(answer)
        outside = kind(with_offset(bound, sign * (off - 0.01)), hr.Mean(0), BOX)
        answer = hr.certify(policy, outside)
        assert answer.status == "counterexample"
        assert answer.violation is not None
        assert answer.violation > 0.0
        state = np.array([answer.state])
        there = outside.asked_at(state, 1).violations(policy.outputs(state))
        assert answer.violation == pytest.approx(float(there[0]))


@pytest.mark.parametrize("bound", ["0.4 + 0.2*x", "0.5 + 0.3*sin(3*x*y)", "exp(-z) - 0.2"])
@pytest.mark.parametrize(("hidden", "activation"), [([30], "relu"), ([8, 8], "tanh")])
def test_probabilities(bound: str, hidden: list[int], activation: str) -> None:
    for seed, action in ((0, 1), (1, {0: 1.0, 2: 1.0})):
        policy = categorical(seed, hidden, activation)
        off = worst(policy, hr.AtLeast(hr.Formula(bound, NAMES), action, BOX))
        for by, status in ((-off - 0.02, "certified"), (-off + 0.005, "counterexample")):
            text = f"max(0.001, min(0.999, {bound} + ({by!r})))"
            rule = hr.AtLeast(hr.Formula(text, NAMES), action, BOX)
            answer = hr.certify(policy, rule)
            assert answer.status == status, str(answer)
            if answer.slack is not None:
                assert answer.slack <= -worst(policy, rule) + 1e-9


@pytest.mark.parametrize("upper", [True, False])
def test_weights_that_depend_on_the_state(upper: bool) -> None:
    weights = {0: hr.Formula("cos(x)", NAMES), 1: hr.Formula("y", NAMES)}  # y changes its sign
    kind: Any = hr.AtMost if upper else hr.AtLeast
    for hidden, activation in (([30], "relu"), ([8, 8], "tanh")):
        policy = gaussian(3, hidden, activation, n_actions=2)
        bound = hr.Formula("x*z", NAMES)
        off = worst(policy, kind(bound, hr.Mean(weights), BOX))
        sign = 1.0 if upper else -1.0
        inside = kind(with_offset(bound, sign * (off + 0.05)), hr.Mean(weights), BOX)
        answer = hr.certify(policy, inside)
        assert answer.certified, str(answer)
        assert answer.slack is not None
        assert answer.slack <= -worst(policy, inside) + 1e-9
        outside = kind(with_offset(bound, sign * (off - 0.01)), hr.Mean(weights), BOX)
        assert hr.certify(policy, outside).status == "counterexample"


def _planted(policy: hr.Policy, rng: np.random.Generator, kind: str) -> Bounded:
    """A bound with a dent at one state, in which the policy is just outside of it."""
    at = BOX.sample(1, rng)[0]
    depth, steep = 10.0 ** rng.uniform(-4, -1), 50.0 * 10.0 ** rng.uniform(0, 2)
    far = " + ".join(f"abs({n} - ({c!r}))" for n, c in zip(NAMES, at.tolist(), strict=True))
    outputs = policy.outputs(at[None])[0].tolist()
    if kind == "probability":
        text = f"min(0.999, {outputs[0] - depth!r} + ({far})*{steep!r})"
        return hr.AtMost(hr.Formula(f"max(0.0001, {text})", NAMES), 0, BOX)
    if kind == "weights":
        value = float(outputs[0] * np.cos(at[0]))
        text = f"{value - depth!r} + ({far})*{steep!r}"
        action = hr.Mean({0: hr.Formula("cos(x)", NAMES)})
        return hr.AtMost(hr.Formula(text, NAMES), action, BOX)
    text = f"{outputs[0] - depth!r} + ({far})*{steep!r}"
    return hr.AtMost(hr.Formula(text, NAMES), hr.Mean(0), BOX)


def _no_planted_violation_is_certified(kind: str, cases: int) -> None:
    rng, found = np.random.default_rng(0), 0
    for case in range(cases):
        make = categorical if kind == "probability" else gaussian
        policy = make(case, [10], "relu" if case % 2 else "tanh")
        rule = _planted(policy, rng, kind)
        answer = hr.certify(policy, rule, budget=hr.Budget(500, 5.0))
        found += answer.status == "counterexample"
        assert not answer.certified, f"{case}: {rule}"
    assert found > 0


KINDS = ("bound", "weights", "probability")


@pytest.mark.parametrize("kind", KINDS)
def test_no_planted_violation_is_certified(kind: str) -> None:
    _no_planted_violation_is_certified(kind, 15)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_planted_violation_of_a_thousand_is_certified(kind: str) -> None:
    _no_planted_violation_is_certified(kind, 1000)


def test_points_are_evaluated_where_they_are() -> None:
    policy = gaussian(0, [20], "tanh")
    states: Array = BOX.sample(20, np.random.default_rng(0))
    values = policy.outputs(states)[:, 0]
    fit = np.linalg.lstsq(np.column_stack([states, np.ones(20)]), values, rcond=None)[0]
    above = float((values - states @ fit[:3] - fit[3]).max())
    bound = hr.Affine(fit[:3], float(fit[3] + above + 1e-6))
    assert hr.certify(policy, hr.AtMost(bound, hr.Mean(0), hr.Points(states))).certified
    tight = hr.Affine(fit[:3], float(fit[3] + above - 1e-6))
    answer = hr.certify(policy, hr.AtMost(tight, hr.Mean(0), hr.Points(states)))
    assert answer.violation == pytest.approx(1e-6, abs=1e-9)
    loose = hr.certify(policy, hr.AtMost(tight, hr.Mean(0), hr.Points(states)), tolerance=1e-5)
    assert loose.certified
    assert loose.worst_violation == pytest.approx(1e-6, abs=1e-9)


def test_what_nobody_can_look_into_is_not_proven() -> None:
    policy = gaussian(0, [20], "tanh")
    anything: Any = lambda s: s[:, 0] + 5.0  # noqa: E731
    rule = hr.AtMost(anything, hr.Mean(0), BOX)
    with pytest.raises(InvalidConstraint, match="nobody can look into a Python function"):
        hr.certify(policy, rule)


def test_a_certificate_says_which_function_it_was(tmp_path: Any) -> None:
    policy = gaussian(0, [20], "tanh")
    rule = hr.AtMost(hr.Formula("3 + x", NAMES), hr.Mean(0), BOX, name="below")
    path = tmp_path / "certificate.json"
    write_certificates(path, policy, [rule], [hr.certify(policy, rule)])
    assert verify_certificates(path, policy, [rule])[0].certified
    other = hr.AtMost(hr.Formula("3.1 + x", NAMES), hr.Mean(0), BOX, name="below")
    with pytest.raises(hr.errors.InvalidCertificate, match="has another upper than when it was"):
        verify_certificates(path, policy, [other])


BENDS = "x**2 - x + 0.5"  # at least 0.25, but intervals see -0.5 over the whole box


@pytest.mark.parametrize("weight", ["1", f"1 + 0.1*log({BENDS})"])
@pytest.mark.parametrize("bound", [f"log({BENDS})", f"0.2/({BENDS})", f"sqrt({BENDS})"])
def test_what_is_bounded_on_cells_only_is_proven_on_them(weight: str, bound: str) -> None:
    """Just inside is proven, just outside is found, as the whole region's bound would say."""
    policy = gaussian(0, [10], "tanh")
    action = hr.Mean({0: hr.Formula(weight, NAMES)})
    limit = hr.Formula(bound, NAMES)
    off = worst(policy, hr.AtMost(limit, action, BOX))
    inside = hr.certify(policy, hr.AtMost(with_offset(limit, off + 0.05), action, BOX))
    assert inside.certified, str(inside)
    assert inside.slack is not None
    assert 0.0 <= inside.slack <= 0.05 + 1e-9
    outside = hr.certify(policy, hr.AtMost(with_offset(limit, off - 0.01), action, BOX))
    assert outside.status == "counterexample"


def test_probabilities_have_bounds_that_are_possible_on_cells_only() -> None:
    """Up to 0.7, but intervals see a pole, and no log-odds."""
    policy = categorical(0, [16], "relu")
    limit = hr.Formula(f"0.1 + 0.15/({BENDS})", NAMES)
    off = worst(policy, hr.AtMost(limit, 0, BOX))
    assert 0.0 < off < 0.2
    inside = hr.certify(policy, hr.AtMost(with_offset(limit, off + 0.02), 0, BOX))
    assert inside.certified, str(inside)
    outside = hr.certify(policy, hr.AtMost(with_offset(limit, off - 0.01), 0, BOX))
    assert outside.status == "counterexample"


@pytest.mark.parametrize(
    ("beside", "text"),
    [
        (hr.Ball([0.6, 0.0, 0.5], 0.5), "0.1/((x - 0.1)**2 + (y + 0.5)**2 + (z - 1)**2)"),
        (
            hr.Union([hr.Box([-1, 0, 0.2], [-0.3, 0, 0.9]), hr.Box([0.3, 0, 0.2], [1, 0, 0.9])]),
            "0.1/x**2",
        ),
    ],
    ids=["ball", "on both sides"],
)
def test_regions_beside_a_pole(beside: Any, text: str) -> None:
    """The box around the region holds the pole; no state does."""
    policy = gaussian(1, [10], "tanh")
    limit = hr.Formula(text, NAMES)
    off = worst(policy, hr.AtMost(limit, hr.Mean(0), beside))
    inside = hr.certify(policy, hr.AtMost(with_offset(limit, off + 0.05), hr.Mean(0), beside))
    assert inside.certified, str(inside)
    outside = hr.certify(policy, hr.AtMost(with_offset(limit, off - 0.05), hr.Mean(0), beside))
    assert outside.status == "counterexample"


def test_points_on_both_sides_of_a_pole_are_evaluated() -> None:
    policy = gaussian(0, [10], "tanh")
    points = hr.Points([[-0.5, 0.0, 0.5], [0.5, 0.0, 0.5]])
    values = policy.outputs(points.states)[:, 0]
    high = hr.AtMost(
        hr.Formula(f"1/x**2 + {float(values.max()) - 3.9!r}", NAMES), hr.Mean(0), points
    )
    assert hr.certify(policy, high).certified
    low = hr.AtMost(
        hr.Formula(f"1/x**2 + {float(values.max()) - 4.1!r}", NAMES), hr.Mean(0), points
    )
    assert hr.certify(policy, low).status == "counterexample"


@pytest.mark.parametrize("pole", ["x", "x - 0.3", "(x - 0.3)**2"])
def test_what_is_unbounded_is_refused_with_the_state(pole: str) -> None:
    policy = gaussian(0, [10], "tanh")
    rule = hr.AtMost(hr.Formula(f"9 + 1/({pole})**2", NAMES), hr.Mean(0), BOX)
    answer = hr.certify(policy, rule)
    assert answer.status == "unknown"
    where = "0" if pole == "x" else "0.3"
    assert f"has no bound near ({where}, " in answer.reason
    assert "leave such states out" in answer.reason
