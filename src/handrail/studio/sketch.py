"""A constraint file as shapes in a plane: what is drawn, and which numbers each handle moves.

Outlines come from the library's own regions, handles from where the numbers are in the file. A kind
of place that is not known here is drawn by its states or its section, and changed in the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Literal, final

import numpy as np
from contourpy import contour_generator

from handrail._types import Array
from handrail.constraints import Constraint, PlacedConstraint
from handrail.regions import Box, Curve, Region, rectangle
from handrail.report import Plane
from handrail.rulebook import KeyPath, Rulebook
from handrail.studio.handles import (
    DrawnCurve,
    edge_handle,
    ends_of,
    moving_handle,
    numbers_at,
    pairs,
    unique,
)
from handrail.studio.messages import Handle, Level, Shape, Slot

# Of one constraint: more are not told apart on a map.
_MOST_POINTS = 600
_POINTS_OF_A_CURVE = 200

# Of a bound that depends on the state: a grid for its level lines, and how many there are.
_LEVEL_GRID, _LEVELS = 49, 5

_Kind = Literal["point", "box", "ball", "polygon", "curve", "other"]
_OTHERS = "others"
_AS_TEXT = "Change it in the text."
_FORMULAS = "Its form is given by formulas: it moves as a whole, and is bent in the text."


def shapes_of(book: Rulebook, plane: Plane) -> list[Shape]:
    """Every part of every constraint, in the order of the file."""
    entries = book.source.data["constraints"]
    owned = constraints_by_entry(book)
    shapes: list[Shape] = []
    for index, entry in enumerate(entries):
        shapes += _Sketch(book, plane, index, entry, owned[index]).shapes()
    return shapes


def constraints_by_entry(book: Rulebook) -> list[list[int]]:
    """For each entry of the file, the indices of its constraints: one for each requirement."""
    names = [str(entry["name"]) for entry in book.source.data["constraints"]]
    owned: list[list[int]] = [[] for _ in names]
    for index, constraint in enumerate(book.constraints):
        fitting = [
            number
            for number, name in enumerate(names)
            if constraint.name == name or constraint.name.startswith(f"{name}: ")
        ]
        if fitting:  # the longest: a name may be the beginning of another
            owned[max(fitting, key=lambda number: len(names[number]))].append(index)
    return owned


@final
@dataclass(frozen=True)
class _Sketch:
    """One entry of the file.

    Attributes:
        book: the file.
        plane: that is shown.
        index: of the entry.
        entry: as plain data.
        owned: the indices of its constraints.
    """

    book: Rulebook
    plane: Plane
    index: int
    entry: Mapping[str, Any]
    owned: Sequence[int]

    def shapes(self) -> list[Shape]:
        if not self.owned:
            return []
        constraint = self.book.constraints[self.owned[0]]
        region = constraint.region if isinstance(constraint, PlacedConstraint) else None
        if region is None:
            return self._points()
        written = self.entry.get("region")
        levels = self._levels(constraint, region)
        parts = list(region.parts)
        if isinstance(written, list) and len(written) == len(parts):
            paths = [(*self._path("region"), number) for number in range(len(parts))]
            several = zip(parts, written, paths, strict=True)
            shapes = [self._part(part, one, path) for part, one, path in several]
        elif isinstance(written, Mapping) and len(parts) == 1:
            shapes = [self._part(region, written, self._path("region"))]
        else:
            shapes = [self._outline(part, "other", _AS_TEXT) for part in parts]
        return [shapes[0].model_copy(update={"levels": levels}), *shapes[1:]]

    def _path(self, *keys: str | int) -> KeyPath:
        return ("constraints", self.index, *keys)

    @cached_property
    def _axes(self) -> tuple[str, str]:
        names = self.book.observations
        return names[self.plane.horizontal], names[self.plane.vertical]

    # ---- regions

    def _part(self, region: Region, written: Mapping[str, Any], path: KeyPath) -> Shape:
        if isinstance(written.get("polytope"), Mapping):
            return self._polygon(region, written["polytope"], (*path, "polytope"))
        if isinstance(written.get("ball"), Mapping):
            return self._ball(region, written["ball"], (*path, "ball"))
        if isinstance(region, Curve) and isinstance(written.get("curve"), Mapping):
            return self._curve(region, written, path)
        if isinstance(region, Box):
            return self._box(region, written, path)
        return self._outline(region, "other", _AS_TEXT)

    def _outline(
        self, region: Region, kind: _Kind, note: str, handles: Sequence[Handle] = ()
    ) -> Shape:
        """What the plane cuts out of it; where it misses it, the shadow of its bounds."""
        outlines = self.plane.section(region)
        meets = bool(outlines)
        low, high = region.bounds
        if not meets:
            a, b = self.plane.horizontal, self.plane.vertical
            outlines = [rectangle(low[a], high[a], low[b], high[b])]
        return Shape(
            entry=self.index,
            kind=kind,
            meets=meets,
            outlines=[pairs(outline) for outline in outlines],
            handles=list(handles) if meets else [],
            middle=region.project(0.5 * (low + high)[None])[0].tolist(),
            note=note if meets else "",
        )

    def _curve(self, curve: Curve, written: Mapping[str, Any], path: KeyPath) -> Shape:
        """Itself where it lies in the plane, else its shadow; a straight one by its two ends."""
        drawn = DrawnCurve(written, path, self._axes)
        states = curve.grid(2 if drawn.is_straight else _POINTS_OF_A_CURVE)
        outline = states[:, [self.plane.horizontal, self.plane.vertical]]
        meets = bool(self.plane.contains(states).all())
        return Shape(
            entry=self.index,
            kind="curve",
            meets=meets,
            outlines=[pairs(outline)],
            handles=drawn.handles(outline) if meets else [],
            middle=curve.grid(3)[1].tolist(),
            note=_FORMULAS if meets and not drawn.is_straight else "",
        )

    def _box(self, region: Region, written: Mapping[str, Any], path: KeyPath) -> Shape:
        (left, right), (bottom, top) = (
            ends_of([Slot(path=list(where), value=value) for where, value in found])
            for found in (numbers_at(written.get(name), (*path, name)) for name in self._axes)
        )
        # Corners of the outline: 0 left bottom, 1 right bottom, 2 right top, 3 left top, 4 = 0.
        sides = {"left": [0, 3, 4], "right": [1, 2], "bottom": [0, 1, 4], "top": [2, 3]}
        low, high = region.bounds
        a, b = self.plane.horizontal, self.plane.vertical
        x, y = (low[a], high[a]), (low[b], high[b])
        middle = 0.5 * (x[0] + x[1]), 0.5 * (y[0] + y[1])
        handles = [moving_handle(middle, unique(left, right), unique(bottom, top), 5)]
        wide, tall = left is not right, bottom is not top
        for horizontal, slot, at in (("left", left, x[0]), ("right", right, x[1])):
            if wide and slot:
                moved = sides[horizontal]
                handles.append(edge_handle((at, middle[1]), [slot], [], moved, []))
            for vertical, other, height in (("bottom", bottom, y[0]), ("top", top, y[1])):
                if wide and tall and slot and other:
                    handles.append(
                        Handle(
                            role="corner",
                            x=at,
                            y=height,
                            across=[slot],
                            up=[other],
                            moves_across=sides[horizontal],
                            moves_up=sides[vertical],
                        )
                    )
        for vertical, slot, at in (("bottom", bottom, y[0]), ("top", top, y[1])):
            if tall and slot:
                handles.append(edge_handle((middle[0], at), [], [slot], [], sides[vertical]))
        return self._outline(region, "box", "", handles)

    def _ball(self, region: Region, written: Mapping[str, Any], path: KeyPath) -> Shape:
        of = list(written["of"])
        if not all(name in of for name in self._axes):
            return self._outline(region, "ball", "The ball is in other observations.")
        a, b = (of.index(name) for name in self._axes)
        centre, radius = written["centre"], float(written["radius"])
        x, y = float(centre[a]), float(centre[b])
        across, up = (
            [Slot(path=[*path, "centre", i], value=value)] for i, value in ((a, x), (b, y))
        )
        outline = self.plane.section(region)
        handles = [moving_handle((x, y), across, up, len(outline[0]) if outline else 0)]
        if len(of) == 2:
            slot = Slot(path=[*path, "radius"], value=radius)
            handles.append(Handle(role="radius", x=x + radius, y=y, across=[slot]))
        return self._outline(region, "ball", "", handles)

    def _polygon(self, region: Region, written: Mapping[str, Any], path: KeyPath) -> Shape:
        vertices, of = written.get("vertices"), list(written["of"])
        if vertices is None:
            return self._outline(region, "polygon", f"It is given by half-spaces. {_AS_TEXT}")
        if sorted(of) != sorted(self._axes):
            return self._outline(region, "polygon", "The polygon is in other observations.")
        a, b = (of.index(name) for name in self._axes)
        corners = [(float(one[a]), float(one[b])) for one in vertices]
        slots = [
            tuple(
                Slot(path=[*path, "vertices", number, axis], value=one[i])
                for i, axis in enumerate((a, b))
            )
            for number, one in enumerate(corners)
        ]
        middle = tuple(np.mean(corners, axis=0).tolist())
        n = len(corners)
        handles = [
            moving_handle(middle, [one[0] for one in slots], [one[1] for one in slots], n + 1)
        ]
        for number, ((x, y), (across, up)) in enumerate(zip(corners, slots, strict=True)):
            moves = [0, n] if number == 0 else [number]
            handles.append(
                Handle(
                    role="vertex",
                    x=x,
                    y=y,
                    across=[across],
                    up=[up],
                    moves_across=moves,
                    moves_up=moves,
                )
            )
        shape = self._outline(region, "polygon", "", handles)
        if not shape.meets:
            return shape
        # In the order of the file, so that handles and corners belong together.
        return shape.model_copy(
            update={
                "outlines": [[*corners, corners[0]]],
                "vertices": [*path, "vertices"] if (a, b) in ((0, 1), (1, 0)) else None,
            }
        )

    # ---- points

    def _points(self) -> list[Shape]:
        where = self.entry.get("where")
        if where is None or "table" in self.entry:
            return self._bare_points("They are in a table. Change it in the text.")
        several = isinstance(where, list)
        blocks = where if several else [where]
        if any(isinstance(block.get("states"), str) for block in blocks):
            return self._bare_points("They are in an array file, which is not changed here.")
        shapes: list[Shape] = []
        for number, block in enumerate(blocks):
            path = self._path("where", number) if several else self._path("where")
            shapes += [self._point(state, slots) for state, slots in self._states(block, path)]
        return shapes[:_MOST_POINTS]

    def _states(
        self, block: Mapping[str, Any], path: KeyPath
    ) -> Iterator[tuple[Array, tuple[list[Slot], list[Slot]]]]:
        """All combinations of values, each with the numbers of the file that it moves with."""
        named = {name: _choices(block[name], (*path, name)) for name in block if name != _OTHERS}
        # A number that several share is not moved by one of them.
        rest: list[tuple[float, list[Slot]]] = [
            (value, []) for value, _ in _choices(block.get(_OTHERS), path)
        ]
        choices = [named.get(name, rest) for name in self.book.observations]
        across, up = self.plane.horizontal, self.plane.vertical
        for chosen in product(*choices):
            state = np.array([value for value, _ in chosen])
            yield state, (chosen[across][1], chosen[up][1])

    def _bare_points(self, note: str) -> list[Shape]:
        states = np.concatenate([np.asarray(self.book.constraints[i].states) for i in self.owned])
        flat = states.reshape(len(states), -1)[:_MOST_POINTS]
        return [self._point(state, ([], []), note) for state in flat]

    def _point(self, state: Array, slots: tuple[list[Slot], list[Slot]], note: str = "") -> Shape:
        x, y = float(state[self.plane.horizontal]), float(state[self.plane.vertical])
        handles = [moving_handle((x, y), *slots, 1)] if any(slots) else []
        return Shape(
            entry=self.index,
            kind="point",
            meets=bool(self.plane.contains(state[None])[0]),
            outlines=[[(x, y)]],
            handles=handles,
            middle=state.tolist(),
            note=note,
        )

    # ---- bounds that depend on the state

    def _levels(self, constraint: Constraint, region: Region) -> list[Level]:
        """Lines of equal bounds over the part of the plane that the region covers."""
        if not isinstance(constraint, PlacedConstraint) or not constraint.depends_on_state:
            return []
        across, up, states = self.plane.states(_LEVEL_GRID)
        inside = region.contains(states)
        if not inside.any():
            return []
        # Of continuous actions there may be standard deviations behind the means.
        n_outputs = len(self.book.actions) * (2 if self.book.quantity.is_continuous else 1)
        rows = constraint.rows_at(states[inside], n_outputs)
        if len(rows) != inside.sum():  # it relates several states
            return []
        levels: list[Level] = []
        sides: list[tuple[Literal["lower", "upper"], Array]] = [
            ("lower", rows.lower),
            ("upper", rows.upper),
        ]
        for side, bound in sides:
            values = np.full(len(states), np.nan)
            values[inside] = bound
            levels += _level_lines(side, across, up, values.reshape(_LEVEL_GRID, _LEVEL_GRID))
        return levels


def _level_lines(
    side: Literal["lower", "upper"], across: Array, up: Array, values: Array
) -> list[Level]:
    if not np.isfinite(values).any():
        return []
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if low == high:
        return []
    contours = contour_generator(across, up, np.ma.masked_invalid(values))
    return [
        Level(value=float(level), side=side, line=pairs(line))
        for level in np.linspace(low, high, _LEVELS + 2)[1:-1]
        for line in contours.lines(float(level))
    ]


def _choices(written: Any, path: KeyPath) -> list[tuple[float, list[Slot]]]:
    """The values of one observation, each with what moves it: of a grid, both of its ends."""
    if isinstance(written, Mapping):
        ends = [Slot(path=[*path, key], value=float(written[key])) for key in ("from", "to")]
        first, last = (one.value for one in ends)
        return [(float(value), ends) for value in np.linspace(first, last, int(written["count"]))]
    return [
        (value, [Slot(path=list(where), value=value)]) for where, value in numbers_at(written, path)
    ]
