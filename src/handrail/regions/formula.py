"""Arithmetic as people write it: read by one parser, never executed by Python.

A `Formula` is over named coordinates. It is evaluated at states, enclosed over intervals of them
(the heart of a proof on a curve), and says which sum of multiples of the coordinates it is, if it
is one. Curves are formulas in t; half-spaces and requirements are inequalities between formulas.

Not by `ast.parse`: a coordinate or an action may be called raise, pass or in; where Python sees a
mistake differs from version to version, and is often the operand before it; and all of its grammar
that is not ours (1_000, 0x1f, t.real, f(x=1)) would have to be fenced off again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import numpy as np

from handrail._types import Array
from handrail.errors import InvalidConstraint
from handrail.regions import interval as intervals
from handrail.regions.interval import Interval

# A hostile file must not exhaust the stack or the time.
MAX_LENGTH = 1000
MAX_DEPTH = 100


class InvalidFormula(InvalidConstraint):
    """A formula that cannot be read; the message names the column."""


@final
class UnknownName(InvalidFormula):
    """A name that is none of the coordinates.

    Args:
        kind: what it is not.
        name: as it was written.
        place: the name and its column.
        known: the coordinates.
    """

    def __init__(self, kind: str, name: str, place: str, known: Sequence[str]) -> None:
        super().__init__(f"unknown {kind} {place}: there are {', '.join(known)} and pi.")
        self.name, self.place = name, place


# What is done


class _Operation(NamedTuple):
    n_operands: int
    values: Callable[..., Any]
    enclosures: Callable[..., Any]


_OPERATORS: Mapping[str, _Operation] = {
    "+": _Operation(2, np.add, intervals.add),
    "-": _Operation(2, np.subtract, intervals.subtract),
    "*": _Operation(2, np.multiply, intervals.multiply),
    "/": _Operation(2, np.divide, intervals.divide),
    "**": _Operation(2, np.power, intervals.power),
    "negative": _Operation(1, np.negative, intervals.negative),
}

_FUNCTIONS: Mapping[str, _Operation] = {
    "sin": _Operation(1, np.sin, intervals.sine),
    "cos": _Operation(1, np.cos, intervals.cosine),
    "tan": _Operation(1, np.tan, intervals.tangent),
    "exp": _Operation(1, np.exp, intervals.exponential),
    "log": _Operation(1, np.log, intervals.logarithm),
    "sqrt": _Operation(1, np.sqrt, intervals.square_root),
    "abs": _Operation(1, np.abs, intervals.absolute),
    "tanh": _Operation(1, np.tanh, intervals.hyperbolic_tangent),
    "min": _Operation(2, np.minimum, intervals.smaller),
    "max": _Operation(2, np.maximum, intervals.larger),
}

_CONSTANTS: Mapping[str, float] = {"pi": math.pi}


class _Step(NamedTuple):
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


@final
@dataclass(frozen=True)
class Formula:
    """A number for every state.

    Attributes:
        text: as it was written.
        names: of the coordinates, in order.
        steps: what to do, operands before operators: no nesting, so that no formula is too deep.
    """

    text: str
    names: tuple[str, ...]
    steps: tuple[_Step, ...] = field(repr=False)

    def evaluate(self, states: Array) -> Array:
        """Values (n,) at states (n, n_names); infinite or NaN where it is not defined."""
        n = len(states)
        with np.errstate(all="ignore"):
            result: Array = self._run(
                lambda number: np.full(n, number), lambda i: states[:, i], "values"
            )
        return result.copy()

    def enclose(self, low: Array, high: Array) -> Interval:
        """Bounds (n,), (n,) on every defined value between two corners (n, n_names) each."""
        n = len(low)
        with np.errstate(all="ignore"):
            ends: Interval = self._run(
                lambda number: (np.full(n, number), np.full(n, number)),
                lambda i: (low[:, i], high[:, i]),
                "enclosures",
            )
        return ends[0].copy(), ends[1].copy()

    def affine(self) -> Affine:
        """The sum of multiples of the coordinates that it is.

        Raises:
            InvalidFormula: if it is none; the message names what makes it so.
        """
        stack: list[Affine] = []
        with np.errstate(all="ignore"):
            for step in self.steps:
                if step.operation:
                    count = _operation(step.operation).n_operands
                    operands = stack[-count:]
                    del stack[-count:]
                    stack.append(_combined(step, operands))
                else:
                    weights = np.zeros(len(self.names))
                    if step.coordinate is not None:
                        weights[step.coordinate] = 1.0
                    stack.append(Affine(weights, step.number))
        return stack[0]

    def _run(
        self, number: Callable[[float], Any], coordinate: Callable[[int], Any], kind: str
    ) -> Any:
        stack: list[Any] = []
        for step in self.steps:
            if step.operation:
                operation = _operation(step.operation)
                operands = stack[-operation.n_operands :]
                del stack[-operation.n_operands :]
                stack.append(getattr(operation, kind)(*operands))
            elif step.coordinate is not None:
                stack.append(coordinate(step.coordinate))
            else:
                stack.append(number(step.number))
        return stack[0]


def _operation(name: str) -> _Operation:
    return _OPERATORS.get(name) or _FUNCTIONS[name]


class Affine(NamedTuple):
    """weights @ x + constant, with weights (n_names,)."""

    weights: Array
    constant: float

    @property
    def is_number(self) -> bool:
        """Whether nothing depends on a coordinate."""
        return not self.weights.any()


def _combined(step: _Step, operands: Sequence[Affine]) -> Affine:
    """Of the operations, those that keep a sum of multiples one."""
    numbers = [operand.is_number for operand in operands]
    if all(numbers):
        values = (np.float64(operand.constant) for operand in operands)
        constant = float(_operation(step.operation).values(*values))
        return Affine(np.zeros_like(operands[0].weights), constant)
    if step.operation == "negative":
        return Affine(-operands[0].weights, -operands[0].constant)
    if step.operation in ("+", "-"):
        (left, a), (right, b) = operands
        return Affine(left + right, a + b) if step.operation == "+" else Affine(left - right, a - b)
    if step.operation == "*" and any(numbers):
        number, other = operands if numbers[0] else (operands[1], operands[0])
        return Affine(other.weights * number.constant, other.constant * number.constant)
    if step.operation == "/" and numbers[1]:
        divisor = np.float64(operands[1].constant)
        return Affine(operands[0].weights / divisor, float(operands[0].constant / divisor))
    raise InvalidFormula(
        f"{step.place} makes it not linear: names may be multiplied by numbers, and by nothing "
        "else."
    )


# What is read

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>\*\*|[-+*/(),])|(?P<other>\S))",
    re.ASCII,
)

_REMEDIES = {
    "^": "write ** for a power.",
    "%": "nothing is in percent here. Write 0.95, not 95%.",
}

# A sign before an operand binds more than * and less than **: -t**2 is -(t**2).
_STRENGTHS = {"+": 1, "-": 1, "*": 2, "/": 2, "**": 4}
_SIGN_STRENGTH = 3


class _Token(NamedTuple):
    """A number, a name, a sign or the end, as it was written, and its column from 1.

    The text of the end is what comes there.
    """

    kind: str
    text: str
    column: int

    @property
    def place(self) -> str:
        """Such as: 'cos' at column 6."""
        return self.text if self.kind == "end" else f"{self.text!r} at column {self.column}"


def parse_formula(
    text: str,
    names: Sequence[str],
    kind: str = "name",
    first_column: int = 1,
    end: str = "the end",
) -> Formula:
    """Read a formula of numbers, names, pi, + - * / **, parentheses, and functions.

    The functions are sin, cos, tan, exp, log, sqrt, abs, tanh, min and max (of two).

    Args:
        text: the formula.
        names: of the coordinates, in order.
        kind: what one of them is called.
        first_column: of the text, if it is a part of a longer one.
        end: what comes behind it.

    Raises:
        InvalidFormula: if it cannot be read; the message names the column.
    """
    refuse_long(text)
    reader = _FormulaReader(_tokens(text, first_column, end), tuple(names), kind)
    return Formula(text, tuple(names), reader.whole())


def refuse_long(text: str) -> None:
    """More than anybody writes by hand."""
    if len(text) > MAX_LENGTH:
        raise InvalidFormula(
            f"an expression has at most {MAX_LENGTH} characters, but this one has {len(text)}."
        )


def _tokens(text: str, first_column: int, end: str) -> list[_Token]:
    tokens = []
    for match in _TOKEN.finditer(text):
        kind = str(match.lastgroup)
        token = _Token(kind, match[kind], match.start(kind) + first_column)
        if kind == "other":
            remedy = _REMEDIES.get(
                token.text, "an expression has numbers, names, + - * / ** and parentheses."
            )
            raise InvalidFormula(f"cannot read {token.place}: {remedy}")
        tokens.append(token)
    if not tokens:
        raise InvalidFormula("an expression is missing: there is nothing to read.")
    return [*tokens, _Token("end", end, len(text) + first_column)]


@final
class _FormulaReader:
    """By the strength of operators (Pratt, 1973): two stack frames per level of nesting.

    What does not depend on a coordinate becomes a number at once: exact, where intervals would
    have to be widened. So an operation of numbers finds them as the last steps.
    """

    def __init__(self, tokens: Sequence[_Token], names: tuple[str, ...], kind: str) -> None:
        self._tokens = tokens
        self._names = names
        self._kind = kind
        self._position = 0
        self._steps: list[_Step] = []

    def whole(self) -> tuple[_Step, ...]:
        self._expression(strength=0, depth=0)
        token = self._next
        if token.kind != "end":
            together = " Write one at a time, in a list." if token.text == "and" else ""
            raise InvalidFormula(
                f"expected an operator such as + or * before {token.place}.{together}"
            )
        return tuple(self._steps)

    @property
    def _next(self) -> _Token:
        return self._tokens[self._position]

    def _take(self) -> _Token:
        self._position += 1
        return self._tokens[self._position - 1]

    def _expression(self, strength: int, depth: int) -> bool:
        """Operands and operators that bind more than `strength`; whether it is a number."""
        if depth > MAX_DEPTH:
            raise InvalidFormula(
                f"more than {MAX_DEPTH} levels of nesting before {self._next.place}: use fewer "
                "parentheses."
            )
        constant = self._operand(depth)
        while _STRENGTHS.get(self._next.text, 0) > strength:
            sign = self._take()
            # ** is read from the right: 2**3**2 is 2**9.
            binding = _SIGN_STRENGTH if sign.text == "**" else _STRENGTHS[sign.text]
            constant = self._expression(binding, depth + 1) and constant
            self._add(sign.text, sign.place, constant)
        return constant

    def _operand(self, depth: int) -> bool:
        token = self._take() if self._next.kind != "end" else self._next
        if token.text in ("+", "-"):
            constant = self._expression(_SIGN_STRENGTH, depth + 1)
            if token.text == "-":
                self._add("negative", token.place, constant)
            return constant
        if token.text == "(":
            constant = self._expression(0, depth + 1)
            self._close(token)
            return constant
        if token.kind == "number":
            self._steps.append(_Step(number=_finite(token)))
            return True
        if token.kind == "name":
            return self._call(token, depth) if self._next.text == "(" else self._name(token)
        raise InvalidFormula(f"expected a number, a name or ( instead of {token.place}.")

    def _name(self, token: _Token) -> bool:
        if token.text in self._names:
            self._steps.append(_Step(coordinate=self._names.index(token.text)))
            return False
        if token.text in _CONSTANTS:
            self._steps.append(_Step(number=_CONSTANTS[token.text]))
            return True
        if token.text in _FUNCTIONS:
            raise InvalidFormula(f"expected ( after the function {token.place}.")
        raise UnknownName(self._kind, token.text, token.place, self._names)

    def _call(self, name: _Token, depth: int) -> bool:
        if name.text not in _FUNCTIONS:
            raise InvalidFormula(
                f"unknown function {name.place}: the functions are {', '.join(_FUNCTIONS)}."
            )
        opening = self._take()
        constants = [self._expression(0, depth + 1)]
        while self._next.text == ",":
            self._take()
            constants.append(self._expression(0, depth + 1))
        self._close(opening)
        wanted = _FUNCTIONS[name.text].n_operands
        if len(constants) != wanted:
            raise InvalidFormula(
                f"{name.place} takes {wanted} argument{'s' * (wanted > 1)}, but got "
                f"{len(constants)}."
            )
        self._add(name.text, name.place, all(constants))
        return all(constants)

    def _close(self, opening: _Token) -> None:
        if self._next.text != ")":
            raise InvalidFormula(
                f"expected ) before {self._next.place}, to close the ( at column {opening.column}."
            )
        self._take()

    def _add(self, name: str, place: str, constant: bool) -> None:
        """The operation; of numbers, its result instead."""
        if not constant:
            self._steps.append(_Step(operation=name, place=place))
            return
        operation = _operation(name)
        operands = [np.float64(step.number) for step in self._steps[-operation.n_operands :]]
        with np.errstate(all="ignore"):
            value = float(operation.values(*operands))
        if not math.isfinite(value):
            raise InvalidFormula(f"the result of {place} is not a finite number.")
        self._steps[-operation.n_operands :] = [_Step(number=value)]


def _finite(token: _Token) -> float:
    value = float(token.text)
    if not math.isfinite(value):
        raise InvalidFormula(f"the number {token.place} is too large.")
    return value
