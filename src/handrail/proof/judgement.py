"""Does a constraint hold at *every* state of its region? A proof, a counterexample, or unknown.

What a question (`proof/question`) is answered by, claim by claim and cell by cell, and the
certificate that the answers make together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import final, overload

import numpy as np

from handrail._types import Array, Indices
from handrail.constraints import (
    Bounded,
    Constraint,
    Paired,
    PlacedConstraint,
    SlopeBounded,
    check_tolerance,
    is_kept_noise,
    refuse_wrong_types,
)
from handrail.policies import IDENTITY, RELU, LayerArrays, Policy
from handrail.proof.bounder import Bounder
from handrail.proof.branch_and_bound import Budget, Judge, Leaves, Proof, Watch, prove
from handrail.proof.certificate import Certificate, Certificates, Status
from handrail.proof.claim import Claim, JointBound
from handrail.proof.extent import Extent, Ground, Unbounded
from handrail.proof.margin import Margin, UniformMargin
from handrail.proof.question import Question, parts_of, provable_layers, relates_states
from handrail.proof.relaxation import Relaxation
from handrail.proof.remainder import Remainder
from handrail.proof.rounding import FLOAT64, float32_is_whole
from handrail.proof.slope_proof import certify_slopes
from handrail.proof.vertex_bound import VertexBound
from handrail.regions import Cover, Points, Region
from handrail.rulebook import AnyConstraints, constraints_of

# Cells with more vertices are bounded by linear relaxation, which does not visit them.
MANY_VERTICES = 512

# What certificates call the bound that visits them.
VERTEX_BOUND = "vertex bound"

# A violation that is not known to be below this is not bounded at all.
_NO_BOUND = 1e100

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
    layers: LayerArrays | None = None,
) -> Certificate:
    """`certify`, starting from cells that are known to contain the region, if there are any.

    Only for callers who can answer for the cells: those of an earlier proof of the same region; and
    for the layers, which are the policy's as it is, if they were read already.
    """
    check_tolerance(tolerance, zero=True)
    constraint = constraint.for_policy(policy)
    if not isinstance(constraint, PlacedConstraint):
        raise relates_states(constraint)
    start = perf_counter()
    if is_kept_noise(constraint, policy):
        return _kept(constraint, tolerance)
    layers = provable_layers(policy) if layers is None else layers
    if isinstance(constraint, SlopeBounded):
        with np.errstate(all="ignore"):
            slopes = certify_slopes(
                policy, layers, constraint, covers, tolerance, budget or Budget(), watch
            )
        return replace(slopes, seconds=perf_counter() - start)
    judgement = Judgement(Question.of(policy, layers, constraint, tolerance))
    with np.errstate(all="ignore"):  # whatever is not finite is looked for, and proves nothing
        certificate = _answered(judgement, constraint.where, covers, budget or Budget(), watch)
    return replace(certificate, seconds=perf_counter() - start)


@final
@dataclass(frozen=True)
class Judgement:
    """What is answered to a question, from what was found.

    Attributes:
        question: that was asked.
    """

    question: Question

    def unknown(self, reason: str, method: str = "", cells: int = 0) -> Certificate:
        """Nothing is known, and why."""
        return self._answer("unknown", reason=reason, method=method, cells=cells)

    def counterexample(self, violated: Array, method: str, cells: int) -> Certificate:
        """The worst of these states."""
        violations = self.question.violations(violated)
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
            return replace(answer, slack=min(worst.values()) - self.question.tolerance)
        return replace(answer, lowest=worst.get("lowest"), highest=worst.get("highest"))

    def remainder(self, claim: Claim, proof: Proof, rounding: float) -> Remainder:
        """What one search leaves open."""
        floor = proof.floor - rounding
        sides = [side for sides in claim.alternatives for side in sides]
        violation = max(side.margin.violation(floor) for side in sides) + self.question.tolerance
        return Remainder(
            proof.share,
            violation if violation < _NO_BOUND else np.inf,
            proof.open_cells,
            proof.more_cells,
            proof.more_seconds,
        )

    def chosen_anyway(self) -> Certificate:
        """A choice is certified, as no policy could break one of the alternatives."""
        return replace(self._answer("certified"), slack=-self.question.tolerance)

    def chosen(self, claim: Claim, lowest: Array, alternative: Indices) -> Certificate:
        """A choice is certified, by these margins (n,) of one alternative each (n,)."""
        names = [one.name for one in parts_of(self.question.constraint)]
        counts = np.bincount(alternative, minlength=len(names)).tolist()
        slacks = [
            side.margin.slack(float(lowest[alternative == number].min()))
            for number, sides in enumerate(claim.alternatives)
            for side in sides
            if counts[number]
        ]
        answer = replace(
            self._answer("certified"), alternatives=tuple(zip(names, counts, strict=True))
        )
        return replace(answer, slack=min(slacks) - self.question.tolerance)

    def note(self, worst: dict[str, float], claim: Claim, margin: float) -> None:
        """What is at worst left of a margin; of a bound that depends on the state, from it.

        Unless another side of the same name has a worse one.
        """
        found = list(claim.reach)
        for side in claim.alternatives[0]:
            left = side.margin.slack if self._has_slack else side.margin.worst_value
            found.append((side.name, left(margin)))
        for name, value in found:
            worse = max if name == "highest" and not self._has_slack else min
            worst[name] = worse(value, worst.get(name, value))

    @property
    def _has_slack(self) -> bool:
        """Whether bounds depend on the state, so that no one value is the worst."""
        return self.question.constraint.depends_on_state and not isinstance(
            self.question.constraint, Paired
        )

    def _answer(
        self, status: Status, reason: str = "", method: str = "", cells: int = 0
    ) -> Certificate:
        return Certificate(
            name=self.question.constraint.name,
            status=status,
            lower=self.question.bounds[0],
            upper=self.question.bounds[1],
            tolerance=self.question.tolerance,
            lowest=None,
            highest=None,
            slack=None,
            state=None,
            violation=None,
            reason=reason,
            method=method,
            cells=cells,
            seconds=0.0,
            alternatives=self._no_cells(),
        )

    def _no_cells(self) -> tuple[tuple[str, int], ...]:
        """Of every alternative, if there is a choice."""
        return (
            tuple((one.name, 0) for one in parts_of(self.question.constraint))
            if self.question.is_choice
            else ()
        )


def _answered(
    judgement: Judgement,
    where: Points | Region,
    covers: Sequence[Cover] | None,
    budget: Budget,
    watch: Watch | None,
) -> Certificate:
    question = judgement.question
    if question.obstacle:
        return judgement.unknown(question.obstacle)
    if not question.layers.is_finite:
        return judgement.unknown("a weight of the network is not finite")
    if question.rounding.acting is not FLOAT64 and not float32_is_whole():
        return judgement.unknown(_COARSER)
    if isinstance(where, Points):
        return _evaluate(judgement, where)
    try:
        ground = _ground(question, where.covers() if covers is None else covers)
    except Unbounded as unbounded:
        return judgement.unknown(str(unbounded))
    return _prove(judgement, where, ground, budget, watch)


def _kept(constraint: PlacedConstraint, tolerance: float) -> Certificate:
    """Of noise that is the same everywhere: `for_policy` refuses what its range does not keep."""
    lower, upper = constraint.bounds if isinstance(constraint, Bounded) else (-np.inf, np.inf)
    return Certificate(
        name=constraint.name,
        status="certified",
        lower=lower,
        upper=upper,
        tolerance=tolerance,
        lowest=None,
        highest=None,
        slack=0.0,
        state=None,
        violation=None,
        reason="",
        method="range of the outputs",
        cells=0,
        seconds=0.0,
    )


def _ground(question: Question, covers: Sequence[Cover]) -> Ground:
    """The cells to start from, on each of which what depends on the state is bounded."""
    whole = Ground(covers, Extent.around(covers))
    functions = [one for claim in question.claims(whole.extent) for one in claim.functions]
    return whole.divided(functions)


def _evaluate(judgement: Judgement, where: Points) -> Certificate:
    """At points there is nothing to prove but rounding."""
    question = judgement.question
    flat = where.states.reshape(len(where), -1)
    worst, method = dict[str, float](), "evaluation"
    for claim in question.claims(Extent(flat, flat)):
        if claim.holds_anyway:
            if question.is_choice:
                return judgement.chosen_anyway()
            judgement.note(worst, claim, np.inf)
            continue
        sizes = [side.margin.size for sides in claim.alternatives for side in sides]
        if not np.isfinite([question.rounding.of_values(flat, size) for size in sizes]).all():
            return judgement.unknown(question.too_large(), method)
        broken = question.violates(claim, where.states)
        if broken.any():
            return judgement.counterexample(where.states[broken], method, cells=0)
        best = question.best(claim, flat, question.safely)
        safe = best.lowest
        if not (np.isfinite(safe) & (safe >= 0.0)).all():
            near = where.states[~(safe >= 0.0)].reshape(-1, flat.shape[1])
            return replace(judgement.unknown(question.too_near(), method), near=near)
        if question.is_choice:
            return replace(judgement.chosen(claim, safe, best.alternative), method=method)
        judgement.note(worst, claim, float(safe.min()))
    return judgement.certified(worst, method, cells=0)


def _prove(
    judgement: Judgement,
    region: Region,
    ground: Ground,
    budget: Budget,
    watch: Watch | None,
) -> Certificate:
    question = judgement.question
    # Over the cells, not the region: those of a curve reach beyond it.
    covers, extent = ground.covers, ground.extent
    low, high = extent.hull
    simplices = any(len(cover.cells.simplex_coordinates) for cover in covers)
    many = max(cover.cells.n_vertices for cover in covers) > MANY_VERTICES
    worst, cells, method = dict[str, float](), 0, "range of the outputs"
    near: list[Array] = []
    leaves: list[Leaves] = []
    reason, remainder = "", Remainder(1.0, -np.inf, 0, 0.0, 0.0)
    for claim in question.claims(extent):
        if claim.holds_anyway:
            if question.is_choice:
                return judgement.chosen_anyway()
            judgement.note(worst, claim, np.inf)
            continue
        rounded = question.rounding_of_bounds(claim, low, high, simplices)
        if not np.isfinite([by for several in rounded for by in several]).all():
            return judgement.unknown(question.too_large())
        bounders, method = _bounders(question.layers, claim, many)
        if question.twin is not None:  # the better of two bounds, in each cell
            bounders += _relaxations(question.twin.layers, claim)
            rounded += question.rounding_of_twin(claim, low, high, simplices)
        bounder, rounding = _together(bounders, rounded)
        violates = partial(question.violates, claim)
        judge = Judge(region.contains, violates, question.too_near())
        proof = prove(bounder, covers, rounding, judge, budget, watch)
        cells += proof.cells
        leaves += proof.leaves
        if len(proof.violated):
            return judgement.counterexample(proof.violated, method, cells)
        remainder = remainder.with_side(judgement.remainder(claim, proof, rounding))
        reason = reason or proof.reason
        near += [proof.near] if len(proof.near) else []
        if proof.proven and question.is_choice:
            answer = judgement.chosen(claim, *_leaves_together(leaves))
            return replace(answer, method=method, cells=cells, leaves=tuple(leaves))
        if proof.proven:
            judgement.note(worst, claim, proof.lowest - rounding)
    if reason:
        unknown = replace(judgement.unknown(reason, method, cells), leaves=tuple(leaves))
        met = np.concatenate(near) if near else None
        return replace(unknown, near=met, remainder=remainder)
    return replace(judgement.certified(worst, method, cells), leaves=tuple(leaves))


def _leaves_together(leaves: Sequence[Leaves]) -> tuple[Array, Indices]:
    """The bounds of all proven cells, and the alternative that each is of."""
    which = [one.alternative for one in leaves if one.alternative is not None]
    return np.concatenate([one.lowest for one in leaves]), np.concatenate(which)


def _together(
    bounders: tuple[tuple[Bounder, ...], ...], rounded: tuple[tuple[float, ...], ...]
) -> tuple[Bounder, float]:
    """One bounder, and what its bounds must exceed."""
    match bounders, rounded:
        case ((alone,),), ((rounding,),):
            return alone, rounding
        case _:
            return JointBound(bounders, rounded), 0.0


def _bounders(
    layers: LayerArrays, claim: Claim, many_vertices: bool
) -> tuple[tuple[tuple[Bounder, ...], ...], str]:
    """Of every margin, and what they are called."""
    few = layers.activations == (RELU, IDENTITY) and not many_vertices
    every = [side.margin for sides in claim.alternatives for side in sides]
    if few and all(isinstance(one, UniformMargin) for one in every):

        def bounder(margin: Margin) -> Bounder:
            assert isinstance(margin, UniformMargin)  # all are
            return VertexBound.of(layers, margin)

        several = tuple(tuple(bounder(one.margin) for one in some) for some in claim.alternatives)
        return several, VERTEX_BOUND
    return _relaxations(layers, claim), "linear relaxation"


def _relaxations(layers: LayerArrays, claim: Claim) -> tuple[tuple[Bounder, ...], ...]:
    return tuple(
        tuple(Relaxation(layers, one.margin) for one in some) for some in claim.alternatives
    )
