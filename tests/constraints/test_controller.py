"""From a controller to constraints: they say what it does, where it is sure."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import solve_continuous_are

import handrail as hr
from handrail._types import Array
from tests.conftest import small_policy, spaces
from tests.policies.test_gaussian import gaussian
from tests.support.scripts import load_script

BOX = hr.Box([-2.4, -0.5, -0.1, -0.5], [2.4, 0.5, 0.1, 0.5])
SQUARE = hr.Box([-1.0, -2.0], [1.0, 2.0])


def pd_controller(state: Array) -> int:
    return int(state[2] + 5.0 * state[3] > 0.0)


def test_every_state_asks_for_what_the_controller_does_there() -> None:
    constraints = hr.constraints_from(pd_controller, BOX, count=200, margin=0.1)
    assert [one.name for one in constraints] == ["controller: action 0", "controller: action 1"]
    for action, one in enumerate(constraints):
        assert isinstance(one, hr.AtLeast)
        assert one.bound == pytest.approx(0.9)
        assert one.action == action
        assert [pd_controller(state) for state in one.states] == [action] * len(one.states)
        assert BOX.contains(one.states).all()
    assert type(constraints) is list
    again = hr.constraints_from(pd_controller, BOX, count=200, margin=0.1)
    for one, other in zip(constraints, again, strict=True):
        np.testing.assert_array_equal(one.states, other.states)


def test_states_near_the_switching_surface_are_left_out_and_shown() -> None:
    sample = hr.sample_controller(lambda s: int(s[0] > 0.0), SQUARE, count=400, clearance=0.1)
    # The width is 2 along the first coordinate, which alone decides.
    assert np.abs(sample.states[:, 0]).min() > 0.2
    assert np.abs(sample.left_out[:, 0]).max() <= 0.2
    assert len(sample.states) + len(sample.left_out) == 400
    assert 70 <= len(sample.left_out) <= 90  # a fifth of the area
    zero, one = (int((sample.actions == action).sum()) for action in (0, 1))
    assert str(sample) == (
        f"{zero + one} of 400 states: action 0 at {zero}, action 1 at {one}; "
        f"{len(sample.left_out)} left out, where a step of 0.1 of the region's width leads to "
        "another action"
    )
    everything = hr.sample_controller(lambda s: int(s[0] > 0.0), SQUARE, count=400, clearance=0.0)
    assert len(everything.left_out) == 0


def test_the_controller_is_never_asked_outside_the_region() -> None:
    disk = hr.Ball([0.0, 0.0], radius=1.0)

    def asked_inside(state: Array) -> int:
        assert np.linalg.norm(state) <= 1.0 + 1e-12
        state[:] = 0.0  # what it does to its copy is its own business
        return 1

    sample = hr.sample_controller(asked_inside, disk, count=50, clearance=0.3)
    assert len(sample.states) == 50
    assert len(np.unique(sample.states, axis=0)) == 50


def test_a_fixed_coordinate_is_not_stepped_along() -> None:
    flat = hr.Box([0.0, -1.0], [0.0, 1.0])
    sample = hr.sample_controller(lambda s: int(s[1] > 0.0), flat, count=20)
    assert (sample.states[:, 0] == 0.0).all()


def test_lqr_of_the_double_integrator_in_closed_form() -> None:
    A, B = np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([[0.0], [1.0]])
    K = B.T @ solve_continuous_are(A, B, np.eye(2), np.eye(1))
    np.testing.assert_allclose(K, [[1.0, np.sqrt(3.0)]], atol=1e-12)
    sample = hr.sample_controller(K, SQUARE, count=300, actions=(4, 2), clearance=0.05)
    u = -(sample.states[:, 0] + np.sqrt(3.0) * sample.states[:, 1])
    np.testing.assert_array_equal(sample.actions, np.where(u > 0.0, 2, 4))
    # The longest step that reduces |u|, as far as the box goes, is too short for the sign.
    for states, sure in ((sample.states, True), (sample.left_out, False)):
        inwards = np.sign(states @ K[0])[:, None] * np.sign(K)
        room = np.minimum(0.05 * np.array([2.0, 4.0]), [1.0, 2.0] + inwards * states)
        reached = np.abs(states @ K[0]) - (np.abs(K) * room).max(axis=1)
        assert ((reached > 0.0) == sure).all()
    same = hr.sample_controller(K[0], SQUARE, count=300, actions=(4, 2), clearance=0.05)
    np.testing.assert_array_equal(same.actions, sample.actions)


def test_a_network_that_obeys_agrees_with_the_controller() -> None:
    policy = hr.CategoricalPolicy.mlp(gym.make("CartPole-v1"), hidden=[1000], seed=0)
    constraints = hr.constraints_from(pd_controller, BOX, count=300)
    result = hr.enforce(policy, constraints).raise_if_unsatisfied()
    assert result.iterations <= 5
    for action, one in enumerate(constraints):
        assert policy.probabilities(one.states)[:, action].min() >= 0.95 - 1e-6
    fresh = BOX.sample(5000, np.random.default_rng(0))
    wanted = np.array([pd_controller(state) for state in fresh])
    agreement = (policy.probabilities(fresh).argmax(axis=1) == wanted).mean()
    assert agreement >= 0.98  # 0.9902


@pytest.mark.slow
def test_without_clearance_a_network_is_asked_for_a_cliff() -> None:
    policy = hr.CategoricalPolicy.mlp(gym.make("CartPole-v1"), hidden=[1000], seed=0)
    constraints = hr.constraints_from(pd_controller, BOX, count=300, clearance=0.0)
    assert not hr.enforce(policy, constraints).satisfied


def test_the_probabilities_of_another_policy_are_kept() -> None:
    teacher, student = small_policy(2, 3, seed=1, sharpness=4.0), small_policy(2, 3, seed=2)
    constraints = hr.constraints_from(teacher, SQUARE, count=8, margin=0.1, name="teacher")
    assert len(constraints) == 8 * 3
    states = SQUARE.cover(8)
    wanted = teacher.probabilities(states)
    for k, one in enumerate(constraints):
        state, action = divmod(k, 3)
        assert one.name == f"teacher at state {state}: action {action}"
        np.testing.assert_array_equal(one.states, states[state : state + 1])
        rows = one.rows(3)
        p = wanted[state, action]
        assert rows.lower[0] == pytest.approx(p - 0.1 if p > 0.1 else -np.inf)
        assert rows.upper[0] == pytest.approx(p + 0.1 if p < 0.9 else np.inf)
    assert any(isinstance(one, hr.AtMost) for one in constraints)
    hr.enforce(student, constraints).raise_if_unsatisfied()
    assert np.abs(student.probabilities(states) - wanted).max() <= 0.1 + 1e-6


def test_of_two_actions_one_says_it_all() -> None:
    teacher = small_policy(2, 2, seed=0, sharpness=100.0)
    constraints = hr.constraints_from(teacher, SQUARE, count=10, margin=0.05)
    assert len(constraints) == 10
    assert {type(one) for one in constraints} == {hr.AtLeast, hr.AtMost, hr.Between}
    student = hr.CategoricalPolicy.mlp(spaces(2, 2), hidden=[500], seed=3)
    hr.enforce(student, constraints).raise_if_unsatisfied()
    states = SQUARE.cover(10)
    difference = student.probabilities(states) - teacher.probabilities(states)
    assert np.abs(difference).max() <= 0.05 + 1e-6


def test_two_controllers_are_told_apart_by_name() -> None:
    one = hr.constraints_from(lambda s: 0, hr.Box([0.5, 0.5], [1, 1]), 5, name="front")
    other = hr.constraints_from(lambda s: 1, hr.Box([-1, -1], [-0.5, -0.5]), 5, name="back")
    assert [c.name for c in one + other] == ["front: action 0", "back: action 1"]
    assert hr.enforce(small_policy(2, 2), one + other).satisfied


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (True, "True"),
        (np.bool_(True), "True"),
        (1.0, "1.0"),
        (float("nan"), "nan"),
        (None, "None"),
        ((1, None), r"\(1, None\)"),
        (np.array([1]), r"array\(\[1\]\)"),
        (-1, "-1"),
    ],
)
def test_an_answer_that_is_no_action(answer: Any, shown: str) -> None:
    message = rf"returned .*{shown}.* at \[-?1.0, -?2.0\]; expected the index of an action"
    with pytest.raises(hr.errors.InvalidArgument, match=message):
        hr.constraints_from(lambda s: answer, SQUARE, 10)


def test_integers_of_numpy_are_actions() -> None:
    for answer in (np.int64(1), np.array(1), np.argmax([0, 1])):
        sample = hr.sample_controller(lambda s, a=answer: a, SQUARE, 4)  # type: ignore[misc]
        assert sample.actions.tolist() == [1] * 4


def test_a_controller_that_raises() -> None:
    def broken(state: Array) -> int:
        raise KeyError("gain")

    with pytest.raises(hr.errors.InvalidArgument, match=r"raised KeyError at \[.*\]: 'gain'"):
        hr.constraints_from(broken, SQUARE, 10)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"count": 0}, hr.errors.InvalidArgument, "count must be a positive whole number .* not 0"),
        (
            {"count": 2.5},
            hr.errors.InvalidArgument,
            "count must be a positive whole number .* not 2.5",
        ),
        (
            {"margin": 0.0},
            hr.errors.InvalidArgument,
            "margin must lie between 0 and 0.5 .* not 0.0",
        ),
        (
            {"margin": 0.5},
            hr.errors.InvalidArgument,
            "margin must lie between 0 and 0.5 .* not 0.5",
        ),
        ({"margin": float("nan")}, hr.errors.InvalidArgument, "margin must lie between .* not nan"),
        ({"clearance": 0.5}, hr.errors.InvalidArgument, "clearance must be a share .* not 0.5"),
        ({"clearance": -0.1}, hr.errors.InvalidArgument, "clearance must be a share .* not -0.1"),
        (
            {"region": gym.spaces.Box(-1.0, 1.0, (2,))},
            hr.errors.InvalidArgument,
            r"in a region such as handrail.Box\(low, high\), not gymnasium.spaces.box.Box",
        ),
        ({"controller": "pd"}, hr.errors.InvalidArgument, "a gain matrix, or a policy, not 'pd'"),
        ({"controller": object()}, hr.errors.InvalidArgument, r"handrail\.sb3\.policy_of\(model\)"),
        (
            {"controller": np.ones((1, 3))},
            hr.errors.ShapeMismatch,
            r"shape \(1, 3\), but states of the region have 2 coordinates: expected \(2,\) or",
        ),
        (
            {"controller": np.ones((2, 2))},
            hr.errors.ShapeMismatch,
            "one sign chooses between two actions",
        ),
        ({"controller": [1.0, np.nan]}, hr.errors.InvalidArgument, "must be finite"),
        ({"controller": [0.0, 0.0]}, hr.errors.InvalidArgument, "must not be zero throughout"),
        ({"actions": (1, 1)}, hr.errors.InvalidArgument, r"between two actions.*not \(1, 1\)"),
        (
            {"actions": (0, 1, 2)},
            hr.errors.InvalidArgument,
            r"between two actions.*not \(0, 1, 2\)",
        ),
        (
            {"controller": [1.0, 0.0], "count": 1, "clearance": 0.49},
            hr.errors.InvalidArgument,
            "Of 1 states, the controller is sure at none: a step of 0.49 .* smaller clearance",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    usual = {"controller": [1.0, 1.0], "region": SQUARE, "count": 10}
    with pytest.raises(error, match=message):
        hr.constraints_from(**{**usual, **arguments})


@pytest.mark.parametrize(
    ("answer", "remedy"),
    [
        (True, r"Of a truth value, return int\(…\)"),
        (0.3, "If actions are continuous, mean_constraints_from takes what"),
        ((np.array(1), None), r"give handrail.sb3.policy_of\(model\)"),
        (np.array([1]), r"Of an array with one number, return its item\(\)"),
    ],
)
def test_answers_that_are_no_action(answer: Any, remedy: str) -> None:
    with pytest.raises(
        hr.errors.InvalidArgument, match=f"expected the index of an action.*{remedy}"
    ):
        hr.constraints_from(lambda _: answer, SQUARE, 10)


def test_two_controllers_that_agree_at_some_states() -> None:
    one = hr.constraints_from([1.0, 1.0], SQUARE, 10, name="one")
    other = hr.constraints_from([1.0, 0.9], SQUARE, 10, name="other", clearance=0.0)
    policy = small_policy(2, 2)
    assert hr.enforce(policy, one + other).satisfied
    assert hr.measure(policy, one).worst_violation <= 1e-6
    assert hr.measure(policy, other).worst_violation <= 1e-6


def test_a_policy_is_not_sampled_for_actions() -> None:
    with pytest.raises(hr.errors.InvalidArgument, match="probabilities rather than an action"):
        hr.sample_controller(small_policy(2, 2), SQUARE, 10)  # type: ignore[arg-type]


def test_a_gaussian_policy_is_for_the_other_function() -> None:
    for ask in (hr.constraints_from, hr.sample_controller):
        with pytest.raises(hr.errors.InvalidArgument, match="mean_constraints_from keeps to those"):
            ask(gaussian(2, 1), SQUARE, 10)  # type: ignore[arg-type]


def test_the_example(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    example = load_script("examples/from_a_controller.py")
    arguments = ["--episodes", "2", "--seeds", "1", "--evaluated", "2"]
    monkeypatch.setattr(sys, "argv", ["example", *arguments])
    monkeypatch.setenv("COLUMNS", "160")
    example.main()
    printed = capsys.readouterr().out
    assert "41 of 50 states: action 0 at 21, action 1 at 20; 9 left out" in printed
    for row in ("the controller itself", "constraints from it", "no constraints"):
        assert row in printed


def test_constraints_from_a_continuous_controller() -> None:
    box = hr.Box([-1.0, -1.0], [1.0, 1.0])
    gain = np.array([[1.0, 0.5], [0.0, 2.0]])
    by_gain = hr.mean_constraints_from(gain, box, 20, 0.1)
    by_rule = hr.mean_constraints_from(lambda s: -gain @ s, box, 20, 0.1)
    assert len(by_gain) == len(by_rule) == 40
    policy = hr.GaussianPolicy.mlp(
        (gym.spaces.Box(-1, 1, (2,)), gym.spaces.Box(-2, 2, (2,))), [200]
    )
    hr.enforce(policy, by_gain).raise_if_unsatisfied()
    assert hr.measure(policy, by_rule).worst_violation <= 1e-6
    fresh = box.sample(500, np.random.default_rng(0))
    assert np.abs(policy.mean(fresh) + fresh @ gain.T).mean() < 0.3  # between the states as well
    clipped = hr.mean_constraints_from(lambda s: 10.0 * s[0], box, 5, 0.1, limits=(-1.0, 1.0))
    assert all(
        isinstance(one, hr.Between) and isinstance(one.lower, float) and abs(one.lower + 0.1) <= 1.0
        for one in clipped
    )
    copied = hr.mean_constraints_from(policy, box, 10, 0.01, name="teacher")
    assert hr.measure(policy, copied).satisfied
    assert copied[0].name == "teacher at state 0: mean action 0"


def test_what_is_no_continuous_controller_is_refused() -> None:
    box = hr.Box([-1.0, -1.0], [1.0, 1.0])
    with pytest.raises(hr.errors.InvalidArgument, match="margin must be a positive number"):
        hr.mean_constraints_from([[1.0, 1.0]], box, 5, 0.0)
    with pytest.raises(
        hr.errors.ShapeMismatch, match=r"shape \(1, 3\).*expected \(2,\) or \(n_act"
    ):
        hr.mean_constraints_from([[1.0, 1.0, 1.0]], box, 5, 0.1)
    with pytest.raises(
        hr.errors.InvalidArgument, match="a function from a state to an action, a gain"
    ):
        hr.mean_constraints_from("lqr", box, 5, 0.1)
    with pytest.raises(
        hr.errors.InvalidArgument, match=r"returned nan at .*expected a finite number"
    ):
        hr.mean_constraints_from(lambda _: float("nan"), box, 5, 0.1)
    with pytest.raises(hr.errors.InvalidArgument, match="The controller raised ZeroDivisionError"):
        hr.mean_constraints_from(lambda _: 1 / 0, box, 5, 0.1)
    with pytest.raises(hr.errors.InvalidArgument, match="count must be a positive whole number"):
        hr.mean_constraints_from([[1.0, 1.0]], box, 0, 0.1)
    with pytest.raises(hr.errors.InvalidArgument, match=r"gain matrix \[nan, 1.0\] must be finite"):
        hr.mean_constraints_from([np.nan, 1.0], box, 5, 0.1)
    with pytest.raises(
        hr.errors.InvalidArgument, match=r"Categorical.*: constraints_from keeps to thos"
    ):
        hr.mean_constraints_from(small_policy(2, 2), box, 5, 0.1)  # type: ignore[arg-type]


@pytest.mark.parametrize("answer", [[], [[1.0, 2.0]], "left", [1.0, [2.0]], None])
def test_an_answer_that_is_no_mean_action(answer: Any) -> None:
    with pytest.raises(
        hr.errors.InvalidArgument, match=r"returned .* at \[.*; expected a finite number"
    ):
        hr.mean_constraints_from(lambda _: answer, hr.Box([-1.0, -1.0], [1.0, 1.0]), 5, 0.1)


def test_answers_of_different_lengths_are_refused() -> None:
    def ragged(state: NDArray[Any]) -> list[float]:
        return [0.0] if state[0] < 0.0 else [0.0, 1.0]

    words = r"returned [12] numbers at \[.*\], but [12] at \[.*\]: expected one for each dim"
    with pytest.raises(hr.errors.InvalidArgument, match=words):
        hr.mean_constraints_from(ragged, hr.Box([-1.0, -1.0], [1.0, 1.0]), 8, 0.1)


@pytest.mark.parametrize(
    ("limits", "error", "words"),
    [
        (2.0, hr.errors.InvalidArgument, r"such as \(-2.0, 2.0\), not 2.0"),
        (
            ("a", "b"),
            hr.errors.InvalidArgument,
            r"the lowest and the highest action, .* not \('a', 'b'\)",
        ),
        ((-1.0, 0.0, 1.0), hr.errors.InvalidArgument, "the lowest and the highest action"),
        ((2.0, -2.0), hr.errors.InvalidArgument, r"low up to high, .* not \(2.0, -2.0\)"),
        ((np.nan, 2.0), hr.errors.InvalidArgument, "low up to high"),
        (
            ([-1.0, -1.0], [1.0, 1.0]),
            hr.errors.ShapeMismatch,
            r"have 1 dim.* shape \(2,\): expected two",
        ),
    ],
)
def test_limits_that_cannot_be_meant(limits: Any, error: type[Exception], words: str) -> None:
    box = hr.Box([-1.0, -1.0], [1.0, 1.0])
    with pytest.raises(error, match=words):
        hr.mean_constraints_from([1.0, 1.0], box, 5, 0.1, limits=limits)


def test_limits_may_differ_between_dimensions() -> None:
    box = hr.Box([-1.0, -1.0], [1.0, 1.0])
    limits = np.array([-1.0, -0.5]), np.array([1.0, 0.5])
    for one in hr.mean_constraints_from(lambda _: [9.0, -9.0], box, 3, 0.1, limits=limits):
        assert isinstance(one, hr.Between)
        assert one.upper == pytest.approx(1.1 if one.action == hr.Mean(0) else -0.4)
