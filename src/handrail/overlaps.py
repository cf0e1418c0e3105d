"""Constraints that contradict each other where their regions overlap, found at single states."""

from __future__ import annotations

import numpy as np

from handrail.arrays import Array
from handrail.conflicts import Conflict, impossible_at_one_state
from handrail.expansion import Expansion
from handrail.rows import Rows, concatenate

# Of each region, to look for states that other regions contain, too.
_STATES = 256


def impossible_overlap(expansion: Expansion) -> tuple[Conflict, Array] | None:
    """A conflict where regions overlap, and a state (n_coordinates,) at which it is one."""
    states = [one.region.cover(_STATES) for one in expansion.regional]
    if expansion.fixed is not None:
        points = expansion.fixed.first_states
        states.append(points.reshape(len(points), -1))
    together = np.concatenate(states)
    inside = np.stack([one.region.contains(together) for one in expansion.regional], axis=1)
    if expansion.fixed is not None:
        at_point = np.zeros((len(together), 1), dtype=bool)
        at_point[-len(expansion.fixed) :] = True
        inside = np.concatenate([inside, at_point], axis=1)
    # One state of every combination of regions that occurs, and every point.
    _, first = np.unique(inside, axis=0, return_index=True)
    chosen = {int(index) for index in first}
    if expansion.fixed is not None:
        chosen |= set(range(len(together) - len(expansion.fixed), len(together)))
    for index in sorted(chosen):
        if inside[index].sum() > 1:
            conflict = impossible_at_one_state(_rows_at(expansion, together[index]))
            if conflict is not None:
                return conflict, together[index]
    return None


def _rows_at(expansion: Expansion, state: Array) -> Rows:
    """Everything that is asked at one state (n_coordinates,)."""
    blocks = [
        one.rows_at(state[None])
        for one in expansion.regional
        if one.region.contains(state[None])[0]
    ]
    fixed = expansion.fixed
    if fixed is not None:
        points = fixed.first_states.reshape(len(fixed), -1)
        here = np.flatnonzero((points == state).all(axis=1))
        if len(here):
            blocks.append(fixed.take(here))
    return concatenate(blocks)
