"""Does a constraint hold at *every* state of its region? A proof, a counterexample, or unknown.

The answer is about the policy that acts: the network as stored, evaluated with real numbers, or in
its own precision, float64 or float32, in whatever order. Bounds are computed in float64 and must
exceed what rounding can do to any of these (`proof/rounding`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import final, overload

import numpy as np

from handrail._types import Array, Mask
from handrail.constraints import (
    Amount,
    Bounded,
    Constraint,
    Paired,
    PlacedConstraint,
    Rows,
    as_mapping,
    check_tolerance,
    is_bound,
    refuse_other_quantity,
    refuse_wrong_types,
)
from handrail.errors import InvalidConstraint, InvalidPolicy, ShapeMismatch
from handrail.policies import ACTIVATIONS, IDENTITY, RELU, LayerArrays, Layers, Policy, Refusal
from handrail.proof.bounder import Bounder
from handrail.proof.branch_and_bound import Budget, Judge, Leaves, Proof, Watch, prove
from handrail.proof.certificate import Certificate, Certificates, Status
from handrail.proof.margin import Margin, UniformMargin, at_least, at_most
from handrail.proof.pair import Pair, difference_margins
from handrail.proof.relaxation import Relaxation, has_lines
from handrail.proof.remainder import Remainder
from handrail.proof.rounding import (
    FLOAT64,
    Rounding,
    arithmetic_of,
    float32_is_whole,
    largest_output,
)
from handrail.proof.state_margin import Extent, loosened, state_margin
from handrail.proof.vertex_bound import VertexBound
from handrail.regions import Cover, Points, Region
from handrail.rulebook import AnyConstraints, constraints_of

# Cells with more vertices are bounded by linear relaxation, which does not visit them.
_MANY_VERTICES = 128

# A violation that is not known to be below this is not bounded at all.
_NO_BOUND = 1e100

_IN_FLOAT64 = (
    "Convert the network with module.double(), which computes 10⁹ times more exactly, hold it "
    "further inside its bounds, or allow a larger tolerance"
)

_COARSER = (
    "torch may round products in float32 to fewer bits than float32 has. Call "
    "torch.set_float32_matmul_precision('highest'), or convert the network to float64"
)


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
        constraints: one, on a region or at points, about one state at a time, or a state and its
            mirror image; or several, as a list, a `Rulebook`, or the path or bundled name of a
            constraint file.
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
    question = Question.of(policy, layers, constraint, tolerance)
    with np.errstate(all="ignore"):  # whatever is not finite is looked for, and proves nothing
        certificate = _answered(question, constraint.where, covers, budget or Budget(), watch)
    return replace(certificate, seconds=perf_counter() - start)


def _answered(
    question: Question,
    where: Points | Region,
    covers: Sequence[Cover] | None,
    budget: Budget,
    watch: Watch | None,
) -> Certificate:
    if question.obstacle:
        return question.unknown(question.obstacle)
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
class Question:
    """A constraint and the network it is asked of.

    Attributes:
        policy: that is measured.
        layers: the network; with that which it is compared with, if it is.
        constraint: what is asked.
        row: of it, at one of its states.
        tolerance: violations up to this are allowed.
        rounding: of the network.
        obstacle: why nothing can be known; empty if nothing is in the way.
    """

    policy: Policy
    layers: LayerArrays
    constraint: PlacedConstraint
    row: Rows
    tolerance: float
    rounding: Rounding
    obstacle: str = ""

    @classmethod
    def of(
        cls,
        policy: Policy,
        layers: LayerArrays,
        constraint: PlacedConstraint,
        tolerance: float,
    ) -> Question:
        """Refused if the constraint does not fit the network."""
        states = constraint.states[:1]
        if states[0].size != layers.n_observations:
            raise ShapeMismatch(
                f"{constraint.name!r} has {states[0].size} coordinates but the policy observes "
                f"{layers.n_observations}. Give a range or a value for each."
            )
        refuse_other_quantity(constraint, layers.n_outputs, policy)
        row, measured = constraint.rows_at(states, layers.n_outputs), policy.in_float64(states)
        if isinstance(constraint, Paired):
            pair = Pair.of(policy, layers, constraint)
            rounding = Rounding(pair.layers, pair.acting)
            return cls(
                measured, pair.layers, constraint, row, tolerance, rounding, obstacle=pair.obstacle
            )
        if not row.is_about_one_state().all():
            raise _relates_states(constraint)
        rounding = Rounding(layers, arithmetic_of(policy.dtype))
        return cls(measured, layers, constraint, row, tolerance, rounding)

    def sides(self, extent: Extent) -> list[_Side]:
        """One for each bound, of states in this extent; the tolerance on them, rounded inwards."""
        if isinstance(self.constraint, Paired):
            return self._sides_of_differences(self.constraint)
        if isinstance(self.constraint, Bounded) and self.constraint.depends_on_state:
            return self._sides_of_functions(self.constraint, extent)
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

    def _sides_of_differences(self, constraint: Paired) -> list[_Side]:
        """Two of each."""
        allowed = constraint.largest + self.tolerance
        largest = max(float(np.nextafter(allowed, -np.inf)), constraint.largest)
        found = []
        for one in constraint.differences(self.row.weights.shape[1]):
            below, above = difference_margins(self.row.quantity, one, largest)
            found += [_Side("lowest", below, -1.0), _Side("highest", above, 1.0)]
        return found

    def _sides_of_functions(self, constraint: Bounded, extent: Extent) -> list[_Side]:
        weights: list[Amount] = [0.0] * self.layers.n_outputs
        for action, weight in as_mapping(constraint.action).items():
            weights[action] = weight
        largest = largest_output(self.layers, extent.low, extent.high)
        found = []
        sides = zip(("lowest", "highest"), constraint.bounds, (1.0, -1.0), strict=True)
        for name, bound, sign in sides:
            if is_bound(bound):
                at = loosened(bound, sign, self.tolerance)
                margin = state_margin(self.row.quantity, weights, at, sign, extent, largest)
                found.append(_Side(name, margin, np.nan))
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
        return side.margin.of_raw(self.layers.outputs(states), states)

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
        worst: Array = rows.violations_of(self.policy).reshape(len(states), -1).max(axis=1)
        return worst

    @property
    def bounds(self) -> tuple[Amount, Amount]:
        """As they were declared."""
        if isinstance(self.constraint, Paired):
            return -self.constraint.largest, self.constraint.largest
        if isinstance(self.constraint, Bounded) and self.constraint.depends_on_state:
            return self.constraint.bounds
        return float(self.row.lower[0]), float(self.row.upper[0])

    def unknown(self, reason: str, method: str = "", cells: int = 0) -> Certificate:
        """Nothing is known, and why."""
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
        """From the worst values; from what is left of each bound, if they depend on the state."""
        if not all(np.isfinite(value) for value in worst.values()):
            return self.unknown("a value is not a number", method, cells)
        answer = self._answer("certified", method=method, cells=cells)
        if self._has_slack:
            return replace(answer, slack=min(worst.values()) - self.tolerance)
        return replace(answer, lowest=worst.get("lowest"), highest=worst.get("highest"))

    def remainder(self, side: _Side, proof: Proof, rounding: float) -> Remainder:
        """What one bound leaves open."""
        violation = side.margin.violation(proof.floor - rounding) + self.tolerance
        return Remainder(
            proof.share,
            violation if violation < _NO_BOUND else np.inf,
            proof.open_cells,
            proof.more_cells,
            proof.more_seconds,
        )

    def worst_value(self, side: _Side, margin: float) -> float:
        """What is at worst left of a margin; of a bound that depends on the state, from it."""
        left = side.margin.slack if self._has_slack else side.margin.worst_value
        return left(margin)

    @property
    def _has_slack(self) -> bool:
        """Whether bounds depend on the state, so that no one value is the worst."""
        return self.constraint.depends_on_state and not isinstance(self.constraint, Paired)

    def _answer(
        self, status: Status, reason: str = "", method: str = "", cells: int = 0
    ) -> Certificate:
        return Certificate(
            name=self.constraint.name,
            status=status,
            lower=self.bounds[0],
            upper=self.bounds[1],
            tolerance=self.tolerance,
            lowest=None,
            highest=None,
            slack=None,
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

    def note(self, worst: dict[str, float], value: float) -> None:
        """The worst value, unless another side of the same name has a worse one."""
        known = worst.get(self.name, value)
        worst[self.name] = min(known, value) if self.name == "lowest" else max(known, value)


def _relates_states(constraint: Constraint) -> InvalidConstraint:
    return InvalidConstraint(
        f"{constraint.name!r} relates several states; a proof is about one at a time, or about a "
        "state and its image. Use AtLeast, AtMost, Between or Symmetric."
    )


def _evaluate(question: Question, where: Points) -> Certificate:
    """At points there is nothing to prove but rounding."""
    flat = where.states.reshape(len(where), -1)
    worst, method = dict[str, float](), "evaluation"
    for side in question.sides(Extent(flat.min(axis=0), flat.max(axis=0))):
        if not side.margin.can_break:
            side.note(worst, side.reach)
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
        side.note(worst, question.worst_value(side, float(safe.min())))
    return question.certified(worst, method, cells=0)


def _prove(
    question: Question,
    region: Region,
    covers: Sequence[Cover],
    budget: Budget,
    watch: Watch | None,
) -> Certificate:
    # Over the cells, not the region: those of a curve reach beyond it.
    low = np.min([cover.cells.low.min(axis=0) for cover in covers], axis=0)
    high = np.max([cover.cells.high.max(axis=0) for cover in covers], axis=0)
    simplices = any(len(cover.cells.simplex_coordinates) for cover in covers)
    worst, cells, method = dict[str, float](), 0, ""
    near: list[Array] = []
    leaves: list[Leaves] = []
    reason, remainder = "", Remainder(1.0, -np.inf, 0, 0.0, 0.0)
    for side in question.sides(Extent(low, high)):
        if not side.margin.can_break:
            side.note(worst, side.reach)
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
        remainder = remainder.with_side(question.remainder(side, proof, rounding))
        reason = reason or proof.reason
        near += [proof.near] if len(proof.near) else []
        if proof.proven:
            side.note(worst, question.worst_value(side, proof.lowest - rounding))
    if reason:
        unknown = replace(question.unknown(reason, method, cells), leaves=tuple(leaves))
        met = np.concatenate(near) if near else None
        return replace(unknown, near=met, remainder=remainder)
    return replace(question.certified(worst, method, cells), leaves=tuple(leaves))


def _bounder(layers: LayerArrays, margin: Margin, many_vertices: bool) -> tuple[Bounder, str]:
    few = layers.activations == (RELU, IDENTITY) and not many_vertices
    if few and isinstance(margin, UniformMargin):
        return VertexBound.of(layers, margin), "vertex bound"
    return Relaxation(layers, margin), "linear relaxation"
