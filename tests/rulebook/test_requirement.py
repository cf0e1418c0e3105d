"""Requirements: which constraints they are."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import handrail as hr
from handrail.constraints import Bounded
from handrail.constraints.output_bounds import AtLeast, AtMost, Between, Equal
from handrail.errors import InvalidConstraint, InvalidRulebook
from handrail.rulebook import parse
from tests.support.constraint_files import (
    HEAD,
    PLACE,
    book,
    parses_or_is_refused,
    rule,
)


@pytest.mark.parametrize(
    ("text", "kind", "weights", "lower", "upper"),
    [
        ("right >= 0.95", AtLeast, [0, 1], 0.95, np.inf),
        ("0.95 <= right", AtLeast, [0, 1], 0.95, np.inf),
        ("right ≥ .95", AtLeast, [0, 1], 0.95, np.inf),
        ("left<=5e-2", AtMost, [1, 0], -np.inf, 0.05),
        ("left ≤ 0.05", AtMost, [1, 0], -np.inf, 0.05),
        ("left == 0.5", Equal, [1, 0], 0.5, 0.5),
        ("0.5 == left", Equal, [1, 0], 0.5, 0.5),
        ("0.2 <= left <= 0.4", Between, [1, 0], 0.2, 0.4),
        ("0.4 >= left >= 0.2", Between, [1, 0], 0.2, 0.4),
        ("0.25 <= left + 0.125 <= 0.5", Between, [1, 0], 0.125, 0.375),
        ("0.3 <= left <= 0.3", Equal, [1, 0], 0.3, 0.3),
        ("0.5*left + right <= 0.8", AtMost, [0.5, 1], -np.inf, 0.8),
        ("left >= right", AtLeast, [1, -1], 0.0, np.inf),
        ("left - 2*right >= -0.5", AtLeast, [1, -2], -0.5, np.inf),
        ("left + 0.25 <= right + 0.5", AtMost, [1, -1], -np.inf, 0.25),
        ("left + left >= 0.5", AtLeast, [2, 0], 0.5, np.inf),
        ("'-left <= -0.5'", AtMost, [-1, 0], -np.inf, -0.5),
    ],
)
def test_requirements(
    text: str, kind: type[hr.Constraint], weights: list[float], lower: float, upper: float
) -> None:
    (constraint,) = rule(PLACE, require=text).constraints
    assert type(constraint) is kind
    rows = constraint.rows(2)
    np.testing.assert_array_equal(rows.weights, [weights])
    assert (rows.lower.item(), rows.upper.item()) == (lower, upper)
    assert not np.signbit(rows.lower.item()) or lower < 0


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.text("leftrigh0123456789.e+-*<>=%() ≤≥") | st.text())
def test_any_requirement_is_refused_politely(require: str) -> None:
    where = "where: {x: 0, x_dot: 0, phi: 0, phi_dot: 0}"
    parses_or_is_refused(
        f"{HEAD}constraints: [{{name: a, {where}, require: {json.dumps(require)}}}]"
    )


PLANT = """environment: Pendulum-v1
observations: [cos, sin, speed]
actions: {{torque: [-2, 2]}}
constraints:
  - name: slow
    region: {{cos: [-0.9, 0.9], sin: [-0.5, 0.5], speed: [2, 5]}}
    {what}
