"""The plants of the examples are those that their constraints speak of."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm

from handrail.rulebook.rulebook import load_rulebook
from tests.support.scripts import load_script

CRUISE = load_script("examples/adaptive_cruise.py")
TUBE = load_script("examples/lqr_tube.py")


def test_the_car_ahead_stays_within_what_is_declared() -> None:
    env, rng = CRUISE.AdaptiveCruise(), np.random.default_rng(0)
    for seed in range(5):
        state, _ = env.reset(seed=seed)
        assert CRUISE.level(state) >= 5.0
        ended = False
        while not ended:
            action = rng.uniform(-4.0, 3.0, 1)
            after, _, crashed, over, info = env.step(action)
            lead = (after[1] + after[2] - state[1] - state[2]) / 0.1
            own = (after[2] - state[2]) / 0.1
            assert abs(lead) <= 1.5 + 1e-9
            assert 18.0 - 1e-9 <= after[1] + after[2] <= 26.0 + 1e-9
            assert own == pytest.approx(max(min(float(action[0]), 2.5), -state[2] / 0.1))
            moved = state[0] + 0.1 * state[1] + 0.005 * (lead - own)  # as the file has it
            assert after[0] == pytest.approx(moved)
            assert info["h"] == pytest.approx(after[0] - 5.0 - 1.5 * after[2])
            state, ended = after, crashed or over


def test_the_largest_acceleration_that_is_allowed_never_crosses_the_barriers() -> None:
    book = load_rulebook(CRUISE.RULES)
    rng = np.random.default_rng(1)
    states = book.constraints[0].region.sample(2000, rng)  # type: ignore[attr-defined]
    for one in book.constraints[:2]:
        asked = one.asked_at(states, 1)  # type: ignore[attr-defined]
        largest = asked.lower / asked.weights[:, 0]  # a negative weight: an upper bound
        level = book.barriers[one.name]
        # The worst that the declared disturbances can do: the car ahead brakes, noise pushes.
        d, dv, v = states.T
        pushed = largest + 1.25
        after = np.stack(
            [d + 0.1 * dv + 0.005 * (-1.5 - pushed), dv + 0.1 * (-1.5 - pushed), v + 0.1 * pushed],
            axis=1,
        )
        rate = {"keep the distance": 0.05, "keep to the speed": 0.5}[one.name]
        # With the largest acceleration exactly what may be lost is lost.
        assert level.at(after) == pytest.approx((1.0 - rate) * level.at(states), abs=1e-9)


def test_lqr_is_that_of_the_level_track() -> None:
    gain = TUBE.lqr_gain()
    assert gain == pytest.approx(np.array([[-2.84166, -4.04023, -37.5348, -9.61705]]), rel=1e-4)
    small = 1e-6
    columns = [TUBE._motion(small * one, 0.0) / small for one in np.eye(4)]
    drift, push = np.stack(columns, axis=1), TUBE._motion(np.zeros(4), small)[:, None] / small
    closed = expm(0.02 * (drift - push @ gain))
    assert np.abs(np.linalg.eigvals(closed)).max() < 1.0
    # On the slope it rests where its force is the slope's: -K x = SLOPE.
    state = np.zeros(4)
    for _ in range(3000):
        state = TUBE._integrated(state, float(-(gain @ state)[0]) - TUBE.SLOPE)
    assert state == pytest.approx([-TUBE.SLOPE / gain[0, 0], 0.0, 0.0, 0.0], abs=1e-6)
