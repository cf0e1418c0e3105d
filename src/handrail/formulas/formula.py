"""A formula: a number for every state, written over named coordinates.

It is evaluated at states, enclosed over boxes of them, by numbers or between two parallel planes
(the heart of a proof), differentiated, and says which sum of multiples of the coordinates it is, if
it is one. Curves are formulas in t; half-spaces and requirements are inequalities between formulas;
bounds that depend on the state are formulas, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np
from typing_extensions import override

from handrail._types import Array, Mask
from handrail.errors import InvalidConstraint
from handrail.formulas import interval as intervals
from handrail.formulas.interval import Interval
from handrail.formulas.operation import (
    Step,
    Steps,
    apply,
    as_number,
    coordinate,
    derivative,
    number,
    operation_named,
    partial_slope,
    run,
    written,
)
from handrail.formulas.reader import InvalidFormula, read_steps, refuse_long
from handrail.formulas.state_function import Affine, StateFunction

# Of a formula that was written by us, from derivatives of others.
_LONGEST = 1_000_000


class Band(NamedTuple):
    """Two parallel planes on each of n boxes, slope @ s + lowest ≤ f(s) ≤ slope @ s + highest.

    Attributes:
        slope: (n, n_coordinates).
        lowest: (n,).
        highest: (n,).
    """

    slope: Array
    lowest: Array
    highest: Array


@final
@dataclass(frozen=True)
class Formula(StateFunction):
    """A number for every state, as a text says: "0.5*dv - 1".

    Args:
        text: numbers, names, pi, + - * / **, parentheses, and the functions sin, cos, tan, exp,
            log, sqrt, abs, tanh, sign, min, max and below (of two).
        names: of the coordinates of a state, in order.

    Attributes:
        steps: what to do, operands before operators.
    """

    text: str
    names: Sequence[str]
    steps: Steps = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(self.names))
        if not self.steps:
            refuse_long(self.text)
            object.__setattr__(self, "steps", read_steps(self.text, self.names))

    @classmethod
    def of_steps(cls, steps: Steps, names: Sequence[str]) -> Formula:
        """Written by us."""
        return cls(written(steps, names), names, steps)

    @classmethod
    def of_number(cls, value: float, names: Sequence[str]) -> Formula:
        """The same number everywhere."""
        return cls.of_steps(number(value), names)

    @classmethod
    def applied(cls, name: str, *operands: Formula) -> Formula:
        """An operation on formulas over the same coordinates."""
        steps = apply(name, *(one.steps for one in operands))
        return cls.of_steps(steps, operands[0].names)

    def __str__(self) -> str:
        return self.text

    @property
    @override
    def n_coordinates(self) -> int:
        """As many as there are names."""
        return len(self.names)

    @override
    def at(self, states: Array) -> Array:
        """Values (n,) at states (n, n_names); infinite or NaN where it is not defined."""
        return self.evaluate(states)

    def evaluate(self, states: Array) -> Array:
        """Values (n,) at states (n, n_names); infinite or NaN where it is not defined."""
        n = len(states)

        def put(step: Step) -> Array:
            i = step.coordinate
            return np.full(n, step.number) if i is None else states[:, i]

        with np.errstate(all="ignore"):
            result: Array = run(
                self.steps, put, lambda step, of: operation_named(step.operation).values(*of)
            )
        return result.copy()

    def enclose(self, low: Array, high: Array) -> Interval:
        """Bounds (n,), (n,) on every defined value between two corners (n, n_names) each."""
        with np.errstate(all="ignore"):
            ends = _enclosed(self.steps, list(zip(low.T, high.T, strict=True)), len(low))
        return ends[0].copy(), ends[1].copy()

    def is_defined(self, low: Array, high: Array) -> Mask:
        """Boxes (n,) between two corners (n, n_names) where it surely has a value everywhere."""
        found = np.ones(len(low), dtype=bool)

        def noted(ends: Interval) -> Interval:
            np.logical_and(found, np.isfinite(ends[0]) & np.isfinite(ends[1]), out=found)
            return ends

        def do(step: Step, operands: list[Interval]) -> Interval:
            operation = operation_named(step.operation)
            if operation.defined is not None:
                np.logical_and(found, operation.defined(*operands), out=found)
            return noted(operation.enclosures(*operands))

        put = _putting(list(zip(low.T, high.T, strict=True)), len(low))
        with np.errstate(all="ignore"):
            run(self.steps, lambda step: noted(put(step)), do)
        return found

    def derivative(self, by: int) -> Formula:
        """By one of the coordinates; at a kink any slope of the two sides."""
        return self._slopes[by]

    @cached_property
    def _slopes(self) -> tuple[Formula, ...]:
        n = len(self.names)
        return tuple(Formula.of_steps(derivative(self.steps, i), self.names) for i in range(n))

    def band(self, low: Array, high: Array) -> Band:
        """Two parallel planes around it on boxes between two corners (n, n_names) each.

        By the mean value theorem, f(s) = f(c) + D (s - c) with slopes D of the box: the planes have
        a slope from the middle of those, and lie as far apart as the others ask for. Where slopes
        are not known, or steeper than it pays, they are level. Infinitely far apart where it may
        have no value. Rounded outwards.
        """
        with np.errstate(all="ignore"):
            tilted = self._tilted(low, high)
            level = self.enclose(low, high)
            narrower = tilted.highest - tilted.lowest <= level[1] - level[0]  # not of NaN
            slope = np.where(narrower[:, None], tilted.slope, 0.0)
            lowest = np.where(narrower, tilted.lowest, level[0])
            highest = np.where(narrower, tilted.highest, level[1])
        unknown = ~self.is_defined(low, high)
        return Band(slope, np.where(unknown, -np.inf, lowest), np.where(unknown, np.inf, highest))

    def _tilted(self, low: Array, high: Array) -> Band:
        centre = 0.5 * low + 0.5 * high
        offset = self.enclose(centre, centre)
        slope = np.zeros_like(low)
        for i, (least, most) in enumerate(self._slopes_on(low, high)):
            middle = np.where(least == most, least, 0.5 * least + 0.5 * most)
            slope[:, i] = np.where(np.isfinite(middle), middle, 0.0)
            at, ends = (centre[:, i], centre[:, i]), (low[:, i], high[:, i])
            chosen = (slope[:, i], slope[:, i])
            # (D_i - slope_i) (s_i - c_i) - slope_i c_i
            left = intervals.multiply(
                intervals.subtract((least, most), chosen), intervals.subtract(ends, at)
            )
            offset = intervals.add(offset, left)
            offset = intervals.subtract(offset, intervals.multiply(chosen, at))
        return Band(slope, *offset)

    def _slopes_on(self, low: Array, high: Array) -> list[Interval]:
        """What its derivatives are on boxes, by every coordinate: from operand to operation.

        The chain rule, with the slope of each operation enclosed where its operands are: as many
        steps as the formula has, where the derivatives written out would have many more.
        """
        n = len(low)
        interval = _putting(list(zip(low.T, high.T, strict=True)), n)

        def put(step: Step) -> _Sloped:
            i = step.coordinate
            if i is None:
                return _Sloped(interval(step), {}, step.number)
            return _Sloped(interval(step), {i: (np.ones(n), np.ones(n))}, None)

        def do(step: Step, of: list[_Sloped]) -> _Sloped:
            operands, known = [one.ends for one in of], tuple(one.number for one in of)
            slopes: dict[int, Interval] = {}
            for k, inner in enumerate(of):
                if not inner.slopes:
                    continue
                outer = _enclosed(partial_slope(step.operation, k, known), operands, n)
                for i, one in inner.slopes.items():
                    term = intervals.multiply(outer, one)
                    slopes[i] = intervals.add(slopes[i], term) if i in slopes else term
            return _Sloped(operation_named(step.operation).enclosures(*operands), slopes, None)

        found, none = run(self.steps, put, do).slopes, (np.zeros(n), np.zeros(n))
        return [found.get(i, none) for i in range(len(self.names))]

    def affine(self) -> Affine:
        """The sum of multiples of the coordinates that it is.

        Raises:
            InvalidFormula: if it is none; the message names what makes it so.
        """

        def put(step: Step) -> Affine:
            gain = np.zeros(len(self.names))
            if step.coordinate is not None:
                gain[step.coordinate] = 1.0
            return Affine(gain, step.number)

        with np.errstate(all="ignore"):
            return run(self.steps, put, _combined)

    @property
    def number(self) -> float | None:
        """The number that it is, if it is one."""
        return as_number(self.steps)

    def depends_on(self, index: int) -> bool:
        """Whether a coordinate is in it."""
        return any(step.coordinate == index for step in self.steps)

    def at_zero(self, indices: Sequence[int]) -> Formula:
        """With these coordinates set to 0."""
        values = [number(0.0) if i in indices else coordinate(i) for i in range(len(self.names))]
        return self.at_formulas([Formula.of_steps(one, self.names) for one in values])

    def at_formulas(self, values: Sequence[Formula]) -> Formula:
        """With a formula instead of each coordinate, all of them over the same other ones."""

        def put(step: Step) -> Steps:
            return (step,) if step.coordinate is None else values[step.coordinate].steps

        def do(step: Step, operands: list[Steps]) -> Steps:
            return apply(step.operation, *operands, place=step.place)

        return Formula.of_steps(run(self.steps, put, do), values[0].names)

    def over(self, names: Sequence[str]) -> Formula:
        """The same over other coordinates, by name; those that it depends on are among them."""
        where = {name: index for index, name in enumerate(names)}
        moved = tuple(
            step
            if step.coordinate is None
            else step._replace(coordinate=where[self.names[step.coordinate]])
            for step in self.steps
        )
        return Formula(self.text, names, moved)

    @override
    def plus(self, number: float) -> Formula:
        """Written behind it."""
        added = apply("+", self.steps, (Step(number=number),))
        sign, size = ("-", -number) if number < 0.0 else ("+", number)
        return Formula(f"{self.text} {sign} {size:g}", self.names, added)

    @override
    def describe(self) -> dict[str, Any]:
        return {"formula": written(self.steps, self.names), "names": list(self.names)}


def parse_formula(
    text: str,
    names: Sequence[str],
    kind: str = "name",
    first_column: int = 1,
    end: str = "the end",
) -> Formula:
    """Read a formula that may be a part of a longer text (`read_steps`)."""
    refuse_long(text)
    return Formula(text.strip(), names, read_steps(text, names, kind, first_column, end))


def formula_of(function: StateFunction) -> Formula:
    """What a function of the state is, written down.

    Raises:
        InvalidConstraint: if it is a Python function, into which nobody can look.
    """
    if isinstance(function, Formula):
        return function
    if isinstance(function, Affine):
        names = [f"s{i}" for i in range(function.n_coordinates)]
        steps = number(function.offset)
        for i, gain in enumerate(function.gain.tolist()):
            steps = apply("+", steps, apply("*", number(gain), coordinate(i)))
        return Formula.of_steps(steps, names)
    raise InvalidConstraint(
        f"Nothing can be proven about {function}: nobody can look into a Python function. Write it "
        "as an Affine or a Formula, or hold it where it is searched (prove=False)."
    )


def function_from(described: Mapping[str, Any]) -> StateFunction:
    """The function that `describe` described."""
    if "gain" in described:
        return Affine(described["gain"], described["offset"])
    text, names = str(described["formula"]), described["names"]
    if len(text) > _LONGEST:
        raise InvalidFormula(f"a formula of {len(text):,} characters was not written by us.")
    return Formula(text, names, read_steps(text, names))


class _Sloped(NamedTuple):
    """Between which ends something is, and its derivatives; the number that it is, if it is one."""

    ends: Interval
    slopes: dict[int, Interval]
    number: float | None


def _putting(coordinates: Sequence[Interval], n: int) -> Callable[[Step], Interval]:
    """Intervals (n,) of coordinates, and of numbers."""

    def put(step: Step) -> Interval:
        if step.coordinate is not None:
            return coordinates[step.coordinate]
        return np.full(n, step.number), np.full(n, step.number)

    return put


def _enclosed(steps: Steps, coordinates: Sequence[Interval], n: int) -> Interval:
    """Of n formulas at once, where the coordinates are in these intervals (n,) each."""

    def do(step: Step, operands: list[Interval]) -> Interval:
        result: Interval = operation_named(step.operation).enclosures(*operands)
        return result

    return run(steps, _putting(coordinates, n), do)


def _combined(step: Step, operands: Sequence[Affine]) -> Affine:
    """Of the operations, those that keep a sum of multiples one."""
    numbers = [operand.is_number for operand in operands]
    if all(numbers):
        values = (np.float64(operand.offset) for operand in operands)
        constant = float(operation_named(step.operation).values(*values))
        return Affine(np.zeros_like(operands[0].gain), constant)
    if step.operation == "negative":
        return Affine(-operands[0].gain, -operands[0].offset)
    if step.operation in ("+", "-"):
        left, right = operands
        if step.operation == "+":
            return Affine(left.gain + right.gain, left.offset + right.offset)
        return Affine(left.gain - right.gain, left.offset - right.offset)
    if step.operation == "*" and any(numbers):
        factor, other = operands if numbers[0] else (operands[1], operands[0])
        return Affine(other.gain * factor.offset, other.offset * factor.offset)
    if step.operation == "/" and numbers[1]:
        divisor = np.float64(operands[1].offset)
        return Affine(operands[0].gain / divisor, float(operands[0].offset / divisor))
    raise InvalidFormula(
        f"{step.place} makes it not linear: names may be multiplied by numbers, and by nothing "
        "else."
    )
