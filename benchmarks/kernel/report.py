"""The kernel alone, as a section of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.drawing import FIRST, OURS, SECOND, tick_at, two_panels
from benchmarks.harness import milliseconds, table_of
from benchmarks.kernel.comparison import KernelTiming

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def kernel_section(kernels: list[KernelTiming], width: int) -> str:
    """Against torch.func, and against the matrix product."""
    table = table_of(
        kernels,
        {
            "n": lambda one: f"{one.n:,}",
            "threads": lambda one: str(one.threads),
            "rounds": lambda one: str(one.rounds),
            "ours (ms)": lambda one: milliseconds(one.seconds),
            "jacrev / ours": lambda one: f"**{one.jacrev_ratio:.1f}**",
            "columns / ours": lambda one: f"**{one.columns_ratio:.1f}**",
            "columns timed": lambda one: f"{one.columns} of {2 * one.n:,}",
            "share of peak": lambda one: f"{one.share_of_peak:.0%}",
            "share of the best product": lambda one: f"{one.share_of_best:.0%}",
        },
    )
    return f"""## The kernel alone

`handrail.tangent.tangent_kernel` (all actions, (2n)² entries, width {width}) against torch.func. \
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
overhead. What stays in the caches can be faster than so large a product: above 100 %.

{table}

![kernel](kernel.png)"""


def kernel_figure(results: list[KernelTiming]) -> Figure:
    """Time of torch.func relative to ours, and the share of the peak, against n."""
    figure, left, right = two_panels(share_y=False)
    sizes = [one.n for one in results]
    columns = [one.columns_ratio for one in results]
    left.loglog(sizes, columns, **SECOND, label="kernel-vector products")
    left.loglog(sizes, [one.jacrev_ratio for one in results], **FIRST, label="vmap of jacrev")
    left.loglog(sizes, np.ones(len(sizes)), **OURS, label="handrail.tangent.tangent_kernel")
    left.set_ylabel("time relative to handrail.tangent.tangent_kernel")
    left.set_ylim(top=100.0 * max(columns))  # room for the legend
    left.legend(frameon=False, loc="upper left")
    shares = [100.0 * one.share_of_peak for one in results]
    right.semilogx(sizes, shares, **OURS)
    right.set_ylabel("share of the matrix-product peak (%)")
    right.set_ylim(0.0, max(100.0, 1.05 * max(shares)))  # smaller products may be faster
    for axes in (left, right):
        axes.set_xlabel("states, $n$")
        tick_at(axes, sizes)
    return figure
