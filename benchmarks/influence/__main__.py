"""Train every cell of every study that is not trained yet, then write the page.

What was trained is kept and not trained again: Ctrl-C whenever you like, and start it once more.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

from rich.console import Console
from typing_extensions import override

from benchmarks.influence.cell import Cell
from benchmarks.influence.report import Results, page
from benchmarks.influence.study import SEEDS, STUDIES, Row, Study
from handrail.executors import Executor, Outcome, Watcher, executor_named

_CACHE, _QUICK = Path("results/influence"), Path("results/influence-quick")
_PAGE = Path("docs/benchmarks")
_QUICK_SEEDS = range(100, 102)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, train what is missing, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.influence", description=__doc__)
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="WORD",
        help="train cells whose study and name have all of these words: one_sided cartpole ppo",
    )
    parser.add_argument("--quick", action="store_true", help=f"see that all runs, in {_QUICK}")
    parser.add_argument("--on", default="processes", help="or ray, or the address of a Ray cluster")
    parser.add_argument("--jobs", type=int, help="at a time, of one thread each; one per core")
    parser.add_argument("--folder", type=Path, help="of the cells and, if given, of the page")
    options = parser.parse_args(arguments)
    studies = [one.in_short() for one in STUDIES] if options.quick else list(STUDIES)
    seeds = _QUICK_SEEDS if options.quick else SEEDS
    folder = options.folder or (_QUICK if options.quick else _CACHE)
    executor = executor_named(options.on, options.jobs, ["benchmarks"])
    outcome = train_missing(wanted(studies, seeds, folder, options.only), executor)
    for failure in outcome.failures:
        Console(stderr=True).print(f"[red]{failure}[/]")
    if outcome.stopped:
        return
    out = folder if options.quick or options.folder else _PAGE
    (out / "influence.md").write_text(page(studies, read(studies, seeds, folder)), encoding="utf-8")
    Console().print(f"wrote {out / 'influence.md'}")


def wanted(
    studies: Sequence[Study], seeds: Sequence[int], folder: Path, words: Sequence[str]
) -> list[Cell]:
    """Cells, each once, seed by seed, so that a part of them is a comparison already."""
    chosen = [
        cell
        for study in studies
        for row in study.rows
        for cell in row.cells(seeds, folder)
        if all(word in f"{study.name} {cell.name}" for word in words)
    ]
    return sorted(dict.fromkeys(chosen), key=lambda cell: cell.seed)


def train_missing(cells: Sequence[Cell], executor: Executor) -> Outcome:
    """Those that are not done."""
    missing = [cell for cell in cells if not cell.is_done]
    return executor.run(missing, _Board(missing))


def read(studies: Sequence[Study], seeds: Sequence[int], folder: Path) -> Results:
    """All that is done."""
    rows: list[Row] = [row for study in studies for row in study.rows]
    return Results(
        {
            row: {cell.seed: cell.read() for cell in row.cells(seeds, folder) if cell.is_done}
            for row in rows
        }
    )


@final
class _Board(Watcher):
    """A line whenever a cell is done."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._cells = cells
        self._done = 0
        self._console = Console()

    @override
    def on_report(self, number: int, message: Any) -> None:
        """Cells report nothing but what they waited for when they are interrupted."""

    @override
    def on_end(self, number: int) -> None:
        """Also of those that never began, after Ctrl-C: these are not done."""
        cell = self._cells[number]
        if cell.is_done:
            self._done += 1
            self._console.print(
                f"{cell.name} ({self._done} of {len(self._cells)})", highlight=False
            )

    @override
    def on_notice(self, text: str) -> None:
        self._console.print(text)


if __name__ == "__main__":
    main()
