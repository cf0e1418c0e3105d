"""Train every cell that is not trained yet, then write the page.

What was trained is kept and not trained again: Ctrl-C whenever you like, and start it once more.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

from rich.console import Console
from typing_extensions import override

from benchmarks.off_policy.cell import Cell
from benchmarks.off_policy.report import Results, page
from benchmarks.off_policy.setting import SEEDS, SETTINGS, Setting
from handrail.executors import Watcher, executor_named

_CACHE, _QUICK = Path("results/off-policy"), Path("results/off-policy-quick")
_PAGE = Path("docs/benchmarks")
_QUICK_SEEDS = range(100, 101)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, train what is missing, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.off_policy", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="cells of this name")
    parser.add_argument("--quick", action="store_true", help=f"see that all runs, in {_QUICK}")
    parser.add_argument("--jobs", type=int, help="at a time, of one thread each; one per core")
    parser.add_argument("--folder", type=Path, help="of the cells and, if given, of the page")
    options = parser.parse_args(arguments)
    settings = [one.in_short() for one in SETTINGS] if options.quick else list(SETTINGS)
    seeds = _QUICK_SEEDS if options.quick else SEEDS
    folder = options.folder or (_QUICK if options.quick else _CACHE)
    every = cells(settings, seeds, folder)
    missing = [
        one for one in every if not one.is_done and all(word in one.name for word in options.only)
    ]
    outcome = executor_named("processes", options.jobs, ["benchmarks"]).run(
        missing, _Board(missing)
    )
    for failure in outcome.failures:
        Console(stderr=True).print(f"[red]{failure}[/]")
    if outcome.stopped:
        return
    out = folder if options.quick or options.folder else _PAGE
    (out / "off_policy.md").write_text(page(settings, read(every)), encoding="utf-8")
    Console().print(f"wrote {out / 'off_policy.md'}")


def cells(settings: Sequence[Setting], seeds: Sequence[int], folder: Path) -> list[Cell]:
    """Seed by seed, so that a part of them is a comparison already."""
    return [
        Cell(setting, arm, seed, folder)
        for seed in seeds
        for setting in settings
        for arm in setting.arms
    ]


def read(every: Sequence[Cell]) -> Results:
    """All that is done."""
    results: dict[Any, dict[int, Any]] = {}
    for cell in every:
        if cell.is_done:
            results.setdefault((cell.setting.name, cell.arm), {})[cell.seed] = cell.read()
    return results


@final
class _Board(Watcher):
    """A line whenever a cell is done."""

    def __init__(self, every: Sequence[Cell]) -> None:
        self._cells = every
        self._done = 0

    @override
    def on_report(self, number: int, message: Any) -> None:
        """Cells report nothing."""

    @override
    def on_end(self, number: int) -> None:
        """Also of those that never began, after Ctrl-C: these are not done."""
        cell = self._cells[number]
        if cell.is_done:
            self._done += 1
            Console().print(f"{cell.name} ({self._done} of {len(self._cells)})", highlight=False)

    @override
    def on_notice(self, text: str) -> None:
        Console().print(text)


if __name__ == "__main__":
    main()
