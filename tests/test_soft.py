"""The soft program against closed forms, and against the hard one where nothing contradicts."""

from __future__ import annotations

import numpy as np
import pytest

from handrail import soft
from handrail.minimum_norm import solve_minimum_norm
from handrail.soft import SOFT_PRICE, solve_soft

INF = np.inf


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
    monkeypatch.setattr(soft, "SOFT_PRICE", 1.0)
    answer = solve_soft(np.array([[2.0]]), np.array([0.6]), np.array([INF]), np.array([0.25]))
    assert 2.0 * answer.x[0] == pytest.approx(0.25 * 0.6, rel=1e-8)


def test_two_coupled_rows_one_at_its_price(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows (1, 0) and (c, s): the cheap one pays its price, the other is met exactly.

    Stationarity x = λ₁ a₁ + λ₂ a₂ with λ₂ at its price π₂ gives λ₁ = b - c π₂ from a₁·x = b.
    """
    monkeypatch.setattr(soft, "SOFT_PRICE", 1.0)
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
