"""Measure runs on a Ray cluster of several nodes on this machine, and write the page.

Half an hour on two cores. Every part is measured by itself with --only, and is then only printed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from benchmarks.cluster.disasters import measure_disasters
from benchmarks.cluster.overhead import measure_overhead
from benchmarks.cluster.report import disasters_part, overhead_part, page, throughput_part
from benchmarks.cluster.throughput import measure_throughput

_PAGE = Path("docs/benchmarks/cluster.md")
_PARTS: dict[str, Callable[[], str]] = {
    "overhead": lambda: overhead_part(
        [measure_overhead(20, episodes, rounds) for episodes, rounds in ((100, 3), (300, 2))]
    ),
    "throughput": lambda: throughput_part(
        [measure_throughput(500, 25.0, checkpoint_seconds) for checkpoint_seconds in (5.0, 20.0)]
    ),
    "disasters": lambda: disasters_part(measure_disasters(kills=50, runs=6, episodes=200)),
}


def main() -> None:
    """Parse, measure, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--only", choices=sorted(_PARTS), help="print this part, write nothing")
    options = parser.parse_args()
    if options.only:
        Console().print(_PARTS[options.only](), highlight=False, soft_wrap=True, markup=False)
        return
    _PAGE.write_text(page([part() for part in _PARTS.values()]), encoding="utf-8")
    Console().print(f"wrote {_PAGE}")


if __name__ == "__main__":
    main()
