"""Where actions are drawn whose noise depends on the state: bounds on means and deviations.

With one end, P(a ≥ low) ≥ p ⇔ mean - Φ⁻¹(p) · std ≥ low: linear in the two, and exact. With two
ends and p ≥ 1/2, the means from which a range is likely enough lie around its middle,

    |mean - middle| ≤ A(std),

and A is concave (Lubin, Bienstock and Vielma, 2015: a two-sided chance constraint of a Gaussian is
convex). So chords of A are below it: a few of them, one for each part of what the standard
deviation can be, ask for a little more than the range, and never for less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from typing_extensions import override

from handrail._types import Array
from handrail.constraints.amount import Demand
from handrail.constraints.constraint import PlacedConstraint, rows_of_demands
from handrail.constraints.rows import Rows
from handrail.policies import MeanAndStd, Quantity
from handrail.regions import Place


class DrawnBound(NamedTuple):
    """lower ≤ weight · mean + noise · std ≤ upper, of one dimension of the action."""

    dimension: int
    weight: float
    noise: float
    lower: float
    upper: float


@final
@dataclass(frozen=True)
class LikelyDraws(PlacedConstraint):
    """What a constraint on drawn actions asks of a policy whose noise depends on the state.

    Args:
        asked: the constraint.
        range: that it asks for.
        bounds: that it comes to.
        decided: what the policy's outputs are.
        where: as asked.
        name: likewise.
        priority: likewise.
    """

    asked: PlacedConstraint
    range: tuple[float, float]
    bounds: Sequence[DrawnBound]
    decided: MeanAndStd
    where: Place
    name: str
    priority: float

    @property
    @override
    def quantity(self) -> Quantity:
        """Means and standard deviations."""
        return self.decided

    @property
    @override
    def depends_on_state(self) -> bool:
        """Of several bounds there is no one value: only what is left of each can be told."""
        return len(self.bounds) > 1

    @override
    def demands(self, n_actions: int) -> tuple[Demand, ...]:
        """One for each bound."""
        return tuple(self._demand(one, n_actions) for one in self.bounds)

    def _demand(self, bound: DrawnBound, n_outputs: int) -> Demand:
        weights = np.zeros(n_outputs)
        weights[bound.dimension] = bound.weight
        weights[self.decided.dimensions + bound.dimension] = bound.noise
        return Demand(tuple(weights.tolist()), bound.lower, bound.upper, self.decided)

    @override
    def rows_at(self, states: Array, n_actions: int) -> Rows:
        """A row per state and bound."""
        return rows_of_demands(self, states, self.demands(n_actions))

    @override
    def asked_of_actions(self, n_actions: int) -> Sequence[Demand] | None:
        return self.asked.asked_of_actions(n_actions)

    @property
    @override
    def left_to_chance(self) -> float | None:
        return self.asked.left_to_chance

    @override
    def describe(self) -> dict[str, Any]:
        """As it was asked: the policy that reads it tells the rest."""
        return self.asked.describe()