"""


@pytest.mark.parametrize(
    ("what", "weight", "lower", "upper"),
    [
        ("require: cos*torque >= 0.5*speed - 3", "cos", "0.5*speed - 3", None),
        ("require: -1 <= torque + 2*sin <= 1", "1", "-1 - 2*sin", "1 - 2*sin"),
        (  # h' = -(15 sin + 3 torque) >= -2 h
            "barrier: {h: 8 - speed, drift: {speed: 15*sin}, gain: {speed: 3}, rate: 2}",
            "-3",
            "15*sin - 2*(8 - speed)",
            None,
        ),
        (  # the same in steps of 0.05, with what the wind may do: h after it >= 0.9 h
            "barrier: {h: 8 - speed, step: {speed: speed + 0.05*(15*sin + 3*torque) + wind}, "
            "rate: 0.1, disturbance: {wind: 0.01}}",
            "-0.15",
            "0.9*(8 - speed) - (8 - speed - 0.75*sin) + 0.01",
            None,
        ),
    ],
)
def test_requirements_that_depend_on_the_state(
    what: str, weight: str, lower: str, upper: str | None
) -> None:
    (one,) = parse(PLANT.format(what=what), "plant.yaml").constraints
    assert isinstance(one, Bounded)
    assert one.region is not None
    states = one.region.sample(50, np.random.default_rng(0))
    asked = one.asked_at(states, 1)
    for found, text in ((asked.weights[:, 0], weight), (asked.lower, lower), (asked.upper, upper)):
        expected = np.inf if text is None else hr.Formula(text, ["cos", "sin", "speed"]).at(states)
        np.testing.assert_allclose(np.broadcast_to(found, 50), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("right", hr.Prefer(1, where=hr.Points([0.0]))),
        ("right over all", hr.Prefer(1, where=hr.Points([0.0]))),
        ("left over  right", hr.Prefer(0, 1, where=hr.Points([0.0]))),
        ("left over right by 1", hr.Prefer(0, 1, 1.0, where=hr.Points([0.0]))),
        ("left by -0.5", hr.Prefer(0, by=-0.5, where=hr.Points([0.0]))),
    ],
)
def test_preferences(text: str, expected: hr.Prefer) -> None:
    found_book = book(f"constraints:\n  - name: a\n{PLACE}    prefer: {text}\n")
    (found,) = found_book.constraints
    assert isinstance(found, hr.Prefer)
    assert (found.action, found.over, found.by) == (expected.action, expected.over, expected.by)
    assert found.name == "a"
    assert f"a: prefer {' '.join(text.split())} at 1 state" in found_book.sentences[0]


def test_preferences_by_what_the_state_says() -> None:
    region = "region: {x: 0, x_dot: 0, phi: [0.1, 0.2], phi_dot: 0}"
    prefer = "prefer: [right by 1 + 2*phi, right over left by 4*phi]"
    states = np.array([[0.0, 0.0, 0.15, 0.0]])
    first, second = book(f"constraints:\n  - name: a\n    {region}\n    {prefer}\n").constraints
    assert (first.name, second.name) == (
        "a: prefer right by 1 + 2*phi",
        "a: prefer right over left by 4*phi",
    )
    for one, by in ((first, 1.3), (second, 0.6)):
        assert isinstance(one, hr.Prefer)
        np.testing.assert_allclose(one.rows_at(states, 2).lower, [by])


def test_any_of() -> None:
    region = "region: {x: 0, x_dot: 0, phi: [0.1, 0.2], phi_dot: 0}"
    some = "any of: [left >= 0.6, right >= 0.5 + phi, {prefer: right over left by 2}]"
    read = book(f"constraints:\n  - name: a\n    {region}\n    {some}\n")
    (rule,) = read.constraints
    assert isinstance(rule, hr.AnyOf)
    assert [type(one) for one in rule.alternatives] == [AtLeast, AtLeast, hr.Prefer]
    text = "left >= 0.6 or right >= 0.5 + phi or prefer right over left by 2"
    assert read.sentences[0].startswith(f"a: {text} everywhere in")
    rows = rule.rows_at(np.array([[0.0, 0.0, 0.15, 0.0]]), 2)
    np.testing.assert_allclose(rows.lower, [0.6, 0.65, 2.0])
    np.testing.assert_array_equal(rows.alternative, [0, 1, 2])


DRAWN = """
environment: Pendulum-v1
observations: [x, y, speed]
actions: {torque: [-2, 2]}
constraints:
  - name: a
    region: {x: [0.9, 1], y: [-0.1, 0.1], speed: 0}
    require: REQUIRED
