"""Weighted sums of probabilities whose weights or bounds depend on the state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import handrail as hr
from handrail._types import Array
from handrail.constraints import Amount
from handrail.proof.extent import Extent
from handrail.proof.odds_margin import OddsMargin
from handrail.regions import Cells
from tests.proof.test_state_margin import BOX, NAMES, categorical, with_offset, worst

Weights = dict[int, Amount]


def formula(text: str) -> hr.Formula:
    return hr.Formula(text, NAMES)


# Those that depend on the state, change their sign, or neither; what they are compared with.
SUMS: dict[str, tuple[Weights, str]] = {
    "bound": ({0: 3.0, 1: -3.0}, "0.1*x - 0.2*y*z"),
    "weights": ({0: formula("3*cos(x)"), 1: formula("y*z - 3")}, "0.3"),
    "both": ({0: formula("3*cos(x)"), 1: -3.0, 2: formula("x")}, "0.2 + 0.1*x*z"),
    "sign": ({0: 3.0, 1: formula("sin(3*x*y) - 3"), 2: formula("2*y")}, "0.2*y"),
}


@pytest.mark.parametrize("which", SUMS)
@pytest.mark.parametrize("upper", [True, False])
def test_just_inside_is_proven_and_just_outside_is_found(which: str, upper: bool) -> None:
    weights, text = SUMS[which]
    kind: Any = hr.AtMost if upper else hr.AtLeast
    sign = 1.0 if upper else -1.0
    for seed, (hidden, activation) in enumerate((([12], "relu"), ([6, 6], "tanh"))):
        policy = categorical(seed, hidden, activation)
        off = worst(policy, kind(formula(text), weights, BOX))
        inside = kind(with_offset(formula(text), sign * (off + 0.05)), weights, BOX)
        answer = hr.certify(policy, inside)
        assert answer.certified, str(answer)
        assert answer.slack is not None
        assert 0.0 <= answer.slack <= -worst(policy, inside) + 1e-9
        outside = kind(with_offset(formula(text), sign * (off - 0.01)), weights, BOX)
        found = hr.certify(policy, outside)
        assert found.status == "counterexample"
        state = np.array([found.state])
        there = outside.asked_at(state, 3).violations(policy.outputs(state))
        assert found.violation == pytest.approx(float(there[0]))


def _margin(rng: np.random.Generator) -> OddsMargin:
    terms = [
        f"({rng.normal():.3f}) + ({rng.normal():.3f})*x + ({rng.normal():.3f})*sin(2*y)*z"
        for _ in range(3)
    ]
    extent = Extent(*(end[None] for end in BOX.bounds))
    return OddsMargin(tuple(formula(one) for one in terms), extent)


def test_the_margin_is_the_sign_of_the_sum() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        margin = _margin(rng)
        states, raw = BOX.sample(200, rng), rng.normal(size=(200, 3))
        probabilities = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
        sums = sum(
            one.at(states) * probabilities[:, a] for a, one in enumerate(margin.coefficients)
        )
        assert ((margin.of_raw(raw, states) > 0.0) == (sums > 0.0)).all()


def _highest(margin: OddsMargin, low: Array, high: Array, rng: np.random.Generator) -> float:
    """How far minus the margin exceeds what `local` says, at most: never above 0."""
    cells = Cells.boxes(low[None], high[None])
    centre = rng.normal(size=(1, 3))
    local = margin.local(cells, centre)
    states = rng.uniform(low, high, size=(100, 3))
    raw = centre + 0.5 * rng.normal(size=(100, 3))
    assert local.slope is not None
    terms = raw @ local.differences[0].T + local.constants[0] + states @ local.slope[0].T
    highest = terms.max(axis=1)
    above = highest + np.log(np.exp(terms - highest[:, None]).sum(axis=1))
    return float((-margin.of_raw(raw, states) - above).max())


def test_no_state_of_a_cell_is_worse_than_its_bound() -> None:
    """Random coefficients and cells, whole regions and slivers: 10,000 states."""
    rng = np.random.default_rng(1)
    for _ in range(100):
        margin = _margin(rng)
        ends = np.sort(rng.uniform(*BOX.bounds, size=(2, 3)), axis=0)
        low, high = ends[0], ends[0] + (ends[1] - ends[0]) * 10.0 ** rng.uniform(-4, 0)
        assert _highest(margin, low, high, rng) <= 1e-9


def test_what_a_margin_is_worth() -> None:
    """Brute force: no sum is nearer to its bound than `slack`, nor further from it than said."""
    rng = np.random.default_rng(3)
    for _ in range(40):
        margin = _margin(rng)
        states, raw = BOX.sample(50, rng), 2.0 * rng.normal(size=(50, 3))
        probabilities = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
        sums = sum(
            one.at(states) * probabilities[:, a] for a, one in enumerate(margin.coefficients)
        )
        for value, total in zip(margin.of_raw(raw, states).tolist(), sums, strict=True):
            if value >= 0.0:
                assert margin.slack(value) <= total + 1e-12
            else:
                assert margin.violation(value) >= -total - 1e-12


def _no_planted_violation_is_certified(cases: int) -> None:
    """A dent in the bound at one state, in which the sum is just outside of it."""
    rng, found = np.random.default_rng(0), 0
    for case in range(cases):
        policy = categorical(case, [8], "relu" if case % 2 else "tanh")
        at = BOX.sample(1, rng)[0]
        depth, steep = 10.0 ** rng.uniform(-4, -1), 50.0 * 10.0 ** rng.uniform(0, 2)
        far = " + ".join(f"abs({n} - ({c!r}))" for n, c in zip(NAMES, at.tolist(), strict=True))
        outputs = policy.outputs(at[None])[0].tolist()
        value = float(outputs[0] * np.cos(at[0]) + 0.5 * outputs[1])
        text = f"min(0.53, {value - depth!r} + ({far})*{steep!r})"
        if value - depth > 0.52:  # more than is possible elsewhere
            continue
        rule = hr.AtMost(formula(f"max(0.001, {text})"), {0: formula("cos(x)"), 1: 0.5}, BOX)
        answer = hr.certify(policy, rule, budget=hr.Budget(200, 1.0))
        found += answer.status == "counterexample"
        assert not answer.certified, f"{case}: {rule}"
    assert found > 0


def test_no_planted_violation_is_certified() -> None:
    _no_planted_violation_is_certified(6)


@pytest.mark.slow
def test_no_planted_violation_of_a_thousand_is_certified() -> None:
    _no_planted_violation_is_certified(1000)


@pytest.mark.parametrize("prove", [False, True])
def test_such_sums_are_held_at_points_and_on_regions(prove: bool) -> None:
    policy = categorical(0, [32], "tanh")
    weights: Weights = {0: formula("cos(x)"), 1: 0.5}
    small = hr.Box([-0.5, -0.2, 0.3], [0.5, 0.2, 0.6])
    rules: list[hr.Constraint] = [
        hr.AtLeast(formula("0.5 + 0.1*y"), weights, small, name="region"),
        hr.AtMost(
            formula("0.2*x"), {0: formula("x"), 2: 0.1}, hr.Points([0.9, 0.4, 0.8]), name="p"
        ),
    ]
    held = hr.enforce(policy, rules, prove=prove).raise_if_unsatisfied()
    assert held.proven is prove
    assert hr.measure(policy, rules).worst_violation <= 1e-6
    assert worst(policy, rules[0]) <= 0.0  # type: ignore[arg-type]
