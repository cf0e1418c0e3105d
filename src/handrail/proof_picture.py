"""A proof as a picture: its cells, coloured by how far inside the bound each is certified to be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PolyCollection
from matplotlib.colors import Normalize, to_rgba

from handrail.arrays import Array
from handrail.certification import Certificate, certify
from handrail.constraints import Constraint
from handrail.cuts import area, beside_faces, cut_cells
from handrail.errors import InvalidConstraint, InvalidPolicy
from handrail.expansion import expand
from handrail.figures import (
    Slice,
    draw_legend,
    draw_regions,
    draw_states,
    is_curve,
    middle_of,
    new_figure,
)
from handrail.margins import Margin
from handrail.policies import CategoricalPolicy
from handrail.regions import Region
from handrail.regions.outlines import rectangle
from handrail.rulebook import Rulebook

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure

# Margins in log-odds that the colour bar names. Cells further inside all look the same: e³ is
# twenty times the odds of the bound.
_TICKS = (0.0, 0.02, 0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0)
_MOST_PANELS = 6
_PANELS_IN_A_ROW = 3
_MOST_SIDES = 2


@final
@dataclass(frozen=True)
class Side:
    """One bound on the probability of one action."""

    action: int
    n_actions: int
    threshold: float
    is_lower: bool

    def in_words(self, actions: Sequence[str]) -> str:
        """What its values say."""
        return f"“{actions[self.action]}” at {'least' if self.is_lower else 'most'}"

    def at(self, margin: float) -> str:
        """The probability that a margin in log-odds certifies, rounded to the safe side."""
        weights = np.eye(self.n_actions)[self.action]
        make = Margin.at_least if self.is_lower else Margin.at_most
        value = make(weights, self.threshold).worst_value(margin)
        room = min(self.threshold, 1.0 - self.threshold)
        decimals = max(3, 2 - int(np.floor(np.log10(room))))
        scaled = value * 10.0**decimals
        safe = np.floor(scaled + 1e-6) if self.is_lower else np.ceil(scaled - 1e-6)
        return f"{safe / 10.0**decimals:.{decimals}f}"


@final
@dataclass(frozen=True)
class Answer:
    """What is known about a constraint on one region, or on one sub-region of a union.

    Attributes:
        region: where.
        certificate: what a proof said.
        sides: its bounds; none if it is about more than one action.
    """

    region: Region
    certificate: Certificate
    sides: tuple[Side, ...]

    def cut(self, plane: Slice) -> tuple[list[Array], Array]:
        """The proven cells that the plane meets: their outlines (m, 2), and their bounds (n,).

        Those of a curve are projected: a plane meets it in single states at most.
        """
        if is_curve(self.region):
            return self._projected(plane)
        at = beside_faces(self.region, np.asarray(plane.at))
        outlines: list[Array] = []
        bounds = [np.zeros(0)]
        for leaves in self.certificate.leaves:
            met, found = cut_cells(leaves.cells, plane.horizontal, plane.vertical, at)
            outlines += found
            bounds.append(leaves.lowest[met])
        return outlines, np.concatenate(bounds)

    def _projected(self, plane: Slice) -> tuple[list[Array], Array]:
        axes = [plane.horizontal, plane.vertical]
        outlines = [
            rectangle(low[0], high[0], low[1], high[1])
            for leaves in self.certificate.leaves
            for low, high in zip(leaves.cells.low[:, axes], leaves.cells.high[:, axes], strict=True)
        ]
        bounds = [np.zeros(0), *(leaves.lowest for leaves in self.certificate.leaves)]
        return outlines, np.concatenate(bounds)

    def meets(self, plane: Slice) -> bool:
        """Whether there is something of it to be seen."""
        return is_curve(self.region) or bool(plane.section(self.region))


def certify_regions(
    policy: CategoricalPolicy, constraints: Sequence[Constraint]
) -> tuple[Answer, ...]:
    """A certificate for every region of which one can be had."""
    if not constraints:
        return ()
    answers = []
    for one in expand(constraints, policy).regional:
        part = one.constraint.moved_to(one.region, one.name)
        try:
            certificate = certify(policy, part)
        except (InvalidPolicy, InvalidConstraint):
            # A network, a curve or a relation of states that no proof can look into.
            continue
        weights = one.rows_at(one.region.cover(1)).weights[0]
        answers.append(Answer(one.region, certificate, _sides(certificate, weights)))
    return tuple(answers)


def _sides(certificate: Certificate, weights: Array) -> tuple[Side, ...]:
    action, n = int(weights.argmax()), len(weights)
    if not (weights == np.eye(n)[action]).all():
        return ()
    bounds = [(certificate.lower, True), (certificate.upper, False)]
    return tuple(Side(action, n, bound, lower) for bound, lower in bounds if np.isfinite(bound))


def proof_figure(rulebook: Rulebook, answers: Sequence[Answer], plane: Slice) -> Figure:
    """The cells of all proofs that the plane meets; a panel per plane if one misses regions."""
    panels = _panels(answers, plane)
    columns = min(len(panels), _PANELS_IN_A_ROW)
    rows = -(-len(panels) // columns)
    figure = new_figure(2.7 + 3.9 * columns, 0.9 + 3.7 * rows)
    every = figure.subplots(rows, columns, squeeze=False).ravel()
    drawn = np.concatenate([panel.bounds for panel in panels])
    shades = _shades(drawn)
    for panel, axes in zip(panels, every, strict=False):
        panel.draw(axes, shades)
        axes.set_title(panel.plane.fixed(rulebook.observations), fontsize=9)
        axes.set_xlabel(rulebook.observations[plane.horizontal])
        axes.set_ylabel(rulebook.observations[plane.vertical])
    for axes in every[len(panels) :]:
        axes.set_visible(False)
    if len(drawn):
        extend = "max" if (drawn > _TICKS[-1]).any() else "neither"
        bar = figure.colorbar(shades, ax=list(every), extend=extend, aspect=30)
        _label_bar(bar, rulebook, answers)
    draw_legend(figure, every[: len(panels)], _caption(answers, panels), 1 + columns)
    return figure


@final
@dataclass(frozen=True)
class _Panel:
    """A plane and the answers about the regions that it meets."""

    plane: Slice
    answers: tuple[Answer, ...]

    @classmethod
    def of(cls, plane: Slice, answers: Sequence[Answer]) -> _Panel:
        """Shows the whole of the regions."""
        here = tuple(one for one in answers if one.meets(plane))
        if not here:
            return cls(plane, ())
        low = np.min([one.region.bounds[0] for one in here], axis=0)
        high = np.max([one.region.bounds[1] for one in here], axis=0)

        def reaching(index: int, ends: tuple[float, float]) -> tuple[float, float]:
            margin = 0.05 * float(high[index] - low[index])
            return min(ends[0], float(low[index]) - margin), max(
                ends[1], float(high[index]) + margin
            )

        across = reaching(plane.horizontal, plane.horizontal_range)
        up = reaching(plane.vertical, plane.vertical_range)
        return cls(replace(plane, horizontal_range=across, vertical_range=up), here)

    @cached_property
    def outlines(self) -> list[Array]:
        """Of the cells."""
        return [outline for one in self.answers for outline in one.cut(self.plane)[0]]

    @cached_property
    def bounds(self) -> Array:
        """(n,) of the cells, in the order of their outlines."""
        return np.concatenate([np.zeros(0), *(one.cut(self.plane)[1] for one in self.answers)])

    def draw(self, axes: Axes, shades: ScalarMappable) -> None:
        """What is not proven first, then cells, then outlines and counterexamples."""
        open_ = [one.region for one in self.answers if not one.certificate.certified]
        draw_regions(axes, open_, self.plane, facecolor="0.93", hatch="////", label="not proven")
        self._draw_cells(axes, shades)
        whole = [one.region for one in self.answers]
        draw_regions(axes, whole, self.plane, facecolor="none", label="constrained region")
        self._draw_counterexamples(axes)
        axes.set_xlim(*self.plane.horizontal_range)
        axes.set_ylim(*self.plane.vertical_range)

    def _draw_counterexamples(self, axes: Axes) -> None:
        for one in self.answers:
            if one.certificate.state is not None:
                state = np.array([one.certificate.state])
                label = "counterexample"
                if not self.plane.contains(state)[0]:
                    label += ", other plane"
                style = {"marker": "X", "markersize": 9, "markerfacecolor": "red", "zorder": 4}
                draw_states(axes, state, self.plane, label=label, **style)

    def _draw_cells(self, axes: Axes, shades: ScalarMappable) -> None:
        """Lowest bounds on top: where cells overlap, the colour is true for all of them."""
        order = np.argsort(-self.bounds, kind="stable")
        outlines = [self.outlines[index] for index in order]
        colours = shades.to_rgba(_shade(self.bounds[order]))
        flat = np.array([area(outline) == 0.0 for outline in outlines], dtype=bool)
        # A cell without an area in this plane would vanish: its edge has its colour then.
        edges = np.where(flat[:, None], colours, to_rgba("white"))
        widths = np.where(flat, 3.0, 0.4)
        axes.add_collection(
            PolyCollection(outlines, facecolors=colours, edgecolors=edges, linewidths=widths)
        )


def _panels(answers: Sequence[Answer], plane: Slice) -> list[_Panel]:
    """The plane, if it meets a region, and parallel ones through the regions that it misses."""
    planes = [plane]
    missed = [one for one in answers if not one.meets(plane)]
    while missed:
        planes.append(replace(plane, at=tuple(middle_of(missed[0].region).tolist())))
        missed = [one for one in missed[1:] if not one.meets(planes[-1])]
    panels = [_Panel.of(one, answers) for one in planes]
    return [panel for panel in panels if panel.answers][:_MOST_PANELS] or panels[:1]


def _shade(margins: Array) -> Array:
    """The square root tells small margins apart, where it matters."""
    result: Array = np.sqrt(np.maximum(margins, 0.0))
    return result


def _shades(bounds: Array) -> ScalarMappable:
    """Colours up to the first tick above every bound that is drawn, or to the last tick."""
    highest = float(bounds.max(initial=0.0))
    end = next((tick for tick in _TICKS[2:] if tick >= highest), _TICKS[-1])
    return ScalarMappable(Normalize(0.0, np.sqrt(end)), "viridis")


def _label_bar(bar: Colorbar, rulebook: Rulebook, answers: Sequence[Answer]) -> None:
    """Margins in log-odds; and the probabilities, where every bound is one of few on one action."""
    ticks = [tick for tick in _TICKS if np.sqrt(tick) <= bar.mappable.norm.vmax]
    heights = list(np.sqrt(ticks))
    bar.set_ticks(heights, labels=[f"+{tick:g}" if tick else "0" for tick in ticks])
    sides = list(dict.fromkeys(side for one in answers for side in one.sides))
    if len(sides) > _MOST_SIDES or not all(one.sides for one in answers):
        bar.set_label("certified everywhere in the cell:\nlog-odds inside the bound")
        return
    bar.set_label("log-odds inside the bound")
    bar.ax.yaxis.set_ticks_position("left")
    bar.ax.yaxis.set_label_position("left")
    beside = bar.ax.secondary_yaxis("right")
    beside.set_yticks(heights, labels=[" / ".join(s.at(tick) for s in sides) for tick in ticks])
    words = " / ".join(side.in_words(rulebook.actions) for side in sides)
    beside.set_ylabel(f"certified everywhere in the cell:\n{words}")


def _caption(answers: Sequence[Answer], panels: Sequence[_Panel]) -> str:
    """How much is proven, and how much of it is to be seen."""
    certified = sum(one.certificate.certified for one in answers)
    cells = sum(len(leaves.lowest) for one in answers for leaves in one.certificate.leaves)
    regions = "region" if len(answers) == 1 else "regions"
    text = f"{certified} of {len(answers)} {regions} certified; {cells:,} proven cells"
    if len(panels) == 1:
        text += f", {len(panels[0].bounds):,} of them in this plane"
    left = len(answers) - len({id(one) for panel in panels for one in panel.answers})
    return f"{text}; {left} regions not drawn" if left else text
