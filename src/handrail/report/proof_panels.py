"""What is known about each constrained region: certificates, and their cells in a plane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PolyCollection
from matplotlib.colors import Normalize, to_rgba

from handrail._types import Array
from handrail.constraints import (
    Constraint,
    Paired,
    Rows,
    SlopeBounded,
    counted,
    expand,
    is_bound,
)
from handrail.errors import InvalidArgument, InvalidConstraint, InvalidPolicy
from handrail.policies import STD, Policy, Quantity
from handrail.proof import Budget, Certificate, Leaves, Watch, at_least, at_most, certify
from handrail.regions import Region, area, beside_faces, cut_cells, rectangle
from handrail.report.drawing import (
    draw_frame,
    draw_legend,
    draw_regions,
    draw_states,
    is_curve,
    literal,
    new_figure,
)
from handrail.report.plane import Plane, middle_of
from handrail.report.subject import Domain, Shown, Subject
from handrail.rulebook import AnyConstraints

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure


# Nobody waits long for a picture, and more cells than this are not to be seen.
_FOR_A_PICTURE = Budget(cells=20_000, seconds=10.0)


@final
@dataclass(frozen=True)
class Side:
    """One bound on one action."""

    quantity: Quantity
    action: int
    n_actions: int
    threshold: float
    is_lower: bool

    def in_words(self, domain: Domain) -> str:
        """What its values say."""
        is_noise = self.quantity == STD  # whose outputs are behind the means
        action = domain.action(self.action - (self.n_actions // 2 if is_noise else 0))
        name = f"std of “{action}”" if is_noise else f"“{action}”"
        return f"{name} at {'least' if self.is_lower else 'most'}"

    def at(self, margin: float) -> str:
        """The probability (or mean action) that a margin certifies, rounded to the safe side."""
        weights = np.eye(self.n_actions)[self.action]
        make = at_least if self.is_lower else at_most
        value = make(self.quantity, weights, self.threshold).worst_value(margin)
        lowest, highest = self.quantity.span([1.0])
        room = min(self.threshold - lowest, highest - self.threshold, 1.0)
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
        quantity: of what.
        sides: its bounds; none if it is about more than one action.
        along: the observation that a slope is in; None if it is about outputs themselves.
    """

    region: Region
    certificate: Certificate
    quantity: Quantity
    sides: tuple[Side, ...]
    along: int | None = None

    def unit(self, domain: Domain) -> str:
        """Of its margins, in words."""
        unit = self.quantity.margin_unit
        return (
            unit if self.along is None else f"{unit} per unit of {domain.observations[self.along]}"
        )

    @property
    def leaves(self) -> tuple[Leaves, ...]:
        """The cells where all of it is proven.

        Between two bounds each has a proof of its own, and a proof that was given up does not say
        which of its cells belong to both.
        """
        both = is_bound(self.certificate.lower) and is_bound(self.certificate.upper)
        return () if both and not self.certificate.certified else self.certificate.leaves

    def cut(self, plane: Plane) -> tuple[list[Array], Array]:
        """The proven cells that the plane meets: their outlines (m, 2), and their bounds (n,).

        Those of a curve are projected: a plane meets it in single states at most.
        """
        if is_curve(self.region):
            return self._projected(plane)
        at = beside_faces(self.region, np.asarray(plane.at))
        outlines: list[Array] = []
        bounds = [np.zeros(0)]
        for leaves in self.leaves:
            met, found = cut_cells(leaves.cells, plane.horizontal, plane.vertical, at)
            outlines += found
            bounds.append(leaves.lowest[met])
        return outlines, np.concatenate(bounds)

    def _projected(self, plane: Plane) -> tuple[list[Array], Array]:
        axes = [plane.horizontal, plane.vertical]
        outlines = [
            rectangle(low[0], high[0], low[1], high[1])
            for leaves in self.leaves
            for low, high in zip(leaves.cells.low[:, axes], leaves.cells.high[:, axes], strict=True)
        ]
        bounds = [np.zeros(0), *(leaves.lowest for leaves in self.leaves)]
        return outlines, np.concatenate(bounds)

    def meets(self, plane: Plane) -> bool:
        """Whether there is something of it to be seen."""
        return is_curve(self.region) or bool(plane.section(self.region))


