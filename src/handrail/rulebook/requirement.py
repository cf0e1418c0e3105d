"""The actions of a file: their names, and the ranges of continuous ones."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, final

from handrail.constraints import AtLeast, AtMost, Between, Equal, PlacedConstraint, action_about
from handrail.errors import InvalidConstraint
from handrail.policies import MEAN, PROBABILITY, Quantity
from handrail.regions import Place, Points
from handrail.rulebook.findings import unknown


@final
@dataclass(frozen=True)
class Actions:
    """What the policy decides on.

    Attributes:
        names: in the environment's order.
        ranges: (from, to) of each continuous action; None if actions are discrete.
    """

    names: tuple[str, ...]
    ranges: tuple[tuple[float, float], ...] | None

    @classmethod
    def of(cls, declared: list[str] | Mapping[str, list[float]]) -> Actions:
        """As a file declares them."""
        if isinstance(declared, Mapping):
            return cls(tuple(declared), tuple((low, high) for low, high in declared.values()))
        return cls(tuple(declared), None)

    @property
    def quantity(self) -> Quantity:
        """What requirements are about."""
        return MEAN if self.ranges else PROBABILITY

    def __len__(self) -> int:
        return len(self.names)

    def __str__(self) -> str:
        if not self.ranges:
            return ", ".join(self.names)
        pairs = zip(self.names, self.ranges, strict=True)
        return ", ".join(f"{name} from {low:g} to {high:g}" for name, (low, high) in pairs)


_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<relation>[<>=!≤≥]+)|(?P<sign>[-+*%])|(?P<other>\S))",
    re.ASCII,
)


_RELATIONS = {"<=": "<=", "≤": "<=", ">=": ">=", "≥": ">=", "==": "=="}


_REMEDIES = {
    "=": "Did you mean ==?",
    "<": "A bound may be reached: write <= instead.",
    ">": "A bound may be reached: write >= instead.",
    "=<": "Did you mean <=?",
    "=>": "Did you mean >=?",
}


_FORM = "A requirement reads like: right >= 0.95, 0.2 <= left <= 0.4, 0.5*left + right <= 0.8."


@final
@dataclass(frozen=True)
class Requirement:
    """lower ≤ Σ weight · action ≤ upper, of probabilities or of mean actions.

    Attributes:
        quantity: what it is about.
        weights: of each action, by its index.
        lower: -inf for none.
        upper: +inf for none.
        text: as it was written.
    """

    quantity: Quantity
    weights: Mapping[int, float]
    lower: float
    upper: float
    text: str = field(compare=False)

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for requirements that say the same."""
        return (*sorted(self.weights.items()), self.lower, self.upper)


class _Token(NamedTuple):
    kind: str
    text: str


class _Sum(NamedTuple):
    weights: dict[int, float]
    constant: float


def parse_requirement(text: str, actions: Actions) -> Requirement:
    """A requirement on these actions.

    Raises:
        InvalidConstraint: if it cannot be read, or asks for what no policy can do.
    """
    sides, relations = _split(_tokens(text))
    sums = [_sum(side, actions.names) for side in sides]
    weights, lower, upper = (_chain if len(sums) == 3 else _single)(sums, relations)
    if not weights:
        raise InvalidConstraint(f"no action is left in {text.strip()!r}. {_FORM}")
    words = " ".join(text.split())
    requirement = Requirement(actions.quantity, weights, lower, upper, words)
    _refuse_impossible(requirement, actions)
    if actions.ranges is not None:
        _refuse_out_of_range(requirement, actions.ranges)
    return requirement


def constrain(
    requirement: Requirement, where: Place, name: str, priority: float
) -> PlacedConstraint:
    """The requirement at these states, as one of the library's constraints."""
    weights, lower, upper = requirement.weights, requirement.lower, requirement.upper
    alone = next(iter(weights)) if list(weights.values()) == [1.0] else None
    action = action_about(requirement.quantity, weights if alone is None else alone)
    if lower == upper:
        return Equal(lower, action, where, name, priority)
    if math.isinf(upper):
        return AtLeast(lower, action, where, name, priority)
    if math.isinf(lower):
        return AtMost(upper, action, where, name, priority)
    return Between(lower, upper, action, where, name, priority)


def _refuse_impossible(requirement: Requirement, actions: Actions) -> None:
    """What the library itself refuses, said with names; one state is enough to find out."""
    try:
        probe = constrain(requirement, Points([0.0]), requirement.text, priority=1.0)
        probe.rows(len(actions))
    except InvalidConstraint as error:
        named = re.sub(r"\baction (\d+)\b", lambda match: actions.names[int(match[1])], str(error))
        raise InvalidConstraint(named) from None


def _refuse_out_of_range(requirement: Requirement, ranges: Sequence[tuple[float, float]]) -> None:
    """A mean beyond what the environment lets through could be had, but never done."""
    ends = [
        sorted((weight * ranges[index][0], weight * ranges[index][1]))
        for index, weight in requirement.weights.items()
    ]
    lowest, highest = (sum(side) for side in zip(*ends, strict=True))
    if requirement.lower > highest or requirement.upper < lowest:
        raise InvalidConstraint(
            f"{requirement.text!r} is out of range: with the ranges of the actions it is between "
            f"{lowest:g} and {highest:g}."
        )


