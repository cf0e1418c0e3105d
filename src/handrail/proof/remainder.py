"""What a proof that was given up leaves open, and what it would probably take to end it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from scipy.special import expit

from handrail.constraints import counted

# Cells of one depth that say anything about others.
_ENOUGH = 16

# By how much the log-odds of staying open must fall with every halving: else there is no end.
_SLOWEST_FALL = 0.5

# Depths that are looked ahead: until nothing stays open.
_FAR_ENOUGH = 64


@final
@dataclass(frozen=True)
class Remainder:
    """How much of a region is proven, though not all of it.

    Attributes:
        proven_share: of the region by volume, at least: by that of the cells that cover it (of a
            curve, by its parameter).
        violation: nowhere in the region is the constraint violated by more: proven, as a
            certificate is; infinite if nothing is known.
        open_cells: that are not proven, each to be divided further.
        more_cells: an estimate of how many bounds it would take to end the proof, if the cells that
            are open are like those that were seen; None if there is nothing to go by.
        more_seconds: an estimate of how long that would take.
    """

    proven_share: float
    violation: float
    open_cells: int
    more_cells: float | None = None
    more_seconds: float | None = None

    def with_side(self, other: Remainder) -> Remainder:
        """Of both bounds of a constraint: what is open for either is open."""
        return Remainder(
            max(0.0, self.proven_share + other.proven_share - 1.0),
            max(self.violation, other.violation),
            self.open_cells + other.open_cells,
            _sum(self.more_cells, other.more_cells),
            _sum(self.more_seconds, other.more_seconds),
        )

    def __str__(self) -> str:
        parts = [f"Proven on {self._share()} of the region by volume"]
        if math.isfinite(self.violation):
            beyond = _rounded_up(max(self.violation, 0.0))
            parts.append(f"violated nowhere by more than {beyond}")
        parts.append(f"{counted(self.open_cells, 'cell')} open")
        return f"{', '.join(parts)}. {self._estimate()}"

    def _share(self) -> str:
        """Rounded downwards: all of it is never said of what is not proven."""
        return f"{min(math.floor(self.proven_share * 1000.0), 999) / 10.0:g} %"

    def _estimate(self) -> str:
        if self.more_cells is None or self.more_seconds is None:
            return "What more it takes cannot be estimated from how far it got."
        more = counted(math.ceil(_two_digits(self.more_cells)), "more cell")
        seconds = _two_digits(self.more_seconds)
        return (
            f"An estimate, if the rest is like what was seen: about {more}, {seconds:g} s at this "
            "pace."
        )


@final
class Tally:
    """How many cells were bounded after so many halvings, and how many of them stayed open."""

    def __init__(self) -> None:
        self._bounded: list[int] = []
        self._open: list[int] = []

    def add(self, depth: int, bounded: int, still_open: int) -> None:
        """Cells that were halved so often."""
        while len(self._bounded) <= depth:
            self._bounded.append(0)
            self._open.append(0)
        self._bounded[depth] += bounded
        self._open[depth] += still_open

    def to_come(self, waiting: Iterable[tuple[int, int]]) -> float | None:
        """How many cells will be bounded if those that wait are like those that were seen.

        With q_d the share that stayed open of cells that were halved d times, a cell that waits
        takes B_d = 1 + 2 q_d B_{d+1} bounds (Knuth's estimate of the size of a search tree). Cells
        become small enough almost all at once: deeper than was seen, the log-odds of q go on
        falling as they last did.

        Args:
            waiting: pairs of a depth and how many cells wait there.
        """
        waiting = list(waiting)
        if not waiting:
            return 0.0
        seen = [depth for depth, cells in enumerate(self._bounded) if cells >= _ENOUGH]
        if len(seen) < 2 or self._open[seen[-1]] == self._bounded[seen[-1]]:
            return None
        last, before = self._log_odds(seen[-1]), self._log_odds(seen[-1] - 1)
        fall = before - last
        if fall < _SLOWEST_FALL:
            return None
        shares = [
            still / cells
            for still, cells in zip(self._open[: seen[-1] + 1], self._bounded, strict=False)
        ]
        deepest = max(depth for depth, _ in waiting) + _FAR_ENOUGH
        steps = range(1, deepest - seen[-1] + 1)
        shares += [float(expit(last - step * fall)) for step in steps]
        costs = [1.0]
        for share in reversed(shares):
            costs.insert(0, 1.0 + 2.0 * share * costs[0])
        return sum(cells * costs[depth] for depth, cells in waiting)

    def _log_odds(self, depth: int) -> float:
        """Of staying open; with half a cell more on either side, so that there are some."""
        still = self._open[depth] + 0.5
        return math.log(still / (self._bounded[depth] + 1.0 - still))


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _two_digits(value: float) -> float:
    return float(f"{value:.1e}")


def _rounded_up(value: float) -> str:
    """To three digits, never below it."""
    if not value:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{math.ceil(value / unit) * unit:.3g}"
