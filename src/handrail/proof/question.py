"""Does a constraint hold at *every* state of its region? A proof, a counterexample, or unknown.

The answer is about the policy that acts: the network as stored, evaluated with real numbers, or in
its own precision, float64 or float32, in whatever order. Bounds are computed in float64 and must
exceed what rounding can do to any of these (`proof/rounding`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import NamedTuple, final, overload

import numpy as np

from handrail._types import Array, Indices, Mask
from handrail.constraints import (
    Amount,
    AnyOf,
    Constraint,
    Demand,
    Paired,
    PlacedConstraint,
    SlopeBounded,
    check_tolerance,
    refuse_other_quantity,
    refuse_wrong_types,
)
from handrail.errors import InvalidConstraint, InvalidPolicy, ShapeMismatch
from handrail.policies import (
    ACTIVATIONS,
    IDENTITY,
    RELU,
    LayerArrays,
    Layers,
    Policy,
    Refusal,
    TwinNetwork,
)
from handrail.proof.bounder import Bounder
from handrail.proof.branch_and_bound import Budget, Judge, Leaves, Proof, Watch, prove
from handrail.proof.certificate import Certificate, Certificates, Status
from handrail.proof.claim import BoundSide, Claim, JointBound, claims_of
from handrail.proof.extent import Extent, Ground, Unbounded
from handrail.proof.margin import Margin, UniformMargin
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
from handrail.proof.slope_proof import certify_slopes
from handrail.proof.vertex_bound import VertexBound
from handrail.regions import Cover, Points, Region
from handrail.rulebook import AnyConstraints, constraints_of

# Cells with more vertices are bounded by linear relaxation, which does not visit them.
_MANY_VERTICES = 512

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
    constraint = constraint.for_policy(policy)
    if not isinstance(constraint, PlacedConstraint):
        raise _relates_states(constraint)
    start = perf_counter()
    layers = provable_layers(policy)
    if isinstance(constraint, SlopeBounded):
        with np.errstate(all="ignore"):
            slopes = certify_slopes(
                policy, layers, constraint, covers, tolerance, budget or Budget(), watch
            )
        return replace(slopes, seconds=perf_counter() - start)
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
    try:
        ground = _ground(question, where.covers() if covers is None else covers)
    except Unbounded as unbounded:
        return question.unknown(str(unbounded))
    return _prove(question, where, ground, budget, watch)


def _ground(question: Question, covers: Sequence[Cover]) -> Ground:
    """The cells to start from, on each of which what depends on the state is bounded."""
    whole = Ground(covers, Extent.around(covers))
    functions = [one for claim in question.claims(whole.extent) for one in claim.functions]
    return whole.divided(functions)


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


class MarginAtStates(NamedTuple):
    """Of n states the best margin (n,), and of which alternative it is (n,)."""

    lowest: Array
    alternative: Indices


@final
@dataclass(frozen=True)
class Question:
    """A constraint and the network it is asked of.

    Attributes:
        policy: that is measured.
        layers: the network; with that which it is compared with, if it is.
        constraint: what is asked.
        n_actions: of the policy.
        alternatives: what each says at every state; one if there is no choice, none if the
            constraint compares two policies or states.
        tolerance: violations up to this are allowed.
        rounding: of the network.
        twin: the same network in another form, if it has one, whose bounds may be tighter.
        obstacle: why nothing can be known; empty if nothing is in the way.
    """

    policy: Policy
    layers: LayerArrays
    constraint: PlacedConstraint
    n_actions: int
    alternatives: tuple[tuple[Demand, ...], ...]
    tolerance: float
    rounding: Rounding
    twin: TwinNetwork | None = None
    obstacle: str = ""
    ends: tuple[Array, Array] | None = None  # of all outputs, in the precision that acts

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
        constraint = constraint.about(policy.quantity)
        refuse_other_quantity(constraint, layers.n_outputs, policy)
        measured, n_actions = policy.in_float64(states), layers.n_outputs
        if isinstance(constraint, Paired):
            pair = Pair.of(policy, layers, constraint)
            rounding = Rounding(pair.layers, pair.acting)
            return cls(
                measured,
                pair.layers,
                constraint,
                n_actions,
                (),
                tolerance,
                rounding,
                pair.twin,
                pair.obstacle,
            )
        parts = tuple(demands_of(one, n_actions) for one in parts_of(constraint))
        rounding = Rounding(layers, arithmetic_of(policy.dtype))
        question = cls(measured, layers, constraint, n_actions, parts, tolerance, rounding)
        return replace(question, ends=policy.output_range())

    def claims(self, extent: Extent) -> list[Claim]:
        """All that must be proven, of states in this extent."""
        if isinstance(self.constraint, Paired):
            return self._claims_of_differences(self.constraint)
        largest = largest_output(self.layers, *extent.hull)
        return claims_of(self.alternatives, self.tolerance, extent, largest, self.ends)

    def _claims_of_differences(self, constraint: Paired) -> list[Claim]:
        """Two of each."""
        allowed = constraint.largest + self.tolerance
        largest = max(float(np.nextafter(allowed, -np.inf)), constraint.largest)
        found = []
        for one in constraint.differences(self.n_actions):
            below, above = difference_margins(constraint.quantity, one, largest)
            found += [BoundSide("lowest", below, -1.0), BoundSide("highest", above, 1.0)]
        return [Claim.of([[side]]) for side in found]

    def too_near(self) -> str:
        """Why nothing is known where a margin is within rounding."""
        name = self.rounding.acting.name
        remedy = "" if self.rounding.acting is FLOAT64 else f". {_IN_FLOAT64}"
        return f"a value is too near to its bound for {name}{remedy}"

    def too_large(self) -> str:
        """Why nothing is known where rounding has no bound."""
        name = self.rounding.acting.name
        return f"weights or states are so large that {name} might overflow"

    def margins(self, side: BoundSide, states: Array) -> Array:
        """(n,) at states (n, n_coordinates), evaluated in float64."""
        return side.margin.of_raw(self.layers.outputs(states), states)

    def violates(self, claim: Claim, states: Array) -> Mask:
        """Which states (n, …) do: with real numbers for certain, and as the policy measures it."""
        flat = states.reshape(len(states), -1)
        result: Mask = self.best(claim, flat, self._certainly).lowest < 0.0
        if result.any():
            result[result] = self.violations(states[result]) > self.tolerance
        return result

    def _certainly(self, side: BoundSide, states: Array) -> Array:
        """Negative where the margin is, for certain."""
        return self.margins(side, states) + self.rounding.of_evaluation(states, side.margin.size)

    def safely(self, side: BoundSide, states: Array) -> Array:
        """What is left of margins (n,) at states (n, n_coordinates), however they are rounded."""
        return self.margins(side, states) - self.rounding.of_values(states, side.margin.size)

    def best(
        self, claim: Claim, states: Array, margins: Callable[[BoundSide, Array], Array]
    ) -> MarginAtStates:
        """The margin of the best alternative at each state (n, n_coordinates)."""
        worst = [
            np.min([margins(side, states) for side in sides], axis=0)
            for sides in claim.alternatives
        ]
        return MarginAtStates(np.max(worst, axis=0), np.argmax(worst, axis=0))

    def rounding_of_bounds(
        self, claim: Claim, low: Array, high: Array, simplices: bool
    ) -> tuple[tuple[float, ...], ...]:
        """What bounds of every margin must exceed, over cells within a box."""
        of_bounds = partial(self.rounding.of_bounds, low, high, simplices=simplices)
        return tuple(
            tuple(of_bounds(side.margin.size) for side in sides) for sides in claim.alternatives
        )

    def rounding_of_twin(
        self, claim: Claim, low: Array, high: Array, simplices: bool
    ) -> tuple[tuple[float, ...], ...]:
        """The same for bounds of the twin."""
        assert self.twin is not None  # nobody asks otherwise
        rounding = replace(self.rounding, bounded=self.twin.sizes)
        return replace(self, rounding=rounding).rounding_of_bounds(claim, low, high, simplices)

    def violations(self, states: Array) -> Array:
        """(n,) measured by the real policy, in float64."""
        violated = self.constraint.violated_at(states, self.n_actions)
        if violated is not None:
            return violated(self.policy.outputs(states))
        rows = self.constraint.rows_at(states, self.n_actions)
        worst: Array = rows.violations_of(self.policy).reshape(len(states), -1).max(axis=1)
        return worst

    @property
    def bounds(self) -> tuple[Amount, Amount]:
        """As they were declared; none of a choice, which has several."""
        if isinstance(self.constraint, Paired):
            return -self.constraint.largest, self.constraint.largest
        if self.is_choice:
            return -np.inf, np.inf
        return self.alternatives[0][0].lower, self.alternatives[0][0].upper

    @property
    def is_choice(self) -> bool:
        """Whether there are several alternatives."""
        return len(self.alternatives) > 1

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

    def remainder(self, claim: Claim, proof: Proof, rounding: float) -> Remainder:
        """What one search leaves open."""
        floor = proof.floor - rounding
        sides = [side for sides in claim.alternatives for side in sides]
        violation = max(side.margin.violation(floor) for side in sides) + self.tolerance
        return Remainder(
            proof.share,
            violation if violation < _NO_BOUND else np.inf,
            proof.open_cells,
            proof.more_cells,
            proof.more_seconds,
        )

    def chosen_anyway(self) -> Certificate:
        """A choice is certified, as no policy could break one of the alternatives."""
        return replace(self._answer("certified"), slack=-self.tolerance)

    def chosen(self, claim: Claim, lowest: Array, alternative: Indices) -> Certificate:
        """A choice is certified, by these margins (n,) of one alternative each (n,)."""
        names = [one.name for one in parts_of(self.constraint)]
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
        return replace(answer, slack=min(slacks) - self.tolerance)

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
            alternatives=self._no_cells(),
        )

    def _no_cells(self) -> tuple[tuple[str, int], ...]:
        """Of every alternative, if there is a choice."""
        return tuple((one.name, 0) for one in parts_of(self.constraint)) if self.is_choice else ()


def _relates_states(constraint: Constraint) -> InvalidConstraint:
    return InvalidConstraint(
        f"{constraint.name!r} relates several states; a proof is about one at a time, or about a "
        "state and its image. Use AtLeast, AtMost, Between or Symmetric."
    )


def parts_of(constraint: PlacedConstraint) -> Sequence[PlacedConstraint]:
    """Its alternatives, or itself."""
    return constraint.alternatives if isinstance(constraint, AnyOf) else [constraint]


def demands_of(constraint: PlacedConstraint, n_actions: int) -> tuple[Demand, ...]:
    """What it says at every state; of a kind that does not say, what its rows do."""
    demands = constraint.demands(n_actions)
    if demands is not None:
        return tuple(demands)
    rows = constraint.rows_at(constraint.states[:1], n_actions)
    if constraint.depends_on_state or not rows.is_about_one_state().all():
        raise _relates_states(constraint)
    return tuple(
        Demand(tuple(weights), float(lower), float(upper), rows.quantity, bool(raw))
        for weights, lower, upper, raw in zip(
            rows.weights, rows.lower, rows.upper, rows.raw, strict=True
        )
    )


def _evaluate(question: Question, where: Points) -> Certificate:
    """At points there is nothing to prove but rounding."""
    flat = where.states.reshape(len(where), -1)
    worst, method = dict[str, float](), "evaluation"
    for claim in question.claims(Extent(flat, flat)):
        if claim.holds_anyway:
            if question.is_choice:
                return question.chosen_anyway()
            question.note(worst, claim, np.inf)
            continue
        sizes = [side.margin.size for sides in claim.alternatives for side in sides]
        if not np.isfinite([question.rounding.of_values(flat, size) for size in sizes]).all():
            return question.unknown(question.too_large(), method)
        broken = question.violates(claim, where.states)
        if broken.any():
            return question.counterexample(where.states[broken], method, cells=0)
        best = question.best(claim, flat, question.safely)
        safe = best.lowest
        if not (np.isfinite(safe) & (safe >= 0.0)).all():
            near = where.states[~(safe >= 0.0)].reshape(-1, flat.shape[1])
            return replace(question.unknown(question.too_near(), method), near=near)
        if question.is_choice:
            return replace(question.chosen(claim, safe, best.alternative), method=method)
        question.note(worst, claim, float(safe.min()))
    return question.certified(worst, method, cells=0)


def _prove(
    question: Question,
    region: Region,
    ground: Ground,
    budget: Budget,
    watch: Watch | None,
) -> Certificate:
    # Over the cells, not the region: those of a curve reach beyond it.
    covers, extent = ground.covers, ground.extent
    low, high = extent.hull
    simplices = any(len(cover.cells.simplex_coordinates) for cover in covers)
    many = max(cover.cells.n_vertices for cover in covers) > _MANY_VERTICES
    worst, cells, method = dict[str, float](), 0, "range of the outputs"
    near: list[Array] = []
    leaves: list[Leaves] = []
    reason, remainder = "", Remainder(1.0, -np.inf, 0, 0.0, 0.0)
    for claim in question.claims(extent):
        if claim.holds_anyway:
            if question.is_choice:
                return question.chosen_anyway()
            question.note(worst, claim, np.inf)
            continue
        rounded = question.rounding_of_bounds(claim, low, high, simplices)
        if not np.isfinite([by for several in rounded for by in several]).all():
            return question.unknown(question.too_large())
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
            return question.counterexample(proof.violated, method, cells)
        remainder = remainder.with_side(question.remainder(claim, proof, rounding))
        reason = reason or proof.reason
        near += [proof.near] if len(proof.near) else []
        if proof.proven and question.is_choice:
            answer = question.chosen(claim, *_leaves_together(leaves))
            return replace(answer, method=method, cells=cells, leaves=tuple(leaves))
        if proof.proven:
            question.note(worst, claim, proof.lowest - rounding)
    if reason:
        unknown = replace(question.unknown(reason, method, cells), leaves=tuple(leaves))
        met = np.concatenate(near) if near else None
        return replace(unknown, near=met, remainder=remainder)
    return replace(question.certified(worst, method, cells), leaves=tuple(leaves))


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
        return several, "vertex bound"
    return _relaxations(layers, claim), "linear relaxation"


def _relaxations(layers: LayerArrays, claim: Claim) -> tuple[tuple[Bounder, ...], ...]:
    return tuple(
        tuple(Relaxation(layers, one.margin) for one in some) for some in claim.alternatives
    )
