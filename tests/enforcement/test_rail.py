"""Constraints held again and again: how far they reach, and what they leave alone."""

from __future__ import annotations

import re
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import handrail as hr
from handrail.constraints import Tolerance, expand
from handrail.enforcement.enforcer import make_enforcer
from handrail.enforcement.rail import (
    Displacement,
    Rail,
    cover_both_sides,
    leave_room_between,
    references_before_experience,
    weights_of,
)
from handrail.enforcement.references import References
from handrail.errors import InvalidArgument, InvalidRun
from handrail.learning import Terms
from handrail.policies import GreedyPolicy
from handrail.settings import ADVICE_ALWAYS, ADVICE_AT_FIRST, Fading, Reach, chosen_reach
from tests.conftest import small_policy, spaces
from tests.support.environments import corridor

HERE = [0.5, 0.5]


def rows(*rules: hr.Constraint, n_actions: int = 2) -> Any:
    policy = hr.CategoricalPolicy.mlp(spaces(2, n_actions), [8], seed=0)
    return expand(rules, policy).rows(per_region=1)


def at(number: float) -> hr.Points:
    return hr.Points([number, 0.0])


@pytest.mark.parametrize(
    ("rules", "n_actions", "expected"),
    [
        ([hr.AtLeast(0.9, 1, at(1))], 2, False),
        ([hr.AtLeast(0.9, 1, at(1)), hr.AtMost(0.1, 0, at(2))], 2, False),  # the same side
        ([hr.AtLeast(0.9, 1, at(1)), hr.AtLeast(0.9, 0, at(2))], 2, True),
        ([hr.AtLeast(0.9, 1, at(1)), hr.AtMost(0.1, 1, at(2))], 2, True),
        ([hr.Between(0.4, 0.6, 1, at(1))], 2, True),
        ([hr.Equal(0.5, 1, at(1))], 2, True),
        # Two of four actions: nothing ever asks for the others.
        ([hr.AtLeast(0.9, 1, at(1)), hr.AtLeast(0.9, 0, at(2))], 4, False),
        ([hr.AtLeast(0.9, a, at(a)) for a in range(4)], 4, True),
        ([hr.AtLeast(0.9, 1, at(1)), hr.AtMost(0.1, 1, at(2))], 4, True),
    ],
)
def test_both_sides_of_a_choice(rules: list[hr.Constraint], n_actions: int, expected: bool) -> None:
    assert cover_both_sides(rows(*rules, n_actions=n_actions)) is expected


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([hr.Between(0.4, 0.6, 1, at(1))], True),
        ([hr.Equal(0.5, 1, at(1))], False),
        ([hr.Between(0.4, 0.6, 1, at(1)), hr.AtLeast(0.9, 0, at(2))], False),
        ([hr.AtLeast(0.9, 1, at(1)), hr.AtMost(0.95, 1, at(1))], False),  # two rules, not a tube
    ],
)
def test_room_between_two_bounds(rules: list[hr.Constraint], expected: bool) -> None:
    assert leave_room_between(rows(*rules)) is expected


def learned_in_a_tube(advice: Fading) -> tuple[float, float]:
    """How much of a push of 0.1 learned in the middle of a tube stays, and the worst violation."""
    space = gym.spaces.Box(-1.0, 1.0, (2,)), gym.spaces.Box(-4.0, 4.0, (1,))
    policy = hr.GaussianPolicy.mlp(space, [64], std=0.2, seed=0)
    tube = hr.within(np.array([[1.0, -2.0]]), 0.3, hr.Box([-1.0, -1.0], [1.0, 1.0]), name="tube")
    enforcer = make_enforcer(expand(tube, policy), hr.Everywhere(), policy, Tolerance(None))
    rail = Rail(enforcer, tube, None, "auto", advice)
    rail.hold(policy)
    middle = np.random.default_rng(0).uniform(-0.2, 0.2, (128, 2))
    before = policy.outputs(middle)
    for _ in range(8):  # what a learner does: a bias everywhere, although only the middle is seen
        with torch.no_grad():
            list(policy.module.parameters())[-1].add_(0.05)
        rail.learned_from(middle)
        held = rail.hold(policy)
        assert held.satisfied
    return float((policy.outputs(middle) - before).mean()), held.worst_violation


def test_what_is_learned_inside_a_tube_stays() -> None:
    kept, violation = learned_in_a_tube(ADVICE_AT_FIRST)
    lost, _ = learned_in_a_tube(ADVICE_ALWAYS)
    assert violation <= 0.0
    assert kept > 0.15  # of 0.3 that there is room for
    assert lost < 0.5 * kept


