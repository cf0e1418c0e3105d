"""What is known about a constraint on the whole of its place, and how a person would say it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, final, overload

import numpy as np

from handrail._types import Array
from handrail.constraints import Amount, bound_in_words, counted, html_table, state_in_words
from handrail.proof.branch_and_bound import Leaves
from handrail.proof.remainder import Remainder

Status = Literal["certified", "counterexample", "unknown"]

# Values are told in so many parts of 1.
_SHOWN = 1e6


@final
@dataclass(frozen=True, repr=False)
class Certificate:
    """What is known about a constraint on the whole of its place.

    Attributes:
        name: of the constraint.
        status: "certified", "counterexample" or "unknown".
        lower: the bound, -inf for none; a number or a function of the state.
        upper: the bound, +inf for none.
        tolerance: violations up to this were allowed.
        lowest: the value is nowhere below this; None unless certified with a lower bound that is
            the same everywhere.
        highest: the value is nowhere above this; None unless certified with an upper bound that is
            the same everywhere.
        slack: the value is everywhere at least this far inside its bounds; None unless certified
            with one that depends on the state, or of a choice.
        state: the counterexample.
        violation: there, measured by the real policy.
        reason: why nothing is known.
        alternatives: of a choice, their names, and how many cells (or points) each is proven for.
        method: "vertex bound", "linear relaxation" or "evaluation" (of points).
        cells: how many were bounded.
        seconds: how long it took.
        leaves: the proven cells, with the bounds of their margins.
        violated: (n, n_coordinates) all counterexamples that were seen.
        near: (n, n_coordinates) states that were seen where only rounding decides.
        remainder: of a region that is not known: how much of it is proven, by how much the
            constraint is violated at most, what it would probably take to know more.
    """

    name: str
    status: Status
    lower: Amount
    upper: Amount
    tolerance: float
    lowest: float | None
    highest: float | None
    slack: float | None
    state: tuple[float, ...] | None
    violation: float | None
    reason: str
    method: str
    cells: int
    seconds: float
    alternatives: tuple[tuple[str, int], ...] = ()
    leaves: tuple[Leaves, ...] = field(default=(), repr=False, compare=False)
    violated: Array | None = field(default=None, repr=False, compare=False)
    near: Array | None = field(default=None, repr=False, compare=False)
    remainder: Remainder | None = None

    @property
    def certified(self) -> bool:
        """Whether it holds everywhere, within the tolerance."""
        return self.status == "certified"

    @property
    def worst_violation(self) -> float:
        """Nowhere is it violated more: proven, or infinite; at a counterexample, as measured."""
        if self.violation is not None:
            return self.violation
        if not self.certified:
            return np.inf if self.remainder is None else self.remainder.violation
        worst = -np.inf if self.slack is None else -self.slack
        if self.lowest is not None and isinstance(self.lower, float):
            worst = max(worst, self.lower - self.lowest)
        if self.highest is not None and isinstance(self.upper, float):
            worst = max(worst, self.highest - self.upper)
        return float(worst)

    @property
    def bound(self) -> str:
        """What was asked, in words."""
        if self.alternatives:
            return " or ".join(name for name, _ in self.alternatives)
        return bound_in_words(self.lower, self.upper)

    def __str__(self) -> str:
        bound = self.bound
        within = f" within {self.tolerance:g}" if self.tolerance else ""
        if self.certified:
            return (
                f"{self.name!r} ({bound}) holds{within} at every state: {self._proven_values()}. "
                f"{self._work_in_words()}, {self.seconds:.2g} s."
            )
        if self.state is not None:
            where = state_in_words(np.array(self.state))
            return (
                f"{self.name!r} ({bound}) does not hold{within}: it is violated by "
                f"{self.violation:.2g} at {where}."
            )
        unknown = f"Whether {self.name!r} ({bound}) holds{within} is not known: {self.reason}."
        return unknown if self.remainder is None else f"{unknown} {self.remainder}"

    def _work_in_words(self) -> str:
        """At points there are no cells, only their states."""
        if not self.cells:
            return f"By {self.method}"
        return f"{counted(self.cells, 'cell')} by {self.method}"

    def __repr__(self) -> str:
        return f"<Certificate: {self.name!r} {self.status}>"

    def _repr_html_(self) -> str:
        rows = [
            ("constraint", self.name),
            ("bound", self.bound),
            ("status", self.status),
            *([("proven", self._proven_values())] if self.certified else []),
            ("method", self.method or "none"),
            ("cells", f"{self.cells:,}"),
            ("seconds", f"{self.seconds:.2g}"),
        ]
        return html_table("" if self.certified else str(self), rows)

    def _proven_values(self) -> str:
        """Rounded to the safe side: what is said was proven."""
        parts = []
        if self.lowest is not None:
            parts.append(f"never below {math.floor(self.lowest * _SHOWN) / _SHOWN:.6f}")
        if self.highest is not None:
            parts.append(f"never above {math.ceil(self.highest * _SHOWN) / _SHOWN:.6f}")
        if self.slack is not None:
            parts.append(f"never nearer than {math.floor(self.slack * _SHOWN) / _SHOWN:.6f}")
        unit = "cell" if self.cells else "point"
        parts += [f"{name} in {counted(n, unit)}" for name, n in self.alternatives]
        return ", ".join(parts)


@final
@dataclass(frozen=True, repr=False)
class Certificates(Sequence[Certificate]):
    """What is known about several constraints, one by one.

    Attributes:
        certificates: in the order of the constraints.
    """

    certificates: tuple[Certificate, ...]

    @overload
    def __getitem__(self, index: int) -> Certificate: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Certificate, ...]: ...
    def __getitem__(self, index: int | slice) -> Certificate | tuple[Certificate, ...]:
        return self.certificates[index]

    def __len__(self) -> int:
        return len(self.certificates)

    @property
    def certified(self) -> bool:
        """Whether all of them hold everywhere."""
        return all(one.certified for one in self)

    @property
    def worst_violation(self) -> float:
        """Nowhere is any of them violated more."""
        return max(one.worst_violation for one in self)

    def __str__(self) -> str:
        return "\n".join([self._headline(), *map(str, self)])

    def __repr__(self) -> str:
        return f"<Certificates: {self._headline()}>"

    def _repr_html_(self) -> str:
        rows = [(one.name, one.bound, one.status, f"{one.cells:,}") for one in self]
        return html_table(self._headline(), rows, ("constraint", "bound", "status", "cells"))

    def _headline(self) -> str:
        return f"{sum(one.certified for one in self)} of {len(self)} certified"
