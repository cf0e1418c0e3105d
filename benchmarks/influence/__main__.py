"""Train every cell of every study that is not trained yet, then write the page.

What was trained is kept in docs/benchmarks/influence.jsonl and not trained again: Ctrl-C whenever
you like, and start it once more, here or on another machine.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.cells.cell import Cell
from benchmarks.cells.command import Plan, follow
from benchmarks.cells.journal import Kept
from benchmarks.influence.report import Results, page
from benchmarks.influence.study import SEEDS, STUDIES, Study

_QUICK_SEEDS = range(100, 102)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, train what is missing, write."""
    in_short = plan([one.in_short() for one in STUDIES], _QUICK_SEEDS)
    follow(plan(STUDIES, SEEDS), in_short, __doc__, arguments)


def plan(studies: Sequence[Study], seeds: Sequence[int]) -> Plan:
    """Their cells, each once, chosen by the names of its studies as well."""
    cells: dict[Cell, tuple[str, ...]] = {}
    for study in studies:
        for row in study.rows:
            for cell in row.cells(seeds):
                cells[cell] = (*cells.get(cell, ()), study.name)

    def written(kept: Kept) -> str:
        return page(studies, Results.read(studies, seeds, kept))

    return Plan("influence", cells, written)


if __name__ == "__main__":
    main()