def test_a_reach_fades_in_equal_ratios() -> None:
    fading = Fading(first=10.0, last=0.1, updates=4)
    assert [fading.at(k) for k in range(6)] == pytest.approx([10, 10**0.5, 1, 10**-0.5, 0.1, 0.1])


def test_a_reach_fades_to_nothing_and_from_nothing() -> None:
    """0 is held as 1e-7; it fell to that at once."""
    fading = Fading(first=10.0, last=0.0, updates=4)
    assert [fading.at(k) for k in range(6)] == pytest.approx([10, 0.1, 1e-3, 1e-5, 0, 0])
    growing = Fading(first=0.0, last=10.0, updates=4)
    assert [growing.at(k) for k in range(6)] == pytest.approx([0, 1e-5, 1e-3, 0.1, 10, 10])
    assert Fading(first=0.0, last=0.0).at(0) == 0.0


def test_a_reach_of_0_is_the_least_that_rounding_leaves() -> None:
    (change, held), (least, _) = change_elsewhere(0.0), change_elsewhere(1e-7)
    assert held.satisfied
    assert change == least


@pytest.mark.parametrize(
    "reach", [-1.0, "far", "10", True, None, float("nan"), float("inf"), Fading, {"first": -1.0}]
)
def test_a_reach_that_is_none(reach: Any) -> None:
    words = re.escape(
        f"reach={reach!r}: expected a number from 0 (only where I said) to 10 and more (advice for "
        "everywhere), Fading(first=10, last=0.001, updates=20) from one such number to another, or "
        "'auto'."
    )
    rules = [hr.AtLeast(0.9, 1, hr.Points(HERE))]
    with pytest.raises(InvalidArgument, match=words):
        chosen_reach(reach)
    with pytest.raises(InvalidArgument, match=words):
        hr.enforce(small_policy(2, 2), rules, reach=reach)
    with pytest.raises(InvalidArgument, match=words):
        hr.Reinforce(corridor(), small_policy(2, 2), rules, reach=reach)
    with pytest.raises(InvalidArgument, match=words):
        Terms.of(rules, reach=reach)  # as the callback takes it


def change_elsewhere(reach: Reach) -> tuple[float, hr.Enforcement]:
    """Mean change far from a one-sided box, of a policy that is held there."""
    policy = hr.CategoricalPolicy.mlp(spaces(2, 2), [256], seed=0)
    where = hr.Box([0.5, 0.5], [0.7, 0.7])
    states = np.random.default_rng(0).uniform(-1.0, 1.0, (600, 2))
    far = states[np.abs(states - 0.6).max(axis=1) > 0.6]
    before = policy.probabilities(far)
    held = hr.enforce(policy, [hr.AtLeast(0.9, 1, where, name="b")], references=far, reach=reach)
    assert hr.measure(policy, [hr.AtLeast(0.9, 1, where, name="b")]).worst_violation <= 0.0
    change = np.abs(policy.probabilities(far) - before)
    assert held.influence is not None
    assert held.influence.largest_change == pytest.approx(change.max(), rel=1e-12)
    assert held.influence.mean_change == pytest.approx(change.max(axis=1).mean(), rel=1e-12)
    return float(change.mean()), held


def test_a_small_reach_moves_little_elsewhere() -> None:
    everywhere, _ = change_elsewhere(10.0)
    little, held = change_elsewhere("auto")  # one-sided
    only, _ = change_elsewhere(0.0)
    assert little < 0.2 * everywhere
    assert only < 0.2 * everywhere
    assert "On " in str(held)
    assert "reference states (given): the largest change of a probability is" in str(held)


def rail(reach: Reach, *, first: References | None = None) -> tuple[hr.CategoricalPolicy, Rail]:
    policy = small_policy(2, 2)
    rules = [hr.AtLeast(0.9, 1, hr.Points(HERE), name="here")]
    enforcer = make_enforcer(expand(rules, policy), hr.Everywhere(), policy, Tolerance())
    return policy, Rail(enforcer, rules, first, reach)


def test_experience_makes_the_reach_fade() -> None:
    policy, one = rail(Fading(first=10.0, last=0.1, updates=2))
    reaches = []
    for _ in range(3):
        reaches.append(one.reach(policy))
        one.learned_from(np.zeros((4, 2)))
    assert reaches == pytest.approx([10.0, 1.0, 0.1])
    policy, one = rail(0.5)
    one.learned_from(np.zeros((4, 2)))
    assert one.reach(policy) == 0.5


