"""Where drawn actions lie, noise included: `LikelyWithin`, a probability of a range.

An action is drawn from N(mean, std²), so the probability that it lies in a range is a matter of the
two alone, and exactly known: with σ the standard deviation and Φ that of the normal distribution,

    P(a ≥ low) ≥ p  ⇔  mean ≥ low + Φ⁻¹(p) σ,

and of a range with two ends, the means from which it is likely enough form an interval around its
middle. So for a policy of given noise it is a bound on its mean, which is held and proven as any
other. A policy whose noise changes has another bound: whoever holds it asks anew. Of a policy whose
noise depends on the state they are bounds on both (`likely_draws`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Self, final

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri
from typing_extensions import override

from handrail._types import Array
from handrail.constraints.amount import Demand, check_number
from handrail.constraints.checks import (
    check_actions,
    check_known_action,
    check_priority,
    check_where,
)
from handrail.constraints.constraint import (
    Constraint,
    Mean,
    PlacedConstraint,
    action_from,
    action_sum,
    as_mapping,
    set_default_name,
)
from handrail.constraints.likely_draws import DrawnBound, LikelyDraws
from handrail.constraints.output_bounds import AtLeast, AtMost, Between
from handrail.constraints.rows import Rows
from handrail.errors import InvalidConstraint
from handrail.formulas import StateFunction
from handrail.policies import MEAN, GaussianPolicy, MeanAndStd, Policy, Quantity
from handrail.regions import Place

# Of what was computed with: bounds on means are taken so much stricter, for rounding's sake.
_ROUNDING = 1e-12

# Of a range with two ends, where noise depends on the state: so many lines on each side of it, up
# to so near to the noise with which it cannot hold.
_CHORDS, _NEAR = 6, 1e-6


@final
@dataclass(frozen=True)
class LikelyWithin(PlacedConstraint):
    """P(low ≤ action ≤ high | s) ≥ probability of the *drawn* action, at every state of `where`.

    Of the action before an environment clips it to its range. Exact for `GaussianPolicy`, with the
    standard deviation that it has when it is held, measured or proven.

    Args:
        probability: strictly between 0 and 1.
        action: a dimension of a continuous action, or {dimension: weight} for a weighted sum.
        where: the states: Points, or a region (Box, Ball, Polytope, Curve, Union).
        low: lower end of the range; by default there is none.
        high: upper end; by default there is none.
        name: for tables and messages; made from the other fields when left out.
        priority: how much more than others this one matters when constraints are soft.
    """

    probability: float
    action: int | Mapping[int, float]
    where: Place
    low: float = -math.inf
    high: float = math.inf
    name: str = ""
    priority: float = 1.0

    def __post_init__(self) -> None:
        check_where(self.where)
        check_priority(self.priority)
        _check_plain(self.action)
        check_number(self.probability, "LikelyWithin: `probability`")
        if not 0.0 < self.probability < 1.0:
            raise InvalidConstraint(
                f"LikelyWithin: the probability must lie strictly between 0 and 1, but got "
                f"{self.probability:g}. No noise keeps every draw in a range: 0.999 is once in "
                "1,000."
            )
        if not (math.isfinite(self.low) or math.isfinite(self.high)):
            raise InvalidConstraint(
                "LikelyWithin: a range needs an end: low=…, high=…, or both, as finite numbers."
            )
        if not self.low < self.high:
            raise InvalidConstraint(
                f"LikelyWithin: the range must go upwards, but goes from {self.low:g} to "
                f"{self.high:g}."
            )
        set_default_name(self, f"P({self._range_in_words()}) >= {self.probability:g}")

    def _range_in_words(self) -> str:
        what = str(action_sum(self.action))
        low = f"{self.low:g} <= " if math.isfinite(self.low) else ""
        high = f" <= {self.high:g}" if math.isfinite(self.high) else ""
        return f"{what} >= {self.low:g}" if not high else f"{low}{what}{high}"

    @property
    @override
    def quantity(self) -> Quantity:
        """Of policies whose actions are continuous: their means decide."""
        return MEAN

    @override
    def for_policy(self, policy: Policy) -> Constraint:
        """The bound on the mean that says the same, for the noise that the policy has now."""
        if isinstance(policy.quantity, MeanAndStd):
            return self._for_noise(policy.quantity)
        if policy.quantity != MEAN:
            return self  # refused by whoever compares quantities
        if not isinstance(policy, GaussianPolicy):
            raise InvalidConstraint(
                f"{self.name!r} is about drawn actions, but a {type(policy).__name__} has no "
                "standard deviation that would tell how they are drawn. Bound the mean instead: "
                "Mean(0), with room for the noise."
            )
        least, most = (self._deviation(std) for std in policy.std_range)
        lower, upper = self._range_of_means(least, most)
        action, others = Mean(self.action), (self.where, self.name, self.priority)
        if not math.isfinite(upper):
            return AtLeast(lower, action, *others)
        if not math.isfinite(lower):
            return AtMost(upper, action, *others)
        return Between(lower, upper, action, *others)

    def _for_noise(self, decided: MeanAndStd) -> LikelyDraws:
        """Bounds on mean and deviation together, where the latter depends on the state."""
        weights = {index: float(one) for index, one in as_mapping(self.action).items() if one}  # type: ignore[arg-type]
        for index in weights:
            check_known_action(self.name, index, decided.dimensions)
        if len(weights) > 1:
            raise InvalidConstraint(
                f"{self.name!r} is about a sum of drawn actions, but their standard deviations "
                "depend on the state, and that of the sum is not linear in them. Ask for each "
                "dimension by itself, or take a GaussianPolicy, whose noise is the same everywhere."
            )
        ((index, weight),) = weights.items()
        size = abs(weight)
        sums = self._sums(size * decided.least[index], size * decided.most[index])
        bounds = [DrawnBound(index, weight, size * noise, low, high) for noise, low, high in sums]
        return LikelyDraws(
            self, (self.low, self.high), bounds, decided, self.where, self.name, self.priority
        )

    def _sums(self, least: float, most: float) -> list[tuple[float, float, float]]:
        """(noise, lower, upper) of lower ≤ mean + noise · deviation ≤ upper."""
        ends = [abs(one) for one in (self.low, self.high) if math.isfinite(one)]
        if len(ends) < 2:
            deviations = -float(ndtri(1.0 - self.probability))
            spare = _ROUNDING * ((abs(deviations) + 1.0) * most + max(ends))
            noise = -deviations if math.isfinite(self.low) else deviations
            return [(noise, self.low + spare, self.high - spare)]
        self._refuse_less_than_half()
        middle = 0.5 * (self.low + self.high)
        return [
            one
            for slope, room in self._chords(least, most)
            for one in ((slope, -math.inf, middle + room), (-slope, middle - room, math.inf))
        ]

    def _chords(self, least: float, most: float) -> list[tuple[float, float]]:
        """(slope, room) of |mean - middle| ≤ room - slope · deviation, below what is allowed.

        Close to the most noise with which it can hold, where the last of the means vanish as a
        square root does, they are shorter.
        """
        rest = 1.0 - self.probability
        half = 0.5 * (self.high - self.low) - _ROUNDING * (abs(self.low) + abs(self.high))
        self._range_of_means(least, least)  # refused if even the least is too much
        largest = min(most, max(half / -float(ndtri(0.5 * rest)), least) * (1.0 - _NEAR))
        if not least < largest:
            self._range_of_means(most, most)  # refused: only the least itself would do
        shares = 1.0 - (1.0 - np.linspace(0.0, 1.0, _CHORDS + 1)) ** 2
        deviations = least + shares * (largest - least)
        room = np.array([(_farthest_aside(half / one, rest) or 0.0) * one for one in deviations])
        slopes = -np.diff(room) / np.diff(deviations)
        return list(
            zip(slopes.tolist(), (room[:-1] + slopes * deviations[:-1]).tolist(), strict=True)
        )

    def _refuse_less_than_half(self) -> None:
        if self.probability < 0.5:
            raise InvalidConstraint(
                f"{self.name!r} asks for less than one half, which more noise may meet or break. "
                "Ask for more of a policy that learns its standard deviation, or for one end."
            )

    def _deviation(self, of_each: Array) -> float:
        """Of the weighted sum: its dimensions are drawn independently."""
        std = np.atleast_1d(of_each)
        weights = as_mapping(self.action)
        beyond = [index for index in weights if std.size > 1 and index >= std.size]
        if beyond:
            raise InvalidConstraint(
                f"{self.name!r} names action {beyond[0]}, but the policy has {std.size} actions: "
                f"0 to {std.size - 1}."
            )
        each = np.broadcast_to(std, max(std.size, *(index + 1 for index in weights)))
        parts = [weight * each[index] for index, weight in weights.items()]
        return math.sqrt(math.fsum(float(part) ** 2 for part in parts))

    def _range_of_means(self, least: float, most: float) -> tuple[float, float]:
        """From where to where a mean may lie: (lower, upper), -inf and inf for no end.

        Whatever the deviation is from the least to the most. What is likelier than not becomes less
        likely with more noise: the mean lies in the range then.
        """
        rest = 1.0 - self.probability
        deviation = most
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            inwards = max(-float(ndtri(rest)) * one for one in (least, most))
            ends = [abs(one) for one in (self.low, self.high) if math.isfinite(one)]
            inwards += _ROUNDING * (abs(inwards) + deviation + max(ends))
            return self.low + inwards, self.high - inwards
        if least < most:
            self._refuse_less_than_half()
        middle, half = 0.5 * (self.low + self.high), 0.5 * (self.high - self.low)
        half -= _ROUNDING * (abs(self.low) + abs(self.high))
        aside = _farthest_aside(half / deviation, rest)
        if aside is None:
            best = 1.0 - 2.0 * float(ndtr(-half / deviation))
            raise InvalidConstraint(
                f"{self.name!r} cannot hold with a standard deviation of {deviation:g}: a mean in "
                f"the middle of the range has the most, {best:.4g}. Widen the range, ask for less, "
                "or draw with less noise."
            )
        return middle - aside * deviation, middle + aside * deviation

    @override
    def asked_of_actions(self, n_actions: int) -> tuple[Demand, ...]:
        """Of each draw: to lie in the range."""
        weights = as_mapping(self.action)
        of_each = tuple(weights.get(index, 0.0) for index in range(n_actions))
        return (Demand(of_each, self.low, self.high, MEAN),)

    @property
    @override
    def left_to_chance(self) -> float:
        return 1.0 - self.probability

    @override
    def rows_at(self, states: Array, n_actions: int) -> Rows:
        self._needs_a_policy()

    def _needs_a_policy(self) -> NoReturn:
        raise InvalidConstraint(
            f"What {self.name!r} asks of a mean depends on the noise around it: take "
            "constraint.for_policy(policy)."
        )

    @override
    def describe(self) -> dict[str, Any]:
        """An end that is not there is left out: JSON has no infinity."""
        values = super().describe()
        ends = ("low", "high")
        return {key: one for key, one in values.items() if key not in ends or math.isfinite(one)}

    @classmethod
    @override
    def from_description(cls, values: Mapping[str, Any]) -> Self:
        return cls(**{**values, "action": action_from(values["action"])})


def _check_plain(action: Any) -> None:
    """Dimensions and numbers: the noise of a sum whose weights depend on the state would, too."""
    if isinstance(action, Mean):
        raise InvalidConstraint(
            "LikelyWithin is about the drawn action, not its mean: write action=0, not Mean(0)."
        )
    check_actions(action)
    if any(isinstance(one, StateFunction) or callable(one) for one in as_mapping(action).values()):
        raise InvalidConstraint("LikelyWithin: weights of a drawn action must be numbers.")


def _farthest_aside(half: float, rest: float) -> float | None:
    """How far a mean may be from the middle, in standard deviations; None if even that is too far.

    Of a range of ± `half` deviations around the middle, missed with a probability of at most
    `rest`: Φ(t - half) + Φ(-t - half) ≤ rest, whose left side grows with t.
    """

    def missed(aside: float) -> float:
        return float(ndtr(aside - half) + ndtr(-aside - half)) - rest

    if half <= 0.0 or missed(0.0) >= 0.0:
        return None
    # At half + Φ⁻¹(rest) or before it is missed too often; that may be below 0.
    far = max(half + float(ndtri(rest)), 0.0) + 1.0
    found = float(brentq(missed, 0.0, far, xtol=_ROUNDING, rtol=4.0 * np.finfo(np.float64).eps))
    aside = found - 4.0 * _ROUNDING * (1.0 + half)
    return aside if aside > 0.0 and missed(aside) <= 0.0 else None
