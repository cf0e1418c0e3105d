"""What is known of a region that is not proven: sound bounds, fair estimates, honest words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit

import handrail as hr
from handrail.policies import MEAN, PROBABILITY
from handrail.proof import Remainder, at_least, at_most
from handrail.proof.extent import Extent
from handrail.proof.state_margin import state_margin
from tests.conftest import sharpen, spaces
from tests.proof.test_state_margin import gaussian


def rules(region: hr.Region) -> dict[str, Any]:
    """Bounds in the middle of what random policies do."""
    names = ["a", "b", "c"]
    return {
        "lower": hr.AtLeast(0.3, 0, region),
        "upper": hr.AtMost(0.4, {0: 1.0, 1: 1.0}, region),
        "weighted": hr.AtLeast(0.2, {0: 1.0, 2: -0.5}, region),
        "both": hr.Between(0.2, 0.5, 1, region),
        "depends": hr.AtLeast(hr.Formula("0.3 + 0.1*a*b", names), 0, region),
    }


@pytest.mark.parametrize("kind", ["lower", "upper", "weighted", "both", "depends"])
def test_no_state_is_violated_by_more_than_is_said(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counterexamples are overlooked here, so that there are violations to be bounded."""
    region = hr.Box([-1.0] * 3, [1.0] * 3)
    states = np.concatenate([region.sample(5_000, np.random.default_rng(0)), region.corners])
    monkeypatch.setattr(hr.Box, "contains", lambda _, some: np.zeros(len(some), dtype=bool))
    known = 0
    for seed in range(40):
        policy = hr.CategoricalPolicy.mlp(
            spaces(3, 3), hidden=[8, 8] if seed % 2 else [16], seed=seed
        )
        sharpen(policy, 5.0)
        rule = rules(region)[kind]
        for cells in (1, 30, 300):
            answer = hr.certify(policy, rule, budget=hr.Budget(cells=cells))
            if answer.remainder is None:
                continue
            worst = float(rule.rows_at(states, 3).violations_of(policy).max())
            known += worst > 0.0
            assert worst <= answer.remainder.violation == answer.worst_violation
            assert 0.0 <= answer.remainder.proven_share < 1.0
            assert answer.remainder.open_cells > 0
    assert known >= 40


def test_more_cells_never_say_less() -> None:
    policy = hr.CategoricalPolicy.mlp(spaces(3, 2), hidden=[32, 32], seed=1)
    sharpen(policy, 8.0)
    region = hr.Box([-1.0] * 3, [1.0] * 3)
    states = np.concatenate([region.sample(20_000, np.random.default_rng(0)), region.corners])
    low = float(policy.probabilities(states)[:, 0].min())
    rule = hr.AtLeast(0.95 * low, 0, region)
    whole = hr.certify(policy, rule)
    assert whole.certified
    answers = [
        hr.certify(policy, rule, budget=hr.Budget(cells=int(share * whole.cells)))
        for share in (0.02, 0.2, 0.5, 0.8)
    ]
    left = [one.remainder for one in answers if one.remainder is not None]
    assert len(left) == 4
    shares, violations = [one.proven_share for one in left], [one.violation for one in left]
    assert shares == sorted(shares)
    assert violations == sorted(violations, reverse=True)
    estimated = left[2].more_cells
    assert estimated is not None
    assert 1 / 3 < estimated / (whole.cells - answers[2].cells) < 3.0


def test_both_bounds_are_looked_at() -> None:
    """What is open for one of them must not hide that the other one is broken."""
    policy = hr.CategoricalPolicy.mlp(spaces(2, 2), hidden=[32, 32], seed=0)
    sharpen(policy, 30.0)
    region = hr.Box([-1.0] * 2, [1.0] * 2)
    states = region.sample(20_000, np.random.default_rng(0))
    values = policy.probabilities(states)[:, 0]
    rule = hr.Between(0.9 * float(values.min()), float(np.median(values)), 0, region)
    assert hr.certify(policy, rule, budget=hr.Budget(cells=1)).status == "counterexample"


@pytest.mark.parametrize("margin", [-0.1, -1.0, -30.0, 0.5])
def test_violations_of_margins_in_closed_form(margin: float) -> None:
    weights = np.array([1.0, 0.0, 0.0])
    lower, upper = at_least(PROBABILITY, weights, 0.8), at_most(PROBABILITY, weights, 0.8)
    assert lower.violation(margin) == pytest.approx(0.8 - expit(logit(0.8) + margin), rel=1e-12)
    assert upper.violation(margin) == pytest.approx(expit(logit(0.8) - margin) - 0.8, rel=1e-12)
    mean = at_least(MEAN, np.array([2.0, -1.0]), 0.3)
    assert mean.violation(margin) == pytest.approx(-3.0 * margin, rel=1e-12)


def test_violations_of_bounds_that_depend_on_the_state_are_worst_within_their_range() -> None:
    """σ(l) - σ(l + m) is largest at l = -m/2, which bounds from 0.2 to 0.9 reach."""
    bound = hr.Formula("0.2 + 0.7*x", ["x"])
    extent = Extent(np.zeros((1, 1)), np.ones((1, 1)))
    margin = state_margin(PROBABILITY, [1.0, 0.0], bound, 1.0, extent, 1.0)
    assert margin.violation(-1.0) == pytest.approx(expit(0.5) - expit(-0.5), rel=1e-9)
    assert margin.violation(-8.0) == pytest.approx(0.9 - expit(logit(0.9) - 8.0), rel=1e-9)


def test_a_tolerance_counts() -> None:
    policy = gaussian(0, [16], "tanh")
    region = hr.Box([-1.0] * 3, [1.0] * 3)
    lowest = float(policy.outputs(region.sample(20_000, np.random.default_rng(0))).min())
    rule = hr.AtLeast(lowest - 0.02, hr.Mean(0), region)
    few = hr.Budget(cells=1)
    strict, loose = (hr.certify(policy, rule, tolerance=t, budget=few) for t in (1e-9, 0.01))
    for one in (strict, loose):
        assert one.remainder is not None
    assert strict.worst_violation == pytest.approx(loose.worst_violation, abs=1e-9)


def test_in_words() -> None:
    some = Remainder(0.99999, 0.0123456, 12, 3_456.0, 7.89)
    assert str(some) == (
        "Proven on 99.9 % of the region by volume, violated nowhere by more than 0.0124, 12 cells "
        "open. An estimate, if the rest is like what was seen: about 3,500 more cells, 7.9 s at "
        "this pace."
    )
    none = Remainder(0.0, np.inf, 1)
    assert str(none) == (
        "Proven on 0 % of the region by volume, 1 cell open. What more it takes cannot be "
        "estimated from how far it got."
    )
    assert some.with_side(Remainder(0.5, 0.5, 1, None, None)) == Remainder(
        0.99999 + 0.5 - 1.0, 0.5, 13, None, None
    )


def test_a_certificate_that_is_not_known_says_what_is() -> None:
    policy = hr.CategoricalPolicy.mlp(spaces(3, 2), hidden=[32, 32], seed=1)
    region = hr.Box([-1.0] * 3, [1.0] * 3)
    rule = hr.AtLeast(0.3, 0, region, name="lean")
    answer = hr.certify(policy, rule, budget=hr.Budget(cells=1))
    assert str(answer).startswith(
        "Whether 'lean' (≥ 0.3) holds is not known: gave up after 1 cell. Proven on 0 % of the "
        "region by volume, violated nowhere by more than "
    )
    assert not answer.certified
    assert "proven" not in answer.status