def test_without_references_there_is_no_influence_to_tell_of() -> None:
    policy, one = rail("auto")
    held = one.hold(policy)
    assert held.satisfied
    assert held.influence is None
    assert "reference" not in str(held)


def test_what_obeys_already_has_no_influence() -> None:
    policy, one = rail("auto", first=References(np.zeros((3, 2)), "given"))
    one.hold(policy)
    again = one.hold(policy)
    assert again.parameter_change == 0.0
    assert again.influence is not None
    assert again.influence.largest_change == again.influence.mean_change == 0.0


def test_a_rail_goes_on_exactly_from_what_it_remembers() -> None:
    (policy, one), (other, two) = rail("auto"), rail("auto")
    visited = np.random.default_rng(0).normal(size=(40, 2))
    one.learned_from(visited)
    two.recall(one.memory())
    one.hold(policy)
    two.hold(other)
    np.testing.assert_array_equal(policy.probabilities(visited), other.probabilities(visited))


def test_where_everything_is_constrained_the_shortest_way_is_left() -> None:
    space = gym.spaces.Box(-1.0, 1.0, (2,))
    rules = [hr.AtLeast(0.9, 1, hr.Box([-1.0, -1.0], [1.0, 1.0]), name="everywhere")]
    assert references_before_experience(None, space, rules) is None
    assert hr.enforce(small_policy(2, 2), rules, references=[[3.0, 3.0]]).satisfied


def test_references_that_stand_in_the_way_yield() -> None:
    """No network that is held at one state stays as it was right beside it."""
    policy = small_policy(2, 2)
    near = np.array(HERE) + 1e-6
    held = hr.enforce(
        policy, [hr.AtLeast(0.95, 1, hr.Points(HERE), name="h")], references=[near], reach=0.0
    )
    assert held.satisfied
    assert policy.probabilities([HERE])[0, 1] >= 0.95 - 1e-6
    assert held.influence is not None
    assert held.influence.largest_change > 0.1


