"""Regions and proofs, as a section of the page."""

from __future__ import annotations

from benchmarks.proof_growth import (
    OBSERVATIONS,
    SAMPLES,
    SECONDS,
    SIDE,
    SLACK,
    VARYING,
    ProofGrowth,
    ProofPoint,
)
from benchmarks.region_learning import HoldingCost
from benchmarks.region_proofs import RegionProof
from benchmarks.regions import RegionResults
from benchmarks.tables import milliseconds, quartiles, table


def regions_section(results: RegionResults) -> str:
    """Obeying, proof against sampling, growth, and the cost while learning."""
    return f"""## Regions and proofs

The paper's six regions of Cartpole (`cartpole_regions`: x, φ and φ̇ vary), random networks, one \
thread.

### Obeying on regions

`handrail.enforce` from random networks, once each, with what it does by default: violated states \
are sought on 3,000 samples of each region and uphill from the worst of them. That is no proof. \
How many of the regions `handrail.certify` could prove afterwards is in the table, with the \
violation at the counterexample it came upon, if any, and the largest one of {results.samples:,} \
uniform samples (negative: all of them obey). Where not all were proven, `enforce` was asked again \
with `prove=True`.

{_obedience_table(results.proofs)}

### A proof against samples

`handrail.certify` of all regions against `policy.probabilities` at {results.samples:,} uniform \
samples of them, which proves nothing, in turns on the same policy (that of the table above, after \
its last column). The time of samples is proportional to their number, so the ratio also says how \
many of them a proof costs. Proofs are NumPy; samples go through numba or, without it, through \
torch. Deeper networks are proven by linear relaxation; the target does not speak of them.

{_proof_table(results.proofs)}

{_growth(results.growth)}

### While learning

REINFORCE with the settings of `cartpole_regions` (200 steps), medians over \
{results.holding[0].updates} updates after the first few, an episode each, the two learners in \
turns. An update is predicting, solving and updating; updating is the step, the search of the \
regions (or the proof) and, where states were found violated, rounds of exchange.

{_holding_table(results.holding)}"""


def _obedience_table(proofs: list[RegionProof]) -> str:
    header = [
        "network",
        "seed",
        "enforce (s)",
        "rounds",
        "iterations",
        "working states",
        "proven",
        "counterexample",
        "worst sample",
        "with a proof (s)",
    ]
    rows = []
    for one in proofs:
        found = one.obedience
        rows.append(
            [
                _network(one),
                str(one.seed),
                f"{found.seconds:.2f}",
                str(found.rounds),
                str(found.iterations),
                str(found.working_states),
                f"{found.proven} of {one.regions}",
                "" if found.counterexample is None else f"{found.counterexample:.1e}",
                f"{found.worst_sample:.1e}",
                "" if found.again_seconds is None else f"{found.again_seconds:.2f}",
            ]
        )
    return table(header, rows)


def _proof_table(proofs: list[RegionProof]) -> str:
    header = [
        "network",
        "seed",
        "samples by",
        "method",
        "proven",
        "cells",
        "proof (ms)",
        "samples (ms)",
        "proof / samples",
        "quartiles",
    ]
    # All with numba first: these are what the target speaks of.
    pairs = [(one, timing) for one in proofs for timing in one.timings]
    pairs.sort(key=lambda pair: (not pair[0].is_of_paper, not pair[1].compiled))
    rows = [
        [
            _network(one),
            str(one.seed),
            "numba" if timing.compiled else "torch",
            timing.method,
            f"{timing.proven} of {one.regions}",
            f"{timing.cells:,}",
            milliseconds(timing.proof_seconds),
            milliseconds(timing.sampling_seconds),
            f"**{timing.ratio:.2f}**",
            quartiles(timing.quartiles),
        ]
        for one, timing in pairs
    ]
    return table(header, rows)


def _growth(growth: ProofGrowth) -> str:
    return f"""### Growth of a proof

Random networks that observe {OBSERVATIONS} numbers, two actions; a box of side {SIDE:g} around 0 \
in some of them, the others fixed at 0. What is to be proven is that the first action nowhere has \
less than the least probability of {SAMPLES:,} samples and of the corners, minus {SLACK:g}: the \
nearer the bound, the more cells. Medians over \
{growth.with_dimensions[0].networks} networks, a new one for every seed and width; after \
{SECONDS:g} s a proof counts as not finished.

With the coordinates that vary, width {growth.width:,}: each multiplies the time by \
**{growth.factor:.1f}**.

{_growth_table("varying", growth.with_dimensions)}

With the width, {VARYING} coordinates: exponent of the time {growth.exponent:.2f} over all sizes, \
**{growth.exponent_of_largest:.2f}** over the three largest.

{_growth_table("width", growth.with_width)}

![proofs](proofs.png)"""


def _growth_table(name: str, points: list[ProofPoint]) -> str:
    header = [name, "proven", "cells", "proof (ms)", "relative to the smallest", "range (ms)"]
    smallest = points[0].seconds
    rows = []
    for point in points:
        low, high = map(milliseconds, point.range)
        row = [f"{point.size:,}", f"{point.proven} of {point.networks}"]
        if point.is_finished:
            relative = f"{point.seconds / smallest:.3g}"
            row += [f"{point.cells:,.0f}", milliseconds(point.seconds), relative]
        else:
            row += ["not finished", "not finished", ""]
        rows.append([*row, f"{low} … {high}"])
    return table(header, rows)


def _holding_table(costs: list[HoldingCost]) -> str:
    header = [
        "selection",
        "collect (ms)",
        "predict (ms)",
        "solve (ms)",
        "update (ms)",
        "all but collect (ms)",
        "relative to collecting",
        "quartiles",
        "without exchange",
        "working states",
    ]
    rows = [
        [
            f"`Everywhere({'prove=True' if one.prove else ''})`",
            *map(milliseconds, (one.collecting, one.predicting, one.solving, one.updating)),
            milliseconds(one.update),
            f"**{one.ratio:.1f}**",
            quartiles(one.quartiles),
            f"{one.without_exchange:.0%}",
            f"{one.working_states:.0f}",
        ]
        for one in costs
    ]
    return table(header, rows)


def _network(proof: RegionProof) -> str:
    names = {"relu": "ReLU"}
    activation = names.get(proof.activation, proof.activation)
    return f"{' × '.join(map(str, proof.hidden))} {activation}"
