"""Margins of bounds and weights that depend on the state.

Log-odds and mean actions are compared with a number by subtracting it; a function of the state only
makes that number another one at each state,

    margin(s) = base(z(s)) - shift(s),

with the shift in the units of the margin: sign · logit b(s), or sign · b(s) / Σ|w|. On a cell it
lies below a plane (`Formula.band`), which is added to the affine functions that bound the network.
Nothing else of a proof changes, and of an affine bound nothing is lost.

Weights that depend on the state make products with the network. With δ(s) = w(s) - w(c), c the
centre of a cell,

    w(s) · z(s) = w(c) · z(s) + δ(s) · z(c) + δ(s) · (z(s) - z(c)):

linear in the outputs, a function of the state, and a rest that is small with the square of the
cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from typing_extensions import override

from handrail._types import Array, Mask
from handrail.constraints import Amount
from handrail.errors import InvalidPolicy
from handrail.formulas import Formula, StateFunction, formula_of
from handrail.policies import MEAN, PROBABILITY, STD, BranchProbability, Quantity
from handrail.proof.extent import STEEP, Extent, largest_of
from handrail.proof.margin import LinearMargin, Local, Margin, SoftmaxMargin, UniformMargin
from handrail.proof.odds_margin import OddsMargin
from handrail.regions import Cells

# Above whatever has no value: such a cell is not proven, but divided.
_NOWHERE = 1e200

# What is left of a slack that was computed in float64.
_SAFE = 1.0 - 1e-12


@final
@dataclass(frozen=True)
class ShiftedMargin(UniformMargin):
    """A margin from a bound that depends on the state.

    Attributes:
        base: from the bound where the shift is 0.
        shift: in the units of the base.
        extent: of all that is asked.
    """

    base: SoftmaxMargin | LinearMargin
    shift: Formula
    extent: Extent

    @property
    @override
    def can_break(self) -> bool:
        """As the base can."""
        return self.base.can_break

    @property
    @override
    def functions(self) -> tuple[Formula, ...]:
        return (self.shift,)

    @cached_property
    def size(self) -> float:
        """With what the planes add up to: of so many terms as there are coordinates."""
        return self.base.size + (2 + self.extent.n_coordinates) * self.extent.size_of(self.shift)

    @override
    def of_raw(self, raw: Array, states: Array) -> Array:
        """Rounded downwards, as far as the shift goes."""
        _, shift = self.shift.enclose(states, states)
        defined = self.shift.is_defined(states, states)
        return np.where(defined, self.base.of_raw(raw, states) - shift, -np.inf)

    @override
    def differences(self, raw: Array) -> tuple[Array, Array]:
        return self.base.differences(raw)

    @override
    def plane_above(self, cells: Cells) -> tuple[Array, Array]:
        return plane_above(self.shift, cells)

    @override
    def importance(self) -> Array:
        return self.extent.importance_of(self.shift)

    @override
    def worst_value(self, margin: float) -> float:
        """There is no one value that is at worst left."""
        return np.nan

    @override
    def slack(self, margin: float) -> float:
        """Of the base at the shifts where least is left: at one of their ends."""
        ends = self.extent.range_of(self.shift)
        return min(self.base.slack_at(margin, one) for one in ends) * _SAFE

    @override
    def violation(self, margin: float) -> float:
        if not margin < 0.0:
            return super().violation(margin)
        return self.base.violation_between(margin, *self.extent.range_of(self.shift)) / _SAFE


@final
@dataclass(frozen=True)
class WeightedMargin(Margin):
    """A sum of mean actions with weights that depend on the state, from a bound that may.

    The distance from the bound per Σ max |w|.

    Attributes:
        weights: of each action.
        bound: what the sum is compared with.
        sign: +1 for a lower bound, -1 for an upper one.
        extent: of all that is asked.
        largest_output: of the network there.
    """

    weights: tuple[Formula, ...]
    bound: Formula
    sign: float
    extent: Extent
    largest_output: float

    @property
    @override
    def can_break(self) -> bool:
        """Mean actions can be anything."""
        return True

    @property
    @override
    def functions(self) -> tuple[Formula, ...]:
        return (*self.weights, self.bound)

    @cached_property
    def scale(self) -> float:
        """Σ max |w| over the extent."""
        return sum(largest_of(self.extent.range_of(one)) for one in self.weights)

    @cached_property
    def size(self) -> float:
        """With what the planes add up to, of weights times the outputs that they multiply."""
        terms = (2 + self.extent.n_coordinates) * len(self.weights)
        weights = sum(self.extent.size_of(one) for one in self.weights)
        of_bound = self.extent.size_of(self.bound)
        return 1.0 + terms * (of_bound + weights * (1.0 + self.largest_output)) / self.scale

    @override
    def of_raw(self, raw: Array, states: Array) -> Array:
        """Rounded downwards, as far as weights and bound go."""
        lowest = -self._ends(self.bound, states)[0 if self.sign < 0.0 else 1] * self.sign
        for a, one in enumerate(self.weights):
            ends = [self.sign * raw[:, a] * end for end in self._ends(one, states)]
            lowest = lowest + np.minimum(*ends)
        return np.where(np.isfinite(lowest), lowest / self.scale, -np.inf)

    def _ends(self, formula: Formula, states: Array) -> tuple[Array, Array]:
        """Between which it is at states: NaN where it may have no value."""
        low, high = formula.enclose(states, states)
        defined = formula.is_defined(states, states)
        return np.where(defined, low, np.nan), np.where(defined, high, np.nan)

    @override
    def local(self, cells: Cells, raw: Array) -> Local:
        """As the first lines of this module say."""
        per = self.sign / self.scale
        centres = cells.centres
        at_centre = np.stack([one.at(centres) for one in self.weights], axis=1)
        slope, offset = plane_above(_times(self.bound, per), cells)
        spread = np.zeros_like(raw)
        for a, one in enumerate(self.weights):
            band = one.band(cells.low, cells.high)
            factor = -per * raw[:, a]  # of δ_a(s)
            above = np.nan_to_num(band.highest, posinf=_NOWHERE)
            below = np.nan_to_num(band.lowest, neginf=-_NOWHERE)
            rest = np.where(factor >= 0.0, above, below) - at_centre[:, a]
            slope = slope + factor[:, None] * band.slope
            offset = offset + factor * rest
            low, high = one.enclose(cells.low, cells.high)
            high = np.where(np.isfinite(band.highest), high, _NOWHERE)  # it may have no value
            spread[:, a] = np.maximum(high - at_centre[:, a], at_centre[:, a] - low) / self.scale
        return Local(-per * at_centre[:, None, :], offset[:, None], slope[:, None], spread)

    @override
    def importance(self) -> Array:
        return sum(
            (self.extent.importance_of(one) for one in (self.bound, *self.weights)),
            np.zeros(self.extent.n_coordinates),
        )

    @override
    def worst_value(self, margin: float) -> float:
        """There is no one value that is at worst left."""
        return np.nan

    @override
    def slack(self, margin: float) -> float:
        return self.scale * margin * _SAFE

    @override
    def violation(self, margin: float) -> float:
        return self.scale * -margin / _SAFE if margin < 0.0 else super().violation(margin)


def plane_above(formula: Formula, cells: Cells) -> tuple[Array, Array]:
    """Slopes (n, n_coordinates) and offsets (n,) of planes above it on cells.

    Level where a plane would be so steep that rounding it costs more than it gives.
    """
    band = formula.band(cells.low, cells.high)
    far = np.maximum(np.abs(cells.low), np.abs(cells.high))
    level = formula.enclose(cells.low, cells.high)[1]
    steep = (np.abs(band.slope) * far).sum(axis=1) > STEEP * (1.0 + np.abs(level))
    slope = np.where(steep[:, None], 0.0, band.slope)
    highest = np.where(steep, level, band.highest)
    return slope, np.where(np.isfinite(band.highest), highest, _NOWHERE)


def state_margin(
    quantity: Quantity,
    weights: Sequence[Amount],
    bound: Amount,
    sign: float,
    extent: Extent,
    largest_output: float,
) -> Margin:
    """Of Σ w_a(s) output_a ≥ b(s) (sign +1) or ≤ b(s) (sign -1).

    Args:
        quantity: of the outputs.
        weights: of each action.
        bound: what is compared with.
        sign: of which side it is.
        extent: of all that is asked.
        largest_output: of the network there.

    Raises:
        InvalidConstraint: of a Python function, into which nobody can look.
    """
    names = _names(extent, (*weights, bound))
    limit = _formula(bound, names)
    if quantity in (MEAN, STD):
        if any(isinstance(one, StateFunction) for one in weights):
            formulas = tuple(_formula(one, names) for one in weights)
            return WeightedMargin(formulas, limit, sign, extent, largest_output)
        numbers = np.array(weights, dtype=np.float64)
        base = LinearMargin.of(numbers, 0.0, sign)
        return ShiftedMargin(base, _times(limit, sign / float(np.abs(numbers).sum())), extent)
    among = _competing(quantity, weights)
    plain = [one for one in weights if not isinstance(one, StateFunction)]
    if len(plain) < len(weights) or not set(plain) <= {0.0, 1.0}:
        each = (
            Formula.applied("-", _formula(one, names), limit)
            if competes
            else Formula.of_number(0.0, names)
            for one, competes in zip(weights, among, strict=True)
        )
        return OddsMargin(tuple(_times(one, sign) for one in each), extent)
    base_of_odds = SoftmaxMargin.of(np.array(plain), 0.5, sign, among)
    return ShiftedMargin(base_of_odds, _times(_logit(limit), sign), extent)


def _competing(quantity: Quantity, weights: Sequence[Amount]) -> Mask:
    """Which actions (n_actions,) share a softmax with those that have a weight."""
    if isinstance(quantity, BranchProbability):
        given = [isinstance(one, StateFunction) or one != 0.0 for one in weights]
        among: Mask = quantity.among(np.array([given], dtype=np.float64))[0]
        return among
    if quantity != PROBABILITY:
        raise InvalidPolicy(f"Nothing can be proven about {quantity.plural}: no margin is known.")
    return np.ones(len(weights), dtype=bool)


def loosened(bound: Amount, sign: float, tolerance: float) -> Amount:
    """A bound with a tolerance on it."""
    if not tolerance:
        return bound
    if not isinstance(bound, StateFunction):
        return bound - sign * tolerance
    known = formula_of(bound)
    return Formula.applied("-", known, Formula.of_number(sign * tolerance, known.names))


def _names(extent: Extent, amounts: Sequence[Amount]) -> tuple[str, ...]:
    """Of the coordinates: those of the first formula."""
    for one in amounts:
        if isinstance(one, Formula):
            return tuple(one.names)
    return tuple(f"s{i}" for i in range(extent.n_coordinates))


def _formula(amount: Amount, names: tuple[str, ...]) -> Formula:
    """Over these coordinates; others are the same ones under other names."""
    if not isinstance(amount, StateFunction):
        return Formula.of_number(float(amount), names)
    known = formula_of(amount)
    return known if tuple(known.names) == names else Formula(known.text, names, known.steps)


def _times(formula: Formula, factor: float) -> Formula:
    return Formula.applied("*", Formula.of_number(factor, formula.names), formula)


def _logit(formula: Formula) -> Formula:
    rest = Formula.applied("-", Formula.of_number(1.0, formula.names), formula)
    return Formula.applied("-", Formula.applied("log", formula), Formula.applied("log", rest))
