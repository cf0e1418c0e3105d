"""Regions and proofs, as a section of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.drawing import FIRST, OURS, tick_at, two_panels
from benchmarks.harness import interval, markdown_table, milliseconds, table_of
from benchmarks.proof.growth import (
    OBSERVATIONS,
    SAMPLES,
    SECONDS,
    SIDE,
    SLACK,
    VARYING,
    ProofGrowth,
    ProofPoint,
)
from benchmarks.proof.region_proof import RegionProof
from benchmarks.proof.region_update import HoldingCost
from benchmarks.proof.results import RegionResults

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
    return table_of(
        proofs,
        {
            "network": _network,
            "seed": lambda one: str(one.seed),
            "enforce (s)": lambda one: f"{one.obedience.seconds:.2f}",
            "rounds": lambda one: str(one.obedience.rounds),
            "iterations": lambda one: str(one.obedience.iterations),
            "working states": lambda one: str(one.obedience.working_states),
            "proven": lambda one: f"{one.obedience.proven} of {one.regions}",
            "counterexample": lambda one: _or_nothing(one.obedience.counterexample, ".1e"),
            "worst sample": lambda one: f"{one.obedience.worst_sample:.1e}",
            "with a proof (s)": lambda one: _or_nothing(one.obedience.again_seconds, ".2f"),
        },
    )


def _or_nothing(value: float | None, form: str) -> str:
    return "" if value is None else f"{value:{form}}"


def _proof_table(proofs: list[RegionProof]) -> str:
    # All with numba first: these are what the target speaks of.
    pairs = [(one, timing) for one in proofs for timing in one.timings]
    pairs.sort(key=lambda pair: (not pair[0].is_of_paper, not pair[1].compiled))
    return table_of(
        pairs,
        {
            "network": lambda pair: _network(pair[0]),
            "seed": lambda pair: str(pair[0].seed),
            "samples by": lambda pair: "numba" if pair[1].compiled else "torch",
            "method": lambda pair: pair[1].method,
            "proven": lambda pair: f"{pair[1].proven} of {pair[0].regions}",
            "cells": lambda pair: f"{pair[1].cells:,}",
            "proof (ms)": lambda pair: milliseconds(pair[1].proof_seconds),
            "samples (ms)": lambda pair: milliseconds(pair[1].sampling_seconds),
            "proof / samples": lambda pair: f"**{pair[1].ratio:.2f}**",
            "quartiles": lambda pair: interval(pair[1].quartiles),
        },
    )


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
    return markdown_table(header, rows)


def _holding_table(costs: list[HoldingCost]) -> str:
    return table_of(
        costs,
        {
            "selection": lambda one: f"`Everywhere({'prove=True' if one.prove else ''})`",
            "collect (ms)": lambda one: milliseconds(one.collecting),
            "predict (ms)": lambda one: milliseconds(one.predicting),
            "solve (ms)": lambda one: milliseconds(one.solving),
            "update (ms)": lambda one: milliseconds(one.updating),
            "all but collect (ms)": lambda one: milliseconds(one.update),
            "relative to collecting": lambda one: f"**{one.ratio:.1f}**",
            "quartiles": lambda one: interval(one.quartiles),
            "without exchange": lambda one: f"{one.without_exchange:.0%}",
            "working states": lambda one: f"{one.working_states:.0f}",
        },
    )


def _network(proof: RegionProof) -> str:
    names = {"relu": "ReLU"}
    activation = names.get(proof.activation, proof.activation)
    return f"{' × '.join(map(str, proof.hidden))} {activation}"


def proof_figure(results: ProofGrowth) -> Figure:
    """Time and cells of a proof against the varying coordinates and against the width."""
    figure, left, right = two_panels(share_y=True)
    _draw_proofs(left, results.with_dimensions)
    left.set_xscale("linear")
    left.set_xlabel("coordinates that vary")
    left.set_ylabel("relative to the smallest")
    left.set_title(f"width {results.width:,}: time × {results.factor:.1f} for each")
    _draw_proofs(right, results.with_width)
    right.set_xlabel("width of the network")
    right.set_title(
        f"{VARYING} coordinates: exponent of the largest {results.exponent_of_largest:.2f}"
    )
    for axes, points in ((left, results.with_dimensions), (right, results.with_width)):
        tick_at(axes, [point.size for point in points])
        axes.legend(frameon=False, loc="upper left")
    return figure


def _draw_proofs(axes: Axes, curve: list[ProofPoint]) -> None:
    """Medians, and the range of the time; where proofs did not finish there is nothing."""
    points = [point for point in curve if point.is_finished]
    sizes = [point.size for point in points]
    seconds = np.array([point.seconds for point in points]) / points[0].seconds
    low, high = np.array([point.range for point in points]).T / points[0].seconds
    axes.loglog(sizes, seconds, **OURS, label="time")
    axes.vlines(sizes, low, high, color="black", linewidth=0.8)
    cells = [point.cells / points[0].cells for point in points]
    axes.loglog(sizes, cells, **FIRST, label="cells")
