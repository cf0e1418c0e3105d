"""Where the policy should stay as it is: before experience, and as it arrives."""

from __future__ import annotations

import gymnasium as gym
import numpy as np

import handrail as hr
from handrail.constraints.expansion import expand
from handrail.enforcement.rail import cover_both_sides, references_before_experience
from handrail.enforcement.references import References, Reservoir
from handrail.rulebook.rulebook import load_rulebook, with_settings
from tests.conftest import small_policy

AT = hr.Points([[0.0, 0.0, 0.0]])


def reservoir() -> Reservoir:
    first = np.random.default_rng(0).normal(size=(512, 3))
    return Reservoir([hr.AtLeast(0.9, 0, AT)], References(first, "given"))


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
        assert plain.references is not None
        assert failing.references is not None
        np.testing.assert_array_equal(plain.references.states, failing.references.states)


def test_another_reservoir_goes_on_from_what_was_remembered() -> None:
    """Also before any experience: whoever loads a learner does not know its first references."""
    one = reservoir()
    for number in (1, 2):
        other = Reservoir([hr.AtLeast(0.9, 0, AT)], None)
        other.recall(one.memory())
        for each in (one, other):
            each.add(rollout(number))
        assert one.references is not None
        assert other.references is not None
        np.testing.assert_array_equal(one.references.states, other.references.states)


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


def test_what_pushes_back_makes_two_sides() -> None:
    region = hr.Box([1.0] * 3, [2.0] * 3)

    def both(*constraints: hr.Constraint) -> bool:
        return cover_both_sides(expand(constraints, small_policy()).rows(per_region=1))

    push = hr.AtLeast(0.9, 0, AT)  # of three actions
    assert not both(push)
    assert not both(push, hr.AtMost(0.1, 1, region))
    assert both(push, hr.AtMost(0.1, 0, region))
    assert both(hr.Between(0.2, 0.4, 0, AT))
    assert not both(push, hr.AtLeast(0.9, 1, region))  # nobody asks for the third
    assert both(*(hr.AtLeast(0.9, one, hr.Points([[float(one)] * 3])) for one in range(3)))
