"""Regions and proofs: what a proof costs, how it grows, and what it adds to learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from benchmarks.plan import Plan
from benchmarks.proof.growth import ProofGrowth, measure_proof_growth
from benchmarks.proof.region_proof import RegionProof, measure_proofs
from benchmarks.proof.region_update import HoldingCost, measure_holding
from handrail._threads import one_thread


@final
@dataclass(frozen=True)
class RegionResults:
    """All three parts.

    Attributes:
        samples: that a proof was compared with.
        proofs: a network each.
        growth: of a proof.
        holding: without a proof in every update, and with one.
    """

    samples: int
    proofs: list[RegionProof]
    growth: ProofGrowth
    holding: list[HoldingCost]

    @property
    def worst_ratio(self) -> float:
        """Proof over sampling, of the paper's network with numba where there is numba."""
        return max(one.timings[0].ratio for one in self.proofs if one.is_of_paper)

    @property
    def all_proven(self) -> bool:
        """Whether these were proofs of every region."""
        of_paper = [one for one in self.proofs if one.is_of_paper]
        return all(one.timings[0].proven == one.regions for one in of_paper)


def measure_regions(plan: Plan) -> RegionResults:
    """Everything about regions, one thread."""
    with one_thread():
        return RegionResults(
            samples=plan.regions.samples,
            proofs=measure_proofs(plan),
            growth=measure_proof_growth(plan),
            holding=measure_holding(plan),
        )
