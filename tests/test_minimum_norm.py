"""The hard program: known answers, KKT conditions on generated ones, and contradictions.

The soft program against closed forms, and against the hard one where nothing contradicts.
"""

from __future__ import annotations

import daqp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from handrail import _minimum_norm
from handrail._minimum_norm import (
    SOFT_PRICE,
    MinimumNorm,
    likely_active,
    nonnegative_least_squares,
    solve_minimum_norm,
    solve_soft,
)
from handrail._types import Array

INF = np.inf


def check_kkt(matrix: Array, lower: Array, upper: Array, answer: MinimumNorm) -> None:
    """Feasible, stationary, multipliers of the right sign and only at a bound."""
    x, multipliers = answer.x, answer.multipliers
    values = matrix @ x
    size = 1e-8 + 1e-11 * np.linalg.norm(matrix, axis=1) * np.linalg.norm(x)
    assert np.all(values >= lower - size)
    assert np.all(values <= upper + size)
    terms = np.abs(matrix.T * multipliers).sum(axis=1)
    assert np.all(np.abs(x - matrix.T @ multipliers) <= 1e-8 * (terms + np.linalg.norm(x) + 1e-300))
    equal = lower == upper
    holds_lower, holds_upper = multipliers > 0, multipliers < 0
    assert np.all(np.isfinite(lower[holds_lower]))
    assert np.all(np.isfinite(upper[holds_upper]))
    np.testing.assert_array_less(np.abs(values - lower)[holds_lower & ~equal], 10 * size.max())
    np.testing.assert_array_less(np.abs(values - upper)[holds_upper & ~equal], 10 * size.max())


def test_daqp_s_minimum_norm_form() -> None:
    """H = f = None is not documented: the day it changes, this says so."""
    matrix = np.array([[1.0, 1.0], [1.0, -1.0]])
    x, _, status, info = daqp.solve(
        None, None, matrix, np.full(2, 1e30), np.array([2.0, -5.0]), np.zeros(2, dtype=np.int32)
    )
    assert status == 1
    np.testing.assert_allclose(x, [1.0, 1.0], atol=1e-12)
    np.testing.assert_allclose(info["lam"], [-1.0, 0.0], atol=1e-12)  # negative at a lower bound


@pytest.mark.parametrize(
    ("matrix", "lower", "upper", "x", "multipliers"),
    [
        # one row: x = a b / |a|²
        ([[3.0, 4.0]], [10.0], [INF], [1.2, 1.6], [0.4]),
        ([[3.0, 4.0]], [-INF], [-10.0], [-1.2, -1.6], [-0.4]),
        # satisfied at zero
        ([[3.0, 4.0]], [-1.0], [2.0], [0.0, 0.0], [0.0]),
        # the second row is met by the first
        ([[1.0, 0.0], [2.0, 0.0]], [1.0, 1.0], [INF, INF], [1.0, 0.0], [1.0, 0.0]),
        # an equality and an inequality
        ([[1.0, 1.0], [1.0, 0.0]], [2.0, 1.5], [2.0, INF], [1.5, 0.5], [0.5, 1.0]),
        # the inequality follows from the equality
        ([[1.0, 1.0], [2.0, 2.0]], [2.0, 3.0], [2.0, 9.0], [1.0, 1.0], [1.0, 0.0]),
        # a repeated equality
        ([[1.0, 1.0], [2.0, 2.0]], [2.0, 4.0], [2.0, 4.0], [1.0, 1.0], None),
    ],
)
def test_known_answers(
    matrix: list[list[float]],
    lower: list[float],
    upper: list[float],
    x: list[float],
    multipliers: list[float] | None,
) -> None:
    arrays = np.array(matrix), np.array(lower), np.array(upper)
    answer = solve_minimum_norm(*arrays)
    assert not answer.contradictory
    np.testing.assert_allclose(answer.x, x, atol=1e-12)
    if multipliers is not None:
        np.testing.assert_allclose(answer.multipliers, multipliers, atol=1e-12)
    check_kkt(*arrays, answer)


@pytest.mark.parametrize(
    ("matrix", "lower", "upper"),
    [
        ([[1.0, 0.0], [1.0, 0.0]], [1.0, -INF], [INF, 0.5]),  # opposite bounds of one row
        ([[1.0, 0.0], [-2.0, 0.0]], [1.0, 1.0], [INF, INF]),  # opposite rows
        ([[1.0, 1.0], [2.0, 2.0]], [2.0, 5.0], [2.0, 5.0]),  # contradictory equalities
        ([[1.0, 1.0], [2.0, 2.0]], [2.0, 5.0], [2.0, INF]),  # equality against inequality
        ([[0.0, 0.0], [1.0, 0.0]], [1.0, 1.0], [INF, INF]),  # a row that nothing moves
        ([[1.0, 0.0], [1.0, 1e-6]], [1.0, -INF], [INF, 0.5]),  # possible, at an absurd price
        ([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1.0, 1.0, -INF], [INF, INF, 1.5]),  # three rows
        ([[np.nan, 0.0]], [1.0], [INF]),
    ],
)
def test_contradictions(matrix: list[list[float]], lower: list[float], upper: list[float]) -> None:
    answer = solve_minimum_norm(np.array(matrix), np.array(lower), np.array(upper))
    assert answer.contradictory


