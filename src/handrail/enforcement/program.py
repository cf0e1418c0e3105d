"""From a first-order model to the smallest change that satisfies the constraints (H3).

Three objectives, three geometries. `LeastReturns` (the paper): min Σ G², unknown G, matrix α K D.
`LeastChange`: min ‖Δθ‖², where Δθ = Σ λ_i ∇c_i and K = F Fᵀ gives the matrix F; the multipliers of
that program *are* the λ_i, so nothing ill-conditioned is ever inverted. `LeastInfluence`: the same
in the metric of an `Anchor`, which keeps the policy where it is at reference states.

Of many rows only a working set enters the solver: the most violated rows are added until none is
left. The effect on all rows costs one backward and one forward-mode pass, so the full kernel is
never formed: of a hundred rows of regions, three or four hold a step. Which these are, a rough
kernel tells more often than not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from typing_extensions import override

from handrail._minimum_norm import MinimumNorm, likely_active, solve_minimum_norm
from handrail._types import Array, Indices
from handrail.enforcement.conflict import Contradiction
from handrail.enforcement.elsewhere import Anchor
from handrail.enforcement.linearisation import Linearisation
from handrail.errors import SolverFailure
from handrail.tangent import Gradient

# (matrix, lower, upper, rows) -> answer; `rows` are the program's rows, for names and priorities.
Solver = Callable[[Array, Array, Array, Indices], MinimumNorm]

# Rows that enter the working set first; in every round after it, as many as are in it already.
_FIRST_ROUND, _MOST_EQUALITIES = 16, 400

# By which a rough kernel, of fewer units than there may be rows, becomes positive definite.
_RIDGE = 1e-6

# Rows outside the working set may miss their bound by this much, and by rounding.
_OUTSIDE = 1e-9


class Geometry(ABC):
    """What "smallest" means, and how an answer turns into a step.

    Attributes:
        all_at_once: up to so many rows the whole kernel is cheaper than rounds with a working set.
    """

    all_at_once: ClassVar[int]

    @abstractmethod
    def matrix(self, working: Indices) -> Array:
        """Rows of the minimum-norm program (n_working, n_unknowns)."""

    @abstractmethod
    def coefficients(self, working: Indices, answer: MinimumNorm) -> Array:
        """Of the rows' gradients in the step (n_rows,)."""

    @abstractmethod
    def direction(self, coefficients: Array) -> Gradient:
        """The step Δθ that has these coefficients."""

    def guess(self, lower: Array, upper: Array) -> Indices:  # noqa: ARG002
        """Rows that will probably hold the step, if that is cheaper than to find them out."""
        return np.zeros(0, dtype=np.intp)


@final
class LeastReturns(Geometry):
    """min Σ G² (the paper): Δθ = α Σ G_i ∇c_i / scale_i."""

    all_at_once: ClassVar[int] = 2000

    def __init__(self, model: Linearisation, step_size: float) -> None:
        self._model = model
        self._per_return = step_size / model.scale
        self._kernel_rows: dict[int, Array] = {}

    def matrix(self, working: Indices) -> Array:
        """α K D restricted to the working rows (n_working, n_rows)."""
        n = len(self._model)
        if len(working) == n:
            return self._model.kernel(working) * self._per_return
        new = np.array([i for i in working if i not in self._kernel_rows], dtype=np.intp)
        if len(new):
            kernel = self._model.kernel(new, np.arange(n))
            self._kernel_rows.update(zip(new.tolist(), kernel, strict=True))
        return np.stack([self._kernel_rows[i] for i in working]) * self._per_return

    def coefficients(self, working: Indices, answer: MinimumNorm) -> Array:  # noqa: ARG002
        """α D G."""
        return answer.x * self._per_return

    def direction(self, coefficients: Array) -> Gradient:
        """Σ_i coefficient_i ∇c_i."""
        return self._model.direction(coefficients)


