"""Arithmetic as people write it, read by hand and never evaluated by Python."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar, final

from handrail.errors import InvalidConstraint

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
