"""Where the policy should stay as it is: before experience, and as it arrives."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch

import handrail as hr
from handrail._types import Array
from handrail.constraints import expand
from handrail.enforcement.rail import references_before_experience
from handrail.enforcement.references import (
    Constrained,
    Places,
    References,
    Reservoir,
    Unasked,
    references_of_space,
    spread,
)
from handrail.policies import GaussianPolicy, GreedyPolicy, Policy
from handrail.rulebook.rulebook import load_rulebook, with_settings
from tests.conftest import spaces

AT = hr.Points([[0.0, 0.0, 0.0]])
BOX = hr.Box([0.2, 0.0], [0.6, 1.0])
RULES = [
    hr.AtLeast(0.9, 0, BOX, name="box"),
    hr.AtMost(0.2, 0, hr.Points([[-0.5, -0.5], [0.1, 0.7]]), name="points"),
]


def reservoir() -> Reservoir:
    first = np.random.default_rng(0).normal(size=(512, 3))
    return Reservoir([hr.AtLeast(0.9, 0, AT)], References(first, "given"))


def found_in(reservoir: Reservoir) -> References:
    assert reservoir.references is not None
    return reservoir.references


def rollout(number: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.random.default_rng(number).normal(size=(40, 3))


def test_a_rollout_can_be_forgotten_the_first_one_too() -> None:
    plain, failing = reservoir(), reservoir()
    for number in (1, 2, 3):
        before = failing.memory()
        failing.add(rollout(99))  # of an update that went wrong
        failing.recall(before)
        assert failing.rollouts == number - 1
        for one in (plain, failing):
            one.add(rollout(number))
        np.testing.assert_array_equal(found_in(plain).states, found_in(failing).states)


def test_another_reservoir_goes_on_from_what_was_remembered() -> None:
    """Also before any experience: whoever loads a learner does not know its first references."""
    one = reservoir()
    for number in (1, 2):
        other = Reservoir([hr.AtLeast(0.9, 0, AT)], None)
        other.recall(one.memory())
        for each in (one, other):
            each.add(rollout(number))
        np.testing.assert_array_equal(found_in(one).states, found_in(other).states)


def test_a_file_says_how_large_observations_without_bounds_are() -> None:
    space = gym.make("CartPole-v1").observation_space
    book = with_settings(load_rulebook("cartpole"), network={"scale": {"x_dot": 3.0, "phi": 9.0}})
    named = references_before_experience(None, space, book)
    plain = references_before_experience(None, space, book.constraints)
    assert named is not None
    assert plain is not None
    widest = np.abs(named.states).max(axis=0)
    assert 2.0 < widest[1] <= 3.0
    assert np.abs(plain.states[:, 1]).max() <= 1.0
    assert widest[2] <= 0.419  # the environment's own bound counts
    given = references_before_experience(np.full((5, 4), 7.0), space, book)
    assert given is not None
    np.testing.assert_array_equal(given.states, np.full((5, 4), 7.0))


def test_places_are_regions_and_points_to_float32() -> None:
    states = np.array([[0.3, 0.5], [0.7, 0.5], [0.1, np.float32(0.7)], [-0.5, -0.5], [0.0, 0.0]])
    assert Places(RULES).contain(states).tolist() == [True, False, True, True, False]
    assert Places(RULES[:1]).contain(states).tolist() == [True, False, False, False, False]
    images = np.zeros((2, 2, 2))
    flat = [hr.AtLeast(0.9, 0, hr.Points(np.zeros((1, 2, 2))), name="image")]
    assert Places(flat).contain(images).all()


def test_no_reference_lies_in_a_constrained_place() -> None:
    found = references_of_space(gym.spaces.Box(-1.0, 1.0, (2,)), RULES)
    assert not Places(RULES).contain(found.states).any()
    assert (np.abs(found.states) <= 1.0).all()
    # Around the middle rather than in the corners: uniformly, a quarter were within half of it.
    assert (np.abs(found.states).max(axis=1) <= 0.5).mean() > 0.4


def test_what_is_small_is_mirrored_where_the_space_has_no_bounds() -> None:
    space = gym.spaces.Box(-np.inf, np.inf, (2,))
    rules = [hr.AtLeast(0.9, 0, hr.Box([0.1, 300.0], [0.3, 310.0]), name="warm")]
    states = references_of_space(space, rules).states
    low, high = states.min(axis=0), states.max(axis=0)
    np.testing.assert_allclose([low[0], high[0]], [-0.5, 0.5], rtol=0.1)
    np.testing.assert_allclose([low[1], high[1]], [290.0, 320.0], rtol=0.01)


def share_near(states: Array, place: Array) -> float:
    return float((np.abs(states - place).max(axis=1) < 10.0).mean())


def test_many_of_a_learner_lie_where_it_is_going_to_live() -> None:
    """Of a space a hundred times as wide: near what is constrained, and where episodes begin."""
    space = gym.spaces.Box(-100.0, 100.0, (2,))
    begin, constrained = np.array([[-40.0, 60.0], [-41.0, 61.0]]), np.array([0.0, 0.5])
    found = [references_before_experience(None, space, RULES, one) for one in (None, begin)]
    origin = "random, of the observation space, denser in the middle"
    ways = "; two of three on the ways there, from constrained states or where episodes begin"
    assert [one.origin for one in found if one is not None] == [origin, origin + ways]
    unknown, known = (one.states for one in found if one is not None)
    assert share_near(unknown, constrained) < 0.2  # around the middle, as always
    assert share_near(unknown, begin[0]) < 0.02
    assert share_near(known, constrained) > 0.2
    assert share_near(known, begin[0]) > 0.1
    for corner in space.low, space.high:
        assert (np.abs(known - corner).min(axis=0) < 30.0).all()  # and of all of it


def test_states_outside_of_the_space_lead_to_none_outside() -> None:
    space, outside = gym.spaces.Box(-0.1, 0.1, (2,)), np.array([[7.0, 0.0]])
    found = references_before_experience(None, space, RULES, outside)
    assert found is not None
    assert np.abs(found.states).max() <= 0.1 + 1e-6


def test_a_reservoir_begins_with_the_space_and_ends_with_what_was_visited() -> None:
    first = References(np.full((300, 2), -9.0), "of the space")
    reservoir = Reservoir(RULES, first)
    assert len(found_in(reservoir)) == 300
    assert found_in(reservoir).origin == "of the space"
    shares = []
    for rollout in range(6):
        visited = np.full((1200, 2), -1.0 - rollout)
        visited[:600] = [0.3, 0.5]  # constrained: never a reference
        reservoir.add(visited)
        states = found_in(reservoir).states[:, 0]
        assert len(states) == 256
        shares.append(int((states == -9.0).sum()))
    assert shares == [128, 0, 0, 0, 0, 0]  # at most 128 a rollout
    assert found_in(reservoir).origin == "of the last rollouts"
    assert not (states == 0.3).any()
    assert np.unique(states).tolist() == [-6.0, -5.0]
    assert reservoir.rollouts == 6


@pytest.mark.parametrize("of_each", [7, 90, 1300])
def test_rollouts_are_taken_in_together_as_they_would_be_one_by_one(of_each: int) -> None:
    """Whoever asks after each of them finds what he finds who asks after all of them."""
    rng = np.random.default_rng(0)
    first = References(rng.uniform(-1.0, 1.0, (300, 2)), "of the space")
    asked, waiting = Reservoir(RULES, first), Reservoir(RULES, first)
    for _ in range(21):
        visited = rng.uniform(-1.0, 1.0, (of_each, 2))  # some in the box
        visited[::3] = [-0.5, -0.5]  # a constrained point
        for one in (asked, waiting):
            one.add(visited)
        visited[:] = np.nan  # what was given is nobody's any more
        waiting.add(np.zeros((0, 2)))  # nothing to wait for
        asked.add(np.zeros((0, 2)))
        assert len(found_in(asked)) <= len(asked.visited)
    assert waiting.rollouts == 42
    assert waiting.knows_where == asked.knows_where == (of_each > 7)
    for name, found in asked.memory().items():
        np.testing.assert_array_equal(waiting.memory()[name], found)
    np.testing.assert_array_equal(found_in(waiting).states, found_in(asked).states)


def test_some_of_the_space_stays_for_good() -> None:
    """What was never visited should stay as it is, too, but is not where influence is measured."""
    first = References(np.random.default_rng(0).uniform(-9.0, -8.0, (300, 2)), "of the space")
    reservoir = Reservoir(RULES, first)
    assert found_in(reservoir).unvisited is None  # they are the references themselves
    for _ in range(4):
        reservoir.add(np.full((1200, 2), -1.0))
    found = found_in(reservoir)
    assert (found.states == -1.0).all()
    assert found.unvisited is not None
    np.testing.assert_array_equal(found.unvisited, spread(first.states, 256))
    kept = found.kept(256)
    assert len(kept) == 256
    assert (kept[:, 0] < -2.0).sum() == 32  # an eighth
    other = Reservoir(RULES, None)
    other.recall(reservoir.memory())
    np.testing.assert_array_equal(found_in(other).unvisited, found.unvisited)


def moved_along(policy: Policy, unasked: Unasked, raw: Array) -> Array:
    """How far what was not asked for moves at each state (m,), per change of the raw outputs."""
    _, slopes = policy.natural(policy.outputs(unasked.states))
    change: Array = np.linalg.norm(unasked.of_coordinates(slopes @ raw), axis=1)
    return change


def test_of_not_to_the_right_it_was_not_asked_whether_up_or_down() -> None:
    """Logits of one action alone leave the others as likely as they were to each other."""
    policy = hr.CategoricalPolicy.mlp(spaces(2, 4), [16], seed=0, activation="tanh")
    rules = [
        hr.AtMost(0.05, 1, BOX, name="not to the right"),
        hr.AtLeast(0.9, 3, hr.Points([-0.5, -0.5]), name="up"),
    ]
    visited = np.array([[0.3, 0.3], [0.9, 0.3], [0.5, 0.9]])
    unasked = Constrained(expand(rules, policy), visited).unasked(policy)
    assert unasked is not None
    at_point = (unasked.states == [-0.5, -0.5]).all(axis=1)
    assert at_point.sum() == 1
    inside = BOX.contains(unasked.states)
    assert (inside | at_point).all()
    assert [any((one == state).all() for one in unasked.states) for state in visited] == [
        True,
        False,
        True,
    ]
    right, up, up_not_down = np.eye(4)[1], np.eye(4)[3], np.array([0.0, 0.0, -1.0, 1.0])
    np.testing.assert_allclose(moved_along(policy, unasked, right)[inside], 0.0, atol=1e-12)
    np.testing.assert_allclose(moved_along(policy, unasked, up)[at_point], 0.0, atol=1e-12)
    assert (moved_along(policy, unasked, up)[inside] > 0.1).all()
    assert (moved_along(policy, unasked, right)[at_point] > 0.1).all()
    # All of a change among the others counts: √(p_up + p_down) in the metric of Fisher, about.
    _, slopes = policy.natural(policy.outputs(unasked.states))
    np.testing.assert_allclose(
        moved_along(policy, unasked, up_not_down)[inside],
        np.linalg.norm(slopes @ up_not_down, axis=1)[inside],
        rtol=0.02,
    )


def test_of_two_asked_for_at_one_state_neither_counts() -> None:
    policy = hr.CategoricalPolicy.mlp(spaces(2, 4), [16], seed=0)
    here = hr.Points([0.1, 0.7])
    rules = [hr.AtLeast(0.5, 1, here, name="right"), hr.AtMost(0.1, 2, here, name="down")]
    unasked = Constrained(expand(rules, policy), np.zeros((0, 2))).unasked(policy)
    assert unasked is not None
    assert len(unasked.states) == 1
    assert np.linalg.matrix_rank(unasked.across[0]) == 2
    for asked in np.eye(4)[[1, 2]]:
        assert moved_along(policy, unasked, asked) == pytest.approx(0.0, abs=1e-12)


def test_of_one_mean_the_others_were_not_asked_for() -> None:
    network = torch.nn.Linear(2, 3, dtype=torch.float64)
    policy = GaussianPolicy(network, [0.5, 2.0, 1.0])
    rules = [hr.AtLeast(0.5, hr.Mean(1), BOX, name="here")]
    unasked = Constrained(expand(rules, policy), np.zeros((0, 2))).unasked(policy)
    assert unasked is not None
    assert unasked.across == pytest.approx(np.broadcast_to(np.diag([1.0, 0.0, 1.0]), (32, 3, 3)))


@pytest.mark.parametrize("kind", ["two actions", "values", "relation"])
def test_of_one_coordinate_of_values_and_of_relations_nothing_is_left_open(kind: str) -> None:
    policy: Policy = hr.CategoricalPolicy.mlp(spaces(2, 2), [8], seed=0)
    rules: list[hr.Constraint] = [hr.AtLeast(0.9, 0, BOX, name="box")]
    if kind == "values":
        policy = GreedyPolicy(torch.nn.Linear(2, 3))
        rules = [hr.Prefer(0, by=0.5, where=BOX, name="box")]
    if kind == "relation":
        policy = hr.CategoricalPolicy.mlp(spaces(2, 4), [8], seed=0)
        rules = [hr.Symmetric(hr.Points([[0.5, 0.5]]), [-1, 1], {0: 1, 1: 0}, within=0.1)]
    assert Constrained(expand(rules, policy), np.zeros((0, 2))).unasked(policy) is None


def test_of_short_rollouts_every_fourth_state_enters() -> None:
    reservoir = Reservoir(RULES, None)
    assert reservoir.references is None
    reservoir.add([[-float(k), 2.0] for k in range(10)])
    assert found_in(reservoir).states[:, 0].tolist() == [0.0, -4.0, -8.0]


def test_visited_states_of_a_region_stay_as_they_are_where_the_policy_obeys() -> None:
    """P(0) ≥ 0.9 in a box whose right half the policy breaks: of that half, nothing is kept."""
    network = torch.nn.Linear(2, 2)
    with torch.no_grad():
        network.weight[:] = torch.tensor([[-100.0, 0.0], [0.0, 0.0]])
        network.bias[:] = torch.tensor([40.0 + np.log(9.0), 0.0])  # log-odds of 9 at x = 0.4
    reservoir = Reservoir(RULES, None)
    reservoir.add(np.stack([np.repeat(np.linspace(0.21, 0.9, 24), 4), np.full(96, 0.5)], axis=1))
    policy = hr.CategoricalPolicy(network)
    found = reservoir.references_in_tubes(policy, expand(RULES, policy).regional)
    assert found is not None
    kept = found.states[:, 0]
    expected = np.linspace(0.21, 0.9, 24)
    np.testing.assert_allclose(kept, expected[(expected < 0.4) | (expected > 0.6)])


@pytest.mark.parametrize(("n", "count", "expected"), [(3, 5, [0, 1, 2]), (9, 3, [0, 4, 8])])
def test_spread(n: int, count: int, expected: list[int]) -> None:
    states = np.arange(n, dtype=np.float64)[:, None]
    assert spread(states, count)[:, 0].tolist() == expected


def test_a_long_rollout_is_thinned_before_it_is_copied() -> None:
    """Of 4,000 whole numbers every fourth counts, and of those 128, evenly."""
    reservoir = Reservoir(RULES, None)
    reservoir.add(np.stack([np.arange(4000), np.full(4000, 7)], axis=1).astype(np.uint16))
    states = found_in(reservoir).states
    assert states.dtype == np.float64
    assert len(states) == 128
    assert (states[0, 0], states[-1, 0]) == (0.0, 3996.0)
    assert np.diff(states[:, 0]) == pytest.approx(3996 / 127, rel=0.3)
