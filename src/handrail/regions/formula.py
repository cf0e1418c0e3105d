"""Arithmetic as people write it, read by hand and never evaluated by Python."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar, final

import numpy as np

from handrail._types import Array
from handrail.errors import InvalidConstraint
from handrail.regions import interval as intervals
from handrail.regions.interval import Interval

T = TypeVar("T")


# A hostile file must not exhaust the stack or the time.
MAX_LENGTH = 1000


MAX_DEPTH = 100


_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>\*\*|[-+*/(),])|(?P<other>\S))",
    re.ASCII,
)


# A sign before an operand binds more than * and less than **: -t**2 is -(t**2).
_STRENGTHS = {"+": 1, "-": 1, "*": 2, "/": 2, "**": 4}


_SIGN_STRENGTH = 3


class Token(NamedTuple):
    """A number, a name, a sign, or the end.

    Attributes:
        kind: "number", "name", "sign" or "end".
        text: as it was written.
        column: where it starts, counted from 1.
    """

    kind: str
    text: str
    column: int

    @property
    def place(self) -> str:
        """Such as: 'cos' at column 6."""
        return "the end" if self.kind == "end" else f"{self.text!r} at column {self.column}"


class Algebra(ABC, Generic[T]):
    """What to make of the parts of an expression; each method may refuse."""

    @abstractmethod
    def number(self, value: float) -> T:
        """A finite number."""

    @abstractmethod
    def name(self, token: Token) -> T:
        """A name that is not called."""

    @abstractmethod
    def negative(self, value: T) -> T:
        """A minus before an operand."""

    @abstractmethod
    def combine(self, sign: Token, left: T, right: T) -> T:
        """One of + - * / ** between two operands."""

    @abstractmethod
    def call(self, name: Token, arguments: Sequence[T]) -> T:
        """A name that is called with at least one argument."""


def parse(text: str, algebra: Algebra[T], first_column: int = 1) -> T:
    """Read numbers, names, + - * / **, parentheses and calls.

    Args:
        text: the expression.
        algebra: what to make of it.
        first_column: of the text, if it is a part of a longer one.

    Raises:
        InvalidConstraint: if it cannot be read; the message names the column.
    """
    if len(text) > MAX_LENGTH:
        raise InvalidConstraint(
            f"an expression has at most {MAX_LENGTH} characters, but this one has {len(text)}."
        )
    return _Parser(_tokens(text, first_column), algebra).whole()


def _tokens(text: str, first_column: int) -> list[Token]:
    tokens = []
    for match in _TOKEN.finditer(text):
        kind = str(match.lastgroup)
        token = Token(kind, match[kind], match.start(kind) + first_column)
        if token.text == "^":
            raise InvalidConstraint(f"cannot read {token.place}: write ** for a power.")
        if kind == "other":
            raise InvalidConstraint(
                f"cannot read {token.place}: an expression has numbers, names, + - * / ** and "
                "parentheses."
            )
        tokens.append(token)
    if not tokens:
        raise InvalidConstraint("an expression is missing: there is nothing to read.")
    return [*tokens, Token("end", "", len(text) + first_column)]


@final
class _Parser(Generic[T]):
    """By the strength of operators (Pratt, 1973): two stack frames per level of nesting."""

    def __init__(self, tokens: Sequence[Token], algebra: Algebra[T]) -> None:
        self._tokens = tokens
        self._position = 0
        self._algebra = algebra

    def whole(self) -> T:
        value = self._expression(strength=0, depth=0)
        token = self._next
        if token.kind != "end":
            raise InvalidConstraint(f"expected an operator such as + or * before {token.place}.")
        return value

    @property
    def _next(self) -> Token:
        return self._tokens[self._position]

    def _take(self) -> Token:
        self._position += 1
        return self._tokens[self._position - 1]

    def _expression(self, strength: int, depth: int) -> T:
        """Operands and operators, as long as these bind more than `strength`."""
        if depth > MAX_DEPTH:
            raise InvalidConstraint(
                f"more than {MAX_DEPTH} levels of nesting before {self._next.place}: use fewer "
                "parentheses."
            )
        left = self._operand(depth)
        while _STRENGTHS.get(self._next.text, 0) > strength:
            sign = self._take()
            # ** is read from the right: 2**3**2 is 2**9.
            binding = _SIGN_STRENGTH if sign.text == "**" else _STRENGTHS[sign.text]
            left = self._algebra.combine(sign, left, self._expression(binding, depth + 1))
        return left

    def _operand(self, depth: int) -> T:
        token = self._take() if self._next.kind != "end" else self._next
        if token.text in ("+", "-"):
            value = self._expression(_SIGN_STRENGTH, depth + 1)
            return self._algebra.negative(value) if token.text == "-" else value
        if token.text == "(":
            value = self._expression(0, depth + 1)
            self._close(token)
            return value
        if token.kind == "number":
            return self._algebra.number(_finite(token))
        if token.kind == "name":
            if self._next.text == "(":
                return self._algebra.call(token, self._arguments(depth))
            return self._algebra.name(token)
        raise InvalidConstraint(f"expected a number, a name or ( instead of {token.place}.")

    def _arguments(self, depth: int) -> list[T]:
        opening = self._take()
        arguments = [self._expression(0, depth + 1)]
        while self._next.text == ",":
            self._take()
            arguments.append(self._expression(0, depth + 1))
        self._close(opening)
        return arguments

    def _close(self, opening: Token) -> None:
        if self._next.text != ")":
            raise InvalidConstraint(
                f"expected ) before {self._next.place}, to close the ( at column {opening.column}."
            )
        self._take()


def _finite(token: Token) -> float:
    value = float(token.text)
    if not math.isfinite(value):
        raise InvalidConstraint(f"the number {token.place} is too large.")
    return value


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


_RELATION = re.compile(r"[<>=!≤≥]+")


_RELATIONS = {"<=": "<=", "≤": "<=", ">=": ">=", "≥": ">="}


_FORM = "A half-space reads like: phi_dot <= -8*phi - 2."


class _Linear(NamedTuple):
    weights: Array
    constant: float

    @property
    def is_number(self) -> bool:
        return not self.weights.any()


def parse_linear(text: str, names: Sequence[str]) -> tuple[Array, str, float]:
    """Weights (n,), "<=" or ">=", and a bound: weights @ observation <= bound.

    Args:
        text: two sums of multiples of names, and a relation between them.
        names: of the observations, in order.

    Raises:
        InvalidConstraint: if it cannot be read, or is not linear.
    """
    if len(text) > MAX_LENGTH:
        raise InvalidConstraint(
            f"a half-space has at most {MAX_LENGTH} characters, but this one has {len(text)}."
        )
    found = list(_RELATION.finditer(text))
    if not found:
        raise InvalidConstraint(f"there is no <= or >= in it. {_FORM}")
    if len(found) > 1:
        raise InvalidConstraint(
            f"there are {len(found)} relations in it, but a half-space has one. Write several "
            "half-spaces."
        )
    relation = found[0]
    if relation[0] not in _RELATIONS:
        raise InvalidConstraint(
            f"cannot read {relation[0]!r} at column {relation.start() + 1}: a half-space contains "
            "its boundary; write <= or >=."
        )
    algebra = _Sums(names)
    left = parse(text[: relation.start()], algebra)
    right = parse(text[relation.end() :], algebra, relation.end() + 1)
    with np.errstate(over="ignore", invalid="ignore"):
        weights, bound = left.weights - right.weights, right.constant - left.constant
    if not weights.any():
        raise InvalidConstraint(f"no observation is left in it. {_FORM}")
    if not (np.isfinite(weights).all() and np.isfinite(bound)):
        raise InvalidConstraint("its numbers are too large, or divided by zero.")
    return weights, _RELATIONS[relation[0]], float(bound)


@final
class _Sums(Algebra[_Linear]):
    """Sums of multiples of the names, and a number."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)

    def number(self, value: float) -> _Linear:
        return _Linear(np.zeros(len(self._names)), value)

    def name(self, token: Token) -> _Linear:
        if token.text in self._names:
            weights = np.zeros(len(self._names))
            weights[self._names.index(token.text)] = 1.0
            return _Linear(weights, 0.0)
        if token.text == "pi":
            return self.number(float(np.pi))
        raise InvalidConstraint(
            f"unknown observation {token.place}: the observations are {', '.join(self._names)}."
        )

    def negative(self, value: _Linear) -> _Linear:
        return _Linear(-value.weights, -value.constant)

    def combine(self, sign: Token, left: _Linear, right: _Linear) -> _Linear:
        with np.errstate(all="ignore"):
            if sign.text == "+":
                return _Linear(left.weights + right.weights, left.constant + right.constant)
            if sign.text == "-":
                return _Linear(left.weights - right.weights, left.constant - right.constant)
            if sign.text == "*" and left.is_number:
                return _Linear(right.weights * left.constant, right.constant * left.constant)
            if sign.text == "*" and right.is_number:
                return _Linear(left.weights * right.constant, left.constant * right.constant)
            if sign.text == "/" and right.is_number:
                divisor = np.float64(right.constant)
                return _Linear(left.weights / divisor, float(left.constant / divisor))
            if sign.text == "**" and left.is_number and right.is_number:
                return self.number(float(np.float64(left.constant) ** right.constant))
        raise InvalidConstraint(
            f"{sign.place} makes it no half-space: an observation may be multiplied by a number "
            "and by nothing else."
        )

    def call(self, name: Token, arguments: Sequence[_Linear]) -> _Linear:
        raise InvalidConstraint(
            f"{name.place} is called like a function of {len(arguments)}, but a half-space is a "
            "sum of multiples of observations."
        )
