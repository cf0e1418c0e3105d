"""Half-spaces as people write them, such as `phi_dot <= -8*phi - 2`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np

from handrail.arrays import Array
from handrail.errors import InvalidConstraint
from handrail.regions.parsing import MAX_LENGTH, Algebra, Token, parse

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
