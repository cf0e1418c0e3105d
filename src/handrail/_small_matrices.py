"""LAPACK on small matrices, of which SciPy's own checks and copies would take most of the time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

Matrix = NDArray[np.float64]

# Columns that LAPACK works on at a time.
_BLOCK = 32


@final
@dataclass(frozen=True)
class Positive:
    """A symmetric, positive definite matrix (n, n), factored.

    Attributes:
        lower: of Cholesky's factors; above its diagonal is anything.
    """

    lower: Matrix

    @classmethod
    def of(cls, matrix: Matrix) -> Positive:
        """LinAlgError if it is not positive definite, or not finite."""
        lower, failed = lapack.dpotrf(matrix.T, lower=1, clean=0)
        _refuse(failed)
        if not np.isfinite(np.diagonal(lower)).all():  # which all others enter
            raise np.linalg.LinAlgError("The matrix is not finite")
        return cls(lower)

    def solve(self, right: Matrix) -> Matrix:
        """X with matrix x = right, (n,) or (n, k)."""
        x, failed = lapack.dpotrs(self.lower, right, lower=1)
        _refuse(failed)
        result: Matrix = x
        return result


@final
class Orthogonal(NamedTuple):
    """matrix[:, order] = q r of a matrix (m, n), with k = min(m, n).

    Attributes:
        q: (m, k), with orthonormal columns.
        r: (k, n), upper triangular, its diagonal from the largest to the smallest.
        order: (n,).
    """

    q: Matrix
    r: Matrix
    order: NDArray[np.intp]


def pivoted_qr(matrix: Matrix) -> Orthogonal:
    """Of finite numbers (m, n)."""
    m, n = matrix.shape
    k = min(m, n)
    work = 2 * n + (n + 1) * _BLOCK
    packed, order, tau, _, failed = lapack.dgeqp3(matrix, lwork=work)
    _refuse(failed)
    q, _, failed = lapack.dorgqr(packed[:, :k], tau, lwork=k * _BLOCK)
    _refuse(failed)
    return Orthogonal(q, np.triu(packed[:k]), order - 1)


def solve_upper(r: Matrix, right: Matrix) -> Matrix:
    """X with r x = right (n,), of an upper triangular r (n, n)."""
    return _triangular(r, right, transposed=0)


def solve_upper_transposed(r: Matrix, right: Matrix) -> Matrix:
    """X with rᵀ x = right (n,), of an upper triangular r (n, n)."""
    return _triangular(r, right, transposed=1)


def _triangular(r: Matrix, right: Matrix, transposed: int) -> Matrix:
    x, failed = lapack.dtrtrs(r, right, trans=transposed)
    _refuse(failed)
    result: Matrix = x
    return result


def _refuse(failed: int) -> None:
    """What LAPACK says is 0, a wrong argument, or where a matrix is singular."""
    if failed:
        raise np.linalg.LinAlgError(f"LAPACK gave up with {failed}")