def certify_regions(
    policy: Policy, constraints: Sequence[Constraint], watch: Watch | None = None
) -> tuple[Answer, ...]:
    """A certificate for every region of which one can be had.

    Args:
        policy: that is asked about.
        constraints: on regions; others get none.
        watch: called now and then with the numbers of proven and of open cells; what it raises ends
            the proof.
    """
    if not constraints:
        return ()
    answers = []
    for one in expand(constraints, policy).regional:
        part = one.constraint.moved_to(one.region, one.name)
        try:
            certificate = certify(policy, part, budget=_FOR_A_PICTURE, watch=watch)
        except (InvalidPolicy, InvalidConstraint):
            # A network, a curve or a relation of states that no proof can look into.
            continue
        rows = one.rows_at(one.region.cover(1))
        # A difference from something else, or a slope, is no value that a colour bar could name.
        named = not isinstance(one.constraint, Paired | SlopeBounded)
        sides = _sides(certificate, rows) if named else ()
        along = one.constraint.in_ if isinstance(one.constraint, SlopeBounded) else None
        answers.append(Answer(one.region, certificate, rows.quantity, sides, along))
    return tuple(answers)


def _sides(certificate: Certificate, rows: Rows) -> tuple[Side, ...]:
    weights = rows.weights[0]
    action, n = int(weights.argmax()), len(weights)
    if not (weights == np.eye(n)[action]).all():
        return ()
    bounds = [(certificate.lower, True), (certificate.upper, False)]
    return tuple(
        Side(rows.quantity, action, n, bound, lower)
        for bound, lower in bounds
        if isinstance(bound, float) and np.isfinite(bound)
    )


# Margins (of probabilities: log-odds) that the colour bar names. Cells further inside all look the
# same: e³ is twenty times the odds of the bound.
_TICKS = (0.0, 0.02, 0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0)

_MOST_PANELS = 6

_PANELS_IN_A_ROW = 3

_MOST_SIDES = 2


def proof_figure(
    shown: Shown, constraints: AnyConstraints | None = None, plane: Plane | None = None
) -> Figure:
    """Where constraints on regions are proven to hold, cell by cell, and where they are not.

    Args:
        shown: a run, a learner or a policy.
        constraints: what it must obey, with the names: a list, a Rulebook, the path of a constraint
            file or a bundled one's name; by default those of the run.
        plane: to show the cells in; by default `Plane.of(constraints)`.
    """
    subject = Subject.of(shown, constraints)
    answers = certify_regions(subject.policy, subject.domain.constraints)
    if not answers:
        raise InvalidArgument("There is no constraint on a region that a proof can look into.")
    return draw_answers(subject.domain, answers, plane)


