"""Branch and bound: a margin is positive all over a region, or a state says otherwise.

Cells whose bound exceeds what rounding can do are done; others are halved. A state whose margin is
not above that is handed to the caller, who knows what rounding can do at this one state, which is
less, and asks the real policy. Where that decides nothing, nothing can be known: the rest of the
region is searched for a violated state for a while, and then it is given up. A bound that is not a
number proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import final

import numpy as np

from handrail._types import Array, Indices, Mask
from handrail.constraints import counted
from handrail.proof.bounder import Bounder, Bounds
from handrail.regions import Cells, Cover

# Cells bounded at a time: between two looks at the clock.
_CELLS_AT_ONCE = 1024

# Looked at for violated states at a time: a violation is where bounds are lowest.
_SUSPECTED_CELLS = 16

# Bounded at most after a state was met whose margin is within rounding.
_CELLS_AFTER_NEAR = 4 * _CELLS_AT_ONCE

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
    """Proven cells of one shape, with the bound (n,) of each: what the margin at least is."""

    cells: Cells
    lowest: Array


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
        violated: (n, n_coordinates) states that the real policy confirmed; none if it is proven.
        near: (n, n_coordinates) states of the region where the margin is within rounding.
        reason: why it was given up; empty if it was not.
        cells: how many were bounded.
        leaves: the proven cells.
    """

    lowest: float
    violated: Array
    near: Array
    reason: str
    cells: int
    leaves: tuple[Leaves, ...]

    @property
    def proven(self) -> bool:
        """Whether every cell is."""
        return not self.reason and not len(self.violated)


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
    start = perf_counter()
    n_cells = n_proven = 0
    leaves: list[Leaves] = []
    near = none = np.zeros((0, len(bounder.importance)))
    most_cells = budget.cells

    def ended(reason: str = "", violated: Array = none) -> Proof:
        lowest = min((float(leaf.lowest.min()) for leaf in leaves), default=np.inf)
        return Proof(lowest, violated, near, reason, n_cells, tuple(leaves))

    # Blocks of cells, what is known inside of them, and how often they were halved since.
    stack: list[tuple[Cover, Bounder, int]] = [
        (cover, bounder.narrowed(_box_around(cover.cells)), 0) for cover in covers
    ]
    while stack:
        cover, inside, level = stack.pop()
        if level == inside.levels:
            stack += _one_by_one(cover, inside)
            continue
        if len(cover) > _CELLS_AT_ONCE:
            order = np.arange(len(cover))
            stack.append((cover.take(order[_CELLS_AT_ONCE:]), inside, level))
            cover = cover.take(order[:_CELLS_AT_ONCE])
        bounds = inside.bounds(cover.cells)
        n_cells += len(cover)
        if not np.isfinite(bounds.lowest).all():  # NaN, or an overflow
            return ended("a bound is not a number")
        done = bounds.lowest >= rounding
        if done.any():
            proven = np.flatnonzero(done)
            leaves.append(Leaves(cover.cells.take(proven), bounds.lowest[proven]))
            n_proven += len(proven)
        left = np.flatnonzero(~done)
        if len(left):
            violated, undecided = _met(cover.cells, bounds, inside, left, rounding, judge)
            if len(violated):
                return ended(violated=violated)
            if len(undecided) and not len(near):
                most_cells = min(most_cells, n_cells + _CELLS_AFTER_NEAR)
            near = np.concatenate([near, undecided])
            stack.append((cover.take(left).halves(inside.importance), inside, level + 1))
        if watch is not None:
            watch(n_proven, sum(len(block) for block, _, _ in stack))
        spent = _spent(n_cells, most_cells, perf_counter() - start, budget)
        if stack and spent:
            return ended(judge.too_near if len(near) else spent)
    return ended()


def _spent(n_cells: int, most_cells: int, seconds: float, budget: Budget) -> str:
    """What there was too little of; empty if there is some left."""
    if n_cells >= most_cells:
        return f"gave up after {counted(n_cells, 'cell')}"
    if seconds >= budget.seconds:
        return f"gave up after {budget.seconds:g} s and {counted(n_cells, 'cell')}"
    return ""


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


def _one_by_one(cover: Cover, bounder: Bounder) -> list[tuple[Cover, Bounder, int]]:
    """Each cell as a block of its own, with what is known inside of it."""
    blocks: list[tuple[Cover, Bounder, int]] = []
    for index in range(len(cover)):
        one = cover.take(np.array([index]))
        blocks.append((one, bounder.narrowed(one.cells), 0))
    return blocks
