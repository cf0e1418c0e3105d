"""How far rows are from their bounds, in units in which the first-order model reaches far.

Where a row has an unbounded coordinate, it is measured in that: the probability c of a set of
actions by its log-odds φ = log c/(1 - c). Near 0 and 1 a probability hardly moves with the weights
while its log-odds move as ever; so does a mean action near the end of the range that a tanh keeps
it in. Other rows (differences of probabilities or logits, relations between states, mean actions
that nothing bounds) are measured as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from handrail._types import Array
from handrail.constraints import Rows
from handrail.policies import Coordinates

# Aim this fraction of the tolerance inside a bound, so that rounding does not leave it just broken.
_INSIDE = 0.1

# The most that is asked of a row at once, to begin with: 4 in log-odds is from 0.5 to 0.98.
_UNBOUNDED_REACH = 4.0

# The same in units of outputs, where rows are not moved in their coordinates.
_REACH = 0.4


@final
@dataclass(frozen=True)
class Position:
    """Where the rows are: coordinate φ (n_rows,) and its slope dφ/dc (n_rows,)."""

    coordinate: Array
    slope: Array


@final
class Targets:
    """Bounds of rows, a little inside, in the coordinate of each row.

    Args:
        rows: whose bounds.
        tolerance: the largest violation that will do.
        coordinates: those of the policy.
        inside: by which targets lie further inside (n_rows,), in these coordinates; of two bounds,
            at most a quarter of what is between them.
    """

    def __init__(
        self,
        rows: Rows,
        tolerance: float,
        coordinates: Coordinates,
        inside: Array | float = 0.0,
    ) -> None:
        self._rows, self._coordinates = rows, coordinates
        # A curved sample is a row of its own, so both have the same order.
        self._samples = rows.curved_samples(coordinates)
        self._curved = rows.sum_samples(self._samples.astype(np.float64)) > 0.0
        self._weights = np.zeros((len(rows), rows.weights.shape[1]))  # of curved rows
        self._weights[self._curved] = rows.weights[self._samples]
        margin = np.minimum(_INSIDE * tolerance, 0.25 * (rows.upper - rows.lower))
        self._lower = self._coordinate_of_bound(rows.lower, margin)
        self._upper = self._coordinate_of_bound(rows.upper, -margin)
        inset = np.minimum(inside, 0.25 * (self._upper - self._lower))
        self._lower, self._upper = self._lower + inset, self._upper - inset
        unbounded = self._curved | rows.is_raw()
        at_once = rows.quantity.reach_at_once
        self._reach = np.where(unbounded, max(_UNBOUNDED_REACH, at_once), at_once)

    def position(self, outputs: Array) -> Position:
        """From the policy's outputs (n_samples, n_actions) at the rows' states."""
        coordinate, slope = self._rows.values(outputs), np.ones(len(self._rows))
        coordinate[self._curved], slope[self._curved] = self._coordinates.coordinate(
            self._weights[self._curved], outputs[self._samples]
        )
        return Position(coordinate, slope)

    def change_in_coordinates(self, position: Position, trust: float) -> tuple[Array, Array]:
        """The interval (lower, upper) in which each row's value c should change, to first order.

        `trust` scales how much may be asked of a row at once.
        """
        lower = np.minimum(self._lower - position.coordinate, trust * self._reach)
        upper = np.maximum(self._upper - position.coordinate, -trust * self._reach)
        return lower / position.slope, upper / position.slope

    def is_far(self, position: Position, trust: float) -> bool:
        """Whether more is asked of a row than may be at once."""
        lower, upper = self._lower - position.coordinate, self._upper - position.coordinate
        return bool((np.maximum(lower, -upper) > trust * self._reach).any())

    def change_in_values(self, values: Array, trust: float) -> tuple[Array, Array]:
        """The same in values, and exactly to the bounds: all rows the same part of the way.

        Rows that depend on each other (a whole distribution prescribed at one state) stay
        consistent this way; their coordinates and inner margins do so only in the limit.
        """
        lower, upper = self._rows.lower - values, self._rows.upper - values
        furthest = max(float(np.maximum(lower, -upper).max()), np.finfo(np.float64).tiny)
        part = min(1.0, trust * _REACH / furthest)
        return np.where(lower > 0.0, part * lower, lower), np.where(
            upper < 0.0, part * upper, upper
        )

    def predicted_values(self, position: Position, change: Array) -> Array:
        """Values c (n_rows,) when the coordinates move as the first-order change says."""
        coordinate = position.coordinate + position.slope * change
        values = coordinate.copy()
        values[self._curved] = self._coordinates.value_at(
            self._weights[self._curved], coordinate[self._curved]
        )
        return values

    def shortfall(self, position: Position) -> float:
        """The largest distance from a target; zero or negative when all are met."""
        below = self._lower - position.coordinate
        above = position.coordinate - self._upper
        return float(np.maximum(below, above).max())

    def distances(self, outputs: Array, scale: Array) -> Array:
        """From their targets (n_rows,), in units in which rows can be compared.

        Those of a margin: 1 in log-odds, of mean actions a standard deviation.

        Args:
            outputs: (n_samples, n_actions) of the policy at the rows' states.
            scale: (n_samples, n_actions) of the policy there.
        """
        position = self.position(outputs)
        far = np.maximum(self._lower - position.coordinate, position.coordinate - self._upper)
        result: Array = far / self._rows.units(scale)
        return result

    def _coordinate_of_bound(self, bound: Array, inwards: Array) -> Array:
        bounded = np.isfinite(bound)
        curved = bounded & self._curved
        coordinate = np.where(bounded, bound + np.where(bounded, inwards, 0.0), bound)
        coordinate[curved] = self._coordinates.coordinate_of_bound(
            self._weights[curved], bound[curved], inwards[curved]
        )
        return coordinate
