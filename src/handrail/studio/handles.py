"""Where shapes can be taken hold of, and which numbers of the file follow the hand."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

from handrail._types import Array
from handrail.errors import InvalidConstraint
from handrail.formulas import parse_formula
from handrail.rulebook import KeyPath
from handrail.studio.messages import FormulaSlot, Handle, Slot

# A number at the end of a sum; what is before it must be whole.
_LAST_TERM = re.compile(
    r"(?P<rest>.*[\w)])(?<![\d.][eE])\s*(?P<sign>[+-])\s*(?P<size>\d+\.?\d*(?:[eE][-+]?\d+)?)"
)


def moving_handle(
    at: tuple[float, ...], across: Sequence[Slot], up: Sequence[Slot], n_points: int
) -> Handle:
    """A handle that takes all of a shape along."""
    return Handle(
        role="move",
        x=at[0],
        y=at[1],
        across=list(across),
        up=list(up),
        moves_across=list(range(n_points)) if across else [],
        moves_up=list(range(n_points)) if up else [],
    )


def edge_handle(
    at: tuple[float, float],
    across: list[Slot],
    up: list[Slot],
    moves_across: list[int],
    moves_up: list[int],
) -> Handle:
    """A handle that takes one side of a box along."""
    return Handle(
        role="edge",
        x=at[0],
        y=at[1],
        across=across,
        up=up,
        moves_across=moves_across,
        moves_up=moves_up,
    )


def numbers_at(written: Any, path: KeyPath) -> list[tuple[KeyPath, float]]:
    """A number, or the two ends of a range, and where they are; none of words such as `any`."""
    if isinstance(written, str):
        return []
    if isinstance(written, list):
        return [((*path, index), float(value)) for index, value in enumerate(written)]
    return [] if written is None else [(path, float(written))]


def ends_of(slots: Sequence[Slot]) -> tuple[Slot | None, Slot | None]:
    """From and to; the same of a single number."""
    return (slots[0], slots[-1]) if slots else (None, None)


def unique(first: Slot | None, last: Slot | None) -> list[Slot]:
    """Both ends, or the one number that they are."""
    if first is None or last is None:
        return []
    return [first] if first is last else [first, last]


def pairs(outline: Any) -> list[tuple[float, float]]:
    """(n, 2) as a message has it."""
    return [(float(x), float(y)) for x, y in outline]


@final
@dataclass(frozen=True)
class DrawnCurve:
    """A curve of the file: expressions in t for some observations, numbers for the others.

    Attributes:
        written: the region as plain data.
        path: of the region.
        axes: the observations across and up.
    """

    written: Mapping[str, Any]
    path: KeyPath
    axes: tuple[str, str]

    @property
    def is_straight(self) -> bool:
        """Whether the plane shows it as a line from end to end."""
        formulas = self.written["curve"]
        return None not in [line_of(formulas[name]) for name in self.axes if name in formulas]

    def handles(self, outline: Array) -> list[Handle]:
        """All of it; of a straight one, both ends.

        Args:
            outline: (n, 2), as the plane shows it.
        """
        middle = outline.mean(axis=0) if self.is_straight else outline[len(outline) // 2]
        every = list(range(len(outline)))
        handles = [self._handle("move", middle, every, [self._whole(name) for name in self.axes])]
        if self.is_straight:
            start, end = float(self.written["curve"]["from"]), float(self.written["curve"]["to"])
            span = end - start
            # Of offset + gain*t, when one end goes by 1 and the other one stays.
            shares = (end / span, -1.0 / span), (-start / span, 1.0 / span)
            for number, share in enumerate(shares):
                parts = [self._end(name, share) for name in self.axes]
                handles.append(self._handle("vertex", outline[number], [number], parts))
        return handles

    def _handle(
        self,
        role: Literal["move", "vertex"],
        at: Array,
        points: list[int],
        parts: Sequence[tuple[list[Slot], list[FormulaSlot]]],
    ) -> Handle:
        (across, across_formulas), (up, up_formulas) = parts
        return Handle(
            role=role,
            x=float(at[0]),
            y=float(at[1]),
            across=across,
            up=up,
            across_formulas=across_formulas,
            up_formulas=up_formulas,
            moves_across=points if across or across_formulas else [],
            moves_up=points if up or up_formulas else [],
        )

    def _whole(self, name: str) -> tuple[list[Slot], list[FormulaSlot]]:
        """What an observation moves with when all of the curve does."""
        formulas = self.written["curve"]
        if name in formulas:
            return [], [shifted(formulas[name], (*self.path, "curve", name))]
        numbers = numbers_at(self.written.get(name), (*self.path, name))
        return [Slot(path=list(where), value=value) for where, value in numbers], []

    def _end(self, name: str, shares: tuple[float, float]) -> tuple[list[Slot], list[FormulaSlot]]:
        """The same for one end; what is no formula has none."""
        formulas = self.written["curve"]
        line = line_of(formulas[name]) if name in formulas else None
        path = (*self.path, "curve", name)
        return [], [] if line is None else [stretched(line, shares, path)]


def line_of(written: float | str) -> tuple[float, float] | None:
    """Offset and gain of an expression that is affine in t; None of any other."""
    try:
        found = parse_formula(str(written), ["t"]).affine()
    except InvalidConstraint:
        return None
    return float(found.offset), float(found.gain[0])


def stretched(line: tuple[float, float], shares: tuple[float, float], path: KeyPath) -> FormulaSlot:
    """Offset + gain*t, however it was written before."""
    return FormulaSlot(
        path=list(path), words=["", " + ", "*t"], values=list(line), shares=list(shares)
    )


def shifted(written: float | str, path: KeyPath) -> FormulaSlot:
    """An expression with a number added, which is there already where it was moved before."""
    line, text = line_of(written), str(written)
    if line is not None:
        return stretched(line, (1.0, 0.0), path)
    found = _LAST_TERM.fullmatch(text)
    if found is None or found["rest"].count("(") != found["rest"].count(")"):
        return FormulaSlot(path=list(path), words=[f"{text} + ", ""], values=[0.0], shares=[1.0])
    value = float(f"{found['sign']}{found['size']}")
    return FormulaSlot(
        path=list(path), words=[f"{found['rest']} + ", ""], values=[value], shares=[1.0]
    )
