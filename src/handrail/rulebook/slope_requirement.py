"""What a file requires of slopes: `right increasing in phi`, `force within 5 per phi`.

The first stands under the key `monotone`, the second under `lipschitz`. What rises is a mean
action, or a weighted sum of some; or the odds of a discrete action against every other one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, final

from handrail.constraints import (
    Action,
    Lipschitz,
    Mean,
    Monotone,
    SlopeBounded,
    action_about,
    as_mapping,
)
from handrail.errors import InvalidConstraint
from handrail.formulas import UnknownName, parse_bounds
from handrail.regions import Place, Region
from handrail.rulebook.findings import unknown
from handrail.rulebook.requirement import DeclaredActions, Required

_Asked: TypeAlias = Literal["increasing", "decreasing"] | float

_MONOTONE = re.compile(r"(?P<output>.+?) (?P<asked>increasing|decreasing) in (?P<observation>\S+)")
_LIPSCHITZ = re.compile(r"(?P<output>.+?) within (?P<asked>\S+) per (?P<observation>\S+)")

_MONOTONE_FORM = "Monotone reads like: right increasing in phi, force decreasing in x."
_LIPSCHITZ_FORM = "Lipschitz reads like: force within 5 per phi."


@final
@dataclass(frozen=True)
class SlopeRequirement(Required):
    """How an output changes with an observation.

    Attributes:
        output: as constraints take it.
        observation: its name, and
        index: which one it is.
        asked: "increasing" or "decreasing"; or the constant of Lipschitz.
        text: as it was written.
    """

    output: Action
    observation: str
    index: int
    asked: _Asked
    text: str = field(compare=False)

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for requirements that say the same."""
        return ("slope", *sorted(as_mapping(self.output).items()), self.index, self.asked)

    def at(self, where: Place, name: str, priority: float) -> SlopeBounded:
        """The requirement on this region, as one of the library's constraints."""
        assert isinstance(where, Region)  # others are refused where the entry is read
        low, high = (float(end[self.index]) for end in where.bounds)
        if low == high:
            raise InvalidConstraint(
                f"{self.observation} is {low:g} all over the region, so nothing can change with it "
                "there. Give it a range."
            )
        if isinstance(self.asked, float):
            return Lipschitz(self.asked, self.output, self.index, where, name, priority)
        return Monotone(self.output, self.index, self.asked, where, name, priority)


def parse_monotone(
    text: str, actions: DeclaredActions, observations: Sequence[str]
) -> SlopeRequirement:
    """`right increasing in phi`.

    Raises:
        InvalidConstraint: if it cannot be read.
    """
    read = _read(_MONOTONE, text, _MONOTONE_FORM)
    rises = read["asked"] == "increasing"
    return _requirement(read, "increasing" if rises else "decreasing", actions, observations)


def parse_lipschitz(
    text: str, actions: DeclaredActions, observations: Sequence[str]
) -> SlopeRequirement:
    """`force within 5 per phi`.

    Raises:
        InvalidConstraint: if it cannot be read.
    """
    read = _read(_LIPSCHITZ, text, _LIPSCHITZ_FORM)
    return _requirement(read, _constant(read["asked"]), actions, observations)


def _read(pattern: re.Pattern[str], text: str, form: str) -> re.Match[str]:
    plain = " ".join(text.split())
    read = pattern.fullmatch(plain)
    if read is None:
        raise InvalidConstraint(f"cannot read {plain!r}. {form}")
    return read


def _requirement(
    read: re.Match[str],
    asked: _Asked,
    actions: DeclaredActions,
    observations: Sequence[str],
) -> SlopeRequirement:
    observation = read["observation"]
    if observation not in observations:
        raise InvalidConstraint(unknown("observation", observation, observations))
    output, index = _output(read["output"], actions), observations.index(observation)
    return SlopeRequirement(output, observation, index, asked, read.string)


def _constant(text: str) -> float:
    try:
        constant = float(text)
    except ValueError:
        raise InvalidConstraint(f"{text!r} is no number. {_LIPSCHITZ_FORM}") from None
    if not 0.0 < constant < math.inf:
        raise InvalidConstraint(f"expected a number above 0, but got {text}. {_LIPSCHITZ_FORM}")
    return constant


def _output(text: str, actions: DeclaredActions) -> Action:
    """A sum of continuous actions; of discrete ones, a single one."""
    if actions.ranges is None:
        if text not in actions.names:
            raise InvalidConstraint(unknown("action", text, actions.names))
        return action_about(actions.quantity, actions.names.index(text))
    try:
        weights = parse_bounds(f"{text} >= 0", actions.names, "action").weights
    except UnknownName as error:
        raise InvalidConstraint(unknown("action", error.name, actions.names)) from None
    named = {index: float(one) for index, one in enumerate(weights) if one != 0.0}
    return Mean(next(iter(named)) if list(named.values()) == [1.0] else named)