@st.composite
def consistent_programs(draw: st.DrawFn) -> tuple[Array, Array, Array]:
    """Rows of wildly different size around a point that satisfies them all, some repeated."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    m = draw(st.one_of(st.integers(1, 30), st.integers(31, 300)))
    n = draw(st.integers(1, 320))
    matrix = rng.normal(size=(m, n)) * 10.0 ** rng.uniform(-8.0, 1.0, size=(m, 1))
    point = rng.normal(size=n)
    for i in range(1, m):
        if rng.random() < 0.15:  # a near-duplicate of an earlier row
            other = int(rng.integers(i))
            matrix[i] = matrix[other] * (1.0 + 10.0 ** rng.uniform(-9, -3) * rng.normal(size=n))
    values = matrix @ point
    room = np.abs(values) * rng.exponential(0.2, size=(2, m))
    lower = np.where(rng.random(m) < 0.6, values - room[0], -INF)
    upper = np.where(rng.random(m) < 0.4, values + room[1], INF)
    if draw(st.booleans()):
        # Fewer equalities than unknowns, none of them among the near-duplicates of another.
        equal = rng.permutation(m)[: min(m, max(n // 4, 1), 20)]
        matrix[equal] = rng.normal(size=(len(equal), n))
        lower[equal] = upper[equal] = matrix[equal] @ point
        lower_ok = np.isfinite(lower)
        lower[lower_ok] = np.minimum(lower, matrix @ point)[lower_ok]
        upper_ok = np.isfinite(upper)
        upper[upper_ok] = np.maximum(upper, matrix @ point)[upper_ok]
    return matrix, lower, upper


@settings(max_examples=300, deadline=None)
@given(consistent_programs())
def test_kkt_conditions(program: tuple[Array, Array, Array]) -> None:
    answer = solve_minimum_norm(*program)
    assert answer.solved
    check_kkt(*program, answer)


@settings(max_examples=60, deadline=None)
@given(consistent_programs())
def test_the_fallback_gives_the_same_answer(program: tuple[Array, Array, Array]) -> None:
    expected = solve_minimum_norm(*program)
    assume(expected.method == "daqp")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_minimum_norm, "_daqp_active", lambda *_: None)
        answer = solve_minimum_norm(*program)
    np.testing.assert_allclose(answer.x, expected.x, atol=1e-6 * float(np.linalg.norm(expected.x)))


def test_one_row_needs_no_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hardest row brings all others within their bounds: the same answer, to the last bit."""
    matrix = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    lower, upper = np.array([0.5, 2.0, -INF]), np.array([INF, INF, 5.0])
    guessed = solve_minimum_norm(matrix, lower, upper)
    assert guessed.method == "one row"
    np.testing.assert_allclose(guessed.x, [1.0, 1.0])
    np.testing.assert_allclose(guessed.multipliers, [0.0, 1.0, 0.0])
    monkeypatch.setattr(_minimum_norm, "_hardest_active", lambda *_: np.zeros(3))
    solved = solve_minimum_norm(matrix, lower, upper)
    assert solved.method == "daqp"
    np.testing.assert_array_equal(solved.x, guessed.x)


def test_one_row_is_not_believed_where_two_hold_the_answer() -> None:
    matrix, lower = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([2.0, 1.0])
    answer = solve_minimum_norm(matrix, lower, np.full(2, INF))
    assert answer.method == "daqp"
    np.testing.assert_allclose(answer.x, [2.0, 1.0])


def test_likely_active_rows_are_those_of_the_answer() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        matrix, lower = rng.normal(size=(30, 30)), rng.normal(size=30)
        answer = solve_minimum_norm(matrix, lower, np.full(30, INF))
        active = likely_active(matrix, lower, np.full(30, INF))
        np.testing.assert_array_equal(active, np.flatnonzero(answer.multipliers))


def test_no_row_is_likely_where_rows_contradict_each_other() -> None:
    matrix = np.array([[1.0, 0.0], [1.0, 0.0]])
    assert not len(likely_active(matrix, np.array([1.0, -INF]), np.array([INF, -1.0])))


def test_nonnegative_least_squares() -> None:
    matrix, target = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([2.0, 1.0, 1.0])
    found = nonnegative_least_squares(matrix, target)
    assert found is not None
    np.testing.assert_allclose(found[0], [1.5, 1.0])
    assert found[1] == pytest.approx(0.5**0.5)
    # Of no columns SciPy's frees its memory twice, which ends the process.
    none = nonnegative_least_squares(np.zeros((3, 0)), np.array([0.0, 3.0, 4.0]))
    assert none is not None
    assert (none[0].shape, none[1]) == ((0,), 5.0)


