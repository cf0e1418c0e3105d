"""How a proof grows with the coordinates that vary and with the width of the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from gymnasium.spaces import Box, Discrete

import handrail as hr
from benchmarks.harness import power_law
from benchmarks.plan import Plan

# The observations, the side of the box, and how many coordinates vary while the width grows.
OBSERVATIONS = 6
SIDE = 0.5
VARYING = 3
# The bound lies so far below the least probability of so many samples and of the corners.
SAMPLES = 20_000
SLACK = 0.002
# A proof may take so long; no number of cells ends it earlier.
SECONDS = 120.0
_BUDGET = hr.Budget(cells=10**9, seconds=SECONDS)


@final
@dataclass(frozen=True)
class ProofPoint:
    """One size; medians over the networks, where an unfinished proof counts with its budget.

    Attributes:
        size: coordinates that vary, or width of the network.
        networks: that were asked.
        proven: how many of them could be proven in time.
        refuted: how many have a counterexample: the samples had missed a lower probability.
        cells: that were bounded.
        seconds: of the proof.
        range: the shortest and the longest.
    """

    size: int
    networks: int
    proven: int
    refuted: int
    cells: float
    seconds: float
    range: tuple[float, float]

    @property
    def is_finished(self) -> bool:
        """Whether the medians are those of proofs that came to an end."""
        return 2 * (self.proven + self.refuted) > self.networks


@final
@dataclass(frozen=True)
class ProofGrowth:
    """Both curves.

    Attributes:
        width: of the network while the number of varying coordinates grows.
        with_dimensions: by the number of varying coordinates.
        factor: of the time, for each coordinate more.
        with_width: by the width.
        exponent: of the time, over all widths.
        exponent_of_largest: over the three largest, where constant costs show less.
    """

    width: int
    with_dimensions: list[ProofPoint]
    factor: float
    with_width: list[ProofPoint]
    exponent: float
    exponent_of_largest: float


def measure_proof_growth(plan: Plan) -> ProofGrowth:
    """Prove a bound on boxes around 0; the sizes take turns, every round has its own networks."""
    regions = plan.regions
    seeds = range(regions.growth_seeds)
    _prove(plan.width, VARYING, seed=0)  # warm-up
    by_dimension: dict[int, list[hr.Certificate]] = {size: [] for size in regions.dimensions}
    by_width: dict[int, list[hr.Certificate]] = {size: [] for size in regions.widths}
    for seed in seeds:
        for dimensions, found in by_dimension.items():
            found.append(_prove(plan.width, dimensions, seed))
        for width, found in by_width.items():
            found.append(_prove(width, VARYING, seed))
    with_dimensions = [_point(size, found) for size, found in by_dimension.items()]
    with_width = [_point(size, found) for size, found in by_width.items()]
    return ProofGrowth(
        width=plan.width,
        with_dimensions=with_dimensions,
        factor=_factor(with_dimensions),
        with_width=with_width,
        exponent=_exponent(with_width),
        exponent_of_largest=_exponent(with_width[-3:]),
    )


def _prove(width: int, dimensions: int, seed: int) -> hr.Certificate:
    """That the first action of two has at least some probability on a box, the rest fixed at 0."""
    spaces = (Box(-1.0, 1.0, (OBSERVATIONS,)), Discrete(2))
    policy = hr.CategoricalPolicy.mlp(spaces, hidden=[width], seed=seed)
    reach = np.where(np.arange(OBSERVATIONS) < dimensions, SIDE / 2.0, 0.0)
    box = hr.Box(-reach, reach)
    tried = np.concatenate([box.corners, box.sample(SAMPLES, np.random.default_rng(seed))])
    least = float(policy.probabilities(tried)[:, 0].min())
    rule = hr.AtLeast(least - SLACK, action=0, where=box, name="first action")
    return hr.certify(policy, rule, budget=_BUDGET)


def _point(size: int, certificates: Sequence[hr.Certificate]) -> ProofPoint:
    seconds = [one.seconds for one in certificates]
    return ProofPoint(
        size=size,
        networks=len(certificates),
        proven=sum(one.certified for one in certificates),
        refuted=sum(one.status == "counterexample" for one in certificates),
        cells=float(np.median([one.cells for one in certificates])),
        seconds=float(np.median(seconds)),
        range=(min(seconds), max(seconds)),
    )


def _exponent(points: list[ProofPoint]) -> float:
    return power_law([point.size for point in points], [point.seconds for point in points])[0]


def _factor(points: list[ProofPoint]) -> float:
    """Least squares of the logarithm of the time."""
    slope = np.polyfit([p.size for p in points], np.log([p.seconds for p in points]), 1)[0]
    return float(np.exp(slope))
