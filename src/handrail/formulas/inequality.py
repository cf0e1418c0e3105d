"""Bounds as people write them: y <= -8*x - 2, 0.2 <= left + right <= 0.4, force >= -12*phi.

Linear formulas and the relations between them become lower <= weights @ x <= upper. A half-space is
one such bound on observations, a requirement one or two on actions; of the latter, weights and
bounds may be formulas of the observations.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from handrail._types import Array
from handrail.formulas.formula import Formula, parse_formula
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


_Side = TypeVar("_Side")


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
    formulas, relations = _split(text, names, kind)
    sides = [one.affine() for one in formulas]
    bounds = _of_two(sides, relations[0]) if len(sides) == 2 else _of_three(sides, relations)
    if not bounds.weights.any():
        raise InvalidFormula(f"no {kind} is left in {text.strip()!r}.")
    if not np.isfinite(bounds.weights).all() or np.isnan([bounds.lower, bounds.upper]).any():
        raise InvalidFormula("its numbers are too large, or divided by zero.")
    return bounds


class StateBounds(NamedTuple):
    """lower(s) <= Σ weights(s) · x <= upper(s), formulas over the state; None for no bound."""

    weights: tuple[Formula, ...]
    lower: Formula | None
    upper: Formula | None


def parse_state_bounds(
    text: str, names: Sequence[str], state: Sequence[str], kind: str = "name"
) -> StateBounds:
    """Read bounds whose weights and ends depend on a state, such as x <= 0.5*speed - 1.

    Args:
        text: formulas and one or two relations between them.
        names: of what is bounded, in order.
        state: names of the coordinates of a state; one that is also among the others is hidden.
        kind: what one of the names is called.

    Raises:
        InvalidFormula: if it cannot be read, or is not linear in the names.
    """
    refuse_long(text)
    known = [*names, *(one for one in state if one not in names)]
    sides, relations = _split(text, known, kind)
    bounded = range(len(names))
    if len(sides) == 2:
        found = _between_two(sides, relations[0], bounded)
    else:
        found = _between_three(sides, relations, bounded)
    if all(one.number == 0.0 for one in found.weights):
        raise InvalidFormula(f"no {kind} is left in {text.strip()!r}.")
    if any(one.depends_on(i) for one in found.weights for i in bounded):
        raise InvalidFormula(
            f"it is not linear in {', '.join(names)}: they may be multiplied by numbers and by "
            f"what depends on {', '.join(state)}, and by nothing else."
        )
    lower, upper = (None if one is None else one.over(state) for one in found[1:])
    return StateBounds(tuple(one.over(state) for one in found.weights), lower, upper)


def _between_two(sides: Sequence[Formula], relation: str, bounded: Sequence[int]) -> StateBounds:
    """What is bounded to one side, the rest to the other: as it was written, if it was there."""
    left, right = sides
    if not any(left.depends_on(i) for i in bounded):  # 0.5*speed >= x is x <= 0.5*speed
        left, right, relation = right, left, _MIRRORED[relation]
    weights = tuple(_less(left, right).derivative(i) for i in bounded)
    end, rest = right, left.at_zero(bounded)
    if any(right.depends_on(i) for i in bounded) or rest.number != 0.0:
        end = _less(right.at_zero(bounded), rest)
    return StateBounds(
        weights, None if relation == "<=" else end, None if relation == ">=" else end
    )


def _between_three(
    sides: Sequence[Formula], relations: Sequence[str], bounded: Sequence[int]
) -> StateBounds:
    """What is bounded stands in the middle."""
    low, middle, high = _in_order(sides, relations)
    if any(one.depends_on(i) for one in (low, high) for i in bounded):
        raise InvalidFormula("what is bounded must stand in the middle, and not at the two ends.")
    weights = tuple(middle.derivative(i) for i in bounded)
    rest = middle.at_zero(bounded)
    if rest.number == 0.0:
        return StateBounds(weights, low, high)
    return StateBounds(weights, _less(low, rest), _less(high, rest))


def _less(one: Formula, other: Formula) -> Formula:
    return Formula.applied("-", one, other)


def _split(text: str, names: Sequence[str], kind: str) -> tuple[list[Formula], list[str]]:
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
        sides.append(parse_formula(text[start:stop], names, kind, start + 1, end))
    return sides, [_RELATIONS[one[0]] for one in found]


def _in_order(sides: Sequence[_Side], relations: Sequence[str]) -> tuple[_Side, _Side, _Side]:
    """Of three sides the lowest first."""
    if relations[0] != relations[1] or relations[0] == "==":
        raise InvalidFormula(f"cannot read {relations[0]} … {relations[1]}.")
    low, middle, high = sides if relations[0] == "<=" else reversed(sides)
    return low, middle, high


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
    low, middle, high = _in_order(sides, relations)
    if not (low.is_number and high.is_number):
        raise InvalidFormula("only numbers may stand at the two ends.")
    with np.errstate(over="ignore", invalid="ignore"):
        lower, upper = low.offset - middle.offset, high.offset - middle.offset
    return LinearBounds(middle.gain + 0.0, float(lower), float(upper))
