"""Train every cell that is not trained yet, then write the page.

What was trained is kept in docs/benchmarks/off_policy.jsonl and not trained again: Ctrl-C whenever
you like, and start it once more, here or on another machine.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.cells.cell import Cell
from benchmarks.cells.command import Plan, follow
from benchmarks.cells.journal import Kept
from benchmarks.off_policy.cell import OffPolicyCell
from benchmarks.off_policy.report import Results, page
from benchmarks.off_policy.setting import SEEDS, SETTINGS, Setting

_QUICK_SEEDS = range(100, 101)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, train what is missing, write."""
    in_short = plan([one.in_short() for one in SETTINGS], _QUICK_SEEDS)
    follow(plan(SETTINGS, SEEDS), in_short, __doc__, arguments)


def plan(settings: Sequence[Setting], seeds: Sequence[int]) -> Plan:
    """All arms of all settings."""
    every = [
        OffPolicyCell(setting, arm, seed)
        for setting in settings
        for arm in setting.arms
        for seed in seeds
    ]
    cells: dict[Cell, tuple[str, ...]] = dict.fromkeys(every, ())

    def written(kept: Kept) -> str:
        return page(settings, Results.read(every, kept))

    return Plan("off_policy", cells, written)


if __name__ == "__main__":
    main()
