"""Several margins in one search: planted violations, and bounds against what is evaluated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import handrail as hr
from handrail.policies import MEAN
from handrail.proof import at_least
from handrail.proof.claim import JointBound
from handrail.proof.judgement import certify
from handrail.proof.question import provable_layers
from handrail.proof.relaxation import Relaxation
from handrail.regions import Cells
from tests.conftest import small_policy
from tests.proof.test_certificate import KINDS, WIDTHS, boxes_and_others, network, planted

BUDGET = hr.Budget(cells=4_000, seconds=20.0)


def test_the_best_alternative_is_as_bad_as_its_worst_margin() -> None:
    layers = provable_layers(small_policy(seed=3))
    unit = np.eye(layers.n_outputs)
    margins = [at_least(MEAN, unit[0] - unit[1], 0.1 * k) for k in range(3)]
    one, two, three = (Relaxation(layers, margin) for margin in margins)
    rng = np.random.default_rng(0)
    low = rng.uniform(-1.0, 1.0, (20, layers.n_observations))
    cells = Cells.boxes(low, low + 0.1)
    joint = JointBound(((one, three), (two,)), ((0.0, 0.0), (0.2,)))
    bounds = joint.bounds(cells)
    first = np.minimum(one.bounds(cells).lowest, three.bounds(cells).lowest)
    second = two.bounds(cells).lowest - 0.2
    np.testing.assert_array_equal(bounds.lowest, np.maximum(first, second))
    np.testing.assert_array_equal(bounds.alternative, second > first)
    states = low + rng.uniform(0.0, 0.1, low.shape)
    assert (joint.margins(states) >= bounds.lowest - 1e-12).all()
    assert joint.levels == one.levels


def planted_preference(rng: np.random.Generator, kind: str, width: float) -> Any:
    """A policy that prefers action 0 over all others by log 9, but for a tent; and its state."""
    region = boxes_and_others(rng)
    at, inward, inward_bias, outward, offset = planted(rng, region, kind, width)
    n_actions = int(rng.integers(2, 5))
    which = int(rng.integers(1, n_actions))  # the one that is too likely there
    both = rng.normal(size=len(outward))  # whatever all logits have in common
    rows = np.tile(both, (n_actions, 1))
    rows[0] += outward
    biases = np.full(n_actions, -1.0)
    biases[[0, which]] = offset, 0.0
    return network((inward, inward_bias), (rows, biases)), region, at, which


def check(rng: np.random.Generator, kind: str, width: float) -> str:
    policy, region, at, which = planted_preference(rng, kind, width)
    over: Any = "all" if rng.random() < 0.7 else which
    # The same by a function of the state, which is as much everywhere.
    by: Any = float(np.log(9.0))
    if rng.random() < 0.3:
        by = hr.Affine(np.zeros(len(at)), by)
    answer = certify(policy, hr.Prefer(0, over, by, where=region), budget=BUDGET)
    assert answer.status != "certified"
    if answer.status == "counterexample":
        assert answer.state is not None
        assert answer.violation is not None
        assert region.contains(np.array([answer.state]))[0]
        z = policy.logits(np.array([answer.state]))[0]
        lead = z[0] - (z[1:].max() if over == "all" else z[over])
        assert answer.violation == pytest.approx(np.log(9.0) - lead, abs=1e-9)
        assert answer.violation > 0.0
    return str(answer.status)


def planted_choice(rng: np.random.Generator, kind: str, width: float) -> Any:
    """Two means of which one is above 0 almost everywhere, each on its side; none at one state."""
    region = boxes_and_others(rng)
    at, inward, inward_bias, outward, offset = planted(rng, region, kind, width)
    low = np.log(9.0)  # where the tent ends, less 0.2
    other = rng.normal(size=len(outward)) * 0.1
    rows = np.stack([outward, outward + other])
    hidden = np.maximum(inward @ at + inward_bias, 0.0)
    biases = np.array([offset - low, offset - low - hidden @ other - rng.uniform(0.0, 0.5)])
    inner = network((inward, inward_bias), (rows, biases))
    return hr.GaussianPolicy(inner.module, 1.0), region, at


def check_choice(rng: np.random.Generator, kind: str, width: float) -> str:
    policy, region, at = planted_choice(rng, kind, width)
    assert (policy.mean(at[None]) < -0.1).all()  # it is planted
    first, second = (hr.AtLeast(0.0, hr.Mean(k), region) for k in range(2))
    if rng.random() < 0.3:  # the same by a function of the state, which is as much everywhere
        second = hr.AtLeast(hr.Affine(np.zeros(len(at)), 0.0), hr.Mean(1), region)
    answer = certify(policy, hr.AnyOf([first, second]), budget=BUDGET)
    assert answer.status != "certified"
    if answer.status == "counterexample":
        assert answer.state is not None
        assert region.contains(np.array([answer.state]))[0]
        means = policy.mean(np.array([answer.state]))[0]
        assert answer.violation == pytest.approx(-means.max(), abs=1e-9)
    return str(answer.status)


BOTH = {"preference": (check, 7), "choice": (check_choice, 9)}  # with a seed of each


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("claim", BOTH)
def test_no_false_claim(claim: str, kind: str, width: float) -> None:
    """2 x 12 x 5 = 120 networks."""
    looked, seed = BOTH[claim]
    rng = np.random.default_rng([seed, KINDS.index(kind), WIDTHS.index(width)])
    assert sum(looked(rng, kind, width) == "counterexample" for _ in range(5)) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("claim", BOTH)
def test_no_false_claim_among_many(claim: str, kind: str, width: float) -> None:
    """2 x 12 x 90 = 2,160 networks."""
    looked, seed = BOTH[claim]
    rng = np.random.default_rng([seed + 1, KINDS.index(kind), WIDTHS.index(width)])
    assert sum(looked(rng, kind, width) == "counterexample" for _ in range(90)) >= 80
