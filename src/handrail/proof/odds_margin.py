"""Sums of probabilities whose weights or bound depend on the state.

Σ_a w_a(s) π_a ≥ b(s) is Σ_a c_a(s) exp(z_a) ≥ 0 with c_a = w_a - b, functions of the state. At a
state it is the margin of a softmax (`proof/margin`), with other coefficients at every state,

    margin = log Σ_P c_a(s) exp(z_a) - log Σ_N |c_b(s)| exp(z_b),

where which actions help, P, and which harm, N, may change from state to state. On a cell an action
helps that does so at every state of it, and harms as soon as it may at one, as much as it ever may:
either only lowers the margin. Where that is decided, log |c| lies between planes (`Formula.band`),
so that nothing of first order is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from typing_extensions import override

from handrail._types import Array, Mask
from handrail.formulas import Formula
from handrail.proof.extent import Extent, largest_of
from handrail.proof.margin import LARGER, Local, Margin, log_sum_exp
from handrail.regions import Cells

# Coefficients up to this help nobody, and whatever may harm does so by as much.
_LEAST = 1e-150

# Margins are cut off here: where no action harms, or none helps, they would be infinite.
_LARGEST = 1000.0

# Of a plane, over the size of the states: steeper ones lose more to rounding than they gain.
_STEEP = 1000.0

# Above whatever no action helps against: such a cell is divided.
_NOWHERE = 1e200


@final
@dataclass(frozen=True)
class OddsMargin(Margin):
    """Σ_a c_a(s) π_a ≥ 0.

    Attributes:
        coefficients: c, of each action.
        extent: of all that is asked.
    """

    coefficients: tuple[Formula, ...]
    extent: Extent

    @property
    @override
    def can_break(self) -> bool:
        """Where an action may harm."""
        return True

    @property
    @override
    def functions(self) -> tuple[Formula, ...]:
        return self.coefficients

    @cached_property
    def _largest(self) -> float:
        return max(largest_of(self.extent.range_of(one)) for one in self.coefficients)

    @cached_property
    def size(self) -> float:
        """Of logarithms, and of planes of so many terms as there are coordinates."""
        logarithm = -np.log(_LEAST) + abs(float(np.log(max(self._largest, _LEAST))))
        terms = (2 + self.extent.n_coordinates) * len(self.coefficients)
        return float(_LARGEST + terms * (logarithm + 2.0 * _STEEP))

    @override
    def of_raw(self, raw: Array, states: Array) -> Array:
        """Rounded downwards, as far as the coefficients go."""
        lowest = self._lowest(states, states)
        (gain, helped), (loss, harmed) = _summed(raw, lowest), _summed(raw, -lowest)
        margins = np.where(helped, gain - loss, -_LARGEST)
        margins = np.where(harmed, margins, _LARGEST)
        defined = np.all([one.is_defined(states, states) for one in self.coefficients], axis=0)
        return np.where(defined, np.clip(margins, -_LARGEST, _LARGEST), -np.inf)

    def _lowest(self, low: Array, high: Array) -> Array:
        """The lowest coefficients (n, n_actions) between two corners (n, n_coordinates) each."""
        return np.stack([one.enclose(low, high)[0] for one in self.coefficients], axis=1)

    @override
    def local(self, cells: Cells, raw: Array) -> Local:
        """One row for every action: those that harm; the others hardly count.

        Jensen, as for a softmax: log Σ_P c_a exp(z_a) ≥ Σ_P λ_a (z_a + log c_a) + entropy(λ).
        """
        lowest = self._lowest(cells.low, cells.high)
        helps, harms = lowest > _LEAST, ~(lowest >= 0.0)
        share = self._shares(cells, raw, helps)
        above, below = self._planes_above(cells, lowest), self._planes_below(cells, lowest)
        # What helps, less its entropy: λ · log c ≥ λ · (slope @ s + offset).
        slope = (share[:, :, None] * below[0]).sum(axis=1)
        gained = (share * below[1]).sum(axis=1) - _log_of(share)
        rows = np.eye(raw.shape[1]) - share[:, None, :]
        hope = helps.any(axis=1, keepdims=True)
        counts = harms & hope
        lost = np.where(hope, -_LARGEST, _NOWHERE)
        return Local(
            np.where(counts[:, :, None], rows, 0.0),
            np.where(counts, above[1] - gained[:, None], lost),
            np.where(counts[:, :, None], above[0] - slope[:, None], 0.0),
        )

    def _shares(self, cells: Cells, raw: Array, helps: Mask) -> Array:
        """λ (n, n_actions): the softmax of what helps at the centre; 0 where nothing does."""
        at = np.stack([one.at(cells.centres) for one in self.coefficients], axis=1)
        weighted = np.where(helps, raw + _log(at), -_NOWHERE)
        parts = np.exp(weighted - weighted.max(axis=1, keepdims=True))
        shares: Array = np.where(helps, parts / parts.sum(axis=1, keepdims=True), 0.0)
        return shares

    def _planes_above(self, cells: Cells, lowest: Array) -> tuple[Array, Array]:
        """Slopes (n, n_actions, …) and offsets (n, n_actions) of planes above log |c|, of harm."""
        level = np.log(np.maximum(-lowest, _LEAST))
        slopes, offsets = [], []
        for a, one in enumerate(self.coefficients):
            band = _logarithm(_negative(one)).band(cells.low, cells.high)
            taken = np.isfinite(band.highest) & ~_is_steep(band.slope, cells)
            slopes.append(np.where(taken[:, None], band.slope, 0.0))
            offsets.append(np.where(taken, band.highest, level[:, a]))
        return np.stack(slopes, axis=1), np.stack(offsets, axis=1)

    def _planes_below(self, cells: Cells, lowest: Array) -> tuple[Array, Array]:
        """The same of planes below log c; 0 where c may be too small for that."""
        level = np.log(np.maximum(lowest, _LEAST))
        slopes, offsets = [], []
        for a, one in enumerate(self.coefficients):
            band = _logarithm(one).band(cells.low, cells.high)
            taken = np.isfinite(band.lowest) & ~_is_steep(band.slope, cells)
            slopes.append(np.where(taken[:, None], band.slope, 0.0))
            offsets.append(np.where(taken, band.lowest, level[:, a]))
        return np.stack(slopes, axis=1), np.stack(offsets, axis=1)

    @override
    def importance(self) -> Array:
        return sum(
            (self.extent.importance_of(one) for one in self.coefficients),
            np.zeros(self.extent.n_coordinates),
        )

    @override
    def worst_value(self, margin: float) -> float:
        """There is no one value that is at worst left."""
        return np.nan

    @override
    def slack(self, margin: float) -> float:
        """As of a softmax, by the smallest coefficients: nothing where one may be 0."""
        if not margin >= 0.0:
            return np.nan
        ranges = [self.extent.range_of(one) for one in self.coefficients]
        if any(low <= 0.0 <= high for low, high in ranges):
            return 0.0
        least = min(min(abs(low), abs(high)) for low, high in ranges)
        lost = -float(np.expm1(-margin))
        return lost * least / (2.0 - lost) / LARGER

    @override
    def violation(self, margin: float) -> float:
        """What harms exceeds what helps by at most 1 - exp(margin) of itself."""
        if not margin < 0.0:
            return super().violation(margin)
        return -float(np.expm1(margin)) * self._largest * LARGER


def _log(values: Array) -> Array:
    """Of what is positive; else nothing that counts."""
    return np.log(np.where(values > 0.0, values, 1.0))


def _summed(raw: Array, coefficients: Array) -> tuple[Array, Mask]:
    """Log Σ c exp(z) (n,) over positive coefficients (n, n_actions), and where there are any."""
    counts = coefficients > 0.0
    weighted = np.where(counts, raw + _log(coefficients), -_NOWHERE)
    return log_sum_exp(weighted), np.logical_or.reduce(counts, axis=1)


def _log_of(share: Array) -> Array:
    """Σ λ log λ (n,): minus the entropy."""
    result: Array = (share * _log(share)).sum(axis=1)
    return result


def _is_steep(slope: Array, cells: Cells) -> Mask:
    """Which planes (n,) lose more to rounding than they gain."""
    far = np.maximum(np.abs(cells.low), np.abs(cells.high))
    result: Mask = ~((np.abs(slope) * far).sum(axis=1) <= _STEEP)
    return result


def _logarithm(formula: Formula) -> Formula:
    return Formula.applied("log", formula)


def _negative(formula: Formula) -> Formula:
    return Formula.applied("negative", formula)
