"""Competitors take turns in one run; what counts is the ratio of their medians.

A machine that others use as well changes its speed while we measure. Turns (A, B, A, B, …) let
every competitor meet the same moments, and a median forgets the bad ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final

import numpy as np
import torch

Task = Callable[[], object]

# Up to this many states one thread; more, two: below it threads wait longer than they work.
FEW_STATES = 150


@final
@dataclass(frozen=True)
class Timings:
    """Seconds (rounds,) of every competitor, by name; entry r of each belongs to the same round."""

    seconds: dict[str, tuple[float, ...]]

    def median(self, name: str) -> float:
        """Seconds of one call."""
        return float(np.median(self.seconds[name]))

    def ratio(self, name: str, reference: str) -> float:
        """How many times as long as `reference`: the ratio of the medians."""
        return self.median(name) / self.median(reference)

    def spread(self, name: str, reference: str) -> tuple[float, float]:
        """Quartiles of the ratios within a round: how far the ratio can be trusted."""
        ratios = np.divide(self.seconds[name], self.seconds[reference])
        low, high = np.quantile(ratios, [0.25, 0.75])
        return float(low), float(high)


def take_turns(
    tasks: Mapping[str, Task], rounds: int, prepare: Task | None = None, warm_up: int = 2
) -> Timings:
    """Time every task once per round.

    Args:
        tasks: what to time, in the order in which they take turns.
        rounds: how many turns each has.
        prepare: called before every turn, untimed.
        warm_up: untimed rounds before; torch loads its parts when they are first used.
    """
    for _ in range(warm_up):
        _one_round(tasks, prepare)
    measured = [_one_round(tasks, prepare) for _ in range(rounds)]
    return Timings({name: tuple(one[name] for one in measured) for name in tasks})


def power_law(sizes: list[int], seconds: list[float]) -> tuple[float, Callable[[float], float]]:
    """The exponent of seconds ~ size^exponent (least squares of logarithms), and the fitted law."""
    exponent, offset = np.polyfit(np.log(sizes), np.log(seconds), 1)
    return float(exponent), lambda size: float(np.exp(offset + exponent * np.log(size)))


def threads_for(states: int) -> int:
    """Torch threads for a case of so many states."""
    return 1 if states <= FEW_STATES else 2


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Run the block with `count` torch threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _one_round(tasks: Mapping[str, Task], prepare: Task | None) -> dict[str, float]:
    seconds = {}
    for name, task in tasks.items():
        if prepare is not None:
            prepare()
        start = time.perf_counter()
        task()
        seconds[name] = time.perf_counter() - start
    return seconds
