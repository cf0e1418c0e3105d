"""Regions of a file: which they are, in words, and that any is read or refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.constraints.output_bounds import AtLeast
from handrail.regions.ball import Ball
from handrail.regions.box import Box
from handrail.regions.curve import Curve
from handrail.regions.polytope import Polytope
from handrail.regions.region import Region
from handrail.regions.union import Union
from handrail.rulebook import (
    parse,
)
from tests.support.constraint_files import (
    VALIDATOR,
    in_region,
    parses_or_is_refused,
)

RECTANGLE = [[-0.4, 0.4], [-0.3, 0.4], [-0.267, 0.133], [-0.4, 0.133]]

CIRCLE = ["0.05*cos(t) - 0.2", "0.05*sin(t) - 0.2"]

WHOLE: list[tuple[str, Region, str]] = [
    (
        "{phi_dot: [0, 0.05], x: [-2.5, 2.5], x_dot: 0, phi: [0.2, 0.25]}",
        Box([-2.5, 0, 0.2, 0], [2.5, 0, 0.25, 0.05]),
        "in a box (x from -2.5 to 2.5, x_dot 0, phi from 0.2 to 0.25, phi_dot from 0 to 0.05)",
    ),
    (
        f"{{x: [-2.5, 2.5], x_dot: 0, polytope: {{of: [phi, phi_dot], vertices: {RECTANGLE}}}}}",
        Polytope(RECTANGLE, [2, 3], {0: (-2.5, 2.5), 1: 0}),
        "in a polytope of phi, phi_dot (phi from -0.4 to -0.267, phi_dot from 0.133 to 0.4, "
        "x from -2.5 to 2.5, x_dot 0)",
    ),
    (
        f"{{x: 1, phi: [0, 1], polytope: {{of: [phi_dot, x_dot], vertices: {RECTANGLE}}}}}",
        Polytope(RECTANGLE, [3, 1], {0: 1, 2: (0, 1)}),
        "in a polytope of phi_dot, x_dot (phi_dot from -0.4 to -0.267, x_dot from 0.133 to 0.4, "
        "x 1, phi from 0 to 1)",
    ),
    (
        "{x: 0, x_dot: 0, polytope: {of: [phi, phi_dot], half_spaces: [phi_dot <= -8*phi - 2, "
        "phi >= -0.4, -0.4 <= phi_dot, 2*phi_dot - 0.8 <= 0]}}",
        Polytope.from_half_spaces(
            [[8, 1], [-1, 0], [0, -1], [0, 2]], [-2, 0.4, 0.4, 0.8], [2, 3], {0: 0, 1: 0}
        ),
        "in a polytope of phi, phi_dot (phi from -0.4 to -0.2, phi_dot from -0.4 to 0.4, x 0, "
        "x_dot 0)",
    ),
    (
        "{x_dot: 0, polytope: {of: [phi, x, phi_dot], vertices: [[0, 0, 0], [1, 0, 0], [0, 1, 0], "
        "[0, 0, 1]]}}",
        Polytope([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], [2, 0, 3], {1: 0}),
        "in a polytope of phi, x, phi_dot (phi from 0 to 1, x from 0 to 1, phi_dot from 0 to 1, "
        "x_dot 0)",
    ),
    (
        "{x: [-3, 1], x_dot: 7, ball: {of: [phi, phi_dot], centre: [-0.2, 0.2], radius: 0.05}}",
        Ball([-1, 7, -0.2, 0.2], 0.05, [2, 3], {0: (-3, 1)}),
        "in a ball of phi, phi_dot (phi from -0.25 to -0.15, phi_dot from 0.15 to 0.25, "
        "x from -3 to 1, x_dot 7)",
    ),
    (
        "{ball: {of: [x, x_dot, phi, phi_dot], centre: [1, 2, 3, 4], radius: 1}}",
        Ball([1, 2, 3, 4], 1.0),
        "in a ball of x, x_dot, phi, phi_dot (x from 0 to 2, x_dot from 1 to 3, phi from 2 to 4, "
        "phi_dot from 3 to 5)",
    ),
    (
        "{x: 0, curve: {from: 0, to: 6.2832, phi: "
        f'"{CIRCLE[0]}", phi_dot: "{CIRCLE[1]}", x_dot: 0.5}}}}',
        Curve([0.0, 0.5, *CIRCLE], 0.0, 6.2832),
        "on a curve of phi, phi_dot (phi from -0.25 to -0.15, phi_dot from -0.25 to -0.15, x 0, "
        "x_dot 0.5)",
    ),
    (
        "[{x: [0, 1], x_dot: 0, phi: 0, phi_dot: 0}, "
        "{x: 0, x_dot: 0, ball: {of: [phi, phi_dot], centre: [0, 0], radius: 1}}]",
        Union([Box([0, 0, 0, 0], [1, 0, 0, 0]), Ball([0, 0, 0, 0], 1.0, [2, 3])]),
        "in 2 regions: a box (x from 0 to 1, x_dot 0, phi 0, phi_dot 0); a ball of phi, phi_dot "
        "(phi from -1 to 1, phi_dot from -1 to 1, x 0, x_dot 0)",
    ),
]


@pytest.mark.parametrize(("text", "expected", "words"), WHOLE)
def test_regions(text: str, expected: Region, words: str) -> None:
    rules = parse(in_region(text), "test.yaml")
    (constraint,) = rules.constraints
    assert isinstance(constraint, AtLeast)
    assert constraint.region is not None
    assert constraint.region.describe() == expected.describe()
    assert rules.sentences == (f"a: right >= 0.95 everywhere {words}",)
    assert constraint.rows(2).states.shape == (100, 4)
    VALIDATOR.validate(rules.source.data)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.text("tpi0123456789.e+-*/^() ,_sincox") | st.text())
def test_any_expression_is_refused_politely(text: str) -> None:
    curve = f"{{from: 0, to: 1, phi: {json.dumps(text)}, phi_dot: t}}"
    parses_or_is_refused(in_region(f"{{x: 0, x_dot: 0, curve: {curve}}}"))


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(st.text("phi_dot0123456789.e+-*/ <>=") | st.text())
def test_any_half_space_is_refused_politely(text: str) -> None:
    sides = ["phi >= 0", "phi <= 1", "phi_dot >= 0", "phi_dot <= 1", text]
    polytope = f"{{of: [phi, phi_dot], half_spaces: {json.dumps(sides)}}}"
    parses_or_is_refused(in_region(f"{{x: 0, x_dot: 0, polytope: {polytope}}}"))


FINITE = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(
    st.lists(st.tuples(FINITE, FINITE), min_size=3, max_size=6)
    | st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=3, max_size=6)
)
def test_any_vertices_are_refused_politely(vertices: list[tuple[float, float]]) -> None:
    polytope = f"{{of: [phi, phi_dot], vertices: {json.dumps(vertices)}}}"
    parses_or_is_refused(in_region(f"{{x: [-1, 1], x_dot: 0, polytope: {polytope}}}"))


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.lists(FINITE | st.floats(-1.0, 1.0), min_size=6, max_size=6))
def test_any_ball_is_refused_politely(numbers: list[float]) -> None:
    *centre, radius, low, high = numbers
    ball = f"{{of: [phi, phi_dot, x], centre: {centre}, radius: {radius}}}"
    parses_or_is_refused(in_region(f"{{x_dot: [{low}, {high}], ball: {ball}}}"))
