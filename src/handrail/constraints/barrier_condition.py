"""Barrier functions: what keeps a plant where h ≥ 0, as a constraint on the mean action.

Of a control-affine plant ṡ = f(s) + g(s) u, h stays non-negative once it is, if
∇h · (f + g u) ≥ -rate · h. That is a bound on a weighted sum of mean actions, whose weights
∇h · g and whose bound -rate · h - ∇h · f depend on the state; derivatives of formulas are ours to
take. Of a plant that is sampled, s' = step(s, u), it is h(step(s, u)) ≥ (1 - rate) · h(s), where
that is affine in u. A disturbance that is known to within a box is taken at its worst.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from handrail.constraints.amount import Amount, check_number
from handrail.constraints.constraint import Mean
from handrail.constraints.output_bounds import AtLeast
from handrail.errors import InvalidConstraint
from handrail.formulas import Formula
from handrail.regions import Place

Text = str | float


@final
@dataclass(frozen=True)
class BarrierCondition:
    """Σ weight · u ≥ bound, of the mean action u: what keeps h ≥ 0.

    Attributes:
        weights: of each dimension of the action.
        bound: at the worst disturbance there can be.
    """

    weights: tuple[Amount, ...]
    bound: Amount

    @classmethod
    def continuous(
        cls,
        h: Text,
        drift: Mapping[str, Text],
        gain: Mapping[str, Text | Sequence[Text]],
        rate: float,
        observations: Sequence[str],
        disturbance: Mapping[str, float],
    ) -> BarrierCondition:
        """∇h · (f + g u) ≥ -rate · h; arguments as for `barrier`."""
        _check_rate(rate, "above 0", at_most=math.inf)
        _check_keys(observations, drift=drift, gain=gain)
        names = [*observations, *disturbance]
        level = _read("h", h, observations).over(names)
        slopes = {key: level.derivative(index) for index, key in enumerate(observations)}
        moves = {key: _read(f"drift of {key}", text, names) for key, text in drift.items()}
        columns = {
            key: [_read(f"gain of {key}", one, observations).over(names) for one in _several(text)]
            for key, text in gain.items()
        }
        by_itself = _sum(names, [_product(slopes[key], one) for key, one in moves.items()])
        weights = [
            _sum(names, [_product(slopes[key], one[a]) for key, one in columns.items()])
            for a in range(_n_actions(columns))
        ]
        needed = _sum(names, [_scaled(level, -rate), _scaled(by_itself, -1.0)])
        return cls._at_worst(needed, weights, observations, disturbance)

    @classmethod
    def sampled(
        cls,
        h: Text,
        step: Mapping[str, Text],
        rate: float,
        observations: Sequence[str],
        actions: Sequence[str],
        disturbance: Mapping[str, float],
    ) -> BarrierCondition:
        """h(step(s, u)) ≥ (1 - rate) · h(s); arguments as for `sampled_barrier`."""
        _check_rate(rate, "above 0 and at most 1", at_most=1.0)
        _check_keys(observations, step=step)
        names = [*observations, *disturbance, *actions]
        level = _read("h", h, observations)
        after = [
            _read(f"step of {key}", step[key], names) if key in step else Formula(key, names)
            for key in observations
        ]
        then = level.at_formulas(after)
        acted = range(len(observations) + len(disturbance), len(names))
        weights = [then.derivative(index) for index in acted]
        if any(one.depends_on(index) for one in weights for index in acted):
            raise InvalidConstraint(
                f"barrier: h after a step, {then.text}, is not affine in {', '.join(actions)}. "
                "Choose an h that is affine in what the action moves."
            )
        rest = then.at_zero(acted)
        needed = _sum(names, [_scaled(level.over(names), 1.0 - rate), _scaled(rest, -1.0)])
        return cls._at_worst(needed, weights, observations, disturbance)

    @classmethod
    def _at_worst(
        cls,
        needed: Formula,
        weights: Sequence[Formula],
        observations: Sequence[str],
        disturbance: Mapping[str, float],
    ) -> BarrierCondition:
        unknown = range(len(observations), len(observations) + len(disturbance))
        if all(one.number == 0.0 for one in weights):
            raise InvalidConstraint(
                "barrier: h depends on nothing that the action moves at once, so no action keeps "
                "it. Choose an h in which what the action moves has a part: of a cart that is "
                "pushed, its speed as well as its position."
            )
        for one in weights:
            if any(one.depends_on(index) for index in unknown):
                raise InvalidConstraint(
                    f"barrier: what the action does, {one.text}, depends on a disturbance "
                    f"({', '.join(disturbance)}). Only what moves by itself may."
                )
        worst = [needed.at_zero(unknown)]
        for index, (key, size) in zip(unknown, disturbance.items(), strict=True):
            check_number(size, f"The disturbance {key}")
            slope = needed.derivative(index)
            if any(slope.depends_on(other) for other in unknown):
                raise InvalidConstraint(
                    f"barrier: h is not affine in the disturbance {key!r}, so its worst value is "
                    "not known."
                )
            worst.append(_scaled(Formula.applied("abs", slope), abs(float(size))))
        bound = _sum(needed.names, worst).over(observations)
        return cls(tuple(_amount(one.over(observations)) for one in weights), _amount(bound))

    def at(self, where: Place, name: str) -> AtLeast:
        """As a constraint at every state of a place."""
        return AtLeast(self.bound, Mean(dict(enumerate(self.weights))), where, name)


def barrier(
    h: Text,
    drift: Mapping[str, Text],
    gain: Mapping[str, Text | Sequence[Text]],
    rate: float,
    where: Place,
    *,
    observations: Sequence[str],
    disturbance: Mapping[str, float] | None = None,
    name: str = "barrier",
) -> AtLeast:
    """∇h · (f + g u) ≥ -rate · h at every state of `where`, u the mean action.

    Args:
        h: a formula of the observations, which is to stay at 0 or above.
        drift: f, a formula for each observation that moves by itself, per unit of time.
        gain: g, for each observation that the action moves: a formula, or one for each dimension of
            the action.
        rate: how fast h may fall towards 0, per unit of time: above 0.
        where: the states: Points, or a region.
        observations: their names, in the order of a state.
        disturbance: how large each is at most, up or down; their names may stand in `drift`.
        name: for tables and messages.
    """
    unknown = dict(disturbance or {})
    condition = BarrierCondition.continuous(h, drift, gain, rate, observations, unknown)
    return condition.at(where, name)


def sampled_barrier(
    h: Text,
    step: Mapping[str, Text],
    rate: float,
    where: Place,
    *,
    observations: Sequence[str],
    actions: Sequence[str],
    disturbance: Mapping[str, float] | None = None,
    name: str = "barrier",
) -> AtLeast:
    """h(step(s, u)) ≥ (1 - rate) · h(s) at every state of `where`, u the mean action.

    Args:
        h: a formula of the observations, which is to stay at 0 or above.
        step: a formula of observations and actions for each observation that is another one after
            a step.
        rate: the share of h that may be lost in a step: above 0, at most 1.
        where: the states: Points, or a region.
        observations: their names, in the order of a state.
        actions: their names, in the order of the action's dimensions.
        disturbance: how large each is at most, up or down; their names may stand in `step`.
        name: for tables and messages.
    """
    unknown = dict(disturbance or {})
    condition = BarrierCondition.sampled(h, step, rate, observations, actions, unknown)
    return condition.at(where, name)


def _n_actions(columns: Mapping[str, Sequence[Formula]]) -> int:
    counts = {len(one) for one in columns.values()}
    if len(counts) != 1:
        raise InvalidConstraint(
            f"barrier: `gain` has {sorted(counts)} formulas for different observations: expected "
            "one for each dimension of the action, of every observation that it names."
        )
    return counts.pop()


def _amount(formula: Formula) -> Amount:
    return formula if formula.number is None else formula.number


def _read(what: str, text: Text, names: Sequence[str]) -> Formula:
    try:
        return Formula(str(text), names)
    except InvalidConstraint as error:
        raise InvalidConstraint(f"barrier: {what}, {str(text)!r}: {error}") from None


def _several(text: Text | Sequence[Text]) -> Sequence[Text]:
    return [text] if isinstance(text, str | int | float) else text


def _sum(names: Sequence[str], terms: Sequence[Formula]) -> Formula:
    total = Formula.of_number(0.0, names)
    for one in terms:
        total = Formula.applied("+", total, one)
    return total


def _product(one: Formula, other: Formula) -> Formula:
    return Formula.applied("*", one, other)


def _scaled(formula: Formula, factor: float) -> Formula:
    return _product(Formula.of_number(factor, formula.names), formula)


def _check_rate(rate: float, expected: str, at_most: float) -> None:
    check_number(rate, "The rate")
    if not 0.0 < rate <= at_most:
        raise InvalidConstraint(f"The rate must be {expected}, but got {rate:g}.")


def _check_keys(observations: Sequence[str], **given: Mapping[str, object]) -> None:
    for argument, mapping in given.items():
        for key in mapping:
            if key not in observations:
                raise InvalidConstraint(
                    f"barrier: `{argument}` names {key!r}, but the observations are "
                    f"{', '.join(observations)}."
                )
