"""What every measurement shares: turns, the machine it was made on, tables of what came out.

A machine that others use as well changes its speed while we measure. Competitors take turns (A, B,
A, B, …) in one run, so that each meets the same moments; a median forgets the bad ones, and what
counts is the ratio of medians.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from typing import TypeVar, final

import numpy as np
import torch
from numpy.typing import ArrayLike

T = TypeVar("T")
Task = Callable[[], object]

_PACKAGES = ("handrail", "torch", "numpy", "scipy", "daqp", "piqp", "gymnasium", "numba")


# Turns


@final
@dataclass(frozen=True)
class Timings:
    """Seconds (rounds,) of every competitor, by name; entry r of each belongs to the same round."""

    seconds: dict[str, tuple[float, ...]]

    @classmethod
    def joined(cls, turns: Sequence[Timings]) -> Timings:
        """The rounds of several, one after the other; all have the same competitors."""
        names = turns[0].seconds
        return cls({name: tuple(s for one in turns for s in one.seconds[name]) for name in names})

    def median(self, name: str) -> float:
        """Seconds of one call."""
        return float(np.median(self.seconds[name]))

    def ratio(self, name: str, reference: str) -> float:
        """How many times as long as `reference`: the ratio of the medians."""
        return self.median(name) / self.median(reference)

    def spread(self, name: str, reference: str) -> tuple[float, float]:
        """Quartiles of the ratios within a round: how far the ratio can be trusted."""
        return quartiles_of(self.seconds[name], self.seconds[reference])


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


def _one_round(tasks: Mapping[str, Task], prepare: Task | None) -> dict[str, float]:
    seconds = {}
    for name, task in tasks.items():
        if prepare is not None:
            prepare()
        _, seconds[name] = clocked(task)
    return seconds


def clocked(task: Callable[[], T]) -> tuple[T, float]:
    """What the task returns, and its seconds."""
    start = time.perf_counter()
    result = task()
    return result, time.perf_counter() - start


def quartiles_of(values: ArrayLike, references: ArrayLike) -> tuple[float, float]:
    """The lower and the upper quartile of the ratios, pair by pair."""
    low, high = np.quantile(np.divide(values, references), [0.25, 0.75])
    return float(low), float(high)


def power_law(sizes: ArrayLike, seconds: ArrayLike) -> tuple[float, Callable[[float], float]]:
    """The exponent of seconds ~ size^exponent (least squares of logarithms), and the fitted law."""
    exponent, offset = np.polyfit(np.log(sizes), np.log(seconds), 1)
    return float(exponent), lambda size: float(np.exp(offset + exponent * np.log(size)))


# The machine


@final
@dataclass(frozen=True)
class Machine:
    """Cores, versions and date of a run.

    Attributes:
        date: of the run.
        cores: that the machine has.
        cores_got: processor time over time of two-threaded products, between the parts of the run.
        architecture: of the processor.
        versions: of Python and of what the timings depend on.
    """

    date: str
    cores: int
    cores_got: list[float]
    architecture: str
    versions: dict[str, str]


def this_machine(cores_got: list[float]) -> Machine:
    """What the present run uses."""
    return Machine(
        date=date.today().isoformat(),
        cores=os.cpu_count() or 1,
        cores_got=cores_got,
        architecture=platform.machine(),
        versions=versions_of(_PACKAGES),
    )


def versions_of(packages: Iterable[str]) -> dict[str, str]:
    """Of Python and of those packages that are installed."""
    versions = {"python": platform.python_version()}
    for package in packages:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Run the block with `count` torch threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def cores_got(threads: int = 2) -> float:
    """How many cores a product of so many threads gets now: fewer when others use them too."""
    square = torch.randn(2000, 2000, dtype=torch.float64)
    with torch_threads(threads):
        square @ square
        start, processor = time.perf_counter(), time.process_time()
        for _ in range(3):
            square @ square
        return (time.process_time() - processor) / (time.perf_counter() - start)


def settle_allocator() -> None:
    """Let the C library keep freed blocks of up to 32 MB, as it does in any process some time on.

    Until a large block has been freed, it hands the activations of 200 states back to the system
    after every update. Getting them anew costs the plain update as much as its arithmetic, now and
    then: that would flatter us, at random.
    """
    block = torch.ones(31 * 2**20, dtype=torch.uint8)
    del block


# Tables


def markdown_table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    align_right: Sequence[bool] | None = None,
) -> str:
    """A table of cells that are Markdown already.

    Args:
        header: of the columns.
        rows: of as many cells.
        align_right: which columns are aligned right; by default all but the first.
    """
    right = align_right or [column > 0 for column in range(len(header))]
    rule = ["---:" if one else "---" for one in right]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows))


def table_of(items: Iterable[T], columns: Mapping[str, Callable[[T], str]]) -> str:
    """A row per item: every column has its name and says of an item what stands there."""
    rows = [[cell(item) for cell in columns.values()] for item in items]
    return markdown_table(list(columns), rows)


def milliseconds(seconds: float) -> str:
    """Three digits, without an exponent."""
    value = 1e3 * seconds
    return f"{value:,.0f}" if value >= 100.0 else f"{value:#.3g}"


def microseconds(seconds: float) -> str:
    """One digit behind the point."""
    return f"{1e6 * seconds:.1f}"


def interval(pair: tuple[float, float]) -> str:
    """From the lower to the upper."""
    return f"{pair[0]:.2f} … {pair[1]:.2f}"


def threads_in_words(count: int) -> str:
    """How many."""
    return "1 thread" if count == 1 else f"{count} threads"
