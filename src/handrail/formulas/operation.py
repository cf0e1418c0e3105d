"""What a formula can do: each operation with its values, its enclosures over intervals, its slope.

A formula is a sequence of steps, operands before operators: no nesting, so that none is too deep.
Slopes are written in the same steps, so that a derivative is a formula, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar, final

import numpy as np

from handrail._types import Array, Mask
from handrail.formulas import interval as intervals


class Step(NamedTuple):
    """Puts a number or a coordinate on a stack, or replaces the topmost operands by a result.

    Attributes:
        operation: its name; empty for what is put on the stack.
        number: of what is put there, if it is a number.
        coordinate: its index, if it is none.
        place: where it was written, for messages.
    """

    operation: str = ""
    number: float = 0.0
    coordinate: int | None = None
    place: str = ""


Steps = tuple[Step, ...]

_Value = TypeVar("_Value")

# From the operands and their derivatives.
_Slope = Callable[[Sequence[Steps], Sequence[Steps]], Steps]


class Operation(NamedTuple):
    """One of the operations.

    Attributes:
        n_operands: that it takes.
        values: from arrays of operands.
        enclosures: from intervals of operands.
        slope: the derivative by a variable, from the operands and their derivatives by it.
        defined: whether it has a value for all operands of these intervals, if there are some of
            which it has none and yet a finite enclosure.
    """

    n_operands: int
    values: Callable[..., Any]
    enclosures: Callable[..., Any]
    slope: _Slope
    defined: Callable[..., Mask] | None = None


def number(value: float) -> Steps:
    """A formula that is one number."""
    return (Step(number=value),)


def coordinate(index: int) -> Steps:
    """A formula that is one coordinate."""
    return (Step(coordinate=index),)


def as_number(steps: Steps) -> float | None:
    """The number that the steps are, if they are one."""
    alone = len(steps) == 1 and not steps[0].operation and steps[0].coordinate is None
    return steps[0].number if alone else None


def apply(name: str, *operands: Steps, place: str = "") -> Steps:
    """The operation on these operands, shorter where that is plain.

    What is multiplied by 0 is 0, also where it has no value: what a derivative is multiplied by 0
    for does not matter.
    """
    known = [as_number(one) for one in operands]
    if all(one is not None for one in known):
        with np.errstate(all="ignore"):
            value = float(operation_named(name).values(*(np.float64(one) for one in known)))
        if math.isfinite(value):
            return number(value)
    for_one = _SHORTER.get(name)
    shorter = None if for_one is None else for_one(operands, known)
    if shorter is not None:
        return shorter
    return (*(step for one in operands for step in one), Step(operation=name, place=place))


def _shorter_sum(operands: Sequence[Steps], known: Sequence[float | None]) -> Steps | None:
    if known[0] == 0.0:
        return operands[1]
    return operands[0] if known[1] == 0.0 else None


def _shorter_difference(operands: Sequence[Steps], known: Sequence[float | None]) -> Steps | None:
    if known[1] == 0.0:
        return operands[0]
    return apply("negative", operands[1]) if known[0] == 0.0 else None


def _shorter_product(operands: Sequence[Steps], known: Sequence[float | None]) -> Steps | None:
    if 0.0 in known:
        return number(0.0)
    for factor, other in ((known[0], operands[1]), (known[1], operands[0])):
        if factor == 1.0:
            return other
        if factor == -1.0:
            return apply("negative", other)
    return None


def _shorter_quotient(operands: Sequence[Steps], known: Sequence[float | None]) -> Steps | None:
    if known[0] == 0.0:
        return number(0.0)
    return operands[0] if known[1] == 1.0 else None


def _shorter_power(operands: Sequence[Steps], known: Sequence[float | None]) -> Steps | None:
    if known[1] == 0.0:
        return number(1.0)
    return operands[0] if known[1] == 1.0 else None


_SHORTER: Mapping[str, Callable[[Sequence[Steps], Sequence[float | None]], Steps | None]] = {
    "+": _shorter_sum,
    "-": _shorter_difference,
    "*": _shorter_product,
    "/": _shorter_quotient,
    "**": _shorter_power,
}


# Slopes, of operands u and v with derivatives du and dv


def _of_product(operands: Sequence[Steps], slopes: Sequence[Steps]) -> Steps:
    (u, v), (du, dv) = operands, slopes
    return apply("+", apply("*", du, v), apply("*", u, dv))


def _of_quotient(operands: Sequence[Steps], slopes: Sequence[Steps]) -> Steps:
    (u, v), (du, dv) = operands, slopes
    fall = apply("/", apply("*", u, dv), apply("**", v, number(2.0)))
    return apply("-", apply("/", du, v), fall)


def _of_power(operands: Sequence[Steps], slopes: Sequence[Steps]) -> Steps:
    (u, v), (du, dv) = operands, slopes
    less = apply("**", u, apply("-", v, number(1.0)))
    of_base = apply("*", apply("*", v, less), du)
    of_exponent = apply("*", apply("*", apply("**", u, v), apply("log", u)), dv)
    return apply("+", of_base, of_exponent) if as_number(v) is None else of_base


def _chained(outer: Callable[[Steps], Steps]) -> _Slope:
    """Of a function of one operand."""
    return lambda operands, slopes: apply("*", outer(operands[0]), slopes[0])


def _one_minus_square(name: str, sign: str) -> Callable[[Steps], Steps]:
    """1 - tanh² and 1 + tan²."""
    return lambda u: apply(sign, number(1.0), apply("**", apply(name, u), number(2.0)))


def _of_choice(first_if_below: bool) -> _Slope:
    """Of min and max: the slope of the one that is chosen."""

    def slope(operands: Sequence[Steps], slopes: Sequence[Steps]) -> Steps:
        (u, v), (du, dv) = operands, slopes
        first = apply("below", u, v) if first_if_below else apply("below", v, u)
        return apply("+", dv, apply("*", first, apply("-", du, dv)))

    return slope


def _flat(operands: Sequence[Steps], slopes: Sequence[Steps]) -> Steps:
    """Of steps, but for where they jump."""
    del operands, slopes
    return number(0.0)


def _is_below(a: Array, b: Array) -> Array:
    result: Array = np.where(np.isnan(a) | np.isnan(b), np.nan, (a < b).astype(np.float64))
    return result


OPERATORS: Mapping[str, Operation] = {
    "+": Operation(2, np.add, intervals.add, lambda _, d: apply("+", *d)),
    "-": Operation(2, np.subtract, intervals.subtract, lambda _, d: apply("-", *d)),
    "*": Operation(2, np.multiply, intervals.multiply, _of_product),
    "/": Operation(2, np.divide, intervals.divide, _of_quotient),
    "**": Operation(2, np.power, intervals.power, _of_power, intervals.has_power),
    "negative": Operation(1, np.negative, intervals.negative, lambda _, d: apply("negative", *d)),
}

FUNCTIONS: Mapping[str, Operation] = {
    "sin": Operation(1, np.sin, intervals.sine, _chained(lambda u: apply("cos", u))),
    "cos": Operation(
        1, np.cos, intervals.cosine, _chained(lambda u: apply("negative", apply("sin", u)))
    ),
    "tan": Operation(1, np.tan, intervals.tangent, _chained(_one_minus_square("tan", "+"))),
    "exp": Operation(1, np.exp, intervals.exponential, _chained(lambda u: apply("exp", u))),
    "log": Operation(
        1, np.log, intervals.logarithm, _chained(lambda u: apply("/", number(1.0), u))
    ),
    "sqrt": Operation(
        1,
        np.sqrt,
        intervals.square_root,
        _chained(lambda u: apply("/", number(0.5), apply("sqrt", u))),
        intervals.has_root,
    ),
    "abs": Operation(1, np.abs, intervals.absolute, _chained(lambda u: apply("sign", u))),
    "tanh": Operation(
        1, np.tanh, intervals.hyperbolic_tangent, _chained(_one_minus_square("tanh", "-"))
    ),
    "min": Operation(2, np.minimum, intervals.smaller, _of_choice(first_if_below=True)),
    "max": Operation(2, np.maximum, intervals.larger, _of_choice(first_if_below=False)),
    "sign": Operation(1, np.sign, intervals.sign, _flat),
    "below": Operation(2, _is_below, intervals.below, _flat),
}


def operation_named(name: str) -> Operation:
    """An operator or a function."""
    return OPERATORS.get(name) or FUNCTIONS[name]


def run(
    steps: Steps, put: Callable[[Step], _Value], do: Callable[[Step, list[_Value]], _Value]
) -> _Value:
    """What is left on the stack in the end.

    Args:
        steps: of a formula.
        put: the value of a number or a coordinate.
        do: the value of an operation, from those of its operands.
    """
    stack: list[_Value] = []
    for step in steps:
        if not step.operation:
            stack.append(put(step))
            continue
        count = operation_named(step.operation).n_operands
        operands = stack[-count:]
        del stack[-count:]
        stack.append(do(step, operands))
    return stack[0]


def derivative(steps: Steps, by: int) -> Steps:
    """Of a formula by one of its coordinates."""

    def put(step: Step) -> tuple[Steps, Steps]:
        return (step,), number(1.0 if step.coordinate == by else 0.0)

    def do(step: Step, both: list[tuple[Steps, Steps]]) -> tuple[Steps, Steps]:
        operands, slopes = [one for one, _ in both], [slope for _, slope in both]
        whole = (*(one for operand in operands for one in operand), step)
        return whole, operation_named(step.operation).slope(operands, slopes)

    return run(steps, put, do)[1]


@lru_cache(maxsize=1024)
def partial_slope(name: str, by: int, known: tuple[float | None, ...]) -> Steps:
    """Of an operation by one of its operands: numbers where these are known, else coordinates."""
    operands = [coordinate(k) if one is None else number(one) for k, one in enumerate(known)]
    slopes = [number(1.0 if k == by else 0.0) for k in range(len(known))]
    return operation_named(name).slope(operands, slopes)


# A sign before an operand binds more than * and less than **: -t**2 is -(t**2).
STRENGTHS = {"+": 1, "-": 1, "*": 2, "/": 2, "**": 4}
SIGN_STRENGTH = 3
_WHOLE = 5  # a number, a name, a call


@final
@dataclass(frozen=True)
class _Written:
    """A part of a formula as text, and how strongly it holds together (as the reader has it)."""

    text: str
    strength: int

    def within(self, strength: int) -> str:
        """In parentheses, if what stands around it would tear it apart."""
        return self.text if self.strength >= strength else f"({self.text})"


def written(steps: Steps, names: Sequence[str]) -> str:
    """As a person would write it; read again, its values are the same to the last bit."""

    def put(step: Step) -> _Written:
        if step.coordinate is not None:
            return _Written(names[step.coordinate], _WHOLE)
        value = float(step.number)
        return _Written(_number_text(value), _WHOLE if value >= 0.0 else SIGN_STRENGTH)

    def do(step: Step, operands: list[_Written]) -> _Written:
        if step.operation in FUNCTIONS:
            listed = ", ".join(one.text for one in operands)
            return _Written(f"{step.operation}({listed})", _WHOLE)
        if step.operation == "negative":
            return _Written(f"-{operands[0].within(STRENGTHS['**'])}", SIGN_STRENGTH)
        return _joined(step.operation, *operands)

    return run(steps, put, do).text


def _joined(sign: str, left: _Written, right: _Written) -> _Written:
    strength = STRENGTHS[sign]
    if sign == "**":
        return _Written(f"{left.within(_WHOLE)}**{right.within(_WHOLE)}", strength)
    if sign == "+" and right.strength == SIGN_STRENGTH:  # a + -b is a - b, to the last bit
        return _Written(f"{left.within(strength)} - {right.text[1:]}", strength)
    space = " " if sign in "+-" else ""
    text = f"{left.within(strength)}{space}{sign}{space}{right.within(strength + 1)}"
    return _Written(text, strength)


def _number_text(value: float) -> str:
    short = f"{value:g}"
    return short if float(short) == value else repr(value)