def _tokens(text: str) -> list[_Token]:
    tokens = []
    for match in _TOKEN.finditer(text):
        token = _Token(str(match.lastgroup), match[str(match.lastgroup)])
        if token.text == "%":
            raise InvalidConstraint("nothing is in percent here: write 0.95, not 95%.")
        if token.kind == "other":
            raise InvalidConstraint(f"cannot read {token.text!r} in {text.strip()!r}. {_FORM}")
        if token.kind == "relation" and token.text not in _RELATIONS:
            remedy = _REMEDIES.get(token.text, "Use <=, >= or ==.")
            raise InvalidConstraint(f"cannot require {token.text!r}. {remedy}")
        tokens.append(token)
    return tokens


def _split(tokens: Sequence[_Token]) -> tuple[list[list[_Token]], list[str]]:
    """The sides of the relations, and the relations between them."""
    sides: list[list[_Token]] = [[]]
    relations = []
    for token in tokens:
        if token.kind == "relation":
            relations.append(_RELATIONS[token.text])
            sides.append([])
        else:
            sides[-1].append(token)
    if not relations:
        raise InvalidConstraint(f"there is no <=, >= or == in it. {_FORM}")
    if len(relations) > 2:
        raise InvalidConstraint(f"there are {len(relations)} relations in it; at most two. {_FORM}")
    if not all(sides):
        raise InvalidConstraint(f"one side of {relations[0]} is empty. {_FORM}")
    return sides, relations


def _sum(tokens: Sequence[_Token], actions: Sequence[str]) -> _Sum:
    """[+-] term ((+|-) term)*."""
    rest = list(tokens)
    weights: dict[int, float] = {}
    constant = 0.0
    first = True
    while rest:
        factor, name = _take_term(rest, _take_sign(rest, required=not first))
        first = False
        if name is None:
            constant += factor
            continue
        if name not in actions:
            raise InvalidConstraint(unknown("action", name, actions))
        index = actions.index(name)
        weights[index] = weights.get(index, 0.0) + factor
    return _Sum(weights, constant)


def _take_sign(rest: list[_Token], required: bool) -> float:
    if rest[0].text in ("+", "-"):
        return -1.0 if rest.pop(0).text == "-" else 1.0
    if required:
        together = " Write one requirement per item of a list." if rest[0].text == "and" else ""
        raise InvalidConstraint(f"expected +, - or * before {rest[0].text!r}.{together} {_FORM}")
    return 1.0


def _take_term(rest: list[_Token], sign: float) -> tuple[float, str | None]:
    """A number, a name, or number * name."""
    token = rest.pop(0) if rest else _Token("end", "the end")
    if token.kind == "name":
        return sign, token.text
    if token.kind != "number":
        raise InvalidConstraint(
            f"expected a number or an action, but found {token.text!r}. {_FORM}"
        )
    factor = sign * float(token.text)
    if not math.isfinite(factor):
        raise InvalidConstraint(f"the number {token.text} is too large.")
    if not rest or rest[0].text != "*":
        return factor, None
    rest.pop(0)
    if not rest or rest[0].kind != "name":
        raise InvalidConstraint(f"expected the name of an action after '{token.text}*'. {_FORM}")
    return factor, rest.pop(0).text


def _single(
    sums: Sequence[_Sum], relations: Sequence[str]
) -> tuple[dict[int, float], float, float]:
    """Left and right of one relation: actions to one side, constants to the other."""
    left, right = sums
    relation = relations[0]
    if not left.weights:  # 0.95 <= right is right >= 0.95
        left, right = right, left
        relation = {"<=": ">=", ">=": "<=", "==": "=="}[relation]
    weights = {
        index: left.weights.get(index, 0.0) - right.weights.get(index, 0.0)
        for index in sorted({*left.weights, *right.weights})
    }
    bound = right.constant - left.constant
    lower = -math.inf if relation == "<=" else bound
    upper = math.inf if relation == ">=" else bound
    return _without_zeros(weights), lower, upper


def _chain(sums: Sequence[_Sum], relations: Sequence[str]) -> tuple[dict[int, float], float, float]:
    """Number <= sum <= number, or the same with >=."""
    low, middle, high = sums
    if relations[0] != relations[1] or relations[0] == "==":
        raise InvalidConstraint(f"cannot read {relations[0]} … {relations[1]}. {_FORM}")
    if relations[0] == ">=":
        low, high = high, low
    if low.weights or high.weights:
        raise InvalidConstraint(f"only numbers may stand at the two ends. {_FORM}")
    shift = middle.constant
    return _without_zeros(middle.weights), low.constant - shift, high.constant - shift


def _without_zeros(weights: Mapping[int, float]) -> dict[int, float]:
    return {index: weight for index, weight in weights.items() if weight != 0.0}
