"""What one search proves: every margin of one alternative, in every cell.

Of an ordinary bound there is one margin. "Likeliest of all" has one for each other action, all of
which must be positive; "this or that" has alternatives, another one in every cell perhaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, final

import numpy as np
from typing_extensions import override

from handrail._types import Array, Indices
from handrail.constraints import Demand, is_bound, weighted_range
from handrail.formulas import Formula
from handrail.policies import MEAN, Quantity
from handrail.proof.bounder import NO_DEADLINE, Bounder, Bounds, Deadline
from handrail.proof.extent import Extent
from handrail.proof.margin import Margin, at_least, at_most, kept_by_range
from handrail.proof.state_margin import loosened, state_margin
from handrail.regions import Cells

# The lowest and the highest outputs (n_actions,), or None if there are none.
Ends: TypeAlias = tuple[Array, Array] | None


@final
@dataclass(frozen=True)
class BoundSide:
    """A bound: "lowest" of a lower one, "highest" of an upper one.

    Attributes:
        name: what a certificate calls the worst value.
        margin: from the bound.
        reach: the worst value that any policy could have.
    """

    name: str
    margin: Margin
    reach: float


@final
@dataclass(frozen=True)
class Claim:
    """All sides of at least one alternative hold, at every state.

    Attributes:
        alternatives: their sides, without those that nothing can break.
        reach: of those, the worst values.
    """

    alternatives: tuple[tuple[BoundSide, ...], ...]
    reach: tuple[tuple[str, float], ...]

    @classmethod
    def of(cls, alternatives: Sequence[Sequence[BoundSide]]) -> Claim:
        """Of all sides."""
        open_ = tuple(tuple(one for one in some if one.margin.can_break) for some in alternatives)
        held = [one for some in alternatives for one in some if not one.margin.can_break]
        return cls(open_, tuple((one.name, one.reach) for one in held))

    @property
    def functions(self) -> tuple[Formula, ...]:
        """Of the state, that its margins are made of."""
        return tuple(
            each for sides in self.alternatives for one in sides for each in one.margin.functions
        )

    @property
    def holds_anyway(self) -> bool:
        """Whether no policy could break it."""
        return not all(self.alternatives)


def claims_of(
    alternatives: Sequence[Sequence[Demand]],
    tolerance: float,
    extent: Extent,
    largest: float,
    ends: Ends = None,
) -> list[Claim]:
    """All of which must be proven.

    Args:
        alternatives: the demands of each.
        tolerance: on every bound, rounded inwards.
        extent: of the states.
        largest: no output of the network is larger there.
        ends: between which all outputs are, whatever the weights, where the network says so.
    """
    sides = [
        [side for demand in demands for side in _sides(demand, tolerance, extent, largest, ends)]
        for demands in alternatives
    ]
    if len(sides) == 1 and len(alternatives[0]) == 1:  # each of two bounds has cells of its own
        return [Claim.of([[side]]) for side in sides[0]]
    return [Claim.of(sides)]


def _sides(
    demand: Demand, tolerance: float, extent: Extent, largest: float, ends: Ends
) -> list[BoundSide]:
    """One for each bound."""
    found = []
    sides = zip(("lowest", "highest"), (demand.lower, demand.upper), (1.0, -1.0), strict=True)
    # Logits are compared as the network returns them, like mean actions.
    quantity = MEAN if demand.raw else demand.quantity
    for name, bound, sign in sides:
        if not is_bound(bound):
            continue
        if demand.depends_on_state:
            at = loosened(bound, sign, tolerance)
            margin = state_margin(quantity, demand.weights, at, sign, extent, largest)
            found.append(BoundSide(name, margin, np.nan))
            continue
        weights, number = np.array(demand.weights, dtype=np.float64), float(bound)  # type: ignore[arg-type]
        least, most = _reach(quantity, weights, ends)
        if sign > 0.0:
            number = min(float(np.nextafter(number - tolerance, np.inf)), number)
            margin = at_least(quantity, weights, number)
            found.append(BoundSide(name, kept_by_range(margin, least >= number), least))
        else:
            number = max(float(np.nextafter(number + tolerance, -np.inf)), number)
            margin = at_most(quantity, weights, number)
            found.append(BoundSide(name, kept_by_range(margin, most <= number), most))
    return found


def _reach(quantity: Quantity, weights: Array, ends: Ends) -> tuple[float, float]:
    """Between what a weighted sum is, whatever the weights of the network."""
    if ends is None:
        least, most = quantity.reach(weights[None])
        return float(least[0]), float(most[0])
    least, most = weighted_range(weights[None], *ends)
    # A sum of several is rounded whenever it is measured; one output is what it is.
    lost = 0.0 if np.count_nonzero(weights) == 1 else 1e-12 * float(abs(least[0]) + abs(most[0]))
    return float(least[0]) - lost, float(most[0]) + lost


@final
@dataclass(frozen=True)
class JointBound(Bounder):
    """max over alternatives of min over their margins, each less its rounding.

    Margins of different alternatives may have different units: only their signs decide.

    Attributes:
        alternatives: a bounder for every margin of each.
        rounding: what every bound must exceed to count, in the same order.
    """

    alternatives: tuple[tuple[Bounder, ...], ...]
    rounding: tuple[tuple[float, ...], ...]
    importance: Array = field(init=False)
    levels: int = field(init=False)

    def __post_init__(self) -> None:
        every = [one for several in self.alternatives for one in several]
        shares = [one.importance / one.importance.max() for one in every]
        object.__setattr__(self, "importance", np.sum(shares, axis=0))
        object.__setattr__(self, "levels", min(one.levels for one in every))

    @override
    def narrowed(self, cell: Cells) -> JointBound:
        narrowed = tuple(tuple(one.narrowed(cell) for one in some) for some in self.alternatives)
        return JointBound(narrowed, self.rounding)

    @override
    def bounds(self, cells: Cells, deadline: Deadline = NO_DEADLINE) -> Bounds:
        """Of the best alternative of each cell, and which that is."""
        found = [
            _all_of(
                [
                    _less(one.bounds(cells, deadline), by)
                    for one, by in zip(several, less, strict=True)
                ]
            )
            for several, less in zip(self.alternatives, self.rounding, strict=True)
        ]
        best = np.argmax([one.lowest for one in found], axis=0)  # NaN is the first that is found
        return replace(_taken(found, best), alternative=best)

    @override
    def dips(self, cells: Cells) -> Array:
        """Those of every margin."""
        return np.concatenate([one.dips(cells) for some in self.alternatives for one in some])

    @override
    def margins(self, states: Array) -> Array:
        """Less what rounding can do to bounds."""
        worst = [
            np.min([one.margins(states) - by for one, by in zip(some, less, strict=True)], axis=0)
            for some, less in zip(self.alternatives, self.rounding, strict=True)
        ]
        result: Array = np.max(worst, axis=0)
        return result


def _less(bounds: Bounds, rounding: float) -> Bounds:
    return replace(bounds, lowest=bounds.lowest - rounding)


def _all_of(found: Sequence[Bounds]) -> Bounds:
    """The lowest of several bounds of the same cells."""
    return _taken(found, np.argmin([one.lowest for one in found], axis=0))


def _taken(found: Sequence[Bounds], which: Indices) -> Bounds:
    """Of each cell one of its bounds."""
    cells = np.arange(len(which))
    lowest = np.stack([one.lowest for one in found])[which, cells]
    return Bounds(lowest, np.stack([one.suspects for one in found])[which, cells])