@final
class LeastChange(Geometry):
    """min ‖Δθ‖², the least change of the network."""

    all_at_once: ClassVar[int] = 48

    def __init__(self, model: Linearisation) -> None:
        self._model = model
        self._known = np.empty(0, dtype=np.intp)
        self._place = np.full(len(model), -1)  # of each row among those that are known
        self._kernel = np.empty((0, 0))

    def matrix(self, working: Indices) -> Array:
        """F with F Fᵀ = K on the working rows (n_working, n_working)."""
        return factor_of(self.kernel(working))

    def kernel(self, working: Indices) -> Array:
        """K on the working rows (n_working, n_working); of those asked for before, from memory."""
        self._extend(working[self._place[working] < 0])
        if np.array_equal(working, self._known):  # mostly all rows at once
            return self._kernel
        chosen = self._place[working]
        square: Array = self._kernel[chosen[:, None], chosen]
        return square

    def _extend(self, new: Indices) -> None:
        """Add rows to the part of the kernel that is known."""
        if not len(new):
            return
        together = np.concatenate([self._known, new])
        if not len(self._known) or self._model.multiplies_at_once(len(together)):
            square = self._model.kernel(together)
        else:
            square, cross = self._model.kernel(new), self._model.kernel(new, self._known)
            square = np.block([[self._kernel, cross.T], [cross, square]])
        self._kernel, self._known = square, together
        self._place[together] = np.arange(len(together))

    @override
    def guess(self, lower: Array, upper: Array) -> Indices:
        rough = self._model.rough_kernel()
        if rough is None:
            return super().guess(lower, upper)
        rough.flat[:: len(rough) + 1] *= 1.0 + _RIDGE  # its diagonal
        return likely_active(factor_of(rough), lower, upper)

    def coefficients(self, working: Indices, answer: MinimumNorm) -> Array:
        """The multipliers: most rows need nothing."""
        coefficients = np.zeros(len(self._model))
        coefficients[working] = answer.multipliers
        return coefficients

    def direction(self, coefficients: Array) -> Gradient:
        """Σ_i coefficient_i ∇c_i."""
        return self._model.direction(coefficients)


@final
class LeastInfluence(Geometry):
    """The least change of the policy at reference states, and a little of the network."""

    all_at_once: ClassVar[int] = 48

    def __init__(self, model: Linearisation, anchor: Anchor, reach: float) -> None:
        self._model = model
        self._anchor = anchor
        self._ridge = anchor.ridge(reach)
        self._damped = anchor.damped(self._ridge)
        self._least_change = LeastChange(model)
        n = len(model), anchor.size
        self._known = np.zeros(n[0], dtype=bool)
        self._cross = np.zeros(n)  # C, of the known rows
        self._solved = np.zeros(n)  # C (K + ρ)⁻¹
        self._last: tuple[Indices, Array] | None = None

    def matrix(self, working: Indices) -> Array:
        """F with F Fᵀ = A M⁻¹ Aᵀ on the working rows (n_working, n_working); the last is kept."""
        if self._last is None or not np.array_equal(working, self._last[0]):
            self._last = working, factor_of(self._metric(working))
        return self._last[1]

    def _metric(self, working: Indices) -> Array:
        new = working[~self._known[working]]
        if len(new):
            self._cross[new] = self._model.cross(new, self._anchor.functionals)
            self._solved[new] = self._damped.solve(self._cross[new].T).T
            self._known[new] = True
        taken = self._cross[working] @ self._solved[working].T
        return (self._least_change.kernel(working) - 0.5 * (taken + taken.T)) / self._ridge

    def coefficients(self, working: Indices, answer: MinimumNorm) -> Array:
        """λ / ρ."""
        coefficients = np.zeros(len(self._model))
        coefficients[working] = answer.multipliers / self._ridge
        return coefficients

    def direction(self, coefficients: Array) -> Gradient:
        """M⁻¹Aᵀλ."""
        back = self._anchor.direction(-coefficients @ self._solved)
        return self._model.direction(coefficients) + back


@final
@dataclass(frozen=True)
class ProgramSolution:
    """Coefficients that change every row by an amount within [lower, upper].

    Attributes:
        coefficients: (n_rows,), of the rows' gradients; `Geometry.direction` is the step.
        multipliers: (n_rows,), zero for inactive rows.
        change: (n_rows,), the predicted change of each row.
        method: whose answer it is.
    """

    coefficients: Array
    multipliers: Array
    change: Array
    method: str


