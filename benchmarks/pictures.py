"""Pictures of a run: how the update grows, how the kernel compares, how a proof grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from benchmarks.growth import Curve, GrowthResults
from benchmarks.kernel import KernelTiming
from benchmarks.proof_growth import VARYING, ProofGrowth, ProofPoint
from handrail.report.drawing import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OURS = {"color": "black", "marker": "o", "linestyle": "-"}
_FIRST = {"color": "0.45", "marker": "s", "linestyle": "--"}
_SECOND = {"color": "0.45", "marker": "^", "linestyle": "-."}
_GUIDE = {"color": "0.65", "linestyle": ":"}


def growth_picture(results: GrowthResults) -> Figure:
    """Time of an update against n_B and against n_S, in plain updates of the smallest batch."""
    figure = new_figure(9.6, 4.0)
    left, right = figure.subplots(1, 2, sharey=True)
    _draw_growth(left, results.with_batch)
    left.set_xlabel(r"steps in the batch, $n_B$")
    first = results.with_batch.points[0].size
    left.set_ylabel(f"time of one update\n(plain updates of {first} steps)")
    left.set_title(f"{results.constraints} constraints")
    _draw_growth(right, results.with_constraints)
    right.set_xlabel(r"constrained states, $n_S$")
    right.set_title(f"{results.batch} steps")
    left.legend(frameon=False)
    right.legend(frameon=False)
    return figure


def kernel_picture(results: list[KernelTiming]) -> Figure:
    """Time of torch.func relative to ours, and the share of the peak, against n."""
    figure = new_figure(9.6, 4.0)
    left, right = figure.subplots(1, 2)
    sizes = [one.n for one in results]
    columns = [one.columns_ratio for one in results]
    left.loglog(sizes, columns, **_SECOND, label="kernel-vector products")
    left.loglog(sizes, [one.jacrev_ratio for one in results], **_FIRST, label="vmap of jacrev")
    left.loglog(sizes, np.ones(len(sizes)), **_OURS, label="handrail.tangent_kernel")
    left.set_ylabel("time relative to handrail.tangent_kernel")
    left.legend(frameon=False)
    right.semilogx(sizes, [100.0 * one.share_of_peak for one in results], **_OURS)
    right.set_ylabel("share of the matrix-product peak (%)")
    right.set_ylim(0.0, 100.0)
    for axes in (left, right):
        axes.set_xlabel("states, $n$")
        _tick_at(axes, sizes)
    return figure


def proof_picture(results: ProofGrowth) -> Figure:
    """Time and cells of a proof against the varying coordinates and against the width."""
    figure = new_figure(9.6, 4.0)
    left, right = figure.subplots(1, 2, sharey=True)
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
        _tick_at(axes, [point.size for point in points])
        axes.legend(frameon=False, loc="upper left")
    return figure


def _draw_proofs(axes: Axes, curve: list[ProofPoint]) -> None:
    """Medians, and the range of the time; where proofs did not finish there is nothing."""
    points = [point for point in curve if point.is_finished]
    sizes = [point.size for point in points]
    seconds = np.array([point.seconds for point in points]) / points[0].seconds
    low, high = np.array([point.range for point in points]).T / points[0].seconds
    axes.loglog(sizes, seconds, **_OURS, label="time")
    axes.vlines(sizes, low, high, color="black", linewidth=0.8)
    cells = [point.cells / points[0].cells for point in points]
    axes.loglog(sizes, cells, **_FIRST, label="cells")


def _draw_growth(axes: Axes, curve: Curve) -> None:
    sizes = np.array([point.size for point in curve.points])
    unit = curve.points[0].plain_seconds
    constrained = np.array([point.constrained_seconds for point in curve.points]) / unit
    plain = np.array([point.plain_seconds for point in curve.points]) / unit
    label = f"constrained (exponent of the largest {curve.exponent_of_largest:.2f})"
    axes.loglog(sizes, constrained, **_OURS, label=label)
    axes.loglog(sizes, plain, **_FIRST, label="plain, all states at once")
    passes = np.array([point.passes_seconds for point in curve.points]) / unit
    axes.loglog(sizes, passes, **_SECOND, label="plain, in passes")
    linear = constrained[-1] * sizes / sizes[-1]
    axes.loglog(sizes, linear, **_GUIDE, label="linear")
    _tick_at(axes, sizes.tolist())


def _tick_at(axes: Axes, sizes: list[int]) -> None:
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.grid(visible=True, color="0.9")
