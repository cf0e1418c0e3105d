"""Branch and bound: a margin is positive all over a region, or a state says otherwise.

Cells whose bound exceeds what rounding can do are done; others are halved. A state whose margin is
not above that is handed to the caller, who knows what rounding can do at this one state, which is
less, and asks the real policy. Where that decides nothing, nothing can be known: the rest of the
region is searched for a violated state for a while, and then it is given up. A bound that is not a
number proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import final

import numpy as np

from handrail._types import Array, Indices, Mask
from handrail.constraints import counted
from handrail.proof.bounder import Bounder, Bounds, Deadline, OutOfTime
from handrail.proof.remainder import Tally
from handrail.regions import Cells, Cover

# Cells bounded at a time: between two looks at the clock.
_CELLS_AT_ONCE = 1024

# Looked at for violated states at a time: a violation is where bounds are lowest.
_SUSPECTED_CELLS = 16

# Bounded at most after a state was met whose margin is within rounding.
_CELLS_AFTER_NEAR = 4 * _CELLS_AT_ONCE

# The level of a block of which nothing is known yet.
_UNKNOWN = -1

Watch = Callable[[int, int], None]


@final
@dataclass(frozen=True)
class Budget:
    """When to give up.

    Attributes:
        cells: how many bounds may be computed.
        seconds: how long it may take.
    """

    cells: int = 200_000
    seconds: float = 60.0


@final
@dataclass(frozen=True)
class Leaves:
    """Proven cells of one shape.

    Attributes:
        cells: n of them.
        lowest: (n,) what the margin at least is.
        alternative: (n,) of which one of several; None if there is no choice.
    """

    cells: Cells
    lowest: Array
    alternative: Indices | None = None

    @classmethod
    def of(cls, cells: Cells, bounds: Bounds, proven: Indices) -> Leaves:
        """Those that are proven, with their bounds."""
        which = None if bounds.alternative is None else bounds.alternative[proven]
        return cls(cells.take(proven), bounds.lowest[proven], which)


@final
@dataclass(frozen=True)
class Judge:
    """What is known about single states (n, n_coordinates).

    Attributes:
        inside: which of them lie in the region.
        violates: which of them are violated for certain, by more than rounding there.
        too_near: the reason to give up if the margin of one is within rounding.
    """

    inside: Callable[[Array], Mask]
    violates: Callable[[Array], Mask]
    too_near: str


@final
@dataclass(frozen=True)
class Proof:
    """How branch and bound ended.

    Attributes:
        lowest: of the margin, over all that was proven; inf if nothing was.
        floor: the margin is nowhere in the region below this, proven or not.
        violated: (n, n_coordinates) states that the real policy confirmed; none if it is proven.
        near: (n, n_coordinates) states of the region where the margin is within rounding.
        reason: why it was given up; empty if it was not.
        cells: how many were bounded.
        leaves: the proven cells.
        share: of the cells that cover the region, by volume, that is proven.
        open_cells: how many are neither proven nor divided.
        more_cells: an estimate of how many bounds are missing; None if there is none.
        more_seconds: an estimate of how long they would take.
    """

    lowest: float
    floor: float
    violated: Array
    near: Array
    reason: str
    cells: int
    leaves: tuple[Leaves, ...]
    share: float
    open_cells: int
    more_cells: float | None
    more_seconds: float | None

    @property
    def proven(self) -> bool:
        """Whether every cell is."""
        return not self.reason and not len(self.violated)


@final
@dataclass(frozen=True)
class _Block:
    """Cells that are not proven yet.

    Attributes:
        cover: the cells.
        bounder: of what is around them.
        depth: how often they were halved.
        level: how often since the bounder was narrowed; at the bounder's `levels`, or with nothing
            known of them yet, it is narrowed first.
        floor: the margin is nowhere in them below this.
        turn: blocks of a lower one come first, so that a part that cannot be proven does not
            keep the others from being looked at. All that is narrowed to one cell is one turn, or
            there would be thousands of narrowed bounds in memory.
    """

    cover: Cover
    bounder: Bounder
    depth: int
    level: int
    floor: float
    turn: int


def prove(
    bounder: Bounder,
    covers: Sequence[Cover],
    rounding: float,
    judge: Judge,
    budget: Budget,
    watch: Watch | None = None,
) -> Proof:
    """Bound and halve until every cell is proven, a state is violated, or the budget is spent.

    Args:
        bounder: of the margin, anywhere.
        covers: cells that contain the region.
        rounding: a bound must exceed this to count.
        judge: of states.
        budget: when to give up.
        watch: called now and then with the numbers of cells that are proven and that are open.
    """
    return _Search(bounder, covers, rounding, judge, budget).run(watch)


@final
class _Queue:
    """Blocks by their turn; of one turn, the latest first."""

    def __init__(self, blocks: Sequence[_Block]) -> None:
        self._heap: list[tuple[int, int, _Block]] = []
        self._added = 0
        self.cells = 0
        for block in blocks:
            self.add(block)

    def add(self, block: _Block) -> None:
        """One more."""
        self._added += 1
        self.cells += len(block.cover)
        heappush(self._heap, (block.turn, -self._added, block))

    def take(self) -> _Block:
        """Whose turn it is."""
        block = heappop(self._heap)[2]
        self.cells -= len(block.cover)
        return block

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[_Block]:
        return (block for _, _, block in self._heap)


@final
class _Search:
    """The cells that are open, and what is known of all others."""

    def __init__(
        self,
        bounder: Bounder,
        covers: Sequence[Cover],
        rounding: float,
        judge: Judge,
        budget: Budget,
    ) -> None:
        self._rounding, self._judge, self._budget = rounding, judge, budget
        self._deadline = Deadline(budget.seconds)
        self._open = _Queue([_Block(cover, bounder, 0, _UNKNOWN, -np.inf, 0) for cover in covers])
        self._most_cells = budget.cells
        self._cells = 0
        self._proven_volume = 0.0
        self._leaves: list[Leaves] = []
        self._tally = Tally()
        self._none: Array = np.zeros((0, len(bounder.importance)))
        self._near = self._none

    def run(self, watch: Watch | None) -> Proof:
        """To its end."""
        n_proven = 0
        while len(self._open):
            block = self._next()
            try:
                bounds = block.bounder.bounds(block.cover.cells, self._deadline)
            except OutOfTime:
                self._open.add(block)
                return self._ended(self._spent())
            self._cells += len(block.cover)
            if not np.isfinite(bounds.lowest).all():  # NaN, or an overflow
                self._open.add(block)
                return self._ended("a bound is not a number")
            left = self._without_proven(block, bounds)
            n_proven += len(block.cover) - len(left)
            if len(left):
                violated = self._divide(block, bounds, left)
                if len(violated):
                    return self._ended(violated=violated)
            if watch is not None:
                watch(n_proven, self._open.cells)
            spent = self._spent()
            if len(self._open) and spent:
                return self._ended(spent)
        return self._ended()

    def _next(self) -> _Block:
        """Cells to bound now, with what is known inside of them."""
        block = self._open.take()
        while block.level == block.bounder.levels:
            for one in _one_by_one(block):
                self._open.add(one)
            block = self._open.take()
        if block.level == _UNKNOWN:
            cells = block.cover.cells
            around = cells if block.depth and len(cells) == 1 else _box_around(cells)
            block = replace(block, bounder=block.bounder.narrowed(around), level=0)
        if len(block.cover) > _CELLS_AT_ONCE:
            order = np.arange(len(block.cover))
            self._open.add(replace(block, cover=block.cover.take(order[_CELLS_AT_ONCE:])))
            block = replace(block, cover=block.cover.take(order[:_CELLS_AT_ONCE]))
        return block

    def _without_proven(self, block: _Block, bounds: Bounds) -> Indices:
        """Those that are left."""
        done = bounds.lowest >= self._rounding
        left = np.flatnonzero(~done)
        if done.any():
            proven = np.flatnonzero(done)
            self._leaves.append(Leaves.of(block.cover.cells, bounds, proven))
            self._proven_volume += float(block.cover.volumes[proven].sum())
        self._tally.add(block.depth, len(done), len(left))
        return left

    def _divide(self, block: _Block, bounds: Bounds, left: Indices) -> Array:
        """Halve those that are left, unless there are violated states in them: these states."""
        violated, undecided = _met(
            block.cover.cells, bounds, block.bounder, left, self._rounding, self._judge
        )
        halves = block.cover.take(left).halves(block.bounder.importance)
        floor = max(block.floor, float(bounds.lowest[left].min()))
        self._open.add(
            replace(
                block,
                cover=halves,
                depth=block.depth + 1,
                level=block.level + 1,
                floor=floor,
                turn=block.turn + (not block.bounder.narrows),
            )
        )
        if len(undecided) and not len(self._near):
            self._most_cells = min(self._most_cells, self._cells + _CELLS_AFTER_NEAR)
        self._near = np.concatenate([self._near, undecided])
        return violated

    def _spent(self) -> str:
        """What there was too little of; empty if there is some left."""
        spent = ""
        if self._cells >= self._most_cells:
            spent = f"gave up after {counted(self._cells, 'cell')}"
        elif self._deadline.passed:
            spent = f"gave up after {self._budget.seconds:g} s and {counted(self._cells, 'cell')}"
        return self._judge.too_near if spent and len(self._near) else spent

    def _ended(self, reason: str = "", violated: Array | None = None) -> Proof:
        lowest = min((float(leaf.lowest.min()) for leaf in self._leaves), default=np.inf)
        open_volume = sum(float(block.cover.volumes.sum()) for block in self._open)
        whole = self._proven_volume + open_volume
        waiting = [(block.depth, len(block.cover)) for block in self._open]
        # Where rounding decides, no number of cells is enough.
        more = None if len(self._near) else self._tally.to_come(waiting)
        pace = self._deadline.elapsed / max(1, self._cells)
        return Proof(
            lowest=lowest,
            floor=min([lowest, *(block.floor for block in self._open)]),
            violated=self._none if violated is None else violated,
            near=self._near,
            reason=reason,
            cells=self._cells,
            leaves=tuple(self._leaves),
            share=self._proven_volume / whole if whole else 0.0,
            open_cells=self._open.cells,
            more_cells=more,
            more_seconds=None if more is None else more * pace,
        )


def _box_around(cells: Cells) -> Cells:
    """A single cell that contains all of them."""
    return Cells.boxes(cells.low.min(axis=0)[None], cells.high.max(axis=0)[None])


def _met(
    cells: Cells,
    bounds: Bounds,
    bounder: Bounder,
    left: Indices,
    rounding: float,
    judge: Judge,
) -> tuple[Array, Array]:
    """States that are violated, and states within rounding.

    In the cells with the lowest bounds of those that are left.
    """
    lowest = left[np.argsort(bounds.lowest[left], kind="stable")[:_SUSPECTED_CELLS]]
    suspected = cells.take(lowest)
    states = np.concatenate([bounds.suspects[lowest], suspected.centres, bounder.dips(suspected)])
    states = states[bounder.margins(states) < rounding]
    states = states[judge.inside(states)] if len(states) else states
    if not len(states):
        return states, states
    violated = judge.violates(states)
    return states[violated], states[~violated]


def _one_by_one(block: _Block) -> list[_Block]:
    """Each cell as a block of its own, to be narrowed to."""
    cover = block.cover
    return [
        replace(block, cover=cover.take(np.array([index])), level=_UNKNOWN, turn=block.turn + 1)
        for index in range(len(cover))
    ]
