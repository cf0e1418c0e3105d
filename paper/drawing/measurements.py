"""Numbers that are not learning curves: prediction errors, times, sample efficiency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter
from numpy.typing import NDArray

from handrail._types import Array
from handrail.report.drawing import new_figure
from paper.drawing.learning import (
    ANOTHER,
    EXACT,
    OTHER,
    PAPER,
    PLAIN,
    Role,
    legend_above,
    over_episodes,
    panels,
)
from paper.interval import Interval
from paper.update_times import Times

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def environments_figure(images: Sequence[tuple[str, NDArray[np.uint8]]]) -> Figure:
    """Frames of environments side by side."""
    figure, axes_of = panels(columns=len(images), height=3.2)
    for axes, (title, image) in zip(axes_of, images, strict=True):
        axes.imshow(image)
        axes.set_title(title, fontsize=10)
        axes.set_axis_off()
    return figure


def prediction_figure(errors: Sequence[tuple[str, Array]]) -> Figure:
    """Relative errors in per cent over episodes, a panel per step size, a line per seed.

    Args:
        errors: (label, (seeds, episodes)) each.
    """
    figure, axes_of = panels(rows=len(errors), height=2.3)
    for axes, (label, table) in zip(axes_of, errors, strict=True):
        for row in table:
            axes.plot(row, color="0.65", linewidth=0.6)
        axes.plot(np.median(table, axis=0), label="median of the seeds", **PAPER.style(1.4))
        typical = float(np.median(np.abs(table)))
        axes.axhline(0.0, color="black", linewidth=0.6)
        # A change that is nearly zero has any relative error: those few are out of the picture.
        axes.set_ylim(-12.0 * typical, 12.0 * typical)
        over_episodes(axes, "relative error (%)")
        axes.set_title(f"{label}: median size {typical:.2g} %", fontsize=10)
    axes_of[0].legend(fontsize=8, frameon=False, loc="upper right")
    return figure


_TIMED = (
    ("update", "one constrained update", PAPER),
    ("kernel", "the kernel as the paper computes it", EXACT),
    ("solve", "solving the quadratic program alone", OTHER),
    ("linear", "solving as many equations", ANOTHER),
    ("plain", "the step without constraints", PLAIN),
)


def times_figure(sweeps: Sequence[tuple[str, Times]]) -> Figure:
    """Seconds over sizes, logarithmic, with exponents fitted to the larger half of the sizes."""
    figure, axes_of = panels(columns=len(sweeps), height=3.9)
    for axes, (what, times) in zip(axes_of, sweeps, strict=True):
        for part, label, role in _TIMED:
            axes.plot(
                times.sizes,
                1000.0 * times.seconds[part],
                marker=role.marker,
                markersize=4,
                label=_with_exponent(label, times.exponent(part)),
                **role.style(),
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(what)
        axes.set_ylabel("time (ms)")
        axes.grid(alpha=0.25, which="both")
        legend_above(axes, columns=1)
    return figure


def _with_exponent(label: str, exponent: float) -> str:
    """Of one size, as a reproduction that was cut down may have, none is known."""
    return label if np.isnan(exponent) else f"{label}: exponent {exponent:.2f}"


@final
@dataclass(frozen=True)
class Effort:
    """What one learner needed.

    Attributes:
        label: of the learner.
        role: how it is drawn.
        values: one per seed; those that never passed at what they had when they ended.
        never: which of them never passed.
        iqm: interquartile mean of the values.
    """

    label: str
    role: Role
    values: Array
    never: NDArray[np.bool_]
    iqm: Interval

    @property
    def bound_only(self) -> bool:
        """Whether the interquartile mean is only a lower bound: it leaves out a quarter."""
        return bool(self.never.mean() > 0.25)


def effort_figure(columns: Sequence[tuple[str, Sequence[Effort]]]) -> Figure:
    """Dots per seed, interquartile means with bootstrap intervals, logarithmic; less is better."""
    figure, axes_of = panels(columns=len(columns), height=0.42 * len(columns[0][1]) + 1.6)
    for number, (axes, (what, efforts)) in enumerate(zip(axes_of, columns, strict=True)):
        for place, one in enumerate(efforts):
            y = np.full(len(one.values), float(place))
            for mask, marker in ((~one.never, "o"), (one.never, "x")):
                axes.plot(
                    one.values[mask],
                    y[mask] + 0.18,
                    linestyle="none",
                    marker=marker,
                    markersize=4,
                    color="0.55",
                )
            if not one.bound_only:
                ends = [one.iqm.low, one.iqm.high]
                axes.plot(ends, [place, place], color=one.role.colour, linewidth=3.0)
            axes.plot(
                one.iqm.value,
                place,
                marker=one.role.marker,
                color=one.role.colour,
                markerfacecolor="white" if one.bound_only else one.role.colour,
                markersize=8,
            )
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel(what)
        axes.grid(alpha=0.25, axis="x", which="both")
        axes.set_ylim(len(efforts) - 0.5, -0.5)
        labels = [one.label for one in efforts] if number == 0 else [""] * len(efforts)
        axes.set_yticks(range(len(efforts)), labels, fontsize=8)
    return figure


@final
@dataclass(frozen=True)
class Sample:
    """A number of each seed of one learner.

    Attributes:
        label: of the learner.
        role: how it is drawn.
        values: one per seed, NaN where there is none.
        iqm: their interquartile mean.
    """

    label: str
    role: Role
    values: Array
    iqm: Interval


def spread_figure(
    samples: Sequence[Sample], what: str, close: tuple[float, float], mark: float
) -> Figure:
    """Every seed of every learner: all of the range on the left, a part of it on the right.

    Args:
        samples: from top to bottom.
        what: the values are.
        close: the range of the right panel.
        mark: a value to compare with.
    """
    figure, (whole, near) = panels(columns=2, height=0.55 * len(samples) + 1.3)
    for axes in (whole, near):
        for place, one in enumerate(samples):
            # Seeds of the same score side by side, in a pattern that is the same every time.
            offsets = 0.12 + 0.22 * np.modf(0.618 * np.arange(len(one.values)))[0]
            axes.plot(one.values, place + offsets, linestyle="none", marker=".", color="0.55", ms=4)
            axes.plot([one.iqm.low, one.iqm.high], [place] * 2, color=one.role.colour, lw=3.0)
            axes.plot(one.iqm.value, place, marker=one.role.marker, color=one.role.colour, ms=8)
        axes.axvline(mark, color="black", linestyle=(0, (1, 2)), linewidth=1.0)
        axes.set_xlabel(what)
        axes.grid(alpha=0.25, axis="x")
        axes.set_ylim(len(samples) - 0.4, -0.5)
    whole.set_yticks(range(len(samples)), [one.label for one in samples], fontsize=8)
    near.set_yticks(range(len(samples)), [""] * len(samples))
    near.set_xlim(*close)
    return figure


def kernel_figure(kernel: Array, n_batch: int) -> Figure:
    """The size of a kernel's entries, cut into the blocks of batch and constrained states."""
    figure = new_figure(5.6, 4.8)
    axes = figure.subplots()
    image = axes.imshow(np.abs(kernel), cmap="YlGnBu", interpolation="nearest")
    for draw in (axes.axhline, axes.axvline):
        draw(n_batch - 0.5, color="black", linewidth=1.4)
    middles = (0.5 * n_batch, 0.5 * (n_batch + len(kernel)))
    names = ("batch", "constrained states")
    axes.set_xticks(middles, names)
    axes.set_yticks(middles, names, rotation=90, va="center")
    axes.tick_params(length=0)
    figure.colorbar(image, ax=axes, label="size of ∇π(a|s) · ∇π(a'|s')")
    return figure
