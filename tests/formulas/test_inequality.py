"""Inequalities: which bounds they are, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.errors import InvalidConstraint
from handrail.formulas import Formula, parse_bounds, parse_state_bounds

NAMES = ["x", "x_dot", "phi", "phi_dot"]
NONE = math.inf


@pytest.mark.parametrize(
    ("text", "weights", "lower", "upper"),
    [
        ("phi_dot <= -8*phi - 2", [0, 0, 8, 1], -NONE, -2.0),
        ("2*phi + x_dot >= 0", [0, 1, 2, 0], 0.0, NONE),
        ("0.1 >= x", [1, 0, 0, 0], -NONE, 0.1),
        ("0.1 <= x", [1, 0, 0, 0], 0.1, NONE),
        ("-(x - 2*(phi + 1))/4 ≤ pi", [-0.25, 0, 0.5, 0], -NONE, math.pi - 0.5),
        ("x*2**3 + 1 ≥ x", [7, 0, 0, 0], -1.0, NONE),
        ("x == phi + 1", [1, 0, -1, 0], 1.0, 1.0),
        ("0.2 <= x + phi + 1 <= 2", [1, 0, 1, 0], -0.8, 1.0),
        ("2 >= x >= 0.2", [1, 0, 0, 0], 0.2, 2.0),
    ],
)
def test_bounds(text: str, weights: list[float], lower: float, upper: float) -> None:
    found = parse_bounds(text, NAMES)
    np.testing.assert_allclose(found.weights, weights)
    assert (found.lower, found.upper) == pytest.approx((lower, upper))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("phi + x", "there is no <=, >= or == in it"),
        ("0 <= phi <= 1 <= x", "there are 3 relations in it; at most two"),
        ("phi < 1", "cannot read '<' at column 5. A bound may be reached: write <= instead"),
        ("phi = 1", "cannot read '=' at column 5. Did you mean =="),
        ("phi != 1", "cannot read '!=' at column 5. Use <=, >= or =="),
        ("0 <= phi >= 1", "cannot read <= … >="),
        ("0 == phi == 1", "cannot read == … =="),
        ("x <= phi <= 1", "only numbers may stand at the two ends"),
        ("phi*x <= 1", r"'\*' at column 4 makes it not linear"),
        ("1 <= 1/x", "'/' at column 7 makes it not linear"),
        ("psi <= 1", "unknown name 'psi' at column 1: there are x, x_dot, phi, phi_dot and pi"),
        ("phi <= psi", "unknown name 'psi' at column 8"),
        ("phi <= phi + 1", "no name is left in 'phi <= phi \\+ 1'"),
        ("2 <= 3", "no name is left"),
        ("phi <=", "one side of <= is empty"),
        ("phi <= 1e300*1e300", r"the result of '\*' at column 13 is not a finite number"),
        ("phi/0 <= 1", "too large, or divided by zero"),
        ("phi <= 95%", "cannot read '%' at column 10: nothing is in percent here"),
        ("x and phi <= 1", "before 'and' at column 3. Write one at a time, in a list"),
        ("phi <= " + "1+" * 500 + "1", "at most 1000 characters"),
    ],
)
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(InvalidConstraint, match=message):
        parse_bounds(text, NAMES)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="xphi0123.e+-*/() <>=≤", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        bounds = parse_bounds(text, NAMES)
    except InvalidConstraint as error:
        assert str(error)  # noqa: PT017
    else:
        assert bounds.weights.any()


STATE = ["phi", "speed"]
AT = np.array([[0.3, -2.0], [-1.0, 0.5]])


@pytest.mark.parametrize(
    ("text", "weights", "lower", "upper"),
    [
        ("a <= 0.5*speed - 1", ["1", "0"], None, "0.5*speed - 1"),
        ("0.5*speed - 1 >= a", ["1", "0"], None, "0.5*speed - 1"),
        ("-0.3 <= a + 12*phi + b <= 0.3", ["1", "1"], "-0.3 - 12*phi", "0.3 - 12*phi"),
        ("cos(phi)*a >= 2*speed", ["cos(phi)", "0"], "2*speed", None),
        ("a - b >= phi*(b + 1)", ["1", "-1 - phi"], "phi", None),
        ("phi*a + 1 == speed - 2*a", ["phi + 2", "0"], "speed - 1", "speed - 1"),
        ("3 >= a >= min(phi, 0)", ["1", "0"], "min(phi, 0)", "3"),
    ],
)
def test_bounds_that_depend_on_the_state(
    text: str, weights: list[str], lower: str | None, upper: str | None
) -> None:
    found = parse_state_bounds(text, ["a", "b"], STATE)
    expected = [*weights, lower, upper]
    for one, meant in zip((*found.weights, found.lower, found.upper), expected, strict=True):
        if meant is None:
            assert one is None
        else:
            assert one is not None
            assert tuple(one.names) == tuple(STATE)
            np.testing.assert_allclose(one.at(AT), Formula(meant, STATE).at(AT), atol=1e-12)


def test_what_was_written_on_one_side_keeps_its_words() -> None:
    found = parse_state_bounds("a <= 0.5*speed - 1", ["a"], STATE)
    assert str(found.upper) == "0.5*speed - 1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a**2 <= phi", "not linear in a: they may be multiplied by numbers and by what depends"),
        ("phi >= speed", "no action is left in 'phi >= speed'"),
        ("a <= phi <= 1", "what is bounded must stand in the middle"),
        ("a <= q", "unknown action 'q' at column 6: there are a, phi, speed and pi"),
    ],
)
def test_what_is_refused_of_states(text: str, message: str) -> None:
    with pytest.raises(InvalidConstraint, match=message):
        parse_state_bounds(text, ["a"], STATE, "action")
