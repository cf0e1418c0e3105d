"""Everything that one run measured, and the targets it is held against."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import final

from benchmarks import startup
from benchmarks.harness import Machine
from benchmarks.kernel.comparison import KernelTiming
from benchmarks.learning.environment_steps import LearningCost
from benchmarks.learning.inference import InferenceResults
from benchmarks.plan import FULL, Plan
from benchmarks.proof import region_update
from benchmarks.proof.region_proof import CHEAPER_THAN_SAMPLING
from benchmarks.proof.results import RegionResults
from benchmarks.startup import StartupTime
from benchmarks.update.comparison import UpdateResults
from benchmarks.update.enforcement import EnforcementResults
from benchmarks.update.growth import LINEAR, GrowthResults

FASTER_THAN_EXPLICIT = 2000.0
SLOWER_THAN_PLAIN = 3.0


@final
@dataclass(frozen=True)
class Results:
    """One run."""

    machine: Machine
    plan: Plan
    command: str
    minutes: float
    update: UpdateResults
    kernel: list[KernelTiming]
    growth: GrowthResults
    inference: list[InferenceResults]
    enforcement: EnforcementResults
    learning: list[LearningCost]
    regions: RegionResults
    startup: list[StartupTime]

    @property
    def is_full(self) -> bool:
        """Whether the sizes are those that the targets speak of."""
        return self.plan == FULL


@final
@dataclass(frozen=True)
class Target:
    """What was asked, what was measured, and whether that is enough: met or missed."""

    what: str
    asked: str
    measured: str
    verdict: str


def targets(results: Results) -> list[Target]:
    """Every target; where there are several fair measurements, the worst one counts."""
    speed_up = min(one.speed_up for one in results.update.explicit)
    fair = [one for one in results.update.plain if one.is_fair] or results.update.plain
    slow_down = max(one.ratio for one in fair)
    slowest = min(min(one.jacrev_ratio, one.columns_ratio) for one in results.kernel)
    exponent = results.growth.with_batch.worse_exponent
    regions = results.regions
    proof, holding = regions.worst_ratio, max(one.ratio for one in regions.holding)
    start = max(one.ratio for one in results.startup)

    def verdict(met: bool) -> str:
        return ("met" if met else "missed") if results.is_full else "not judged"

    return [
        Target(
            "constrained update, times faster than the explicit procedure",
            f"≥ {FASTER_THAN_EXPLICIT:,.0f}",
            f"{speed_up:,.0f}",
            verdict(speed_up >= FASTER_THAN_EXPLICIT),
        ),
        Target(
            "constrained update, relative to the plain update",
            f"≤ {SLOWER_THAN_PLAIN:g}",
            f"{slow_down:.2f}",
            verdict(slow_down <= SLOWER_THAN_PLAIN),
        ),
        Target(
            "kernel, times faster than torch.func at every n (the least)",
            "≥ 1",
            f"{slowest:.1f}",
            verdict(slowest >= 1.0),
        ),
        Target(
            "growth with n_B, exponent (over all sizes or the three largest, the larger)",
            f"linear: ≤ {LINEAR:g}",
            f"{exponent:.2f}",
            verdict(exponent <= LINEAR),
        ),
        *(
            Target(
                f"training run on {one.name}, relative to its bare environment steps",
                f"≤ {one.most:g}",
                f"{one.ratio:.2f}",
                verdict(one.ratio <= one.most),
            )
            for one in results.learning
            if one.compiled
        ),
        Target(
            f"proof of the paper's regions, relative to evaluating {regions.samples:,} samples",
            f"< {CHEAPER_THAN_SAMPLING:g}",
            f"{proof:.2f}" if regions.all_proven else f"{proof:.2f}, but not all are proven",
            verdict(proof < CHEAPER_THAN_SAMPLING and regions.all_proven),
        ),
        Target(
            "update that holds the paper's regions, relative to collecting its episode",
            f"< {region_update.MOST:g}",
            f"{holding:.1f}",
            verdict(holding < region_update.MOST),
        ),
        Target(
            "start of a command that needs no network, relative to importing typer and rich",
            f"≤ {startup.MOST:g}",
            f"{start:.2f}",
            verdict(start <= startup.MOST),
        ),
    ]


def as_json(results: Results) -> str:
    """All numbers, and the verdicts."""
    content = asdict(results)
    content["targets"] = [asdict(target) for target in targets(results)]
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
