"""Formulas in t, such as `0.05*cos(t) - 0.2`: their values, and bounds on these over intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from handrail.arrays import Array
from handrail.errors import InvalidConstraint
from handrail.regions import intervals
from handrail.regions.intervals import Interval
from handrail.regions.parsing import Algebra, Token, parse

_Function = Callable[..., Any]


class _Operation(NamedTuple):
    n_operands: int
    values: _Function
    enclosures: _Function


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


class _Step(NamedTuple):
    """Puts a number or t on a stack, or replaces the topmost operands by a result."""

    name: str  # "number", "t", or an operation's
    number: float = 0.0


_Program = tuple[_Step, ...]


@final
@dataclass(frozen=True)
class Expression:
    """A formula in t.

    Attributes:
        text: as it was written.
        program: what to do, operands before operators: no nesting, so that no formula is too deep.
    """

    text: str
    program: _Program

    def evaluate(self, t: Array) -> Array:
        """Values (n,) at t (n,); infinite or NaN where it is not defined."""
        stack: list[Array] = []
        with np.errstate(all="ignore"):
            for step in self.program:
                if step.name == "number":
                    stack.append(np.full(len(t), step.number))
                elif step.name == "t":
                    stack.append(np.asarray(t, dtype=np.float64))
                else:
                    _replace(stack, step.name, "values")
        return stack[0].copy()

    def enclose(self, low: Array, high: Array) -> Interval:
        """Bounds (n,), (n,) on every defined value for t between low (n,) and high (n,)."""
        stack: list[Interval] = []
        with np.errstate(all="ignore"):
            for step in self.program:
                if step.name == "number":
                    stack.append((np.full(len(low), step.number), np.full(len(low), step.number)))
                elif step.name == "t":
                    stack.append((low, high))
                else:
                    _replace(stack, step.name, "enclosures")
        return stack[0][0].copy(), stack[0][1].copy()


def parse_expression(text: str) -> Expression:
    """Read a formula of numbers, t, pi, + - * / **, parentheses, and functions.

    The functions are sin, cos, tan, exp, log, sqrt, abs, tanh, min and max (of two).

    Raises:
        InvalidConstraint: if it cannot be read; the message names the column.
    """
    return Expression(text, parse(text, _Programs()))


def _replace(stack: list[Any], name: str, kind: str) -> None:
    """The topmost operands by the operation's result."""
    operation = _OPERATORS.get(name) or _FUNCTIONS[name]
    operands = stack[-operation.n_operands :]
    del stack[-operation.n_operands :]
    stack.append(getattr(operation, kind)(*operands))


@final
class _Programs(Algebra[_Program]):
    """Programs from the parts of a formula; what does not depend on t becomes a number."""

    def number(self, value: float) -> _Program:
        return (_Step("number", value),)

    def name(self, token: Token) -> _Program:
        if token.text == "t":
            return (_Step("t"),)
        if token.text == "pi":
            return self.number(float(np.pi))
        if token.text in _FUNCTIONS:
            raise InvalidConstraint(f"expected ( after the function {token.place}.")
        raise InvalidConstraint(f"unknown name {token.place}: the names are t and pi.")

    def negative(self, value: _Program) -> _Program:
        return _folded((*value, _Step("negative")), "a number")

    def combine(self, sign: Token, left: _Program, right: _Program) -> _Program:
        return _folded((*left, *right, _Step(sign.text)), f"the result of {sign.place}")

    def call(self, name: Token, arguments: Sequence[_Program]) -> _Program:
        if name.text not in _FUNCTIONS:
            raise InvalidConstraint(
                f"unknown function {name.place}: the functions are {', '.join(_FUNCTIONS)}."
            )
        wanted = _FUNCTIONS[name.text].n_operands
        if len(arguments) != wanted:
            raise InvalidConstraint(
                f"{name.place} takes {wanted} argument{'s' * (wanted > 1)}, but got "
                f"{len(arguments)}."
            )
        steps = tuple(step for argument in arguments for step in argument)
        return _folded((*steps, _Step(name.text)), f"the result of {name.place}")


def _folded(program: _Program, what: str) -> _Program:
    """A single number if there is no t in it: exact, where intervals would have to be widened."""
    if any(step.name == "t" for step in program):
        return program
    value = float(Expression("", program).evaluate(np.zeros(1))[0])
    if not np.isfinite(value):
        raise InvalidConstraint(f"{what} is not a finite number, whatever t is.")
    return (_Step("number", value),)
