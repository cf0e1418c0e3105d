"""Which states of samples are near their bounds, whatever was measured of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import ArrayLike

import handrail as hr
from handrail._types import Array
from handrail.constraints.expansion import expand
from handrail.enforcement.candidates import Sample, Scored
from handrail.enforcement.screen import Drift, Screen, Turns
from tests.conftest import small_policy, spaces

SCREENED = [
    hr.AtLeast(0.5, 0, hr.Box([-1.0, -1.0], [1.0, 1.0])),
    hr.AtMost(0.8, {0: 1, 2: 1}, hr.Ball([0.0, 0.5], 0.7)),
    hr.Between(0.2, 0.6, 1, hr.Polytope([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])),
    hr.AtLeast(0.1, {0: 1.0, 1: 0.5}, hr.Box([-1.0, -1.0], [1.0, 1.0])),
    hr.Symmetric(hr.Box([-1.0, -1.0], [1.0, 1.0]), mirror=[-1, 1], swap={0: 2, 2: 0}, within=0.3),
]


def screened_in_full(screen: Screen, policy: hr.CategoricalPolicy) -> Scored:
    """What a screen should give, from all violations."""
    sample = screen.samples[0]
    measured = sample.measure(policy)
    return measured.among(sample.is_near(measured) | measured.is_highest)


@pytest.mark.parametrize("rule", SCREENED)
@pytest.mark.parametrize("size", [0.003, 0.03])
def test_a_screen_finds_what_the_whole_sample_does(rule: hr.Constraint, size: float) -> None:
    """However it came to the policy; few states are rounded otherwise than many."""
    policy = small_policy(2, 3, sharpness=3.0)
    rng = np.random.default_rng(0)
    screen = Screen([Sample.of(expand([rule], policy).regional[0], 400)])
    for _ in range(40):
        found, all_there_is = screen.near(policy)[0], screened_in_full(screen, policy)
        assert found.states.tobytes() == all_there_is.states.tobytes()
        np.testing.assert_allclose(found.violations, all_there_is.violations, rtol=0, atol=1e-14)
        with torch.no_grad():
            for parameter in policy.parameters:
                parameter.add_(torch.from_numpy(rng.normal(size=parameter.shape)), alpha=size)


@pytest.mark.parametrize("size", [0.003, 0.03])
def test_a_screen_of_many_regions_finds_what_each_would(size: float) -> None:
    """But for the worst of those that are further inside than others."""
    policy = small_policy(2, 3, sharpness=3.0)
    rng = np.random.default_rng(1)
    samples = [Sample.of(one, 400) for one in expand(SCREENED, policy).regional]
    together, alone = Screen(samples), [Screen([one]) for one in samples]
    for _ in range(40):
        found = list(together.near(policy).values())
        each = [one.near(policy)[0] for one in alone]
        assert max(one.highest for one in found) == max(one.highest for one in each)
        for sample, mine, theirs in zip(samples, found, each, strict=True):
            if sample.is_near(theirs).any() or len(mine.states):
                assert mine.states.tobytes() == theirs.states.tobytes()
                assert mine.violations.tobytes() == theirs.violations.tobytes()
        with torch.no_grad():
            for parameter in policy.parameters:
                parameter.add_(torch.from_numpy(rng.normal(size=parameter.shape)), alpha=size)


def test_a_screen_measures_few_states_of_a_policy_that_has_moved_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("numba")
    policy = small_policy(2, 2, sharpness=3.0)
    rule = hr.AtLeast(0.2, 0, hr.Box([-1.0, -1.0], [1.0, 1.0]))
    screen = Screen([Sample.of(expand([rule], policy).regional[0], 400)])
    screen.near(policy)
    with torch.no_grad():
        policy.parameters[0].add_(1e-6)
    asked: list[int] = []
    outputs = hr.CategoricalPolicy.outputs

    def counted(self: hr.CategoricalPolicy, states: ArrayLike) -> Array:
        asked.append(len(np.asarray(states)))
        return outputs(self, states)

    monkeypatch.setattr(hr.CategoricalPolicy, "outputs", counted)
    found = screen.near(policy)[0]
    assert sum(asked) <= len(found.states) + 10 < 100


def test_a_screen_lets_the_policy_say_that_it_is_not_finite() -> None:
    policy = small_policy(2, 2)
    screen = Screen([Sample.of(expand([SCREENED[0]], policy).regional[0], 50)])
    screen.near(policy)
    with torch.no_grad():
        policy.parameters[0].fill_(np.nan)
    with pytest.raises(hr.errors.InvalidPolicy, match="not finite"):
        screen.near(policy)


def test_a_screen_starts_over_with_another_network() -> None:
    rule = SCREENED[0]
    one, other = (hr.CategoricalPolicy.mlp(spaces(2, 2), hidden=[n]) for n in (8, 9))
    screen = Screen([Sample.of(expand([rule], one).regional[0], 50)])
    screen.near(one)
    assert screen.near(other)[0].violations.tobytes() == (
        screened_in_full(screen, other).violations.tobytes()
    )


def test_samples_take_turns_and_come_again() -> None:
    rule = hr.AtLeast(0.5, 0, hr.Box([0.0, 0.0], [1.0, 1.0]))
    sample = Sample.of(expand([rule], small_policy(2, 2)).regional[0], 100)
    turns = Turns(Screen([sample]))
    first, *others = [turns.next() for _ in range(8)]
    assert len({one.samples[0].states.tobytes() for one in [first, *others]}) == 8
    assert turns.next() is first


@pytest.mark.parametrize("size", [0.001, 0.01, 0.1])
def test_log_odds_drift_no_further_than_is_said(size: float) -> None:
    """At states of the regions that no sample has, over many changes of the weights."""
    pytest.importorskip("numba")
    policy = small_policy(2, 3, sharpness=3.0)
    rng = np.random.default_rng(2)
    samples = [Sample.of(one, 100) for one in expand(SCREENED[:3], policy).regional]
    others = [Sample(one.regional, one.regional.region.sample(500, rng)) for one in samples]
    drift = Drift(samples)
    boxes, wanted = drift.boxes_of(others), [one.odds.weights[0] for one in samples if one.odds]

    def log_odds() -> Array:
        parts = [policy.outputs(one.states) @ to for one, to in zip(others, wanted, strict=True)]
        values = np.concatenate(parts)
        odds: Array = np.log(values) - np.log1p(-values)
        return odds

    network = policy.fused()
    assert network is not None
    first, start = log_odds(), drift.up_to(network)
    for _ in range(20):
        with torch.no_grad():
            for parameter in policy.parameters:
                parameter.add_(torch.from_numpy(rng.normal(size=parameter.shape)), alpha=size)
        now = drift.up_to(network)
        assert now.since == start.since
        changed = log_odds() - first
        assert (changed >= now.total[boxes, 0]).all()
        assert (changed <= now.total[boxes, 1]).all()
    assert drift.up_to(network) is now
