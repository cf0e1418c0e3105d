"""What can go wrong, one small family. Every message says the cause first, then the remedy."""

from __future__ import annotations


class HandrailError(Exception):
    """Base of every error that Handrail raises on purpose."""


class InvalidConstraint(HandrailError, ValueError):
    """A constraint that cannot be meant: refused when it is written, not when it is solved."""


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