def solve_program(
    model: Linearisation, geometry: Geometry, lower: Array, upper: Array, solver: Solver
) -> ProgramSolution:
    """Find the smallest change whose effect on every row lies within [lower, upper]."""
    n = len(model)
    if (lower <= 0.0).all() and (upper >= 0.0).all():  # nothing is smaller than no change
        return ProgramSolution(np.zeros(n), np.zeros(n), np.zeros(n), "nothing to do")
    if n <= geometry.all_at_once:
        return _solve_on(np.arange(n), model, geometry, lower, upper, solver)
    # Equalities hold every step, so they are there from the beginning.
    working = np.flatnonzero(lower == upper)[:_MOST_EQUALITIES]
    if not len(working):
        working = geometry.guess(lower, upper)
    solution = ProgramSolution(np.zeros(n), np.zeros(n), np.zeros(n), "nothing to do")
    if len(working):
        solution = _solve_on(working, model, geometry, lower, upper, solver)
    while True:
        violations = np.maximum(lower - solution.change, solution.change - upper)
        violations[working] = -np.inf
        rounding = model.rounding * np.abs(solution.change).max()
        worst = np.argsort(-violations, kind="stable")[: max(len(working), _FIRST_ROUND)]
        new = worst[violations[worst] > (_OUTSIDE + rounding if len(working) else 0.0)]
        if not len(new):
            return solution
        # Rows are never dropped again, so this ends: inactive ones cost the solver next to nothing.
        working = np.union1d(working, new)
        solution = _solve_on(working, model, geometry, lower, upper, solver)


def strict_solver(matrix: Array, lower: Array, upper: Array, indices: Indices) -> MinimumNorm:
    """Meets every row, or raises `Contradiction`: in this geometry, at least, there is none."""
    answer = solve_minimum_norm(matrix, lower, upper)
    if answer.contradictory:
        raise Contradiction(matrix, lower, upper, indices)
    return answer


def hard_solver(model: Linearisation, *opinions: Callable[[], tuple[Array, Array]]) -> Solver:
    """A solver that meets every row, or raises `Contradiction`.

    Whether rows contradict each other is judged by the change of the network they need: the returns
    of nearly impossible actions are large without any contradiction. Further `opinions` give bounds
    (lower, upper) of all rows by which the contradiction must show as well: at saturated states,
    the first order of probabilities alone sees contradictions where there are none.
    """

    def solve(matrix: Array, lower: Array, upper: Array, indices: Indices) -> MinimumNorm:
        answer = solve_minimum_norm(matrix, lower, upper)
        if not answer.contradictory:
            return answer
        factor = LeastChange(model).matrix(indices)
        others = [opinion() for opinion in opinions]
        asked = [(lower, upper), *((low[indices], high[indices]) for low, high in others)]
        if all(solve_minimum_norm(factor, *bounds).contradictory for bounds in asked):
            raise Contradiction(factor, lower, upper, indices)
        if not answer.solved:
            raise SolverFailure(
                f"No solver found the smallest returns of {len(lower)} rows that do not contradict "
                "each other: some actions are too close to probability 0. Use "
                "objective='parameters'."
            )
        return answer

    return solve


def _solve_on(
    working: Indices,
    model: Linearisation,
    geometry: Geometry,
    lower: Array,
    upper: Array,
    solver: Solver,
) -> ProgramSolution:
    """Solve for the working rows, and predict the change of all rows."""
    matrix = geometry.matrix(working)
    answer = solver(matrix, lower[working], upper[working], working)
    coefficients = geometry.coefficients(working, answer)
    multipliers = np.zeros(len(model))
    multipliers[working] = answer.multipliers
    if len(working) == len(model):
        change = matrix @ answer.x
    else:
        change = model.effect(geometry.direction(coefficients))
    return ProgramSolution(coefficients, multipliers, change, answer.method)


def factor_of(kernel: Array) -> Array:
    """F with F Fᵀ = kernel, also where rounding has made the kernel singular."""
    lengths = np.sqrt(np.maximum(np.diag(kernel), 0.0))
    if not lengths.all():
        lengths = np.where(lengths > 0.0, lengths, 1.0)
    # Unit diagonal first: rows of very different size would drown each other. One side at a time:
    # products of tiny lengths vanish.
    return _factor(kernel / lengths[:, None] / lengths) * lengths[:, None]


def _factor(kernel: Array) -> Array:
    try:
        factor = np.asarray(np.linalg.cholesky(kernel), dtype=np.float64)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(kernel)
        factor = vectors * np.sqrt(np.maximum(values, 0.0))
    return factor
