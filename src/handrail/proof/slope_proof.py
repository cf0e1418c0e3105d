"""Do the slopes of a policy's outputs stay within bounds at every state of a region?

A proof bounds the generalised derivative on cells (`slope_relaxation`), and so every chord between
two states whose segment lies in the region. It is about the network with real numbers: what it
computes in float64 or float32 differs from that by what rounding does to the outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import final

import numpy as np

from handrail._types import Array, Mask
from handrail.constraints import SlopeBounded, refuse_other_quantity
from handrail.errors import InvalidPolicy, ShapeMismatch
from handrail.policies import LayerArrays, Policy
from handrail.proof.branch_and_bound import Budget, Judge, Leaves, Proof, Watch, prove
from handrail.proof.certificate import Certificate, Status
from handrail.proof.margin import outwards
from handrail.proof.remainder import Remainder
from handrail.proof.slope_lines import has_slope_lines
from handrail.proof.slope_relaxation import (
    SlopeMargin,
    SlopeRelaxation,
    slope_errors,
    slopes_at,
)
from handrail.regions import Cells, Cover, Region

_METHOD = "linear relaxation of slopes"

_TOO_NEAR = "a slope is too near to its bound for float64"

_TOO_LARGE = "weights or states are so large that float64 might overflow"


def certify_slopes(
    policy: Policy,
    layers: LayerArrays,
    constraint: SlopeBounded,
    covers: Sequence[Cover] | None,
    tolerance: float,
    budget: Budget,
    watch: Watch | None,
) -> Certificate:
    """A proof, a counterexample, or unknown; from cells that contain the region, if given."""
    if constraint.where.n_coordinates != layers.n_observations:
        raise ShapeMismatch(
            f"{constraint.name!r} has {constraint.where.n_coordinates} coordinates but the policy "
            f"observes {layers.n_observations}. Give a range or a value for each."
        )
    refuse_other_quantity(constraint, layers.n_outputs, policy)
    unknown = [one.name for one in layers.activations if not has_slope_lines(one)]
    if unknown:
        raise InvalidPolicy(
            f"Nothing can be proven about slopes of this network: no lines are known between which "
            f"the slope of {unknown[0]} lies. They can still be held on samples of a region "
            "(prove=False)."
        )
    question = _Question(layers, constraint, tolerance)
    if not layers.is_finite:
        return question.unknown("a weight of the network is not finite")
    region = constraint.where
    return question.answered(region, region.covers() if covers is None else covers, budget, watch)


@final
@dataclass(frozen=True)
class _Question:
    """A constraint on slopes, and the network it is asked of."""

    layers: LayerArrays
    constraint: SlopeBounded
    tolerance: float

    @property
    def sides(self) -> dict[str, SlopeMargin]:
        """One for each bound; the tolerance on them, rounded inwards."""
        rows = self.constraint.raw_weights(self.layers.n_outputs)
        lower, upper = self.constraint.slope_bounds
        found = {}
        if np.isfinite(lower):
            at = min(float(np.nextafter(lower - self.tolerance, np.inf)), lower)
            found["lowest"] = SlopeMargin(rows, self.constraint.in_, at, 1.0)
        if np.isfinite(upper):
            at = max(float(np.nextafter(upper + self.tolerance, -np.inf)), upper)
            found["highest"] = SlopeMargin(rows, self.constraint.in_, at, -1.0)
        return found

    def answered(
        self, region: Region, covers: Sequence[Cover], budget: Budget, watch: Watch | None
    ) -> Certificate:
        """Side by side."""
        low = np.min([cover.cells.low.min(axis=0) for cover in covers], axis=0)
        high = np.max([cover.cells.high.max(axis=0) for cover in covers], axis=0)
        simplices = any(len(cover.cells.simplex_coordinates) for cover in covers)
        worst, cells = dict[str, float](), 0
        near: list[Array] = []
        leaves: list[Leaves] = []
        reason, remainder = "", Remainder(1.0, -np.inf, 0, 0.0, 0.0)
        for name, margin in self.sides.items():
            errors = slope_errors(self.layers, margin, low, high, simplices=simplices)
            if not np.isfinite(errors.margin):
                return self.unknown(_TOO_LARGE)
            bounder = SlopeRelaxation(self.layers, margin, errors)
            judge = Judge(region.contains, partial(_violates, bounder), _TOO_NEAR)
            proof = prove(bounder, covers, errors.margin, judge, budget, watch)
            cells += proof.cells
            leaves += proof.leaves
            if len(proof.violated):
                return self._counterexample(proof.violated, cells)
            remainder = remainder.with_side(self._remainder(proof, errors.margin))
            reason = reason or proof.reason
            near += [proof.near] if len(proof.near) else []
            if proof.proven:
                left = proof.lowest - errors.margin
                worst[name] = outwards(margin.threshold, margin.sign, left)
        if reason:
            answer = replace(self.unknown(reason, cells), leaves=tuple(leaves))
            met = np.concatenate(near) if near else None
            return replace(answer, near=met, remainder=remainder)
        return self._certified(worst, cells, leaves)

    def _remainder(self, proof: Proof, rounding: float) -> Remainder:
        """What one bound leaves open."""
        violation = self.tolerance - (proof.floor - rounding)
        return Remainder(
            proof.share, violation, proof.open_cells, proof.more_cells, proof.more_seconds
        )

    def unknown(self, reason: str, cells: int = 0) -> Certificate:
        """Nothing is known, and why."""
        return replace(self._answer("unknown", cells), reason=reason)

    def _counterexample(self, violated: Array, cells: int) -> Certificate:
        """The worst of these states."""
        slopes = slopes_at(self.layers, self.constraint.in_, violated)
        values = slopes @ self.constraint.raw_weights(self.layers.n_outputs).T
        lower, upper = self.constraint.slope_bounds
        violations = np.maximum(lower - values, values - upper).max(axis=1)
        worst = int(violations.argmax())
        return replace(
            self._answer("counterexample", cells),
            state=tuple(violated[worst].tolist()),
            violation=float(violations[worst]),
            violated=violated,
        )

    def _certified(
        self, worst: Mapping[str, float], cells: int, leaves: Sequence[Leaves]
    ) -> Certificate:
        if not all(np.isfinite(value) for value in worst.values()):
            return self.unknown("a value is not a number", cells)
        return replace(
            self._answer("certified", cells),
            lowest=worst.get("lowest"),
            highest=worst.get("highest"),
            leaves=tuple(leaves),
        )

    def _answer(self, status: Status, cells: int) -> Certificate:
        lower, upper = self.constraint.slope_bounds
        return Certificate(
            name=self.constraint.name,
            status=status,
            lower=lower,
            upper=upper,
            tolerance=self.tolerance,
            lowest=None,
            highest=None,
            slack=None,
            state=None,
            violation=None,
            reason="",
            method=_METHOD,
            cells=cells,
            seconds=0.0,
        )


def _violates(bounder: SlopeRelaxation, states: Array) -> Mask:
    """Which states do for certain, whatever side of a kink they may be on."""
    result: Mask = bounder.highest(Cells.boxes(states, states)) < -bounder.errors.margin
    return result
