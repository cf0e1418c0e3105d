"""LAPACK without SciPy's checks."""

from __future__ import annotations

import numpy as np
import pytest

from handrail._small_matrices import Positive, pivoted_qr, solve_upper, solve_upper_transposed

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(9, 4), (4, 9), (60, 50), (1, 1)])
def test_a_pivoted_qr_gives_the_matrix_back(shape: tuple[int, int]) -> None:
    matrix = RNG.normal(size=shape)
    q, r, order = pivoted_qr(matrix)
    np.testing.assert_allclose(q @ r, matrix[:, order], atol=1e-13)
    np.testing.assert_allclose(q.T @ q, np.eye(min(shape)), atol=1e-13)
    diagonal = np.abs(np.diag(r))
    assert (np.diff(diagonal) <= 1e-12).all()


def test_triangular_systems_are_solved() -> None:
    r, right = np.triu(RNG.normal(size=(6, 6)) + 3.0 * np.eye(6)), RNG.normal(size=6)
    np.testing.assert_allclose(r @ solve_upper(r, right), right, atol=1e-12)
    np.testing.assert_allclose(r.T @ solve_upper_transposed(r, right), right, atol=1e-12)


def test_a_singular_triangle_is_refused() -> None:
    with pytest.raises(np.linalg.LinAlgError, match="LAPACK gave up with 2"):
        solve_upper(np.diag([1.0, 0.0]), np.ones(2))


def test_a_positive_matrix_is_solved_for_one_and_many() -> None:
    root = RNG.normal(size=(8, 8))
    matrix = root @ root.T + np.eye(8)
    positive = Positive.of(matrix)
    for right in (RNG.normal(size=8), RNG.normal(size=(8, 3))):
        np.testing.assert_allclose(matrix @ positive.solve(right), right, atol=1e-10)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_what_is_not_positive_or_not_finite_is_refused(bad: float) -> None:
    with pytest.raises(np.linalg.LinAlgError):
        Positive.of(np.diag([1.0, bad, 1.0]))
