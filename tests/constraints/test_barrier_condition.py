"""Barrier functions, by hand and along simulated plants."""

from __future__ import annotations

import numpy as np
import pytest

import handrail as hr
from handrail.errors import InvalidConstraint

NAMES = ["d", "dv", "v"]
BOX = hr.Box([5.0, -5.0, 0.0], [80.0, 5.0, 30.0])
STATES = BOX.sample(500, np.random.default_rng(0))


def cruise(**changed: object) -> hr.AtLeast:
    """h = d - 1.5 v: the distance grows by dv, which falls by the own acceleration."""
    given: dict[str, object] = {
        "h": "d - 1.5*v",
        "drift": {"d": "dv", "dv": "lead"},
        "gain": {"dv": -1, "v": 1},
        "rate": 0.5,
        "where": BOX,
        "observations": NAMES,
        "disturbance": {"lead": 2.0},
    }
    return hr.barrier(**{**given, **changed})  # type: ignore[arg-type]


def test_adaptive_cruise_control_in_closed_form() -> None:
    """ḣ = dv - 1.5 a ≥ -0.5 (d - 1.5 v): a ≤ (dv + 0.5 d - 0.75 v) / 1.5."""
    asked = cruise().asked_at(STATES, 1)
    d, dv, v = STATES.T
    np.testing.assert_allclose(asked.weights[:, 0], -1.5)
    np.testing.assert_allclose(asked.lower, -0.5 * (d - 1.5 * v) - dv, rtol=1e-12)
    assert np.isinf(asked.upper).all()


def test_a_disturbance_is_taken_at_its_worst() -> None:
    """h = d - 1.5 v - 0.1 dv² depends on dv, and dv on the car ahead."""
    h = "d - 1.5*v - 0.1*dv**2"
    calm = cruise(h=h, disturbance={"lead": 0.0}).asked_at(STATES, 1)
    rough = cruise(h=h).asked_at(STATES, 1)
    np.testing.assert_allclose(rough.weights, calm.weights)
    np.testing.assert_allclose(calm.weights[:, 0], -1.5 + 0.2 * STATES[:, 1], atol=1e-12)
    np.testing.assert_allclose(rough.lower - calm.lower, 2.0 * np.abs(0.2 * STATES[:, 1]))


def test_whoever_obeys_stays() -> None:
    """The most that is allowed, under rough disturbances, step by step: h never falls below 0."""
    rule, dt, rng = cruise(), 0.002, np.random.default_rng(0)
    d, dv, v = (np.full(20, value) for value in (60.0, -4.0, 25.0))
    for _ in range(3000):
        asked = rule.asked_at(np.column_stack([d, dv, v]), 1)
        a = asked.lower / asked.weights[:, 0]  # the largest that is allowed
        lead = rng.choice([-2.0, 2.0], size=20)
        d, dv, v = d + dt * dv, dv + dt * (lead - a), v + dt * a
        assert (d - 1.5 * v).min() > -1e-3
    assert (d - 1.5 * v).max() < 5.0  # it was not far from it


def test_several_dimensions_of_the_action() -> None:
    """A point with u = (fx, fy) at the velocity (p, q): h = 1 - x² - y², first order."""
    names = ["x", "y"]
    box = hr.Box([-1, -1], [1, 1])
    rule = hr.barrier(
        "1 - x**2 - y**2",
        {"x": "0.1*y"},
        {"x": [1, 0], "y": [0, "cos(x)"]},
        2.0,
        box,
        observations=names,
    )
    x, y = box.sample(100, np.random.default_rng(0)).T
    asked = rule.asked_at(np.column_stack([x, y]), 2)
    np.testing.assert_allclose(asked.weights, np.column_stack([-2 * x, -2 * y * np.cos(x)]))
    np.testing.assert_allclose(asked.lower, -2 * (1 - x**2 - y**2) + 2 * x * 0.1 * y, atol=1e-12)


def test_the_sampled_form() -> None:
    """h(s') ≥ 0.9 h(s) with d' = d + 0.1 dv + w, v' = v + 0.1 a, |w| ≤ 0.2."""
    rule = hr.sampled_barrier(
        "d - 1.5*v",
        {"d": "d + 0.1*dv + w", "v": "v + 0.1*a"},
        0.1,
        BOX,
        observations=NAMES,
        actions=["a"],
        disturbance={"w": 0.2},
    )
    asked = rule.asked_at(STATES, 1)
    d, dv, v = STATES.T
    np.testing.assert_allclose(asked.weights[:, 0], -0.15)
    expected = 0.9 * (d - 1.5 * v) - (d + 0.1 * dv - 1.5 * v) + 0.2
    np.testing.assert_allclose(asked.lower, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rate": 0.0}, "The rate must be above 0, but got 0"),
        ({"h": "d - q"}, "barrier: h, 'd - q': unknown name 'q'"),
        ({"drift": {"z": "1"}}, "`drift` names 'z', but the observations are d, dv, v"),
        ({"gain": {"dv": [1, 2], "v": 1}}, r"`gain` has \[1, 2\] formulas"),
        ({"drift": {"d": "lead**2"}}, "h is not affine in the disturbance 'lead'"),
    ],
)
def test_what_is_refused(changed: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidConstraint, match=message):
        cruise(**changed)


def test_a_step_that_is_not_affine_in_the_action_is_refused() -> None:
    with pytest.raises(InvalidConstraint, match="is not affine in a"):
        hr.sampled_barrier("d**2", {"d": "d + a"}, 0.1, BOX, observations=NAMES, actions=["a"])


def test_an_h_that_no_action_moves_is_refused_in_words() -> None:
    """The classic mistake: of a cart that is pushed, h of its position alone."""
    with pytest.raises(InvalidConstraint, match=r"h depends on nothing that the action moves at"):
        hr.barrier(
            "1 - s*s", {"s": "v"}, {"v": "3"}, 3.0, hr.Points([0.0, 0.0]), observations=["s", "v"]
        )
