"""A constraint and the network it is asked of: what must be proven, and what rounding can do to it.

The answer (`proof/judgement`) is about the policy that acts: the network as stored, evaluated with
real numbers, or in its own precision, float64 or float32, in whatever order. Bounds are computed in
float64 and must exceed what rounding can do to any of these (`proof/rounding`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, final

import numpy as np

from handrail._types import Array, Indices, Mask
from handrail.constraints import (
    Amount,
    AnyOf,
    Constraint,
    Demand,
    LikelyDraws,
    Paired,
    PlacedConstraint,
    refuse_other_quantity,
)
from handrail.errors import InvalidConstraint, InvalidPolicy, ShapeMismatch
from handrail.policies import (
    ACTIVATIONS,
    MEAN,
    PROBABILITY,
    LayerArrays,
    Layers,
    Policy,
    Refusal,
    TwinNetwork,
)
from handrail.proof.claim import BoundSide, Claim, claims_of
from handrail.proof.extent import Extent
from handrail.proof.pair import Pair, difference_margins
from handrail.proof.relaxation import has_lines
from handrail.proof.rounding import FLOAT64, Rounding, arithmetic_of, largest_output

_IN_FLOAT64 = (
    "Hold it further inside its bounds, allow a larger tolerance (1e-3 is enough for most), or "
    "convert a network of your own with module.double(), which computes 10⁹ times more exactly"
)


def provable_layers(policy: Policy) -> LayerArrays:
    """The network that a proof is about; `InvalidPolicy` if none can be."""
    read = policy.layers() or Layers.of(policy.module)
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
        if any(one.quantity not in (MEAN, PROBABILITY) for demands in parts for one in demands):
            layers = policy.decided_layers(layers)
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
        if isinstance(self.constraint, LikelyDraws):
            return self.constraint.range
        return self.alternatives[0][0].lower, self.alternatives[0][0].upper

    @property
    def is_choice(self) -> bool:
        """Whether there are several alternatives."""
        return len(self.alternatives) > 1


def relates_states(constraint: Constraint) -> InvalidConstraint:
    """The refusal of a constraint that no proof looks into."""
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
        raise relates_states(constraint)
    return tuple(
        Demand(tuple(weights), float(lower), float(upper), rows.quantity, bool(raw))
        for weights, lower, upper, raw in zip(
            rows.weights, rows.lower, rows.upper, rows.raw, strict=True
        )
    )
