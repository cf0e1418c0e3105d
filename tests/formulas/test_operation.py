"""Derivatives of formulas, and formulas as we write them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.formulas import Formula, function_from

NAMES = ["x", "y"]
STATES = np.random.default_rng(0).uniform(0.3, 1.7, size=(200, 2))

_leaves = st.sampled_from(["x", "y", "0.5", "2", "pi"])
_FUNCTIONS = ["sin", "cos", "exp", "tanh", "abs", "sqrt(2 + tanh", "log(2 + tanh"]


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.tuples(inner, inner)
    return st.one_of(
        st.tuples(st.sampled_from("+-*"), pairs).map(lambda t: f"({t[1][0]} {t[0]} {t[1][1]})"),
        pairs.map(lambda t: f"{t[0]}/(2 + tanh({t[1]}))"),
        pairs.map(lambda t: f"min({t[0]}, {t[1]})"),
        pairs.map(lambda t: f"max({t[0]}, {t[1]})"),
        inner.map(lambda t: f"({t})**3"),
        inner.map(lambda t: f"-({t})"),
        st.tuples(st.sampled_from(_FUNCTIONS), inner).map(
            lambda t: f"{t[0]}({t[1]})" + ")" * t[0].count("(")
        ),
    )


FORMULAS = st.recursive(_leaves, _grown, max_leaves=6)


@pytest.mark.parametrize(
    ("text", "by_x"),
    [
        ("3", "0"),
        ("y", "0"),
        ("x", "1"),
        ("2*x - y", "2"),
        ("x*y", "y"),
        ("x**2", "2*x"),
        ("x**-1", "-1/x**2"),
        ("2**x", "log(2)*2**x"),
        ("x**y", "y*x**(y - 1)"),
        ("y/x", "-y/x**2"),
        ("sin(2*x)", "2*cos(2*x)"),
        ("cos(x)", "-sin(x)"),
        ("tan(x)", "1/cos(x)**2"),
        ("exp(-x)", "-exp(-x)"),
        ("log(x)", "1/x"),
        ("sqrt(x)", "0.5/sqrt(x)"),
        ("abs(x - 1)", "sign(x - 1)"),
        ("tanh(x)", "1 - tanh(x)**2"),
        ("min(x, y)", "below(x, y)"),
        ("max(x, y)", "below(y, x)"),
        ("sign(x) + below(x, y)", "0"),
    ],
)
def test_derivatives_in_closed_form(text: str, by_x: str) -> None:
    found = Formula(text, NAMES).derivative(0).at(STATES)
    np.testing.assert_allclose(found, Formula(by_x, NAMES).at(STATES), rtol=1e-12, atol=1e-12)


@settings(max_examples=150, deadline=None)
@given(FORMULAS)
def test_derivatives_are_those_of_differences(text: str) -> None:
    formula, step = Formula(text, NAMES), 1e-6
    for by in range(2):
        shift = step * np.eye(2)[by]
        ahead, behind = formula.at(STATES + shift), formula.at(STATES - shift)
        here = formula.at(STATES)
        smooth = np.abs(ahead + behind - 2 * here) < 1e-9 * (1 + np.abs(here))  # no kink between
        slope = formula.derivative(by).at(STATES)
        expected = (ahead - behind) / (2 * step)
        size = 1 + np.abs(expected) + np.abs(here)
        finite = np.isfinite(size) & (size < 1e3)
        assert (np.abs(slope - expected)[smooth & finite] < 1e-4 * size[smooth & finite]).all()


@settings(max_examples=150, deadline=None)
@given(FORMULAS)
def test_what_is_written_is_read_again_to_the_last_bit(text: str) -> None:
    formula = Formula(text, NAMES).derivative(1)
    again = function_from(formula.describe())
    np.testing.assert_array_equal(again.at(STATES), formula.at(STATES))


@settings(max_examples=200, deadline=None)
@given(
    FORMULAS,
    st.tuples(*[st.floats(-3, 3)] * 2),
    st.tuples(*[st.floats(0, 2)] * 2),
    st.integers(0, 2**31),
)
def test_nothing_is_outside_of_its_band(
    text: str, low: tuple[float, float], size: tuple[float, float], seed: int
) -> None:
    formula = Formula(text, NAMES)
    corner = np.array(low)
    states = corner + np.random.default_rng(seed).uniform(0, 1, (300, 2)) * size
    states = np.concatenate([states, [corner], [corner + size]])
    top = np.maximum(corner + size, states.max(axis=0))
    band = formula.band(corner[None], top[None])
    values = formula.at(states)
    plane = (states * band.slope[0]).sum(axis=1)
    room = 1e-12 * (1 + np.abs(values) + np.abs(plane) + np.abs(states) @ np.abs(band.slope[0]))
    assert (plane + band.lowest[0] <= values + room).all()
    assert (values <= plane + band.highest[0] + room).all()


def test_a_band_of_an_affine_formula_has_no_width() -> None:
    band = Formula("0.5*x - 3*y + 7", NAMES).band(np.array([[-2.0, 1.0]]), np.array([[5.0, 9.0]]))
    np.testing.assert_allclose(band.slope, [[0.5, -3.0]])
    np.testing.assert_allclose([band.lowest, band.highest], 7.0, atol=1e-12)


def test_a_band_becomes_narrow_as_the_square_of_its_box() -> None:
    for text in ("sin(x)*y", "x**2 - x*y", "exp(-x)/(2 + y**2)", "log(2 + x) - log(3 - y)"):
        formula, width = Formula(text, NAMES), []
        for size in (0.1, 0.01):
            band = formula.band(np.array([[-0.3, 0.5]]), np.array([[-0.3 + size, 0.5 + size]]))
            width.append(float((band.highest - band.lowest)[0]))
        assert width[1] < 0.02 * width[0]


@pytest.mark.parametrize("text", ["sqrt(x)", "x**0.5", "log(x)", "1/x", "tan(1.5 + x)"])
def test_where_it_may_have_no_value_a_band_is_no_help(text: str) -> None:
    band = Formula(text, NAMES).band(np.array([[-0.1, 0.0]]), np.array([[0.2, 1.0]]))
    assert band.lowest == -np.inf
    assert band.highest == np.inf


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(x - (y - 2))", "x - (y - 2)"),
        ("((x - y) - 2.0)", "x - y - 2"),
        ("x + (-(2*y + 1))", "x - (2*y + 1)"),
        ("-(x*y)", "-(x*y)"),
        ("-(x**2)", "-x**2"),
        ("(-x)**2", "(-x)**2"),
        ("(x**2)**3", "(x**2)**3"),
        ("x/(y*2)", "x/(y*2)"),
        ("0.1*x + 1e-7", "0.1*x + 1e-07"),
        ("max((x), sin((y)))", "max(x, sin(y))"),
    ],
)
def test_no_more_parentheses_than_a_person_writes(text: str, expected: str) -> None:
    written = Formula(text, NAMES).describe()["formula"]
    assert written == expected
    assert (Formula(written, NAMES).at(STATES) == Formula(text, NAMES).at(STATES)).all()
