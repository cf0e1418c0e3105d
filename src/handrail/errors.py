"""What can go wrong, one small family. Every message says the cause first, then the remedy.

What is wrong with a constraint is read in Python, where coordinates and actions have numbers, or
beside a constraint file, where they have names. So `InvalidConstraint` keeps those in fields, and
whoever has better words tells it again in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from numbers import Real
from typing import final


class HandrailError(Exception):
    """Base of every error that Handrail raises on purpose."""


@final
@dataclass(frozen=True)
class Coordinate:
    """One of the numbers of an observation, by its index."""

    index: int


@final
@dataclass(frozen=True)
class ActionSum:
    """One action, or a weighted sum of some.

    Attributes:
        weights: of the actions, by their index.
        noun: what one is called if it has no name.
        first: where their names begin among those of all actions.
        of_name: what one is called that has one.
    """

    weights: Mapping[int, object]
    noun: str
    first: int = 0
    of_name: str = "{}"

    def __str__(self) -> str:
        return str(Words().told(self))


@final
class Phrase(Enum):
    """Words of Python, such as the name of a class, for which a constraint file has its own."""

    CURVE = "Curve"
    POLYTOPE = "Polytope"
    POINTS = "Points"
    T_MIN = "t_min"
    T_MAX = "t_max"
    HALF_SPACES_MEAN = " They mean normals @ x <= offsets."
    FEWER_COORDINATES = "leave a coordinate to others={index: value}"
    TWO_BOUNDS = "Use Between(lower, upper, …) there, or Points."


@final
@dataclass(frozen=True)
class Words:
    """What messages call things; by default, as callers from Python know them.

    Attributes:
        coordinates: their names, where they have some.
        actions: their names, where they have some.
        terms: what is said for a `Phrase`, where it is something else.
        says_class: whether a message begins with the class that refuses.
    """

    coordinates: Sequence[str] = ()
    actions: Sequence[str] = ()
    terms: Mapping[Phrase, str] = field(default_factory=dict)
    says_class: bool = True

    def told(self, value: object) -> object:
        """A field of a message in these words; what is no such field, as it is."""
        if isinstance(value, Phrase):
            return self.terms.get(value, value.value)
        if isinstance(value, Coordinate):
            return _named(self.coordinates, "coordinate", value.index)
        if isinstance(value, ActionSum):
            parts = [
                _weight(weight)
                + _named(self.actions[value.first :], value.noun, index, value.of_name)
                for index, weight in value.weights.items()
            ]
            return " + ".join(parts)
        return value


def _weight(weight: object) -> str:
    """0.5·, (cos(phi))·, or nothing for 1."""
    if isinstance(weight, Real):
        return "" if weight == 1.0 else f"{float(weight):g}·"
    return f"({weight})·"


def _named(names: Sequence[str], noun: str, index: int, of_name: str = "{}") -> str:
    return of_name.format(names[index]) if names else f"{noun} {index}"


class InvalidConstraint(HandrailError, ValueError):
    """A constraint that cannot be meant: refused when it is written, not when it is solved.

    Args:
        message: of the cause and the remedy; a template for `str.format` if there are fields.
        about: the class that refuses, if it is not clear from the message.
        fields: what the template leaves open.
    """

    def __init__(self, message: str, about: str = "", **fields: object) -> None:
        self.message = message
        self.about = about
        self.fields = fields
        super().__init__(self.told(Words()))

    def told(self, words: Words) -> str:
        """The message in these words."""
        fields = {key: words.told(value) for key, value in self.fields.items()}
        text = self.message.format(**fields) if fields else self.message
        return f"{self.about}: {text}" if self.about and words.says_class else text


class InvalidRulebook(HandrailError, ValueError):
    """A constraint file that cannot be meant: the message names the file, the line and the key."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


class ModulesNotImported(InvalidRulebook):
    """A run in an environment that nobody has registered here, though it names who could.

    Args:
        message: of the cause and the remedy.
        modules: that the run was started with.
    """

    def __init__(self, message: str, modules: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.modules = tuple(modules)


class InvalidPolicy(HandrailError, ValueError):
    """A network or an environment that Handrail cannot serve."""


class InvalidArgument(HandrailError, ValueError):
    """A setting that makes no sense, such as a negative step size."""


class InvalidBatch(HandrailError, ValueError):
    """Experience that no update can learn from."""


class ShapeMismatch(HandrailError, ValueError):
    """States or actions that do not fit the policy they are given to."""


class InfeasibleConstraints(HandrailError):
    """Constraints that contradict each other; the message names the smallest such set."""


class UnsatisfiedConstraints(HandrailError):
    """An enforcement that did not reach its tolerance; the policy was left as it was."""


class SolverFailure(HandrailError):
    """No solver produced an answer that survives verification in the original units."""


class EnvironmentFailure(HandrailError):
    """An environment that raised, or that gave numbers which are none; the message says when."""


class EpisodeInterrupted(KeyboardInterrupt):
    """Ctrl-C while an episode was played; the message says in which one, and what it waited for.

    Nothing was learned from that episode, so a learner goes on as if it had never begun.
    """


class Diverged(HandrailError):
    """An update that would have put numbers into the network which are none."""


class InvalidRun(HandrailError):
    """A saved run that is damaged, foreign or does not fit; the message names the file."""


class StorageFailure(HandrailError):
    """The disk refused to be written to; what was saved before is untouched."""


class InvalidCertificate(HandrailError):
    """A certificate that was altered, is about something else, or cannot be confirmed."""


class ExcessiveInfluence(HandrailError):
    """An edit that would change the policy elsewhere by more than allowed: nothing was changed."""
