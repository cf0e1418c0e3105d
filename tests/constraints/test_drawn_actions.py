"""Drawn actions against constraints: counted by hand, and against brute force."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import handrail as hr
from handrail.constraints.constraint import Constraint
from handrail.constraints.drawn_actions import DrawnActions, count_drawn
from handrail.constraints.rows import concatenate
from handrail.learning.checkpoint import SavedConstraints
from tests.conftest import small_policy
from tests.policies.test_gaussian import gaussian

LEFT = hr.Box([-1.0, -1.0], [0.0, 1.0])
RIGHT = hr.Box([0.5, -1.0], [1.0, 1.0])
STATES = np.array([[-0.5, 0.0], [-0.2, 0.3], [0.3, 0.0], [0.7, 0.1], [0.9, -0.9], [-0.9, 0.9]])


def counted(*constraints: Constraint, actions: list[int]) -> DrawnActions:
    found = count_drawn(small_policy(2, 3), constraints, STATES, np.array(actions))
    assert found is not None
    return found


def test_by_hand() -> None:
    found = counted(
        hr.AtLeast(0.9, 0, LEFT, "go left"),  # at states 0, 1, 5
        hr.AtMost(0.2, 2, RIGHT, "not 2"),  # at states 3, 4
        actions=[0, 1, 1, 2, 0, 2],
    )
    assert (found.steps, found.against) == (5, 3)
    assert found.share == 0.6
    first, second = found.by_constraint
    assert (first.name, first.steps, first.against) == ("go left", 3, 2)
    assert (second.steps, second.against, second.allowed) == (2, 1, 0.2)
    assert first.allowed == pytest.approx(0.1)
    assert str(found) == (
        "3 of 5 drawn actions in constrained places went against a constraint there (60.0%)"
    )
    assert str(second) == (
        "not 2: 1 of 2 drawn actions (50.0%, where its bound leaves 20.0% to chance)"
    )


def test_a_step_counts_once_however_many_speak_there() -> None:
    found = counted(
        hr.AtLeast(0.9, 0, LEFT, "a"), hr.AtMost(0.1, 1, LEFT, "b"), actions=[1, 0, 0, 0, 0, 2]
    )
    assert (found.steps, found.against) == (3, 2)
    assert [one.against for one in found.by_constraint] == [2, 1]


def test_what_single_actions_cannot_meet_is_not_counted() -> None:
    policy, actions = small_policy(2, 3), np.zeros(6, dtype=np.intp)
    between = hr.Between(0.4, 0.6, 0, LEFT)
    assert count_drawn(policy, [between], STATES, actions) is None
    mirrored = hr.Symmetric(hr.Points(STATES[:1]), [-1, -1], {0: 1, 1: 0})
    assert count_drawn(policy, [mirrored], STATES, actions) is None


def test_no_step_in_a_constrained_place() -> None:
    found = counted(hr.AtLeast(0.9, 0, hr.Box([5, 5], [6, 6])), actions=[0] * 6)
    assert (found.steps, found.share, found.by_constraint) == (0, None, ())
    assert str(found) == "no step was in a constrained place"


def test_points_are_found_in_float32() -> None:
    points = hr.Points([[-0.2, 0.3], [0.1, 0.1]])
    seen = STATES.astype(np.float32).astype(np.float64)
    assert not np.array_equal(seen[1], STATES[1])
    found = count_drawn(
        small_policy(2, 3), [hr.AtLeast(0.9, 0, points)], seen, np.full(6, 1, dtype=np.intp)
    )
    assert found is not None
    assert (found.steps, found.against) == (1, 1)


def test_points_that_were_never_visited_say_nothing() -> None:
    rule = hr.AtLeast(0.9, 0, hr.Points([[0.1, 0.1]]))
    actions = np.zeros(6, dtype=np.intp)
    assert count_drawn(small_policy(2, 3), [rule], STATES, actions) is None


def test_rows_of_a_saved_learner_count_as_the_constraints_did() -> None:
    policy, actions = small_policy(2, 3), np.array([0, 1, 1, 2, 0, 2])
    rules = [
        hr.AtLeast(0.9, 0, hr.Points(STATES[:3]), "a"),
        hr.Between(0.3, 0.6, 0, hr.Points(STATES[3:]), "not counted"),
        hr.Symmetric(hr.Points(STATES[:1]), mirror=[-1, -1], swap={0: 1, 1: 0}, name="nor this"),
    ]
    expected = count_drawn(policy, rules[:1], STATES, actions)
    rows = concatenate([one.rows(3) for one in rules])
    found = count_drawn(policy, [SavedConstraints(rows)], STATES, actions)
    assert expected is not None
    assert found is not None
    assert (found.steps, found.against) == (expected.steps, expected.against) == (3, 2)
    assert [one.name for one in found.by_constraint] == ["a [0]", "a [1]", "a [2]"]


def test_preferences_and_choices() -> None:
    prefer = hr.Prefer(0, 1, 2.0, where=LEFT)
    assert counted(prefer, actions=[0, 1, 0, 0, 0, 2]).against == 1  # 2 is neither of them
    likeliest = hr.Prefer(0, where=LEFT)
    assert counted(likeliest, actions=[0, 1, 0, 0, 0, 2]).against == 2
    either = hr.AnyOf([hr.AtLeast(0.9, 0, LEFT), hr.AtLeast(0.9, 2, LEFT)])
    assert counted(either, actions=[0, 1, 0, 0, 0, 2]).against == 1


def test_weighted_sums_against_brute_force() -> None:
    rng = np.random.default_rng(0)
    states, actions = rng.uniform(-1, 1, (500, 2)), rng.integers(0, 3, 500)
    bound = hr.Affine([0.2, 0.1], 0.1)
    rule = hr.AtLeast(bound, {0: 1.0, 1: -0.5}, LEFT)
    found = count_drawn(small_policy(2, 3), [rule], states, actions)
    assert found is not None
    expected = [
        {0: 1.0, 1: -0.5, 2: 0.0}[int(action)] < 0.2 * x + 0.1 * y + 0.1
        for (x, y), action in zip(states, actions, strict=True)
        if x <= 0.0
    ]
    assert (found.steps, found.against) == (len(expected), sum(expected))
    assert found.by_constraint[0].allowed is None


def test_continuous_actions_outside_a_bound() -> None:
    policy = gaussian(2, 1)
    rule = hr.Between(-0.5, 0.5, hr.Mean(0), LEFT)
    actions = np.array([[0.0], [0.51], [9.0], [9.0], [9.0], [-0.5 - 1e-7]])
    found = count_drawn(policy, [rule], STATES, actions, tolerance=1e-6)
    assert found is not None
    assert (found.steps, found.against) == (3, 1)
    exactly = count_drawn(policy, [rule], STATES, actions)
    assert exactly is not None
    assert exactly.against == 2


def test_an_evaluation_counts_what_chance_leaves() -> None:
    """A policy held at P(1) ≥ 0.8 where it plays draws the other action in at most 20 %."""
    everywhere = hr.Box([-3, -4, -0.3, -4], [3, 4, 0.3, 4])
    rule = hr.AtLeast(0.8, 1, everywhere, "mostly right")
    policy = small_policy(4, 2)
    hr.enforce(policy, [rule])
    found = hr.evaluate(policy, "CartPole-v1", [rule], episodes=40)
    drawn = found.drawn
    assert drawn is not None
    assert drawn.steps == sum(found.lengths)
    probability = 0.2
    deviation = np.sqrt(probability * (1 - probability) * drawn.steps)
    assert 0 < drawn.against <= probability * drawn.steps + 4 * deviation
    assert "went against a constraint there" in str(found)
    assert ">drawn actions</th>" in found._repr_html_()
    certain = hr.evaluate(policy, "CartPole-v1", [rule], episodes=3, deterministic=True)
    assert certain.drawn is not None
    assert certain.drawn.against == 0


def test_actions_count_as_the_environment_takes_them() -> None:
    """Drawn far outside of the range, and clipped to its end, which the bound allows."""
    env = gym.make("Pendulum-v1", max_episode_steps=30)
    everywhere = hr.Box([-1, -1, -8], [1, 1, 8])
    rule = hr.AtMost(2.0, hr.Mean(0), everywhere)
    policy = gaussian(3, 1)
    agent = hr.Reinforce(env, policy, [rule])
    found = agent.evaluate(episodes=2).drawn
    assert found is not None
    assert (found.steps, found.against) == (60, 0)
