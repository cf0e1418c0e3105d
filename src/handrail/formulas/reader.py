"""Arithmetic as people write it, read into steps: by our own parser, never executed by Python.

Not by `ast.parse`: a coordinate or an action may be called raise, pass or in; where Python sees a
mistake differs from version to version, and is often the operand before it; and all of its grammar
that is not ours (1_000, 0x1f, t.real, f(x=1)) would have to be fenced off again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, final

import numpy as np

from handrail.errors import InvalidConstraint
from handrail.formulas.operation import (
    FUNCTIONS,
    SIGN_STRENGTH,
    STRENGTHS,
    Step,
    Steps,
    operation_named,
)

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


_CONSTANTS: Mapping[str, float] = {"pi": math.pi}


_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)"
    r"|(?P<sign>\*\*|[-+*/(),])|(?P<other>\S))",
    re.ASCII,
)

_REMEDIES = {
    "^": "write ** for a power.",
    "%": "nothing is in percent here. Write 0.95, not 95%.",
}


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


def read_steps(
    text: str,
    names: Sequence[str],
    kind: str = "name",
    first_column: int = 1,
    end: str = "the end",
) -> Steps:
    """Read a formula of numbers, names, pi, + - * / **, parentheses, and functions.

    The functions are sin, cos, tan, exp, log, sqrt, abs, tanh and sign, of two arguments min, max
    and below (1 where the first is below the second, else 0).

    Args:
        text: the formula.
        names: of the coordinates, in order.
        kind: what one of them is called.
        first_column: of the text, if it is a part of a longer one.
        end: what comes behind it.

    Raises:
        InvalidFormula: if it cannot be read; the message names the column.
    """
    return _FormulaReader(_tokens(text, first_column, end), tuple(names), kind).whole()


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
        self._steps: list[Step] = []

    def whole(self) -> Steps:
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
        while STRENGTHS.get(self._next.text, 0) > strength:
            sign = self._take()
            # ** is read from the right: 2**3**2 is 2**9.
            binding = SIGN_STRENGTH if sign.text == "**" else STRENGTHS[sign.text]
            constant = self._expression(binding, depth + 1) and constant
            self._add(sign.text, sign.place, constant)
        return constant

    def _operand(self, depth: int) -> bool:
        token = self._take() if self._next.kind != "end" else self._next
        if token.text in ("+", "-"):
            constant = self._expression(SIGN_STRENGTH, depth + 1)
            if token.text == "-":
                self._add("negative", token.place, constant)
            return constant
        if token.text == "(":
            constant = self._expression(0, depth + 1)
            self._close(token)
            return constant
        if token.kind == "number":
            self._steps.append(Step(number=_finite(token)))
            return True
        if token.kind == "name":
            return self._call(token, depth) if self._next.text == "(" else self._name(token)
        raise InvalidFormula(f"expected a number, a name or ( instead of {token.place}.")

    def _name(self, token: _Token) -> bool:
        if token.text in self._names:
            self._steps.append(Step(coordinate=self._names.index(token.text)))
            return False
        if token.text in _CONSTANTS:
            self._steps.append(Step(number=_CONSTANTS[token.text]))
            return True
        if token.text in FUNCTIONS:
            raise InvalidFormula(f"expected ( after the function {token.place}.")
        raise UnknownName(self._kind, token.text, token.place, self._names)

    def _call(self, name: _Token, depth: int) -> bool:
        if name.text not in FUNCTIONS:
            raise InvalidFormula(
                f"unknown function {name.place}: the functions are {', '.join(FUNCTIONS)}."
            )
        opening = self._take()
        constants = [self._expression(0, depth + 1)]
        while self._next.text == ",":
            self._take()
            constants.append(self._expression(0, depth + 1))
        self._close(opening)
        wanted = FUNCTIONS[name.text].n_operands
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
            self._steps.append(Step(operation=name, place=place))
            return
        operation = operation_named(name)
        operands = [np.float64(step.number) for step in self._steps[-operation.n_operands :]]
        with np.errstate(all="ignore"):
            value = float(operation.values(*operands))
        if not math.isfinite(value):
            raise InvalidFormula(f"the result of {place} is not a finite number.")
        self._steps[-operation.n_operands :] = [Step(number=value)]


def _finite(token: _Token) -> float:
    value = float(token.text)
    if not math.isfinite(value):
        raise InvalidFormula(f"the number {token.place} is too large.")
    return value
