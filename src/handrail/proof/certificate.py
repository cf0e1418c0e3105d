"""Does a constraint hold at *every* state of its region? A proof, a counterexample, or unknown.

The answer is about the policy that acts: the network as stored, evaluated with real numbers, or in
its own precision, float64 or float32, in whatever order. Bounds are computed in float64 and must
exceed what rounding can do to any of these (`proof/rounding`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Literal, final, overload

import numpy as np

from handrail._types import Array, Mask
from handrail.constraints import (
    Constraint,
    PlacedConstraint,
    Rows,
    bound_in_words,
    check_tolerance,
    counted,
    html_table,
    refuse_other_quantity,
    refuse_wrong_types,
    state_in_words,
)
from handrail.errors import InvalidConstraint, InvalidPolicy, ShapeMismatch
from handrail.policies import ACTIVATIONS, IDENTITY, RELU, LayerArrays, Layers, Policy, Refusal
from handrail.proof.bounder import Bounder
from handrail.proof.branch_and_bound import Budget, Judge, Leaves, Watch, prove
from handrail.proof.margin import Margin, at_least, at_most
from handrail.proof.relaxation import Relaxation, has_lines
from handrail.proof.rounding import FLOAT64, Rounding, arithmetic_of, float32_is_whole
from handrail.proof.vertex_bound import VertexBound
from handrail.regions import Cover, Points, Region
from handrail.rulebook import AnyConstraints, constraints_of

Status = Literal["certified", "counterexample", "unknown"]

# Values are told in so many parts of 1.
_SHOWN = 1e6

# Cells with more vertices are bounded by linear relaxation, which does not visit them.
_MANY_VERTICES = 128

_IN_FLOAT64 = (
    "Convert the network with module.double(), which computes 10⁹ times more exactly, hold it "
    "further inside its bounds, or allow a larger tolerance"
)

_COARSER = (
    "torch may round products in float32 to fewer bits than float32 has. Call "
    "torch.set_float32_matmul_precision('highest'), or convert the network to float64"
)


@final
@dataclass(frozen=True, repr=False)
class Certificate:
    """What is known about a constraint on the whole of its place.

    Attributes:
        name: of the constraint.
        status: "certified", "counterexample" or "unknown".
        lower: the bound, -inf for none.
        upper: the bound, +inf for none.
        tolerance: violations up to this were allowed.
        lowest: the value is nowhere below this; None unless certified with a lower bound.
        highest: the value is nowhere above this; None unless certified with an upper bound.
        state: the counterexample.
        violation: there, measured by the real policy.
        reason: why nothing is known.
        method: "vertex bound", "linear relaxation" or "evaluation" (of points).
        cells: how many were bounded.
        seconds: how long it took.
        leaves: the proven cells, with the bounds of their margins.
        violated: (n, n_coordinates) all counterexamples that were seen.
        near: (n, n_coordinates) states that were seen where only rounding decides.
    """

    name: str
    status: Status
    lower: float
    upper: float
    tolerance: float
    lowest: float | None
    highest: float | None
    state: tuple[float, ...] | None
    violation: float | None
    reason: str
    method: str
    cells: int
    seconds: float
    leaves: tuple[Leaves, ...] = field(default=(), repr=False, compare=False)
    violated: Array | None = field(default=None, repr=False, compare=False)
    near: Array | None = field(default=None, repr=False, compare=False)

    @property
    def certified(self) -> bool:
        """Whether it holds everywhere, within the tolerance."""
        return self.status == "certified"

    @property
    def worst_violation(self) -> float:
        """Nowhere is it violated more: proven if certified, measured at a counterexample."""
        if self.violation is not None:
            return self.violation
        below = -np.inf if self.lowest is None else self.lower - self.lowest
        above = -np.inf if self.highest is None else self.highest - self.upper
        return float(max(below, above)) if self.certified else np.inf

    def __str__(self) -> str:
        bound = bound_in_words(self.lower, self.upper)
        within = f" within {self.tolerance:g}" if self.tolerance else ""
        if self.certified:
            return (
                f"{self.name!r} ({bound}) holds{within} at every state: {self._proven_values()}. "
                f"{self._work_in_words()}, {self.seconds:.2g} s."
            )
        if self.state is not None:
            where = state_in_words(np.array(self.state))
            return (
                f"{self.name!r} ({bound}) does not hold{within}: it is violated by "
                f"{self.violation:.2g} at {where}."
            )
        return f"Whether {self.name!r} ({bound}) holds{within} is not known: {self.reason}."

    def _work_in_words(self) -> str:
        """At points there are no cells, only their states."""
        if not self.cells:
            return f"By {self.method}"
        return f"{counted(self.cells, 'cell')} by {self.method}"

    def __repr__(self) -> str:
        return f"<Certificate: {self.name!r} {self.status}>"

    def _repr_html_(self) -> str:
        rows = [
            ("constraint", self.name),
            ("bound", bound_in_words(self.lower, self.upper)),
            ("status", self.status),
            *([("proven", self._proven_values())] if self.certified else []),
            ("method", self.method or "none"),
            ("cells", f"{self.cells:,}"),
            ("seconds", f"{self.seconds:.2g}"),
        ]
        return html_table("" if self.certified else str(self), rows)

    def _proven_values(self) -> str:
        """Rounded to the safe side: what is said was proven."""
        parts = []
        if self.lowest is not None:
            parts.append(f"never below {math.floor(self.lowest * _SHOWN) / _SHOWN:.6f}")
        if self.highest is not None:
            parts.append(f"never above {math.ceil(self.highest * _SHOWN) / _SHOWN:.6f}")
        return ", ".join(parts)


@final
@dataclass(frozen=True, repr=False)
class Certificates(Sequence[Certificate]):
    """What is known about several constraints, one by one.

    Attributes:
        certificates: in the order of the constraints.
    """

    certificates: tuple[Certificate, ...]

    @overload
    def __getitem__(self, index: int) -> Certificate: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Certificate, ...]: ...
    def __getitem__(self, index: int | slice) -> Certificate | tuple[Certificate, ...]:
        return self.certificates[index]

    def __len__(self) -> int:
        return len(self.certificates)

    @property
    def certified(self) -> bool:
        """Whether all of them hold everywhere."""
        return all(one.certified for one in self)

    @property
    def worst_violation(self) -> float:
        """Nowhere is any of them violated more."""
        return max(one.worst_violation for one in self)

    def __str__(self) -> str:
        return "\n".join([self._headline(), *map(str, self)])

    def __repr__(self) -> str:
        return f"<Certificates: {self._headline()}>"

    def _repr_html_(self) -> str:
        rows = [
            (one.name, bound_in_words(one.lower, one.upper), one.status, f"{one.cells:,}")
            for one in self
        ]
        return html_table(self._headline(), rows, ("constraint", "bound", "status", "cells"))

    def _headline(self) -> str:
        return f"{sum(one.certified for one in self)} of {len(self)} certified"


@overload
def certify(
    policy: Policy,
    constraints: Constraint,
    *,
    tolerance: float = ...,
    budget: Budget | None = ...,
    watch: Watch | None = ...,
) -> Certificate: ...
@overload
def certify(
    policy: Policy,
    constraints: AnyConstraints,
    *,
    tolerance: float = ...,
    budget: Budget | None = ...,
    watch: Watch | None = ...,
) -> Certificates: ...
def certify(
    policy: Policy,
    constraints: Constraint | AnyConstraints,
    *,
    tolerance: float = 0.0,
    budget: Budget | None = None,
    watch: Watch | None = None,
) -> Certificate | Certificates:
    """Prove that a constraint holds at every state of its place, or find a state where it does not.

    Args:
        policy: nn.Sequential of Linear layers with activations between them.
        constraints: one, on a region or at points, about one state at a time; or several, as a
            list, a `Rulebook`, or the path or bundled name of a constraint file.
        tolerance: violations up to this are allowed.
        budget: when to give up; by default 200,000 cells or a minute for each bound.
        watch: called now and then with the numbers of proven and of open cells.
    """
    if isinstance(constraints, Constraint):
        return certify_from(policy, constraints, None, tolerance, budget, watch)
    several = constraints_of(constraints, policy)
    refuse_wrong_types(several)
    answers = (certify_from(policy, one, None, tolerance, budget, watch) for one in several)
    return Certificates(tuple(answers))


def certify_from(
    policy: Policy,
    constraint: Constraint,
    covers: Sequence[Cover] | None,
    tolerance: float = 0.0,
    budget: Budget | None = None,
    watch: Watch | None = None,
) -> Certificate:
    """`certify`, starting from cells that are known to contain the region, if there are any.

    Only for callers who can answer for the cells: those of an earlier proof of the same region.
    """
    check_tolerance(tolerance, zero=True)
    if not isinstance(constraint, PlacedConstraint):
        raise _relates_states(constraint)
    start = perf_counter()
    layers = provable_layers(policy)
    question = _Question.of(policy, layers, constraint, tolerance)
    with np.errstate(all="ignore"):  # whatever is not finite is looked for, and proves nothing
        certificate = _answered(question, constraint.where, covers, budget or Budget(), watch)
    return replace(certificate, seconds=perf_counter() - start)


def _answered(
    question: _Question,
    where: Points | Region,
    covers: Sequence[Cover] | None,
    budget: Budget,
    watch: Watch | None,
) -> Certificate:
    if not question.layers.is_finite():
        return question.unknown("a weight of the network is not finite")
    if question.rounding.acting is not FLOAT64 and not float32_is_whole():
        return question.unknown(_COARSER)
    if isinstance(where, Points):
        return _evaluate(question, where)
    covers = where.covers() if covers is None else covers
    return _prove(question, where, covers, budget, watch)


def provable_layers(policy: Policy) -> LayerArrays:
    """The network that a proof is about; `InvalidPolicy` if none can be."""
    read = Layers.of(policy.module)
    if isinstance(read, Layers):
        unknown = [one.name for one in read.activations if not has_lines(one)]
        if not unknown:
            return read.arrays()
        read = Refusal(f"no lines are known between which {unknown[0]} lies")
    raise InvalidPolicy(
        f"Nothing can be proven about this network: {read.reason}. Proofs look into nn.Sequential "
        f"of Linear layers, each with at most one activation behind it ({', '.join(ACTIVATIONS)}), "
        "as torch has them. Such a network can still be made to obey on samples of a region "
        "(prove=False)."
    )


@final
@dataclass(frozen=True)
class _Question:
    """A constraint and the network it is asked of."""

    policy: Policy
    layers: LayerArrays
    constraint: PlacedConstraint
    row: Rows  # at one of the states
    tolerance: float
    rounding: Rounding

    @classmethod
    def of(
        cls,
        policy: Policy,
        layers: LayerArrays,
        constraint: PlacedConstraint,
        tolerance: float,
    ) -> _Question:
        states = constraint.states[:1]
        if states[0].size != layers.n_observations:
            raise ShapeMismatch(
                f"{constraint.name!r} has {states[0].size} coordinates but the policy observes "
                f"{layers.n_observations}. Give a range or a value for each."
            )
        refuse_other_quantity(constraint, layers.n_outputs, policy)
        row = constraint.rows_at(states, layers.n_outputs)
        if not row.is_about_one_state().all():
            raise _relates_states(constraint)
        rounding = Rounding(layers, arithmetic_of(policy.dtype))
        return cls(policy.in_float64(states), layers, constraint, row, tolerance, rounding)

    def sides(self) -> list[_Side]:
        """One for each bound; the tolerance on them, rounded inwards."""
        quantity, weights = self.row.quantity, self.row.weights[0]
        lower, upper = float(self.row.lower[0]), float(self.row.upper[0])
        least, most = (float(reach[0]) for reach in self.row.reach())
        found = []
        if np.isfinite(lower):
            at = min(float(np.nextafter(lower - self.tolerance, np.inf)), lower)
            found.append(_Side("lowest", at_least(quantity, weights, at), least))
        if np.isfinite(upper):
            at = max(float(np.nextafter(upper + self.tolerance, -np.inf)), upper)
            found.append(_Side("highest", at_most(quantity, weights, at), most))
        return found

    def too_near(self) -> str:
        """Why nothing is known where a margin is within rounding."""
        name = self.rounding.acting.name
        remedy = "" if self.rounding.acting is FLOAT64 else f". {_IN_FLOAT64}"
        return f"a value is too near to its bound for {name}{remedy}"

    def too_large(self) -> str:
        """Why nothing is known where rounding has no bound."""
        name = self.rounding.acting.name
        return f"weights or states are so large that {name} might overflow"

    def margins(self, side: _Side, states: Array) -> Array:
        """(n,) at states (n, n_coordinates), evaluated in float64."""
        return side.margin.of_raw(self.layers.outputs(states))

    def violates(self, side: _Side, states: Array) -> Mask:
        """Which states (n, …) do: with real numbers for certain, and as the policy measures it."""
        flat = states.reshape(len(states), -1)
        rounding = self.rounding.of_evaluation(flat, side.margin.size)
        result: Mask = self.margins(side, flat) < -rounding
        if result.any():
            result[result] = self.violations(states[result]) > self.tolerance
        return result

    def violations(self, states: Array) -> Array:
        """(n,) measured by the real policy, in float64."""
        rows = self.constraint.rows_at(states, len(self.row.weights[0]))
        return rows.violations_of(self.policy)

    def unknown(self, reason: str, method: str = "", cells: int = 0) -> Certificate:
        return self._answer("unknown", reason=reason, method=method, cells=cells)

    def counterexample(self, violated: Array, method: str, cells: int) -> Certificate:
        """The worst of these states."""
        violations = self.violations(violated)
        worst = int(violations.argmax())
        answer = self._answer("counterexample", method=method, cells=cells)
        return replace(
            answer,
            state=tuple(violated[worst].ravel().tolist()),
            violation=float(violations[worst]),
            violated=violated,
        )

    def certified(self, worst: Mapping[str, float], method: str, cells: int) -> Certificate:
        """From the worst values."""
        if not all(np.isfinite(value) for value in worst.values()):
            return self.unknown("a value is not a number", method, cells)
        answer = self._answer("certified", method=method, cells=cells)
        return replace(answer, lowest=worst.get("lowest"), highest=worst.get("highest"))

    def _answer(
        self, status: Status, reason: str = "", method: str = "", cells: int = 0
    ) -> Certificate:
        return Certificate(
            name=self.constraint.name,
            status=status,
            lower=float(self.row.lower[0]),
            upper=float(self.row.upper[0]),
            tolerance=self.tolerance,
            lowest=None,
            highest=None,
            state=None,
            violation=None,
            reason=reason,
            method=method,
            cells=cells,
            seconds=0.0,
        )


@final
@dataclass(frozen=True)
class _Side:
    """A bound: "lowest" of a lower one, "highest" of an upper one.

    Attributes:
        name: what a certificate calls the worst value.
        margin: from the bound.
        reach: the worst value that any policy could have.
    """

    name: str
    margin: Margin
    reach: float


def _relates_states(constraint: Constraint) -> InvalidConstraint:
    return InvalidConstraint(
        f"{constraint.name!r} relates several states; a proof is about one at a time. Use AtLeast, "
        "AtMost or Between."
    )


def _evaluate(question: _Question, where: Points) -> Certificate:
    """At points there is nothing to prove but rounding."""
    flat = where.states.reshape(len(where), -1)
    worst, method = {}, "evaluation"
    for side in question.sides():
        if not side.margin.can_break:
            worst[side.name] = side.reach
            continue
        rounding = question.rounding.of_values(flat, side.margin.size)
        if not np.isfinite(rounding).all():
            return question.unknown(question.too_large(), method)
        broken = question.violates(side, where.states)
        if broken.any():
            return question.counterexample(where.states[broken], method, cells=0)
        safe = question.margins(side, flat) - rounding
        if not (np.isfinite(safe) & (safe >= 0.0)).all():
            near = where.states[~(safe >= 0.0)].reshape(-1, flat.shape[1])
            return replace(question.unknown(question.too_near(), method), near=near)
        worst[side.name] = side.margin.worst_value(float(safe.min()))
    return question.certified(worst, method, cells=0)


def _prove(
    question: _Question,
    region: Region,
    covers: Sequence[Cover],
    budget: Budget,
    watch: Watch | None,
) -> Certificate:
    # Over the cells, not the region: those of a curve reach beyond it.
    low = np.min([cover.cells.low.min(axis=0) for cover in covers], axis=0)
    high = np.max([cover.cells.high.max(axis=0) for cover in covers], axis=0)
    simplices = any(len(cover.cells.simplex_coordinates) for cover in covers)
    worst, cells, method = {}, 0, ""
    leaves: list[Leaves] = []
    for side in question.sides():
        if not side.margin.can_break:
            worst[side.name] = side.reach
            continue
        rounding = question.rounding.of_bounds(low, high, side.margin.size, simplices=simplices)
        if not np.isfinite(rounding):
            return question.unknown(question.too_large())
        many = max(cover.cells.n_vertices for cover in covers) > _MANY_VERTICES
        bounder, method = _bounder(question.layers, side.margin, many)
        violates = partial(question.violates, side)
        judge = Judge(region.contains, violates, question.too_near())
        proof = prove(bounder, covers, rounding, judge, budget, watch)
        cells += proof.cells
        leaves += proof.leaves
        if len(proof.violated):
            return question.counterexample(proof.violated, method, cells)
        if proof.reason:
            unknown = question.unknown(proof.reason, method, cells)
            near = proof.near if len(proof.near) else None
            return replace(unknown, leaves=tuple(leaves), near=near)
        worst[side.name] = side.margin.worst_value(proof.lowest - rounding)
    return replace(question.certified(worst, method, cells), leaves=tuple(leaves))


def _bounder(layers: LayerArrays, margin: Margin, many_vertices: bool) -> tuple[Bounder, str]:
    if layers.activations == (RELU, IDENTITY) and not many_vertices:
        return VertexBound.of(layers, margin), "vertex bound"
    return Relaxation(layers, margin), "linear relaxation"


# Cells that were proven for one network cover the region whatever the network is. After a small
# update most of them can be proven again as they are, without the way there.
