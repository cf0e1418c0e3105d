"""Steps in constrained places are counted as they are done."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.off_policy.setting import (
    DQN_CARTPOLE,
    DQN_LUNAR_LANDER,
    SAC_LUNAR_LANDER,
    SAC_PENDULUM,
)
from benchmarks.off_policy.training import breaks, train


def test_which_actions_are_against_a_constraint() -> None:
    right, left = SAC_PENDULUM.constraints
    states = np.array([[0.95, 0.1, 0.5]] * 3)
    torques = np.array([[-1.5], [-0.9], [1.0]])
    np.testing.assert_array_equal(breaks(right, states, torques), [False, True, True])
    np.testing.assert_array_equal(breaks(left, states, torques), [True, True, False])
    preferred = DQN_CARTPOLE.constraints[0]
    np.testing.assert_array_equal(
        breaks(preferred, states, np.array([0, 1, 1])), [True, False, False]
    )


def test_of_several_engines_only_one_is_spoken_of() -> None:
    falls_fast, hardly_falls = SAC_LUNAR_LANDER.constraints
    states = np.array([[0.0, 0.4, 0.0, -0.8, 0.0, 0.0, 0.0, 0.0]] * 3)
    throttles = np.array([[0.5, -1.0], [0.1, 1.0], [-0.5, 0.0]])
    np.testing.assert_array_equal(breaks(falls_fast, states, throttles), [False, True, True])
    np.testing.assert_array_equal(breaks(hardly_falls, states, throttles), [True, True, False])
    main_over_nothing = DQN_LUNAR_LANDER.constraints[0]
    np.testing.assert_array_equal(
        breaks(main_over_nothing, states, np.array([0, 1, 2])), [True, False, False]
    )


def test_a_rail_leaves_nothing_against_it() -> None:
    short = replace(DQN_CARTPOLE, steps=600)
    plain, allowed = (train(short, arm, 100, lambda: False) for arm in ("plain", "allowed"))
    assert plain.against > 0
    assert plain.worst_violation is None
    assert allowed.steps_in_places > 0
    assert (allowed.against, allowed.drawn_against) == (0, 0)
    assert allowed.worst_violation is not None
    assert allowed.worst_violation <= 0.0
