"""How much of a change at one state arrives at another: whether one state can stand for a region.

A step along ∇c(s) that moves the constrained c at s by 1 moves it at s' by K(s, s') / K(s, s), to
first order (Theorem 3 of the paper). Where that is near 1 all over a region, what is done at one
state of it is done everywhere; where it is small, the rest stays as it is, and elsewhere is moved
too far.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from handrail._types import Array
from handrail.policies import Policy
from handrail.regions import Region
from handrail.tangent.gram_matrix import Functionals, gram

# Of a change: what must arrive at least. Then nowhere arrives more than twice as much, since
# K(s, s')² ≤ K(s, s) K(s', s').
ENOUGH = 0.5

# Along a coordinate, from one end of the region to the other.
_STATES = 61

# Parts that are tried, or they would have too few of these states.
_MOST_PARTS = 20


@final
@dataclass(frozen=True)
class Carryover:
    """Between the two states of a region, apart in one coordinate, where least carries over.

    Attributes:
        coordinate: in which they differ.
        moved: its value where the policy is moved by 1.
        reached: its value where least of that arrives.
        share: what arrives; negative, if it moves the other way.
        parts: equal parts along the coordinate, in each of which at least half arrives everywhere.
    """

    coordinate: int
    moved: float
    reached: float
    share: float
    parts: int

    @property
    def enough(self) -> bool:
        """Whether one state can stand for the whole extent."""
        return self.parts == 1


def carryovers(policy: Policy, weights: Array, region: Region) -> tuple[Carryover, ...]:
    """Along every coordinate in which the region extends, through its middle.

    Args:
        policy: at its present weights.
        weights: (n_actions,) of the outputs, in what is constrained.
        region: where. Of a curve, which no line along a coordinate runs in, nothing is said.
    """
    lines = _lines(region)
    return tuple(_least(coordinate, policy, weights, line) for coordinate, line in lines.items())


def _lines(region: Region) -> dict[int, Array]:
    """States (n, n_coordinates) of the region by the coordinate in which they differ."""
    low, high = region.bounds
    middle = region.project(0.5 * (low + high)[None])
    lines = {}
    for coordinate in np.flatnonzero(high > low).tolist():
        line = np.repeat(middle, _STATES, axis=0)
        line[:, coordinate] = np.linspace(low[coordinate], high[coordinate], _STATES)
        inside = line[region.contains(line)]
        if len(inside) > 1:
            lines[coordinate] = inside
    return lines


def _least(coordinate: int, policy: Policy, weights: Array, line: Array) -> Carryover:
    shares = _shares(policy, weights, line)
    values = line[:, coordinate]
    moved, reached = np.unravel_index(shares.argmin(), shares.shape)
    return Carryover(
        coordinate,
        float(values[moved]),
        float(values[reached]),
        float(shares[moved, reached]),
        _parts(shares, values),
    )


def _shares(policy: Policy, weights: Array, states: Array) -> Array:
    """(n, n): of a change at the row's state, what arrives at the column's."""
    outputs = policy.outputs(states)
    raw_weights = policy.through_head(outputs, np.broadcast_to(weights, outputs.shape))
    functionals = Functionals(policy, states, raw_weights[:, None])
    kernel = gram(functionals, functionals)[:, 0, :, 0]
    own = np.maximum(np.diag(kernel), np.finfo(np.float64).tiny)
    shares: Array = kernel / own[:, None]
    return shares


def _parts(shares: Array, values: Array) -> int:
    """The fewest equal parts within each of which enough arrives."""
    along = (values - values[0]) / (values[-1] - values[0])
    for count in range(1, _MOST_PARTS):
        part = np.minimum((count * along).astype(np.intp), count - 1)
        together = part[:, None] == part[None, :]
        if shares[together].min() >= ENOUGH:
            return count
    return _MOST_PARTS
