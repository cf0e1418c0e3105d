"""One constrained update, its growth, and exact enforcement, as sections of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.drawing import FIRST, GUIDE, OURS, SECOND, tick_at, two_panels
from benchmarks.harness import (
    interval,
    markdown_table,
    milliseconds,
    table_of,
    threads_in_words,
)
from benchmarks.update.comparison import ExplicitComparison, PlainComparison, UpdateResults
from benchmarks.update.enforcement import EnforcementResults
from benchmarks.update.growth import GrowthCurve, GrowthResults
from benchmarks.update.stages import STAGES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def update_section(update: UpdateResults) -> str:
    """Against the plain update, and against the explicit procedure."""
    disagreement = max(one.disagreement for one in update.explicit)
    return f"""## One constrained update

n_B = {update.batch} steps, n_S = {update.constraints} constraints (the paper's Cartpole states), \
from a random network: batch gradient, batch effect, kernel, program and step. The rows are \
expanded once, outside, as a learner does.

### Against the plain update

The plain update is what a PyTorch user writes: `zero_grad`, log-softmax of all {update.batch} \
states at once, `backward`, `SGD.step`. The quartiles are those of the ratios within a round. \
Threads that did not get their cores wait for each other after every operation: such a row counts \
operations rather than their cost, and is shown but not judged.

{_plain_table(update.plain)}

Where the time of the constrained update goes, stage by stage (median of each, share of their sum; \
the program is what the other stages leave of the whole):

{_stage_table(update.plain)}

### Against the explicit procedure

The procedure as the paper's author would write it (`benchmarks/update/explicit.py`): for every \
pair of states the Jacobians of both states' probabilities by autograd and their product, the full \
kernel of all n = n_B + n_S states and all actions, the batch effect and the quadratic program \
from it, a step on the augmented batch. It is timed on parts of the same case, its power law \
is fitted by least squares of logarithms, and the law gives the time at n = \
{update.explicit[0].full_size}. On every part its safe returns agree with ours (relative \
difference at most {disagreement:.0e}; the run stops if it exceeds 1e-6).

{_explicit_table(update.explicit)}

{_scaled_table(update.explicit)}

The last two rows of the second table are not the procedure of the target, but what remains of \
the gap against a more careful author: one who evaluates only the pairs with a constrained state \
(n_S / n of the pairs; computed from the first row), and one who computes each state's Jacobian \
once and keeps it (measured at the full size)."""


def _plain_table(comparisons: list[PlainComparison]) -> str:
    return table_of(
        comparisons,
        {
            "threads": lambda one: str(one.threads),
            "cores got": lambda one: f"{one.cores:.1f}",
            "constrained (ms)": lambda one: milliseconds(one.constrained_seconds),
            "plain (ms)": lambda one: milliseconds(one.plain_seconds),
            "constrained / plain": lambda one: f"**{one.ratio:.2f}**",
            "quartiles": lambda one: interval(one.ratio_quartiles),
            "judged": lambda one: "yes" if one.is_fair else "no",
        },
    )


def _stage_table(comparisons: list[PlainComparison]) -> str:
    header = ["stage", *(f"{threads_in_words(one.threads)} (ms)" for one in comparisons)]
    header += [f"{threads_in_words(one.threads)} (share)" for one in comparisons]
    totals = [sum(one.stage_seconds.values()) for one in comparisons]
    rows = []
    for stage in STAGES:
        seconds = [one.stage_seconds[stage] for one in comparisons]
        shares = [f"{s / total:.0%}" for s, total in zip(seconds, totals, strict=True)]
        rows.append([stage, *map(milliseconds, seconds), *shares])
    rows.append(["sum", *map(milliseconds, totals), *("100%" for _ in totals)])
    return markdown_table(header, rows)


def _explicit_table(comparisons: list[ExplicitComparison]) -> str:
    header = ["measured at n =", *map(str, comparisons[0].sizes), "exponent"]
    rows = [
        [
            f"{threads_in_words(one.threads)} (s)",
            *(f"{seconds:.3g}" for seconds in one.seconds),
            f"{one.exponent:.2f}",
        ]
        for one in comparisons
    ]
    return markdown_table(header, rows)


def _scaled_table(comparisons: list[ExplicitComparison]) -> str:
    full = comparisons[0].full_size
    header = [f"at n = {full}"]
    header += [f"{threads_in_words(one.threads)} (s)" for one in comparisons]
    header += [f"relative to ours, {threads_in_words(one.threads)}" for one in comparisons]
    kinds = [
        ("explicit, by its law", [one.full_seconds for one in comparisons]),
        ("explicit, largest case × square", [one.square_seconds for one in comparisons]),
        ("ours, measured", [one.constrained_seconds for one in comparisons]),
        ("explicit, needed pairs only", [one.only_needed_seconds for one in comparisons]),
        ("explicit, Jacobians kept, measured", [one.kept_seconds for one in comparisons]),
    ]
    rows = []
    for name, seconds in kinds:
        ratios = [s / one.constrained_seconds for s, one in zip(seconds, comparisons, strict=True)]
        rows.append([name, *(f"{s:.3g}" for s in seconds), *(f"{r:,.0f}" for r in ratios)])
    return markdown_table(header, rows)


def growth_section(growth: GrowthResults) -> str:
    """With the batch, and with the constraints."""
    return f"""## Growth

One constrained update from a random network, {threads_in_words(growth.threads)} throughout (its \
passes are small, 64 states, at every size), the plain update of the same batch beside it; the \
sizes take turns too, and every round has its own network and batch. Exponents are those of the \
constrained update's time: over all sizes, over the three largest (constant costs no longer show), \
and from one size to the next. \
The plain update holds the activations of all states at once; past some 800 of them they no longer \
fit what the C library keeps, and come anew from the system every time. That, not the constraints, \
is why its column falls below 1 with n_B. Next to it stands the plain update in passes of 64 \
states, as ours makes them.

With the batch, n_S = {growth.constraints} (the paper's states): exponent \
{growth.with_batch.exponent:.2f} over all sizes, **{growth.with_batch.exponent_of_largest:.2f}** \
over the three largest.

{_growth_table("n_B", growth.with_batch)}

With the constraints, n_B = {growth.batch}: points of two half-planes (push right where 4φ + φ̇ > \
0.5, left where it is < -0.5, each at least 0.95; x within ±2.4, φ within ±0.25, φ̇ within ±2, ẋ \
= 0), new points in every round. Exponent {growth.with_constraints.exponent:.2f} over all sizes, \
**{growth.with_constraints.exponent_of_largest:.2f}** over the three largest.

{_growth_table("n_S", growth.with_constraints)}

![growth](growth.png)"""


def _growth_table(name: str, curve: GrowthCurve) -> str:
    smallest = curve.points[0].constrained_seconds
    steps = ["", *(f"{step:.2f}" for step in curve.steps)]
    return table_of(
        zip(curve.points, steps, strict=True),
        {
            name: lambda row: f"{row[0].size:,}",
            "rounds": lambda row: str(row[0].rounds),
            "constrained (ms)": lambda row: milliseconds(row[0].constrained_seconds),
            "relative to the smallest": lambda row: f"{row[0].constrained_seconds / smallest:.3g}",
            "constrained / plain": lambda row: f"{row[0].ratio:.2f}",
            "quartiles": lambda row: interval(row[0].ratio_quartiles),
            "constrained / plain in passes": lambda row: f"{row[0].passes_ratio:.2f}",
            "exponent from the size before": lambda row: row[1],
        },
    )


def growth_figure(results: GrowthResults) -> Figure:
    """Time of an update against n_B and against n_S, in plain updates of the smallest batch."""
    figure, left, right = two_panels(share_y=True)
    _draw_growth(left, results.with_batch)
    left.set_xlabel(r"steps in the batch, $n_B$")
    first = results.with_batch.points[0].size
    left.set_ylabel(f"time of one update\n(plain updates of {first} steps)")
    left.set_title(f"{results.constraints} constraints")
    _draw_growth(right, results.with_constraints)
    right.set_xlabel(r"constrained states, $n_S$")
    right.set_title(f"{results.batch} steps")
    for axes in (left, right):
        axes.legend(frameon=False, loc="upper left")
    return figure


def _draw_growth(axes: Axes, curve: GrowthCurve) -> None:
    sizes = np.array([point.size for point in curve.points])
    unit = curve.points[0].plain_seconds
    constrained = np.array([point.constrained_seconds for point in curve.points]) / unit
    plain = np.array([point.plain_seconds for point in curve.points]) / unit
    label = f"constrained (exponent of the largest {curve.exponent_of_largest:.2f})"
    axes.loglog(sizes, constrained, **OURS, label=label)
    axes.loglog(sizes, plain, **FIRST, label="plain, all states at once")
    passes = np.array([point.passes_seconds for point in curve.points]) / unit
    axes.loglog(sizes, passes, **SECOND, label="plain, in passes")
    linear = constrained[-1] * sizes / sizes[-1]
    axes.loglog(sizes, linear, **GUIDE, label="linear")
    tick_at(axes, sizes.tolist())


def enforcement_section(enforcement: EnforcementResults) -> str:
    """`enforce` next to one plain update, network by network."""
    table = table_of(
        enforcement.seeds,
        {
            "seed of the network": lambda one: str(one.seed),
            "iterations": lambda one: str(one.iterations),
            "enforce (ms)": lambda one: milliseconds(one.seconds),
            "plain update (ms)": lambda one: milliseconds(one.plain_seconds),
            "ratio": lambda one: f"{one.ratio:.1f}",
        },
    )
    return f"""## Exact enforcement

`handrail.enforce` of the paper's 18 constraints from random networks, until the real network \
meets all of them to 1e-6, next to one plain update of {enforcement.batch} states, one thread. \
The median ratio is **{enforcement.median_ratio:.1f}**.

{table}"""
