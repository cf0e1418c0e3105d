"""What is known about each constrained region: certificates, and their cells in a plane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from handrail.arrays import Array
from handrail.certification import Certificate, certify
from handrail.constraints import Constraint
from handrail.cuts import beside_faces, cut_cells
from handrail.errors import InvalidConstraint, InvalidPolicy
from handrail.expansion import expand
from handrail.figures import Slice, is_curve
from handrail.margins import at_least, at_most
from handrail.policies import Policy
from handrail.proofs import Budget, Leaves
from handrail.quantities import Quantity
from handrail.regions import Region
from handrail.regions.outlines import rectangle
from handrail.rows import Rows

# Nobody waits long for a picture, and more cells than this are not to be seen.
_FOR_A_PICTURE = Budget(cells=20_000, seconds=10.0)


@final
@dataclass(frozen=True)
class Side:
    """One bound on one action."""

    quantity: Quantity
    action: int
    n_actions: int
    threshold: float
    is_lower: bool

    def in_words(self, actions: Sequence[str]) -> str:
        """What its values say."""
        return f"“{actions[self.action]}” at {'least' if self.is_lower else 'most'}"

    def at(self, margin: float) -> str:
        """The probability (or mean action) that a margin certifies, rounded to the safe side."""
        weights = np.eye(self.n_actions)[self.action]
        make = at_least if self.is_lower else at_most
        value = make(self.quantity, weights, self.threshold).worst_value(margin)
        probable = self.quantity is Quantity.PROBABILITY
        room = min(self.threshold, 1.0 - self.threshold) if probable else 1.0
        decimals = max(3, 2 - int(np.floor(np.log10(room))))
        scaled = value * 10.0**decimals
        safe = np.floor(scaled + 1e-6) if self.is_lower else np.ceil(scaled - 1e-6)
        return f"{safe / 10.0**decimals:.{decimals}f}"


@final
@dataclass(frozen=True)
class Answer:
    """What is known about a constraint on one region, or on one sub-region of a union.

    Attributes:
        region: where.
        certificate: what a proof said.
        sides: its bounds; none if it is about more than one action.
    """

    region: Region
    certificate: Certificate
    sides: tuple[Side, ...]

    @property
    def leaves(self) -> tuple[Leaves, ...]:
        """The cells where all of it is proven.

        Between two bounds each has a proof of its own, and a proof that was given up does not say
        which of its cells belong to both.
        """
        both = np.isfinite(self.certificate.lower) and np.isfinite(self.certificate.upper)
        return () if both and not self.certificate.certified else self.certificate.leaves

    def cut(self, plane: Slice) -> tuple[list[Array], Array]:
        """The proven cells that the plane meets: their outlines (m, 2), and their bounds (n,).

        Those of a curve are projected: a plane meets it in single states at most.
        """
        if is_curve(self.region):
            return self._projected(plane)
        at = beside_faces(self.region, np.asarray(plane.at))
        outlines: list[Array] = []
        bounds = [np.zeros(0)]
        for leaves in self.leaves:
            met, found = cut_cells(leaves.cells, plane.horizontal, plane.vertical, at)
            outlines += found
            bounds.append(leaves.lowest[met])
        return outlines, np.concatenate(bounds)

    def _projected(self, plane: Slice) -> tuple[list[Array], Array]:
        axes = [plane.horizontal, plane.vertical]
        outlines = [
            rectangle(low[0], high[0], low[1], high[1])
            for leaves in self.leaves
            for low, high in zip(leaves.cells.low[:, axes], leaves.cells.high[:, axes], strict=True)
        ]
        bounds = [np.zeros(0), *(leaves.lowest for leaves in self.leaves)]
        return outlines, np.concatenate(bounds)

    def meets(self, plane: Slice) -> bool:
        """Whether there is something of it to be seen."""
        return is_curve(self.region) or bool(plane.section(self.region))


def certify_regions(policy: Policy, constraints: Sequence[Constraint]) -> tuple[Answer, ...]:
    """A certificate for every region of which one can be had."""
    if not constraints:
        return ()
    answers = []
    for one in expand(constraints, policy).regional:
        part = one.constraint.moved_to(one.region, one.name)
        try:
            certificate = certify(policy, part, budget=_FOR_A_PICTURE)
        except (InvalidPolicy, InvalidConstraint):
            # A network, a curve or a relation of states that no proof can look into.
            continue
        rows = one.rows_at(one.region.cover(1))
        answers.append(Answer(one.region, certificate, _sides(certificate, rows)))
    return tuple(answers)


def _sides(certificate: Certificate, rows: Rows) -> tuple[Side, ...]:
    weights = rows.weights[0]
    action, n = int(weights.argmax()), len(weights)
    if not (weights == np.eye(n)[action]).all():
        return ()
    bounds = [(certificate.lower, True), (certificate.upper, False)]
    return tuple(
        Side(rows.quantity, action, n, bound, lower)
        for bound, lower in bounds
        if np.isfinite(bound)
    )