settings: {network: {hidden: [32], std: 0.1}}
"""


@pytest.mark.parametrize(
    ("text", "low", "high", "probability"),
    [
        ("P(torque >= 0) >= 0.99", 0.0, np.inf, 0.99),
        ("P( 0.5 <= torque ) >= 0.9", 0.5, np.inf, 0.9),
        ("P (torque ≥ 0.5) ≥ 0.9", 0.5, np.inf, 0.9),
        ("P(-1 <= torque <= 0.5) >= 0.9", -1.0, 0.5, 0.9),
        ("P(torque <= 0) <= 0.25", 0.0, np.inf, 0.75),
        ("P(torque >= 1) <= 0.25", -np.inf, 1.0, 0.75),
    ],
)
def test_ranges_of_drawn_actions(text: str, low: float, high: float, probability: float) -> None:
    book = parse(DRAWN.replace("REQUIRED", text), "pendulum")
    (rule,) = book.constraints
    assert isinstance(rule, hr.LikelyWithin)
    assert (rule.low, rule.high, rule.probability) == (low, high, probability)
    assert (rule.action, rule.name) == (0, "a")


def test_weighted_sums_of_drawn_actions() -> None:
    text = DRAWN.replace("REQUIRED", "P(2*torque >= 1) >= 0.9")
    (rule,) = parse(text, "pendulum").constraints
    assert isinstance(rule, hr.LikelyWithin)
    assert rule.action == {0: 2.0}


def test_drawn_actions_of_a_file_are_held_and_proven() -> None:
    book = parse(DRAWN.replace("REQUIRED", "P(torque >= 0) >= 0.99"), "pendulum")
    agent = hr.make_agent(book)
    assert hr.certify(agent.policy, book).certified
    evaluation = agent.evaluate(episodes=1)
    assert evaluation.satisfied
    assert book.sentences[0].startswith("a: P(torque >= 0) >= 0.99 ")


NOISY = DRAWN.replace("std: 0.1", "std: 0.2, std_varies: true, std_range: [0.2, 2]")


@pytest.mark.parametrize(
    ("text", "lower", "upper"),
    [
        ("torque.std <= 0.1", -np.inf, 0.1),
        ("std <= 0.1", -np.inf, 0.1),
        ("0.1 <= torque.std <= 0.5", 0.1, 0.5),
        ("0.5 >= std", -np.inf, 0.5),
    ],
)
def test_standard_deviations(text: str, lower: float, upper: float) -> None:
    (rule,) = parse(NOISY.replace("REQUIRED", text), "pendulum").constraints
    assert isinstance(rule, (hr.AtLeast, hr.AtMost, hr.Between))
    assert rule.action == hr.Std(0)
    assert rule.bounds == (lower, upper)


def test_standard_deviations_of_several_actions_and_of_the_state() -> None:
    text = NOISY.replace("{torque: [-2, 2]}", "{left: [-1, 1], right: [-1, 1]}")
    (rule,) = parse(text.replace("REQUIRED", "right.std - left.std <= 0.1"), "two").constraints
    assert isinstance(rule, hr.AtMost)
    assert rule.action == hr.Std({0: -1.0, 1: 1.0})
    with pytest.raises(InvalidRulebook, match="unknown action or observation 'std'"):
        parse(text.replace("REQUIRED", "std <= 0.1"), "two")
    (rule,) = parse(NOISY.replace("REQUIRED", "torque.std <= 0.1 + abs(y)"), "one").constraints
    assert isinstance(rule, hr.AtMost)
    assert rule.bound.at(np.array([[1.0, -0.5, 0.0]])).tolist() == [0.6]  # type: ignore[union-attr]


def test_noise_of_a_file_is_held_and_proven() -> None:
    book = parse(NOISY.replace("REQUIRED", "torque.std <= 0.1 + abs(y)"), "pendulum")
    agent = hr.make_agent(book)
    assert isinstance(agent.policy, hr.VaryingGaussianPolicy)
    assert [float(one[0]) for one in agent.policy.std_range] == pytest.approx([0.08, 0.8])
    assert hr.certify(agent.policy, book).certified
    assert agent.evaluate(episodes=1).satisfied
    assert book.sentences[0].startswith("a: torque.std <= 0.1 + abs(y) ")
    plain = parse(DRAWN.replace("REQUIRED", "torque.std <= 0.1"), "pendulum")
    with pytest.raises(
        InvalidConstraint, match="'a' is about the standard deviation, which is the"
    ):
        hr.make_agent(plain)
