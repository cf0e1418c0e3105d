"""Constraints kept on a policy that somebody else trains."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch

import handrail as hr
from handrail.enforcement.rail import weights_of
from handrail.learning.keeper import Keeper, Terms
from handrail.settings import (
    ADVICE_AT_FIRST,
    ADVICE_ONCE,
    LESS_AT_FIRST,
    LITTLE_ALWAYS,
    LITTLE_REACH,
    NEXT_TO_NOTHING_AT_FIRST,
)

SPACES = gym.spaces.Box(-1.0, 1.0, (3,)), gym.spaces.Discrete(2)
STATES = np.array([[0.5, 0.0, 0.0], [-0.5, 0.0, 0.0]])
RULES: list[hr.Constraint] = [
    hr.AtLeast(0.9, number, hr.Points(STATES[number]), name=f"s{number}") for number in (0, 1)
]


def fresh() -> hr.CategoricalPolicy:
    return hr.CategoricalPolicy.mlp(SPACES, hidden=[32], seed=0)


def unlearn(policy: hr.CategoricalPolicy) -> None:
    with torch.no_grad():
        policy.parameters[-1].add_(torch.tensor([3.0, 0.0]))


def test_it_is_held_again_and_again() -> None:
    policy = fresh()
    keeper = Keeper(policy, SPACES, Terms.of(RULES))
    first, result = keeper.hold(0, "PPO")
    assert result.satisfied
    assert first.violation_before > 0.3
    assert first.violation_after <= 1e-6
    assert first.active >= 1
    unlearn(policy)
    second, _ = keeper.hold(64, "PPO")
    assert second.timesteps == 64
    assert second.violation_before > 0.1
    assert hr.measure(policy, RULES).worst_violation <= 1e-6
    third, _ = keeper.hold(64, "PPO")
    assert (third.iterations, third.parameter_change) == (0, 0.0)


def test_what_is_logged() -> None:
    holding, _ = Keeper(fresh(), SPACES, Terms.of(RULES)).hold(0, "PPO")
    logged = holding.logged()
    assert logged["violation_after"] == holding.violation_after
    assert {"violation_before", "influence", "largest_influence", "seconds"} <= logged.keys()


def test_it_goes_on_from_what_it_remembers() -> None:
    """Bit for bit, experience included."""
    rng = np.random.default_rng(0)
    rollouts = rng.uniform(-1.0, 1.0, (2, 50, 3))
    ends = []
    for interrupted in (False, True):
        policy = fresh()
        keeper = Keeper(policy, SPACES, Terms.of(RULES))
        keeper.hold(0, "PPO")
        keeper.learned_from(rollouts[0])
        unlearn(policy)
        keeper.hold(50, "PPO")
        if interrupted:
            memory = keeper.memory()
            keeper = Keeper(policy, SPACES, Terms.of(RULES))
            keeper.recall(memory)
        keeper.learned_from(rollouts[1])
        unlearn(policy)
        keeper.hold(100, "PPO")
        ends.append(weights_of(policy))
    np.testing.assert_array_equal(ends[0], ends[1])


def test_what_cannot_be_is_said_and_the_policy_is_as_it_was() -> None:
    policy = fresh()
    before = weights_of(policy)
    both = [*RULES, hr.AtMost(0.5, 0, hr.Points(STATES[0]), name="no")]
    keeper = Keeper(policy, SPACES, Terms.of(both))
    assert keeper.is_impossible()
    assert not Keeper(policy, SPACES, Terms.of(RULES)).is_impossible()
    boxes = hr.Box([-0.5] * 3, [0.1] * 3), hr.Box([0.0] * 3, [0.5] * 3)
    apart = [hr.AtLeast(0.9, k, box, name=f"{k}") for k, box in enumerate(boxes)]
    assert Keeper(policy, SPACES, Terms.of(apart)).is_impossible()
    with pytest.raises(
        hr.errors.UnsatisfiedConstraints, match=r"After 7 timesteps .* as PPO left it\. "
    ):
        keeper.hold(7, "PPO")
    np.testing.assert_array_equal(weights_of(policy), before)


def test_terms_are_refused_at_once() -> None:
    with pytest.raises(hr.errors.InvalidArgument, match="reach"):
        Terms.of(RULES, reach=-1.0)
    with pytest.raises(hr.errors.HandrailError, match="no_such_file"):
        Terms.of("no_such_file.yaml")


def test_advice_fades_for_learners_with_gentle_updates() -> None:
    keeper = Keeper(fresh(), SPACES, Terms.of(RULES))  # they cover both sides
    reaches = []
    for _ in range(ADVICE_AT_FIRST.updates + 2):
        reaches.append(keeper.reach())
        keeper.learned_from(np.zeros((4, 3)))
    assert reaches[0] == ADVICE_AT_FIRST.first
    assert reaches[1] < reaches[0]
    assert reaches[ADVICE_AT_FIRST.updates :] == [ADVICE_AT_FIRST.last] * 2
    one_sided = Keeper(fresh(), SPACES, Terms.of(RULES[:1]))
    assert one_sided.reach() == LITTLE_ALWAYS.first == LITTLE_REACH
    one_sided.learned_from(np.zeros((4, 3)))
    assert one_sided.reach() == LITTLE_REACH


def test_regions_say_themselves_where_they_hold() -> None:
    """Points are examples of a rule; to learners with gentle updates, regions are none."""
    around = [hr.Box(state - 0.1, state + 0.1) for state in STATES[:2]]
    regions = [hr.AtLeast(0.8, action, box) for action, box in enumerate(around)]
    on_regions = Keeper(fresh(), SPACES, Terms.of(regions))
    assert on_regions.reach() == LESS_AT_FIRST.first < LITTLE_REACH
    on_regions.learned_from(np.zeros((4, 3)))
    assert on_regions.reach() == LESS_AT_FIRST.last == LITTLE_REACH
    one_of_two = Keeper(fresh(), SPACES, Terms.of(regions[:1]))
    assert one_of_two.reach() == NEXT_TO_NOTHING_AT_FIRST.first < LESS_AT_FIRST.first
    one_of_two.learned_from(np.zeros((4, 3)))
    assert one_of_two.reach() == LITTLE_REACH
    three = SPACES[0], gym.spaces.Discrete(3)
    one_of_three = hr.CategoricalPolicy.mlp(three, hidden=[32], seed=0)
    assert Keeper(one_of_three, three, Terms.of(regions[:1])).reach() == LESS_AT_FIRST.first
    with_points = Keeper(fresh(), SPACES, Terms.of([*RULES, regions[0]]))
    assert with_points.reach() == LESS_AT_FIRST.first
    # A tube leaves nothing to learn but what is inside of it.
    tube = [hr.Between(0.3, 0.7, 0, around[0])]
    assert Keeper(fresh(), SPACES, Terms.of(tube)).reach() == ADVICE_ONCE.first


def fenced_keeper(seed: int) -> Keeper:
    """Of a network in which a box is fenced off; which units that takes depends on the seed."""
    spaces = gym.spaces.Box(-1.0, 1.0, (2,), np.float64), gym.spaces.Discrete(2)
    policy = hr.CategoricalPolicy.mlp(spaces, [64, 64], "tanh", seed=seed)
    with torch.no_grad():
        for parameter in policy.parameters[-2:]:
            parameter.mul_(0.01)
    rule = hr.AtLeast(0.9, 1, hr.Box([0.5, 0.5], [0.7, 0.7]), name="here")
    return Keeper(policy, spaces, Terms.of([rule], None, None, "auto", None, False, "refuse"))


def still_units(keeper: Keeper) -> list[int]:
    """Of the first layer, those that the second layer would not learn to heed."""
    keeper.policy.module.zero_grad()
    states = torch.as_tensor(np.random.default_rng(0).uniform(-0.1, 0.4, (500, 2)))
    keeper.policy.module(states).square().sum().backward()
    gradient = keeper.policy.parameters[2].grad
    assert gradient is not None
    still: list[int] = (gradient == 0.0).all(dim=0).nonzero().ravel().tolist()
    return still


def test_what_flows_backwards_goes_round_fences_until_the_training_ends() -> None:
    keeper = fenced_keeper(0)
    going_on = True
    keeper.begin(lambda: going_on)
    assert still_units(keeper) == []
    keeper.hold(0, "PPO")
    assert len(still_units(keeper)) == 4
    going_on = False  # interrupted: nobody was told
    assert still_units(keeper) == []
    going_on = True
    keeper.end()
    assert still_units(keeper) == []
    keeper.hold(64, "PPO")
    assert len(still_units(keeper)) == 4


def test_the_fences_of_a_memory_are_those_that_gradients_go_round() -> None:
    remembered, other = fenced_keeper(0), fenced_keeper(1)
    remembered.hold(0, "PPO")
    other.hold(0, "PPO")
    units, before = still_units(remembered), still_units(other)
    assert units != before
    with torch.no_grad():  # as a learner that is restored
        for own, one in zip(other.policy.parameters, remembered.policy.parameters, strict=True):
            own.copy_(one)
    other.recall(remembered.memory())
    other.hold(64, "PPO")
    assert still_units(other) == units
    without_fences = {k: v for k, v in remembered.memory().items() if not k.startswith("fence.")}
    other.recall(without_fences)
    other.hold(128, "PPO")
    assert still_units(other) == []
