"""Formulas: what they are worth, what encloses them, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from handrail._types import Array
from handrail.errors import InvalidConstraint
from handrail.formulas import Formula, parse_formula

T = np.array([-2.0, -0.5, 0.0, 0.3, 1.0, 7.0])


def in_t(text: str) -> Formula:
    return parse_formula(text, ["t"])


def enclosed(formula: Formula, low: Array, high: Array) -> tuple[Array, Array]:
    return formula.enclose(low[:, None], high[:, None])


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("0.05*cos(t) - 0.2", lambda t: 0.05 * np.cos(t) - 0.2),
        ("-t**2", lambda t: -(t**2)),
        ("(-t)**2", lambda t: t**2),
        ("2**3**2", lambda t: 512.0 + 0 * t),
        ("2**-2*t", lambda t: 0.25 * t),
        ("1 - 2 - t", lambda t: -1 - t),
        ("8/4/2*t", lambda t: t),
        ("1 + 2*t**3/4", lambda t: 1 + t**3 / 2),
        ("max(t, min(1, 2*t))", lambda t: np.maximum(t, np.minimum(1, 2 * t))),
        ("- -t + +1", lambda t: t + 1),
        ("tanh(exp(-abs(t))) * pi", lambda t: np.tanh(np.exp(-np.abs(t))) * np.pi),
        ("sqrt(t*t + .5e0) + log(3.) + tan(sin(t))", None),
        ("7", lambda t: 7.0 + 0 * t),
    ],
)
def test_values(text: str, meant: Callable[[object], object] | None) -> None:
    values = in_t(text).evaluate(T[:, None])
    assert values.shape == T.shape
    if meant is None:
        expected = np.sqrt(T * T + 0.5) + math.log(3.0) + np.tan(np.sin(T))
        np.testing.assert_allclose(values, expected, rtol=1e-14)
    else:
        np.testing.assert_allclose(values, np.asarray(meant(T)), rtol=1e-14)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "nothing to read"),
        ("   ", "nothing to read"),
        ("t^2", r"cannot read '\^' at column 2: write \*\* for a power"),
        ("2 t", "expected an operator such as .* before 't' at column 3"),
        ("(t + 1", r"expected \) before the end, to close the \( at column 1"),
        ("t + 1)", r"expected an operator .* before '\)' at column 6"),
        ("t +", "instead of the end"),
        ("* t", r"instead of '\*' at column 1"),
        ("x + 1", "unknown name 'x' at column 1: there are t and pi"),
        ("1 + sinh(t)", "unknown function 'sinh' at column 5: the functions are sin, cos, tan"),
        ("__import__('os')", 'cannot read "\'" at column 12'),
        ("t.real", r"unknown name 't\.real' at column 1"),
        ("sin", r"expected \( after the function 'sin' at column 1"),
        ("sin()", r"instead of '\)' at column 5"),
        ("sin(t, t)", "'sin' at column 1 takes 1 argument, but got 2"),
        ("max(t)", "'max' at column 1 takes 2 arguments, but got 1"),
        ("1e999", "'1e999' at column 1 is too large"),
        ("t + 1/0", "the result of '/' at column 6 is not a finite number"),
        ("t + log(0)", "the result of 'log' at column 5 is not a finite number"),
        ("[t]", r"cannot read '\[' at column 1"),
        ("t − 1", "cannot read '−' at column 3"),
        ("(" * 101 + "t" + ")" * 101, "more than 100 levels of nesting"),
        ("-" * 999 + "t", "more than 100 levels of nesting"),
        ("2" + "**2" * 300, "more than 100 levels of nesting"),
        ("t" * 1001, "at most 1000 characters, but this one has 1001"),
    ],
)
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(InvalidConstraint, match=message):
        in_t(text)


def test_long_flat_formulas_are_no_problem() -> None:
    formula = in_t("t" + "+t" * 499)
    np.testing.assert_allclose(formula.evaluate(T[:, None]), 500.0 * T)
    low, high = enclosed(formula, T, T + 1.0)
    assert (low <= 500.0 * T).all()
    assert (high >= 500.0 * (T + 1.0)).all()
    in_t("(" * 100 + "t" + ")" * 100)


@pytest.mark.parametrize(
    ("text", "low", "high", "expected"),
    [
        ("sin(t)", 0.0, 3.0, (0.0, 1.0)),
        ("sin(t)", 2.0, 4.0, (math.sin(4.0), math.sin(2.0))),
        ("cos(t)", -1.0, 2.0, (math.cos(2.0), 1.0)),
        ("cos(t)", 3.0, 3.5, (-1.0, math.cos(3.5))),
        ("cos(t)", 0.0, 100.0, (-1.0, 1.0)),
        ("t**2", -1.0, 3.0, (0.0, 9.0)),
        ("t**3", -1.0, 3.0, (-1.0, 27.0)),
        ("t**-2", -1.0, 0.5, (1.0, np.inf)),
        ("t**-1", -1.0, 0.5, (-np.inf, np.inf)),
        ("t**-1", 0.5, 4.0, (0.25, 2.0)),
        ("t**0", -1.0, 4.0, (1.0, 1.0)),
        ("t**0.5", -1.0, 4.0, (0.0, 2.0)),
        ("2**t", -1.0, 3.0, (0.5, 8.0)),
        ("1/t", 0.5, 2.0, (0.5, 2.0)),
        ("1/t", -0.5, 2.0, (-np.inf, np.inf)),
        ("log(t)", 0.0, 1.0, (-np.inf, 0.0)),
        ("log(t)", -2.0, -1.0, (-np.inf, np.inf)),
        ("sqrt(t)", -2.0, 4.0, (0.0, 2.0)),
        ("sqrt(t)", -2.0, -1.0, (-np.inf, np.inf)),
        ("abs(t)", -3.0, 2.0, (0.0, 3.0)),
        ("abs(t)", -3.0, -2.0, (2.0, 3.0)),
        ("tan(t)", -1.0, 1.0, (-math.tan(1.0), math.tan(1.0))),
        ("tan(t)", 1.0, 2.0, (-np.inf, np.inf)),
        ("tanh(t)", -9.0, 99.0, (math.tanh(-9.0), 1.0)),
        ("min(t, 1)", -3.0, 2.0, (-3.0, 1.0)),
        ("max(t, 1)", -3.0, 2.0, (1.0, 2.0)),
        ("exp(t)", -1.0, 1.0, (math.exp(-1.0), math.exp(1.0))),
        ("-t", 1.0, 2.0, (-2.0, -1.0)),
        ("3*t - 1", -1.0, 2.0, (-4.0, 5.0)),
    ],
)
def test_enclosures_are_tight(
    text: str, low: float, high: float, expected: tuple[float, float]
) -> None:
    found = enclosed(in_t(text), np.array([low]), np.array([high]))
    np.testing.assert_allclose(np.concatenate(found), expected, rtol=1e-13, atol=1e-13)
    assert found[0][0] <= expected[0]
    assert found[1][0] >= expected[1]


def test_what_does_not_depend_on_t_is_exact() -> None:
    for text in ("0.1", "-0.2", "1/3 + pi", "sin(2)**2"):
        low, high = enclosed(in_t(text), np.zeros(3), np.ones(3))
        np.testing.assert_array_equal(low, high)
        np.testing.assert_array_equal(low, in_t(text).evaluate(np.zeros(3)[:, None]))


def test_enclosures_become_as_small_as_the_intervals() -> None:
    formula = in_t("sin(3*t) / (1.5 + cos(t)**2) + t**3 - sqrt(2 + t)")
    widths = []
    for count in (1_000, 10_000):
        ends = np.linspace(-1.0, 2.0, count + 1)
        low, high = enclosed(formula, ends[:-1], ends[1:])
        widths.append((high - low).max())
    assert widths[1] < 0.2 * widths[0]


NUMBERS = st.sampled_from(["0", "1", "2", "3", "0.5", "1.7", "10", "1e-3", "pi", "100"])
OPERATORS = st.sampled_from(["+", "-", "*", "/", "**"])
FUNCTIONS = st.sampled_from(["sin", "cos", "tan", "exp", "log", "sqrt", "abs", "tanh", "-"])


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds(lambda a, o, b: f"({a}){o}({b})", inner, OPERATORS, inner),
        st.builds(lambda f, a: f"{f}({a})", FUNCTIONS, inner),
        st.builds(lambda f, a, b: f"{f}({a},{b})", st.sampled_from(["min", "max"]), inner, inner),
        st.builds(lambda a, n: f"({a})**{n}", inner, st.integers(-4, 5)),
    )


FORMULAS = st.recursive(st.one_of(st.just("t"), st.just("t"), NUMBERS), _larger, max_leaves=12)
ENDS = st.one_of(
    st.floats(-20.0, 20.0),
    st.floats(-1e12, 1e12),
    st.sampled_from([0.0, 1.0, -1.0, 0.5, math.pi, -math.pi, math.pi / 2, 1e-300]),
)


@settings(max_examples=2_500, deadline=None)
@given(FORMULAS, ENDS, st.one_of(st.floats(0.0, 10.0), st.floats(0.0, 1e-6), st.just(0.0)))
@example("exp(exp(t))/exp(exp(t))", 0.0, 10.0)
@example("(t)**(t)", -3.0, 6.0)
@example("sin(t)", math.pi / 2, 0.0)
@example("1/(1/(t))", -1.0, 2.0)
@example("(min(t,log(t)))**(0.5)", 0.0, 1.0)
def test_values_lie_in_their_enclosures(text: str, low: float, width: float) -> None:
    """The heart of a proof on a curve: no value may ever escape."""
    try:
        formula = in_t(text)
    except InvalidConstraint as error:
        assert "is not a finite number" in str(error)  # noqa: PT017
        return
    high = low + width
    shares = np.concatenate([np.linspace(0.0, 1.0, 33), np.random.default_rng(0).random(31)])
    t = np.clip(low + shares * width, low, high)
    bottom, top = enclosed(formula, np.array([low]), np.array([high]))
    assert not np.isnan([bottom, top]).any()
    values = formula.evaluate(t[:, None])
    defined = ~np.isnan(values)
    assert (values[defined] >= bottom[0]).all()
    assert (values[defined] <= top[0]).all()
    # And piece by piece.
    bottom, top = enclosed(formula, np.sort(t)[:-1], np.sort(t)[1:])
    values = formula.evaluate(np.sort(t)[:, None])
    for chosen in (values[:-1], values[1:]):
        defined = ~np.isnan(chosen)
        assert (chosen[defined] >= bottom[defined]).all()
        assert (chosen[defined] <= top[defined]).all()


def test_coordinates_by_name() -> None:
    formula = parse_formula("2*x - min(y, raise)/pi", ["raise", "x", "y"])
    states = np.array([[1.0, 2.0, 3.0], [5.0, -1.0, 0.5]])
    expected = 2 * states[:, 1] - np.minimum(states[:, 2], states[:, 0]) / np.pi
    np.testing.assert_allclose(formula.evaluate(states), expected, rtol=1e-15)
    low, high = formula.enclose(states - 0.1, states + 0.1)
    assert (low < expected).all()
    assert (expected < high).all()
    assert formula.names == ("raise", "x", "y")
    # A coordinate counts more than a number or a function of the same name.
    assert parse_formula("pi + sin", ["pi", "sin"]).evaluate(np.array([[1.0, 2.0]])) == [3.0]


@pytest.mark.parametrize(
    ("text", "weights", "constant"),
    [
        ("x", [1, 0], 0.0),
        ("3 - 2*(x + y)/4 + sqrt(4)", [-0.5, -0.5], 5.0),
        ("-(x - y)*2**3", [-8, 8], 0.0),
        ("(x - x)**2 + y", [0, 1], 0.0),
        ("cos(0)", [0, 0], 1.0),
    ],
)
def test_sums_of_multiples(text: str, weights: list[float], constant: float) -> None:
    found = parse_formula(text, ["x", "y"]).affine()
    np.testing.assert_allclose(found.gain, weights)
    assert found.offset == pytest.approx(constant)


@pytest.mark.parametrize(
    ("text", "culprit"),
    [
        ("x*y", r"'\*' at column 2"),
        ("1 + 2/x", "'/' at column 6"),
        ("x**2", r"'\*\*' at column 2"),
        ("sin(x)", "'sin' at column 1"),
        ("max(1, y)", "'max' at column 1"),
    ],
)
def test_what_is_not_linear(text: str, culprit: str) -> None:
    with pytest.raises(InvalidConstraint, match=f"{culprit} makes it not linear"):
        parse_formula(text, ["x", "y"]).affine()


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="t0123.e+-*/()^,pisncox ", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        in_t(text)
    except InvalidConstraint as error:
        assert str(error)  # noqa: PT017
