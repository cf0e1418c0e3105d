"""How far rows are from their bounds, in units in which the first-order model reaches far.

The probability c of a set of actions is measured by its log-odds φ = log c/(1 - c). Near 0 and 1 a
probability hardly moves with the weights while its log-odds move as ever. Rows without log-odds
(differences of probabilities, relations between states, mean actions) are measured as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import expit

from handrail._types import Array
from handrail.constraints import Rows
from handrail.policies import Quantity

# Aim this fraction of the tolerance inside a bound, so that rounding does not leave it just broken.
_INSIDE = 0.1


# The most that is asked of a row at once, to begin with: 4 in log-odds is from 0.5 to 0.98.
# A mean action is as unbounded as log-odds are.
_UNBOUNDED_REACH = 4.0


_REACH = 0.4


@final
@dataclass(frozen=True)
class Position:
    """Where the rows are: coordinate φ (n_rows,) and its slope dφ/dc (n_rows,)."""

    coordinate: Array
    slope: Array


@final
class Targets:
    """Bounds of rows, a little inside, in the coordinate of each row."""

    def __init__(self, rows: Rows, tolerance: float) -> None:
        self._rows = rows
        self._has_odds = rows.is_sum_of_probabilities()
        margin = np.minimum(_INSIDE * tolerance, 0.25 * (rows.upper - rows.lower))
        self._lower = self._coordinate_of_bound(rows.lower, margin)
        self._upper = self._coordinate_of_bound(rows.upper, -margin)
        unbounded = self._has_odds | (rows.quantity is Quantity.MEAN)
        self._reach = np.where(unbounded, _UNBOUNDED_REACH, _REACH)

    def position(self, outputs: Array) -> Position:
        """From the policy's outputs (n_samples, n_actions) at the rows' states."""
        values = self._rows.values(outputs)
        # 1 - c as the sum of the other probabilities: exact where c rounds to 1.
        others = self._rows.sum_samples(((1.0 - self._rows.weights) * outputs).sum(axis=1))
        tiny = np.finfo(np.float64).tiny
        inside = np.maximum(np.where(self._has_odds, values, 0.5), tiny)
        outside = np.maximum(np.where(self._has_odds, others, 0.5), tiny)
        return Position(
            coordinate=np.where(self._has_odds, np.log(inside) - np.log(outside), values),
            slope=np.where(self._has_odds, 1.0 / (inside * outside), 1.0),
        )

    def change_in_log_odds(self, position: Position, trust: float) -> tuple[Array, Array]:
        """The interval (lower, upper) in which each row's value c should change, to first order.

        `trust` scales how much may be asked of a row at once.
        """
        lower = np.minimum(self._lower - position.coordinate, trust * self._reach)
        upper = np.maximum(self._upper - position.coordinate, -trust * self._reach)
        return lower / position.slope, upper / position.slope

    def change_in_probability(self, values: Array, trust: float) -> tuple[Array, Array]:
        """The same without log-odds, and exactly to the bounds: all rows the same part of the way.

        Rows that depend on each other (a whole distribution prescribed at one state) stay
        consistent this way; their log-odds and inner margins do so only in the limit.
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
        return np.where(self._has_odds, expit(coordinate), coordinate)

    def shortfall(self, position: Position) -> float:
        """The largest distance from a target; zero or negative when all are met."""
        below = self._lower - position.coordinate
        above = position.coordinate - self._upper
        return float(np.maximum(below, above).max())

    def _coordinate_of_bound(self, bound: Array, inwards: Array) -> Array:
        bounded = np.isfinite(bound)
        odds = bounded & self._has_odds
        coordinate = np.where(bounded, bound + np.where(bounded, inwards, 0.0), bound)
        # Never more than half way to 0 or 1, however large the tolerance.
        probability = np.clip(coordinate[odds], 0.5 * bound[odds], 0.5 + 0.5 * bound[odds])
        coordinate[odds] = np.log(probability) - np.log1p(-probability)
        return coordinate
