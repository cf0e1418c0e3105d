"""Bounds as people write them: y <= -8*x - 2, 0.2 <= left + right <= 0.4.

Linear formulas and the relations between them become lower <= weights @ x <= upper. A half-space is
one such bound on observations, a requirement one or two on actions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from handrail._types import Array
from handrail.formulas.formula import parse_formula
from handrail.formulas.reader import InvalidFormula, refuse_long
from handrail.formulas.state_function import Affine

_RELATION = re.compile(r"[<>=!≤≥]+")
_RELATIONS = {"<=": "<=", "≤": "<=", ">=": ">=", "≥": ">=", "==": "=="}
_MIRRORED = {"<=": ">=", ">=": "<=", "==": "=="}
_MEANT = {
    "=": "Did you mean ==?",
    "<": "A bound may be reached: write <= instead.",
    ">": "A bound may be reached: write >= instead.",
    "=<": "Did you mean <=?",
    "=>": "Did you mean >=?",
}


class LinearBounds(NamedTuple):
    """lower <= weights @ x <= upper, with weights (n_names,); infinite where there is no bound."""

    weights: Array
    lower: float
    upper: float


def parse_bounds(text: str, names: Sequence[str], kind: str = "name") -> LinearBounds:
    """Read bounds such as y <= -8*x - 2 or 0.2 <= x + 0.5*y <= 0.4.

    Args:
        text: two linear formulas and a relation between them, or one between two numbers.
        names: of the coordinates, in order.
        kind: what one of them is called.

    Raises:
        InvalidFormula: if it cannot be read, or is not linear.
    """
    refuse_long(text)
    sides, relations = _split(text, names, kind)
    bounds = _of_two(sides, relations[0]) if len(sides) == 2 else _of_three(sides, relations)
    if not bounds.weights.any():
        raise InvalidFormula(f"no {kind} is left in {text.strip()!r}.")
    if not np.isfinite(bounds.weights).all() or np.isnan([bounds.lower, bounds.upper]).any():
        raise InvalidFormula("its numbers are too large, or divided by zero.")
    return bounds


def _split(text: str, names: Sequence[str], kind: str) -> tuple[list[Affine], list[str]]:
    """The sides of the relations, and the relations between them."""
    found = list(_RELATION.finditer(text))
    for one in found:
        if one[0] not in _RELATIONS:
            remedy = _MEANT.get(one[0], "Use <=, >= or ==.")
            raise InvalidFormula(f"cannot read {one[0]!r} at column {one.start() + 1}. {remedy}")
    if not found:
        raise InvalidFormula("there is no <=, >= or == in it.")
    if len(found) > 2:
        raise InvalidFormula(f"there are {len(found)} relations in it; at most two.")
    starts = [0, *(one.end() for one in found)]
    ends = [*((one.start(), repr(one[0])) for one in found), (len(text), "the end")]
    sides = []
    for start, (stop, end) in zip(starts, ends, strict=True):
        if not text[start:stop].strip():
            raise InvalidFormula(f"one side of {found[0][0]} is empty.")
        formula = parse_formula(text[start:stop], names, kind, start + 1, end)
        sides.append(formula.affine())
    return sides, [_RELATIONS[one[0]] for one in found]


def _of_two(sides: Sequence[Affine], relation: str) -> LinearBounds:
    """Names to one side, numbers to the other."""
    left, right = sides
    if left.is_number:  # 0.95 <= x is x >= 0.95
        left, right, relation = right, left, _MIRRORED[relation]
    with np.errstate(over="ignore", invalid="ignore"):
        weights, bound = left.gain - right.gain, right.offset - left.offset
    lower = -math.inf if relation == "<=" else float(bound)
    upper = math.inf if relation == ">=" else float(bound)
    return LinearBounds(weights + 0.0, lower, upper)  # no -0


def _of_three(sides: Sequence[Affine], relations: Sequence[str]) -> LinearBounds:
    """Number <= sum <= number, or the same with >=."""
    if relations[0] != relations[1] or relations[0] == "==":
        raise InvalidFormula(f"cannot read {relations[0]} … {relations[1]}.")
    low, middle, high = sides if relations[0] == "<=" else reversed(sides)
    if not (low.is_number and high.is_number):
        raise InvalidFormula("only numbers may stand at the two ends.")
    with np.errstate(over="ignore", invalid="ignore"):
        lower, upper = low.offset - middle.offset, high.offset - middle.offset
    return LinearBounds(middle.gain + 0.0, float(lower), float(upper))
