"""The kernel and the growth of an update, as sections of the page."""

from __future__ import annotations

from benchmarks.growth import Curve, GrowthResults
from benchmarks.kernel import KernelTiming
from benchmarks.tables import milliseconds, quartiles, table, threads


def kernel_section(kernels: list[KernelTiming], width: int) -> str:
    """Against torch.func, and against the matrix product."""
    header = [
        "n",
        "threads",
        "rounds",
        "ours (ms)",
        "jacrev / ours",
        "columns / ours",
        "columns timed",
        "share of peak",
        "share of the best product",
    ]
    rows = [
        [
            f"{one.n:,}",
            str(one.threads),
            str(one.rounds),
            milliseconds(one.seconds),
            f"**{one.jacrev_ratio:.1f}**",
            f"**{one.columns_ratio:.1f}**",
            f"{one.columns} of {2 * one.n:,}",
            f"{one.share_of_peak:.0%}",
            f"{one.share_of_best:.0%}",
        ]
        for one in kernels
    ]
    return f"""## The kernel alone

`handrail.tangent_kernel` (all actions, (2n)² entries, width {width}) against torch.func. \
*jacrev*: vmap of jacrev, 32 states at a time, into one Jacobian, and its product with itself (at \
n = 4,000 the Jacobian takes 2.2 GB; all stays below 8 GB). *Columns*: kernel-vector products, a \
vjp at one state and a jvp at all states, vmapped over as many columns as keep the activations of \
about 1,000 states in memory; where fewer columns were timed than there are, the time is scaled \
linearly. All three agree to 1e-9 of the largest entry, or the run stops.

The peak is a float64 product of two 2000 × 2000 matrices with as many threads, timed just before \
and just after ours in every round (the better of the two; the last column takes the best of all \
rounds instead). The operations counted are those of the layers' Gram \
products that are needed, the symmetric half once: Σ over layers of \
d_in · n (n + 1) + d_out · rn (rn + 1), where r = n_A - 1 = 1, since the gradients of a state's \
probabilities add up to zero. Forward and backward passes, copies and elementwise products are \
overhead.

{table(header, rows)}

![kernel](kernel.png)"""


def growth_section(growth: GrowthResults) -> str:
    """With the batch, and with the constraints."""
    return f"""## Growth

One constrained update from a random network, {threads(growth.threads)} throughout (its passes \
are small, 64 states, at every size), the plain update of the same batch beside it; the sizes take \
turns too, and every round has its own network and batch. Exponents are those of the constrained \
update's time: over all sizes, over the three largest (constant costs no longer show), and from \
one size to the next. \
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


def _growth_table(name: str, curve: Curve) -> str:
    header = [
        name,
        "rounds",
        "constrained (ms)",
        "relative to the smallest",
        "constrained / plain",
        "quartiles",
        "constrained / plain in passes",
        "exponent from the size before",
    ]
    smallest = curve.points[0].constrained_seconds
    steps = ["", *(f"{step:.2f}" for step in curve.steps)]
    rows = [
        [
            f"{point.size:,}",
            str(point.rounds),
            milliseconds(point.constrained_seconds),
            f"{point.constrained_seconds / smallest:.3g}",
            f"{point.ratio:.2f}",
            quartiles(point.ratio_quartiles),
            f"{point.passes_ratio:.2f}",
            step,
        ]
        for point, step in zip(curve.points, steps, strict=True)
    ]
    return table(header, rows)