def test_rows_without_bounds_beside_an_equality(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_minimum_norm, "_daqp_active", lambda *_: None)
    lower, upper = np.array([1.0, -INF]), np.array([1.0, INF])
    answer = solve_minimum_norm(np.eye(2), lower, upper)
    assert answer.solved
    np.testing.assert_allclose(answer.x, [1.0, 0.0])


def test_a_wrong_answer_of_the_solver_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the first solver claims to be active, the verified answer is the right one."""
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(12, 20))
    lower, upper = np.abs(rng.normal(size=12)), np.full(12, INF)
    expected = solve_minimum_norm(matrix, lower, upper)
    monkeypatch.setattr(_minimum_norm, "_daqp_active", lambda m, lo, hi: np.sign(lo) * 0.0)
    answer = solve_minimum_norm(matrix, lower, upper)
    assert answer.method == "nnls"
    np.testing.assert_allclose(answer.x, expected.x, atol=1e-10)


@pytest.mark.parametrize(("first", "second"), [(1.0, 1.0), (2.0, 1.0), (1.0, 5.0)])
def test_two_contradictory_rows(first: float, second: float) -> None:
    """x ≥ b and x ≤ -d at different prices: the dearer row is met, the cheaper one gives way.

    In units of u = max(b, d): min ½ (x/u)² + P p₁ (b - x)₊/u + P p₂ (x + d)₊/u. Inside (-d, b) the
    slope is x/u² + P (p₂ - p₁)/u, so with P ≥ 1 the answer is b, -d, or 0 when prices are equal.
    """
    b, d = 0.8, 0.3
    matrix = np.array([[1.0], [1.0]])
    answer = solve_soft(matrix, np.array([b, -INF]), np.array([INF, -d]), np.array([first, second]))
    expected = b if first > second else (-d if first < second else 0.0)
    assert answer.x[0] == pytest.approx(expected, abs=1e-9)


def test_a_price_below_the_multiplier_is_paid_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row x ≥ b at price P p < 1: ½ (x/b)² + P p (b - x)/b is least at x = P p b."""
    monkeypatch.setattr(_minimum_norm, "SOFT_PRICE", 1.0)
    answer = solve_soft(np.array([[2.0]]), np.array([0.6]), np.array([INF]), np.array([0.25]))
    assert 2.0 * answer.x[0] == pytest.approx(0.25 * 0.6, rel=1e-8)


def test_two_coupled_rows_one_at_its_price(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows (1, 0) and (c, s): the cheap one pays its price, the other is met exactly.

    Stationarity x = λ₁ a₁ + λ₂ a₂ with λ₂ at its price π₂ gives λ₁ = b - c π₂ from a₁·x = b.
    """
    monkeypatch.setattr(_minimum_norm, "SOFT_PRICE", 1.0)
    c, s, b = -0.6, 0.8, 1.0
    matrix = np.array([[1.0, 0.0], [c, s]])
    answer = solve_soft(matrix, np.array([b, b]), np.full(2, INF), np.array([100.0, 0.1]))
    # unit = b (both rows have length 1), shortfall = b: the price of row 2 is 0.1 b in x's units
    expected = (b - c * 0.1 * b) * matrix[0] + 0.1 * b * matrix[1]
    np.testing.assert_allclose(answer.x, expected, atol=1e-9)
    np.testing.assert_allclose(answer.multipliers, [b - c * 0.1 * b, 0.1 * b], atol=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_exact_where_nothing_contradicts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m, n = int(rng.integers(1, 60)), int(rng.integers(60, 90))
    matrix = rng.normal(size=(m, n)) * 10.0 ** rng.uniform(-3, 1, size=(m, 1))
    values = matrix @ rng.normal(size=n)
    lower = np.where(rng.random(m) < 0.5, values, -INF)
    upper = np.where(rng.random(m) < 0.5, values + np.abs(values), INF)
    hard = solve_minimum_norm(matrix, lower, upper)
    answer = solve_soft(matrix, lower, upper, np.ones(m))
    assert not hard.contradictory
    np.testing.assert_allclose(answer.x, hard.x, atol=1e-8 * float(np.linalg.norm(hard.x)) + 1e-15)
    assert SOFT_PRICE == 1e3


def test_nothing_to_do() -> None:
    answer = solve_soft(np.eye(2), np.array([-1.0, -INF]), np.array([1.0, 2.0]), np.ones(2))
    np.testing.assert_array_equal(answer.x, 0.0)


def test_rows_that_cannot_move_are_left(capsys: pytest.CaptureFixture[str]) -> None:
    matrix = np.array([[0.0, 0.0], [1.0, 0.0]])
    answer = solve_soft(matrix, np.array([1.0, 0.5]), np.full(2, INF), np.ones(2))
    np.testing.assert_allclose(answer.x, [0.5, 0.0], atol=1e-9)
