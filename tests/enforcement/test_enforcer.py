"""Whole regions: satisfied on samples and proven, before the first step and after every update."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

import handrail as hr
from handrail.constraints import Tolerance
from handrail.constraints.expansion import expand
from handrail.constraints.violations import violations_at
from handrail.enforcement.candidates import Sample, climb
from handrail.enforcement.enforcer import (
    Enforcer,
    PointEnforcer,
    RegionEnforcer,
    SelectionEnforcer,
    make_enforcer,
)
from handrail.enforcement.exchange import Exchange
from handrail.learning.reinforce import Reinforce
from handrail.proof.judgement import certify
from handrail.rulebook.rulebook import parse
from handrail.runs.metrics import METRICS
from handrail.runs.run import Run
from tests.conftest import small_policy, spaces
from tests.support import cartpole
from tests.support.environments import Corridor

CARTPOLE = gym.make("CartPole-v1", max_episode_steps=200)


def wide_policy(seed: int, width: int = 5000) -> hr.CategoricalPolicy:
    return hr.CategoricalPolicy.mlp(CARTPOLE, hidden=[width], seed=seed)


def worst_on(policy: hr.CategoricalPolicy, count: int, seed: int) -> float:
    """The worst violation of the six regions on fresh uniform states, `count` in total."""
    rng = np.random.default_rng(seed)
    worst = -np.inf
    for one in expand(cartpole.regions(), policy).regional:
        states = one.region.sample(count // 6, rng)
        worst = max(worst, float(violations_at(policy, one, states).max()))
    return worst


@pytest.mark.parametrize("seed", [0, 1])
def test_the_papers_regions_before_any_episode(seed: int) -> None:
    policy = wide_policy(seed)
    assert worst_on(policy, 600, seed) > 0.3
    result = hr.enforce(policy, cartpole.regions()).raise_if_unsatisfied()
    assert result.worst_violation <= 0.0  # on the sample of 18,000 states and uphill of it
    assert result.rounds >= 1
    assert worst_on(policy, 200_000, 10 + seed) <= 0.0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_the_papers_regions_on_a_million_states(seed: int) -> None:
    policy = wide_policy(seed)
    hr.enforce(policy, cartpole.regions()).raise_if_unsatisfied()
    assert worst_on(policy, 1_000_000, 10 + seed) <= 0.0


@pytest.mark.parametrize("kwargs", [{}, {"dtype": torch.float32}])
def test_proven_before_any_episode(kwargs: dict[str, Any]) -> None:
    policy = hr.CategoricalPolicy.mlp(CARTPOLE, hidden=[1000], seed=3, **kwargs)
    result = hr.enforce(policy, cartpole.regions(), prove=True).raise_if_unsatisfied()
    assert [one.name for one in result.certificates] == ["1a", "1b", "1c", "2a", "2b", "2c"]
    assert all(one.certified for one in result.certificates)
    assert result.worst_violation == max(one.worst_violation for one in result.certificates) <= 0.0
    for rule, certificate in zip(cartpole.regions(), result.certificates, strict=True):
        states = rule.states
        exact = policy.in_float64(states).probabilities(states)
        assert np.abs(policy.probabilities(states) - exact).max() < 1e-7  # docs/guides/proof.md
        again = certify(policy, rule)  # the proof is of the policy that came out
        assert again.certified
        # From fresh cells, which may be coarser than those that the last proof began with.
        for proof in (certificate, again):
            assert hr.measure(policy, [rule]).worst_violation <= proof.worst_violation + 1e-9
            assert proof.worst_violation <= 0.0


def hardly_provable(**settings: Any) -> tuple[hr.Policy, hr.AtLeast, hr.Everywhere]:
    """A policy and a rule that it can be made to obey, but not proven to with one cell."""
    policy = hr.CategoricalPolicy.mlp(CARTPOLE, hidden=[64, 64], activation="tanh", seed=0)
    box = hr.Box([-1.0, -0.5, 0.05, -0.5], [1.0, 0.5, 0.2, 0.5])
    rule = hr.AtLeast(0.8, 1, box, name="lean right")
    return policy, rule, hr.Everywhere(prove=True, cells=1, **settings)


def test_what_could_not_be_proven_is_refused_unless_it_is_to_be_kept() -> None:
    policy, rule, selection = hardly_provable()
    before = [p.detach().clone() for p in policy.parameters]
    refused = hr.enforce(policy, [rule], selection=selection)
    assert not refused.satisfied
    assert refused.reason == (
        "'lean right' holds on every state that was tried, but could not be proven: gave up after "
        "1 cell. Allow more cells or seconds, or a larger margin; or keep it without a proof "
        '(on_unproven="keep").'
    )
    assert all(map(torch.equal, before, policy.parameters))


def test_what_is_kept_is_never_called_proven() -> None:
    policy, rule, selection = hardly_provable(on_unproven="keep")
    kept = hr.enforce(policy, [rule], selection=selection).raise_if_unsatisfied()
    assert not kept.proven
    assert kept.worst_violation <= 0.0
    (certificate,) = kept.certificates
    assert certificate.status == "unknown"
    assert certificate.remainder is not None
    states = rule.states
    assert rule.rows_at(states, 2).violations_of(policy).max() <= 0.0
    text = str(kept)
    assert "1 region by search, not by proof." in text
    assert "Not proven, though it holds on every state that was tried: Whether 'lean right'" in text
    assert "Proven at every state" not in text + kept._repr_html_()
    assert "not known" in kept.not_proven
    again = hr.enforce(policy, [rule], prove=True, on_unproven="keep")  # and with cells, it is
    assert again.proven
    assert again.not_proven == ""


def test_an_edit_keeps_it_too_and_what_makes_no_sense_is_refused() -> None:
    policy, rule, selection = hardly_provable(on_unproven="keep")
    edited = hr.edit(policy, [rule], selection=selection).raise_if_refused()
    assert not edited.enforcement.proven
    assert "Not proven, though it holds on every state that was tried" in str(edited)
    with pytest.raises(hr.errors.InvalidArgument, match='on_unproven="keep" is about proofs: say'):
        hr.enforce(policy, [rule], on_unproven="keep")
    bad: Any = "later"
    with pytest.raises(hr.errors.InvalidArgument, match='must be "refuse" or "keep", not \'later'):
        hr.enforce(policy, [rule], prove=True, on_unproven=bad)


def test_a_deep_network() -> None:
    policy = hr.CategoricalPolicy.mlp(CARTPOLE, hidden=[64, 64], activation="tanh", seed=0)
    result = hr.enforce(policy, cartpole.regions(), prove=True).raise_if_unsatisfied()
    assert {one.method for one in result.certificates} == {"linear relaxation"}
    assert worst_on(policy, 60_000, 0) <= 0.0


def test_any_other_network_on_samples() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 64), nn.Mish(), nn.Linear(64, 2)).double()
    policy = hr.CategoricalPolicy(module)
    hr.enforce(policy, cartpole.regions()).raise_if_unsatisfied()
    assert worst_on(policy, 60_000, 1) <= 0.0
    with pytest.raises(hr.errors.InvalidPolicy, match=r"'1', Mish\(\), is of no .*\(prove=False\)"):
        hr.enforce(policy, cartpole.regions(), prove=True)


def test_points_and_regions_together() -> None:
    policy = wide_policy(2, 1000)
    upright = hr.Between(0.45, 0.55, 0, hr.Points([0.0, 0.0, 0.0, 0.0]), name="upright")
    rules = [*cartpole.regions(), upright]
    result = hr.enforce(policy, rules, references=[[0.0, 0.0, 0.05, 0.0]])
    assert result.satisfied
    assert result.influence is not None
    assert result.influence.states == 1
    assert 0.45 - 1e-6 <= policy.probabilities([0.0, 0.0, 0.0, 0.0])[0] <= 0.55 + 1e-6
    assert hr.measure(policy, rules).worst_violation <= 1e-6


def test_a_symmetric_region() -> None:
    policy = small_policy(2, 2, seed=1, sharpness=3.0)
    region = hr.Box([0.1, -1.0], [1.0, 1.0])
    rule = hr.Symmetric(region, [-1, -1], {0: 1, 1: 0}, within=0.02)
    hr.enforce(policy, [rule]).raise_if_unsatisfied()
    states = region.sample(20_000, np.random.default_rng(0))
    difference = policy.probabilities(states)[:, 0] - policy.probabilities(-states)[:, 1]
    assert np.abs(difference).max() <= 0.02
    proven = hr.enforce(policy, [rule], prove=True).raise_if_unsatisfied()
    assert proven.certificates[0].certified


def test_regions_that_contradict_each_other_leave_the_policy_alone() -> None:
    policy = wide_policy(0, 200)
    before = [p.detach().clone() for p in policy.parameters]
    here = cartpole.prism(cartpole.LEFT_REGIONS[0])
    rules = [hr.AtLeast(0.9, 0, here, name="left"), hr.AtLeast(0.9, 1, here, name="right")]
    result = hr.enforce(policy, rules)
    assert not result.satisfied
    assert result.reason.startswith("'left' and 'right' ask for probabilities that do not")
    assert "for example at (-2.5, 0, -0.4, 0.4). Relax one of them." in result.reason
    for old, new in zip(before, policy.parameters, strict=True):
        assert torch.equal(old, new)


def test_what_cannot_be_proven_in_time_says_so() -> None:
    policy = wide_policy(0, 500)
    before = [p.detach().clone() for p in policy.parameters]
    result = hr.enforce(policy, cartpole.regions(), selection=hr.Everywhere(prove=True, cells=5))
    assert not result.satisfied
    assert "holds on every state that was tried, but could not be proven" in result.reason
    assert "Allow more cells or seconds, or a larger margin; or keep it" in result.reason
    for old, new in zip(before, policy.parameters, strict=True):
        assert torch.equal(old, new)


def test_the_climb_finds_what_a_sample_misses() -> None:
    """π_0 is lowest at a corner; from a few states inside, the climb goes there."""
    layer = nn.Linear(2, 2, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[-3.0, -2.0], [0.0, 0.0]]))
        layer.bias.zero_()
    policy = hr.CategoricalPolicy(nn.Sequential(layer))
    region = hr.Box([0.0, 0.0], [1.0, 2.0])
    regional = expand([hr.AtLeast(0.5, 0, region)], policy).regional[0]
    sample = Sample(regional, region.spread(20))
    measured = sample.measure(policy)
    climbed = climb(policy, [(sample, sample.worst(measured, 3))])[0]
    assert climbed.highest > measured.highest
    np.testing.assert_allclose(climbed.states[climbed.violations.argmax()], [1.0, 2.0], atol=0.05)
    assert region.contains(climbed.states).all()


def test_chosen_states_are_apart() -> None:
    region = hr.Box([0.0, 0.0], [1.0, 100.0])
    policy = small_policy(2, 2)
    regional = expand([hr.AtLeast(0.5, 0, region)], policy).regional[0]
    sample = Sample(regional, region.spread(500))
    scores = np.random.default_rng(0).random(500)
    chosen = sample.worst_apart(sample.states, scores, 12)
    assert chosen[0] == scores.argmax()
    scaled = sample.states[chosen] / [1.0, 100.0]
    apart = np.abs(scaled[:, None] - scaled[None]).max(axis=2)
    assert apart[np.triu_indices(len(chosen), 1)].min() >= 0.15


def test_states_far_inside_leave() -> None:
    policy = small_policy(1, 2, seed=4, sharpness=8.0)
    rule = hr.AtLeast(0.1, 0, hr.Box([-1.0], [1.0]))
    exchange = Exchange(expand([rule], policy), margin=0.02)
    exchange.working = [np.array([[-0.5], [0.5]])]
    exchange.drop(policy)
    far = policy.probabilities([[-0.5], [0.5]])[:, 0] > 0.1 + 0.6 * (1.0 - 0.1)
    assert sorted(far) == [False, True]  # one of each
    np.testing.assert_array_equal(exchange.working[0][:, 0], np.array([-0.5, 0.5])[~far])


def corridor_rules() -> list[hr.Constraint]:
    return [hr.AtLeast(0.7, 1, hr.Box([-1.0, -1.0], [1.0, 1.0]), name="go right")]


@pytest.mark.parametrize("prove", [False, True])
def test_kept_after_every_update(prove: bool) -> None:
    policy = wide_policy(0, 500)
    agent = Reinforce(
        CARTPOLE, policy, cartpole.regions(), step_size=1e-3, selection=hr.Everywhere(prove=prove)
    )
    for _ in range(4):
        [record] = agent.learn(episodes=1, progress_bar=False)
        assert record.violation_before is not None
        assert record.violation_after is not None
        assert record.violation_before <= 0.0
        assert record.violation_after <= 0.0
        assert worst_on(policy, 60_000, record.episode) <= 0.0
        if prove:
            assert all(certify(policy, rule).certified for rule in cartpole.regions())
    assert agent.evaluate(2).violations is not None


@pytest.mark.parametrize(
    "selection", [hr.Everywhere(sample=300), hr.MaximumDeviation(points=20), hr.MaximumReturn()]
)
@pytest.mark.parametrize("shape", ["box", "expression", "function"])
def test_saved_and_loaded_bit_for_bit(selection: Any, shape: str, tmp_path: Path) -> None:
    def line(t: Any) -> Any:
        return np.stack([0.5 * t, t], axis=1)

    where: hr.Region = hr.Box([-1.0, -1.0], [1.0, 1.0])
    if shape == "expression":
        where = hr.Curve(["0.5*t", "t"], -1.0, 1.0)
    if shape == "function":
        where = hr.Curve(line, -1.0, 1.0)
    rules = [
        hr.AtLeast(0.7, {1: 1.0}, where, name="go right"),
        hr.AtLeast(0.2, 0, hr.Points([2.0, 2.0]), name="there, sometimes left"),
    ]

    def fresh() -> Reinforce:
        return Reinforce(
            Corridor(), small_policy(2, 2), rules, step_size=1e-2, seed=3, selection=selection
        )

    whole = fresh().learn(episodes=6, progress_bar=False)
    agent = fresh()
    first = agent.learn(episodes=3, progress_bar=False)
    agent.save(tmp_path / "agent")
    if shape == "function":
        with pytest.raises(hr.errors.InvalidRun, match="a curve that is a Python function"):
            Reinforce.load(tmp_path / "agent", Corridor(), small_policy(2, 2))
    loaded = Reinforce.load(
        tmp_path / "agent",
        Corridor(),
        small_policy(2, 2),
        constraints=rules if shape == "function" else None,
    )
    assert [*first, *loaded.learn(episodes=3, progress_bar=False)] == whole


def test_without_enforcement_regions_are_measured() -> None:
    agent = Reinforce(
        Corridor(), small_policy(2, 2), corridor_rules(), enforcement="none", step_size=1e-2
    )
    records = agent.learn(episodes=2, progress_bar=False)
    for record in records:
        assert record.violation_after is not None
    assert agent.evaluate(1).violations is not None
    assert records[-1].violation_after == agent.evaluate(1).violations.worst_violation  # type: ignore[union-attr]


def test_a_region_for_another_policy_is_refused() -> None:
    short = hr.AtLeast(0.5, 0, hr.Box([0.0, 0.0], [1.0, 1.0]), name="leaning")
    with pytest.raises(hr.errors.ShapeMismatch, match="'leaning' does not fit the policy"):
        hr.enforce(hr.CategoricalPolicy.mlp(spaces(4, 2), hidden=[8]), [short])


TEXT = """
environment: {id: CartPole-v1, max_episode_steps: 50}
observations: [x, x_dot, phi, phi_dot]
actions: [left, right]
constraints:
  - name: lean right
    region: {x: [-1, 1], x_dot: 0, phi: [0.15, 0.2], phi_dot: [0, 0.1]}
    require: right >= 0.9
  - name: lean left
    region: {x: 0, x_dot: 0, ball: {of: [phi, phi_dot], centre: [-0.2, 0], radius: 0.05}}
    require: left >= 0.9