def draw_answers(domain: Domain, answers: Sequence[Answer], plane: Plane | None = None) -> Figure:
    """The cells of all proofs that the plane meets; a panel per plane if one misses regions."""
    plane = Plane.of(domain) if plane is None else plane
    panels = _panels(answers, plane)
    columns = min(len(panels), _PANELS_IN_A_ROW)
    rows = -(-len(panels) // columns)
    figure = new_figure(2.7 + 3.9 * columns, 0.9 + 3.7 * rows)
    every = figure.subplots(rows, columns, squeeze=False).ravel()
    drawn = np.concatenate([panel.cells[1] for panel in panels])
    shades = _shades(drawn)
    for panel, axes in zip(panels, every, strict=False):
        panel.draw(axes, shades)
        draw_frame(axes, panel.plane, domain.observations)
        axes.set_title(literal(panel.plane.fixed(domain.observations)), fontsize=9)
    for axes in every[len(panels) :]:
        axes.set_visible(False)
    if len(drawn):
        extend = "max" if (drawn > _TICKS[-1]).any() else "neither"
        bar = figure.colorbar(shades, ax=list(every), extend=extend, aspect=30)
        _label_bar(bar, domain, answers)
    draw_legend(figure, every[: len(panels)], _caption(answers, panels), 1 + columns)
    return figure


@final
@dataclass(frozen=True)
class _Panel:
    """A plane and the answers about the regions that it meets."""

    plane: Plane
    answers: tuple[Answer, ...]

    @classmethod
    def of(cls, plane: Plane, answers: Sequence[Answer]) -> _Panel:
        """Shows the whole of the regions, and little else: cells are small."""
        here = tuple(one for one in answers if one.meets(plane))
        if not here:
            return cls(plane, ())
        low = np.min([one.region.bounds[0] for one in here], axis=0)
        high = np.max([one.region.bounds[1] for one in here], axis=0)

        def around(index: int, otherwise: tuple[float, float]) -> tuple[float, float]:
            margin = 0.08 * float(high[index] - low[index])
            if margin == 0.0:
                return otherwise
            return float(low[index]) - margin, float(high[index]) + margin

        across = around(plane.horizontal, plane.horizontal_range)
        up = around(plane.vertical, plane.vertical_range)
        return cls(replace(plane, horizontal_range=across, vertical_range=up), here)

    @cached_property
    def cells(self) -> tuple[list[Array], Array]:
        """The outlines of all cells, and their bounds (n,)."""
        pairs = [one.cut(self.plane) for one in self.answers]
        outlines = [outline for found, _ in pairs for outline in found]
        return outlines, np.concatenate([np.zeros(0), *(bounds for _, bounds in pairs)])

    def draw(self, axes: Axes, shades: ScalarMappable) -> None:
        """What is not proven first, then cells, then outlines and counterexamples."""
        open_ = [one.region for one in self.answers if not one.certificate.certified]
        draw_regions(axes, open_, self.plane, facecolor="0.93", hatch="////", label="not proven")
        self._draw_cells(axes, shades)
        whole = [one.region for one in self.answers]
        draw_regions(axes, whole, self.plane, facecolor="none", label="constrained region")
        self._draw_counterexamples(axes)

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
        found, bounds = self.cells
        order = np.argsort(-bounds, kind="stable")
        outlines = [found[index] for index in order]
        colours = shades.to_rgba(_shade(bounds[order]))
        flat = np.array([area(outline) == 0.0 for outline in outlines], dtype=bool)
        # A cell without an area in this plane would vanish: its edge has its colour then.
        edges = np.where(flat[:, None], colours, to_rgba("white"))
        widths = np.where(flat, 3.0, 0.3)
        axes.add_collection(
            PolyCollection(outlines, facecolors=colours, edgecolors=edges, linewidths=widths)
        )


def _panels(answers: Sequence[Answer], plane: Plane) -> list[_Panel]:
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


def _label_bar(bar: Colorbar, domain: Domain, answers: Sequence[Answer]) -> None:
    """Margins; and the values they mean, where every bound is one of few on one action."""
    unit = " / ".join(dict.fromkeys(literal(one.unit(domain)) for one in answers))
    ticks = [tick for tick in _TICKS if np.sqrt(tick) <= bar.mappable.norm.vmax]
    heights = list(np.sqrt(ticks))
    bar.set_ticks(heights, labels=[f"+{tick:g}" if tick else "0" for tick in ticks])
    sides = list(dict.fromkeys(side for one in answers for side in one.sides))
    if len(sides) > _MOST_SIDES or not all(one.sides for one in answers):
        bar.set_label(f"certified everywhere in the cell:\n{unit} inside the bound")
        return
    bar.set_label(f"{unit} inside the bound")
    bar.ax.yaxis.set_ticks_position("left")
    bar.ax.yaxis.set_label_position("left")
    beside = bar.ax.secondary_yaxis("right")
    beside.set_yticks(heights, labels=[" / ".join(s.at(tick) for s in sides) for tick in ticks])
    words = " / ".join(literal(side.in_words(domain)) for side in sides)
    beside.set_ylabel(f"certified everywhere in the cell:\n{words}")


def _caption(answers: Sequence[Answer], panels: Sequence[_Panel]) -> str:
    """How much is proven, and how much of it is to be seen."""
    certified = sum(one.certificate.certified for one in answers)
    cells = sum(len(leaves.lowest) for one in answers for leaves in one.leaves)
    text = (
        f"{certified} of {counted(len(answers), 'region')} certified; "
        f"{counted(cells, 'proven cell')}"
    )
    seen = len(panels[0].cells[0])
    if len(panels) == 1 and seen < cells:
        text += f", {seen:,} of them in this plane"
    left = len(answers) - len({id(one) for panel in panels for one in panel.answers})
    return f"{text}; {counted(left, 'region')} not drawn" if left else text
