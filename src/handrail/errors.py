"""What can go wrong, one small family. Every message says the cause first, then the remedy."""

from __future__ import annotations


class HandrailError(Exception):
    """Base of every error that Handrail raises on purpose."""


class InvalidConstraint(HandrailError, ValueError):
    """A constraint that cannot be meant: refused when it is written, not when it is solved."""


class InvalidRulebook(HandrailError, ValueError):
    """A constraint file that cannot be meant: the message names the file, the line and the key."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


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


class Diverged(HandrailError):
    """An update that would have put numbers into the network which are none."""


class InvalidRun(HandrailError):
    """A saved run that is damaged, foreign or does not fit; the message names the file."""


class StorageFailure(HandrailError):
    """The disk refused to be written to; what was saved before is untouched."""


class InvalidCertificate(HandrailError):
    """A certificate that was altered, is about something else, or cannot be confirmed."""


class ExcessiveSideEffect(HandrailError):
    """An edit that would change the policy elsewhere by more than allowed: nothing was changed."""