settings: {episodes: 6, step_size: 1e-2, network: {hidden: [100]}, selection: SELECTION}
"""


@pytest.mark.parametrize(
    "selection", ["{prove: true, sample: 300}", "everywhere", "maximum_deviation", "maximum_return"]
)
def test_an_interrupted_run_continues_bit_for_bit(selection: str, tmp_path: Path) -> None:
    book = parse(TEXT.replace("SELECTION", selection), "leaning")
    whole = Run.create(tmp_path / "whole", book)
    whole.learn()
    run = Run.create(tmp_path / "interrupted", book)
    for stop_at in (1, 3, 6):
        Run.open(run.folder).learn(stop=lambda n=stop_at: len(run.records()) >= n)  # type: ignore[misc]
    one, other = ((r.folder / METRICS).read_bytes() for r in (whole, run))
    assert one == other
    for a, b in zip(whole.agent().policy.parameters, run.agent().policy.parameters, strict=True):
        assert torch.equal(a, b)


BOX = hr.Box([-1.0, -1.0, 0.0], [1.0, 1.0, 0.5])
BOTH: list[hr.Constraint] = [
    hr.AtLeast(0.7, 1, hr.Points([0.1, 0.2, 0.3]), name="point"),
    hr.AtMost(0.02, 0, BOX, name="region"),
]


def enforcer_of(
    rules: list[hr.Constraint], selection: Any = None
) -> tuple[hr.CategoricalPolicy, Enforcer]:
    policy = small_policy()
    expansion = expand(rules, policy)
    return policy, make_enforcer(expansion, selection or hr.Everywhere(), policy, Tolerance())


def test_the_kind_follows_from_the_constraints_and_the_selection() -> None:
    assert isinstance(enforcer_of(BOTH[:1])[1], PointEnforcer)
    assert isinstance(enforcer_of(BOTH)[1], RegionEnforcer)
    assert isinstance(enforcer_of(BOTH, hr.MaximumReturn())[1], SelectionEnforcer)


@pytest.mark.parametrize("selection", [hr.Everywhere(), hr.MaximumDeviation(states=2)])
def test_active_states_are_those_that_were_held(selection: Any) -> None:
    policy, enforcer = enforcer_of(BOTH, selection)
    result = enforcer.hold(policy)
    assert result.satisfied
    assert (result.tolerance, result.regions) == (1e-6, 1)
    (states,) = enforcer.active_states
    assert BOX.contains(states).all()
    rows = enforcer.rows_at([states[:1]])
    assert rows.labels == ("point", "region")
    assert rows.lower[0] == 0.7
    inside = 0.05 * 0.02 * 0.98 if isinstance(selection, hr.Everywhere) else 0.0
    assert rows.upper[1] == pytest.approx(0.02 - inside)
    _, again = enforcer_of(BOTH, selection)
    again.recall(enforcer.memory())
    np.testing.assert_array_equal(again.active_states[0], states)


def test_points_have_no_active_states() -> None:
    policy, enforcer = enforcer_of(BOTH[:1])
    assert enforcer.hold(policy).satisfied
    assert enforcer.active_states == ()
    assert enforcer.memory() == {}
    assert enforcer.rows_at([]).labels == ("point",)


def test_one_state_stands_for_a_region_of_which_none_was_needed() -> None:
    _, enforcer = enforcer_of(BOTH[1:])
    assert len(enforcer.rows_at(enforcer.active_states)) == 1


def test_the_memory_of_older_files_is_understood() -> None:
    policy, enforcer = enforcer_of(BOTH, hr.MaximumDeviation())
    enforcer.hold(policy)
    older = {key.replace("active.", "stars."): value for key, value in enforcer.memory().items()}
    assert "stars.0" in older
    _, again = enforcer_of(BOTH, hr.MaximumDeviation())
    again.recall(older)
    np.testing.assert_array_equal(again.active_states[0], enforcer.active_states[0])


def test_boxes_that_overlap_in_a_sliver_only_are_found_to_contradict_before_any_work() -> None:
    policy = hr.CategoricalPolicy.mlp(CARTPOLE, hidden=[100], seed=0)
    rules = [
        hr.AtLeast(0.9, 1, hr.Box([-1, -1, 0, -1], [1, 1, 0.1, 1]), "right"),
        hr.AtLeast(0.9, 0, hr.Box([0.9, 0.9, 0.0999, 0.9], [2, 2, 0.2, 2]), "left"),
    ]
    result = hr.enforce(policy, rules)
    assert result.reason.startswith(
        "'right' and 'left' ask for probabilities that do not exist together at the same state"
    )
    assert result.iterations == 0


def test_a_bound_that_leaves_no_room_inside_it_is_held_all_the_same() -> None:
    policy = hr.CategoricalPolicy.mlp(CARTPOLE, hidden=[20], seed=0)
    rule = hr.AtLeast(1e-320, 0, hr.Box([-1, -1, 0, -1], [1, 1, 0.1, 1]))
    result = hr.enforce(policy, [rule])
    assert result.satisfied
    assert result.worst_violation <= 0.0


def test_a_search_depends_on_the_policy_and_what_is_remembered() -> None:
    """Whatever was measured of others before: a resumed learner has measured nothing."""
    policy = wide_policy(0, 300)
    rng = np.random.default_rng(0)

    def fresh() -> RegionEnforcer:
        expansion = expand(cartpole.regions(), policy)
        found = make_enforcer(expansion, hr.Everywhere(sample=300), policy, Tolerance(None))
        assert isinstance(found, RegionEnforcer)
        return found

    hr.enforce(policy, cartpole.regions())
    old, violated = fresh(), 0
    for size in (0.0, 1e-4, 1e-4, 1e-4, 1e-3, 3e-3, 0.03, 0.1):
        with torch.no_grad():
            for parameter in policy.parameters:
                parameter.add_(torch.from_numpy(rng.normal(size=parameter.shape)), alpha=size)
        resumed = fresh()
        resumed.recall(old.memory())
        one, other = old._find(policy), resumed._find(policy)
        assert one.worst_violation == other.worst_violation
        for a, b in zip(one.violated, other.violated, strict=True):
            assert a.tobytes() == b.tobytes()
            violated += len(a)
    assert violated