def learned(policy: hr.CategoricalPolicy, seed: int) -> None:
    """A step of some learner."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for one in policy.parameters:
            one.add_(0.02 * torch.randn_like(one))


def one_sided_rail() -> tuple[hr.CategoricalPolicy, Rail]:
    policy = hr.CategoricalPolicy.mlp(spaces(2, 2), [256], seed=0)
    rules = [hr.AtLeast(0.9, 1, hr.Box([0.5, 0.5], [0.7, 0.7]), name="here")]
    enforcer = make_enforcer(expand(rules, policy), hr.Everywhere(), policy, Tolerance())
    # Far from where it is going to live.
    far = References(np.random.default_rng(1).uniform(-9.0, -5.0, (64, 2)), "given")
    return policy, Rail(enforcer, rules, far, "auto")


def test_once_it_is_known_where_the_policy_lives_it_is_held_anew_there() -> None:
    policy, one = one_sided_rail()
    visited = np.random.default_rng(2).uniform(-0.5, 0.3, (400, 2))
    free = policy.probabilities(visited)
    one.hold(policy).raise_if_unsatisfied()
    there = np.abs(policy.probabilities(visited) - free).mean()
    before = weights_of(policy)
    one.learned_from(visited)
    held = one.hold(policy).raise_if_unsatisfied()
    assert np.abs(policy.probabilities(visited) - free).mean() < 0.6 * there
    assert held.parameter_change == pytest.approx(np.linalg.norm(weights_of(policy) - before))
    assert one.hold(policy).parameter_change == 0.0  # once


def test_what_was_learned_is_kept_when_what_was_held_is_taken_back() -> None:
    policy, one = one_sided_rail()
    start = weights_of(policy)
    one.hold(policy)
    held = weights_of(policy)
    learned(policy, 0)
    step = weights_of(policy) - held
    moved = Displacement().and_since(held - step, policy)  # twice the step
    moved.take_back(policy)
    assert weights_of(policy) == pytest.approx(held - step, abs=1e-12)
    Displacement(held - start).take_back(policy)
    assert weights_of(policy) == pytest.approx(start - step, abs=1e-12)
    with pytest.raises(InvalidRun, match="'moved' is about 3 weights, but the policy has 1,282"):
        Displacement(np.ones(3)).take_back(policy)


@pytest.mark.parametrize("interrupted_after", [1, 3])
def test_held_anew_or_not_it_goes_on_from_what_it_remembers(interrupted_after: int) -> None:
    (policy, one), (other, two) = one_sided_rail(), one_sided_rail()
    rng = np.random.default_rng(3)
    for number in range(5):
        if number == interrupted_after:
            fresh = one_sided_rail()[1]
            fresh.recall(two.memory())
            two = fresh
        for policy_, rail_ in ((policy, one), (other, two)):
            rail_.hold(policy_).raise_if_unsatisfied()
            learned(policy_, number)
        visited = rng.uniform(-1.0, 1.0, (90, 2))
        one.learned_from(visited)
        two.learned_from(visited)
    np.testing.assert_array_equal(weights_of(policy), weights_of(other))
    assert not len(one.memory()["moved"])  # enough was visited: nothing is taken back any more


def fenced_rail(reach: Reach = "auto") -> tuple[hr.CategoricalPolicy, Rail]:
    """Of a network with room for a fence, whose last layer means little yet."""
    policy = hr.CategoricalPolicy.mlp(spaces(2, 2), [64, 64], "tanh", seed=0)
    with torch.no_grad():
        for parameter in policy.parameters[-2:]:
            parameter.mul_(0.01)
    rules = [hr.AtLeast(0.9, 1, hr.Box([0.5, 0.5], [0.7, 0.7]), name="here")]
    enforcer = make_enforcer(expand(rules, policy), hr.Everywhere(), policy, Tolerance())
    states = np.random.default_rng(1).uniform(-1.0, 0.4, (200, 2))
    return policy, Rail(enforcer, rules, References(states, "given"), reach, ADVICE_AT_FIRST)


def test_what_is_fenced_in_is_not_held_anew() -> None:
    (policy, one), (other, two) = fenced_rail(), fenced_rail()
    visited = np.random.default_rng(2).uniform(-0.5, 0.4, (400, 2))
    free = policy.probabilities(visited)
    first = one.hold(policy).raise_if_unsatisfied()
    two.hold(other)
    assert first.fences == 1
    assert first.influence is not None
    assert first.influence.largest_change < 0.005
    assert np.abs(policy.probabilities(visited) - free).max() < 0.005
    resumed = fenced_rail()[1]
    resumed.recall(two.memory())
    assert one.fences is not None
    assert resumed.fences is not None
    for own, remembered in zip(one.fences.units, resumed.fences.units, strict=True):
        np.testing.assert_array_equal(own, remembered)
    for rail_, policy_ in ((one, policy), (resumed, other)):
        before = weights_of(policy_)
        rail_.learned_from(visited)
        held = rail_.hold(policy_)
        assert held.satisfied
        assert held.fences == 0
        np.testing.assert_array_equal(weights_of(policy_), before)


def test_what_an_update_breaks_inside_a_fence_is_put_right_there() -> None:
    policy, one = fenced_rail()
    one.hold(policy)
    visited = np.random.default_rng(2).uniform(-0.5, 0.4, (400, 2))
    one.learned_from(visited)
    with torch.no_grad():  # a learner that prefers the other action everywhere
        policy.parameters[-1].add_(torch.tensor([2.0, -2.0], dtype=policy.dtype))
    learned_there = policy.probabilities(visited)
    held = one.hold(policy).raise_if_unsatisfied()
    assert held.history
    assert hr.measure(policy, one.constraints).worst_violation <= 0.0
    assert np.abs(policy.probabilities(visited) - learned_there).max() < 0.005


def test_a_learner_whose_updates_are_noisy_gets_none() -> None:
    policy, one = fenced_rail()
    noisy = Rail(one.enforcer, one.constraints, None, "auto", ADVICE_ALWAYS)
    assert noisy.hold(policy).raise_if_unsatisfied().fences == 0
    assert hr.enforce(fenced_rail()[0], list(one.constraints)).fences == 0


@pytest.mark.parametrize("reach", [0.01, 1.0, 10.0])
def test_what_is_to_reach_further_is_not_fenced_in(reach: float) -> None:
    policy, one = fenced_rail(reach)
    held = one.hold(policy).raise_if_unsatisfied()
    assert held.fences == 0
    assert held.influence is not None
    assert held.influence.mean_change > 0.01


def test_advice_is_not_taken_back_though_it_fades() -> None:
    policy = hr.CategoricalPolicy.mlp(spaces(2, 2), [64], seed=0)
    rules = [
        hr.AtLeast(0.9, a, hr.Points([(-1) ** a * 0.5, 0.5]), name=f"side {a}") for a in range(2)
    ]
    enforcer = make_enforcer(expand(rules, policy), hr.Everywhere(), policy, Tolerance())
    advice = Fading(first=10.0, last=0.1, updates=2)
    one = Rail(enforcer, rules, None, "auto", advice)
    one.hold(policy).raise_if_unsatisfied()
    reaches = [one.reach(policy)]
    for _ in range(3):
        one.learned_from(np.random.default_rng(2).uniform(-0.5, 0.3, (50, 2)))
        assert one.hold(policy).parameter_change == 0.0  # it obeys already
        reaches.append(one.reach(policy))
    assert reaches == pytest.approx([10.0, 1.0, 0.1, 0.1])


@pytest.mark.parametrize(
    ("reach", "advice", "inside"),
    [
        ("auto", ADVICE_AT_FIRST, 1.5),  # of a learner whose updates are gentle, advice
        ("auto", ADVICE_ALWAYS, 0.0),  # of one whose updates are not
        (0.001, ADVICE_AT_FIRST, 0.0),  # no advice
    ],
)
def test_advice_brings_what_an_update_broke_further_inside(
    reach: Reach, advice: Fading, inside: float
) -> None:
    """So that the next update breaks it less often; before any update, only what was asked."""
    policy = hr.CategoricalPolicy.mlp(spaces(2, 2), [64], seed=0)
    places = np.array([[0.5, 0.5], [-0.5, 0.5]])
    rules = [hr.AtLeast(0.9, a, hr.Points(places[a]), name=f"side {a}") for a in range(2)]
    enforcer = make_enforcer(expand(rules, policy), hr.Everywhere(), policy, Tolerance())
    rng = np.random.default_rng(0)
    rail = Rail(enforcer, rules, References(rng.normal(size=(64, 2)), "given"), reach, advice)

    def log_odds() -> float:
        """Of what the first asks for, as the policy is."""
        logits = policy.raw(places[:1])[0]
        return float(logits[0] - logits[1])

    bound = np.log(0.9 / 0.1)
    rail.hold(policy).raise_if_unsatisfied()
    assert log_odds() == pytest.approx(bound, abs=0.02)
    rail.learned_from(rng.normal(size=(300, 2)))
    with torch.no_grad():  # which favours the second action everywhere, by 0.2
        policy.parameters[-1].add_(torch.tensor([-0.1, 0.1], dtype=torch.float64))
    held = rail.hold(policy).raise_if_unsatisfied()
    assert held.worst_violation <= 0.0
    # In one step where that is enough, which may reach a little further.
    assert inside - 0.1 < log_odds() - bound < 1.2 * inside + 0.1


def test_of_values_advice_is_given_once() -> None:
    """What actions are worth elsewhere, a learner must find out."""
    policy = GreedyPolicy(torch.nn.Linear(2, 2, dtype=torch.float64))
    rules = [hr.Prefer(1, by=0.1, where=at(1)), hr.Prefer(0, by=0.1, where=at(-1))]
    enforcer = make_enforcer(expand(rules, policy), hr.Everywhere(), policy, Tolerance())
    one = Rail(enforcer, rules, None, "auto", ADVICE_AT_FIRST)
    assert one.reach(policy) == 10.0
    one.learned_from(np.zeros((4, 2)))
    assert one.reach(policy) == 1e-3


@pytest.mark.parametrize(("reach", "expected"), [(10.0, [256, 64, 64]), (0.01, [256, 256, 256])])
def test_of_advice_influence_is_measured_at_some_of_the_references(
    reach: float, expected: list[int]
) -> None:
    """After updates: what decides nothing must not take longer than holding does."""
    policy = hr.CategoricalPolicy.mlp(spaces(2, 2), [64], seed=0)
    rules = [hr.AtLeast(0.9, 1, hr.Points(HERE), name="here")]
    enforcer = make_enforcer(expand(rules, policy), hr.Everywhere(), policy, Tolerance())
    rng = np.random.default_rng(0)
    one = Rail(enforcer, rules, References(rng.normal(size=(256, 2)), "given"), reach)
    counts = []
    for number in range(3):
        held = one.hold(policy).raise_if_unsatisfied()
        assert held.influence is not None
        counts.append(held.influence.states)
        one.learned_from(rng.normal(size=(1200, 2)))
        learned(policy, number)
    assert counts == expected
