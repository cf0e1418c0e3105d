"""The command of a study: train what is not trained yet, then write the page."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from rich.console import Console
from typing_extensions import override

from benchmarks.cells.cell import Cell
from benchmarks.cells.journal import Journal, Kept
from benchmarks.cells.line import Line
from handrail.errors import HandrailError
from handrail.executors import Executor, Outcome, Watcher, executor_named

_PROJECT, _QUICK = Path("docs/benchmarks"), Path("results/quick")


@final
@dataclass(frozen=True)
class Plan:
    """A study.

    Attributes:
        name: of its file and its page.
        cells: all of them, each with the words that choose it besides those of its name.
        page: from what is kept, in Markdown.
    """

    name: str
    cells: dict[Cell, tuple[str, ...]]
    page: Callable[[Kept], str]

    def chosen(self, words: Sequence[str], n_seeds: int | None = None) -> list[Cell]:
        """Those with all of the words, of the first seeds; seed by seed.

        So a part of them is a comparison already.
        """
        seeds = sorted({cell.seed for cell in self.cells})[:n_seeds]
        asked = {part for word in words for part in _parts(word)}
        found = [
            cell
            for cell, others in self.cells.items()
            if cell.seed in seeds and asked <= {*_parts(cell.name), *others}
        ]
        return sorted(found, key=lambda cell: cell.seed)


def _parts(name: str) -> list[str]:
    return re.split(r"[-\s]+", name)


def follow(
    plan: Plan, in_short: Plan, about: str | None, arguments: Sequence[str] | None = None
) -> None:
    """Parse, train what is missing, write.

    Args:
        plan: the study.
        in_short: enough of it to see that all of it runs.
        about: for people.
        arguments: by default those of the command line.
    """
    quick = _QUICK / plan.name
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{plan.name}", description=about)
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="WORD",
        help="train cells with all of these words: environment, learner, arm, seed, …",
    )
    parser.add_argument("--seeds", type=int, metavar="N", help="train the first N seeds only")
    parser.add_argument(
        "--renew", action="store_true", help="train again what other code of Handrail trained"
    )
    parser.add_argument("--quick", action="store_true", help=f"see that all runs, in {quick}")
    parser.add_argument("--on", default="processes", help="or ray, or the address of a Ray cluster")
    parser.add_argument("--jobs", type=int, help="at a time, of one thread each; one per core")
    parser.add_argument(
        "--folder", type=Path, help=f"of the lines and the page, instead of {_PROJECT}"
    )
    options = parser.parse_args(arguments)
    study = in_short if options.quick else plan
    folder = options.folder or (quick if options.quick else _PROJECT)
    cells = study.chosen(options.only, options.seeds)
    if not cells:
        parser.error(f"no cell has all of the words {' '.join(options.only)}.")
    journal = Journal(folder / f"{plan.name}.jsonl")
    try:
        executor = executor_named(options.on, options.jobs, ["benchmarks"])
        outcome = train_missing(cells, journal, executor, renew=options.renew)
        for failure in outcome.failures:
            Console(stderr=True).print(f"[red]{failure}[/]")
        if outcome.stopped:
            return
        text = study.page(journal.read())
    except HandrailError as error:
        parser.error(str(error))
    page = folder / f"{plan.name}.md"
    page.write_text(text, encoding="utf-8")
    Console().print(f"wrote {page}")


def train_missing(
    cells: Sequence[Cell], journal: Journal, executor: Executor, *, renew: bool = False
) -> Outcome:
    """Those that have no line, and if they are to be renewed, those whose line is of other code."""
    kept = journal.read()
    missing = [cell for cell in cells if kept.of(cell) is None or (renew and kept.is_old(cell))]
    return executor.run(missing, Board(missing, journal))


@final
class Board(Watcher):
    """Keeps what cells report, and says so: only it writes, whoever trains."""

    def __init__(self, cells: Sequence[Cell], journal: Journal) -> None:
        self._cells, self._journal = cells, journal
        self._done = 0
        self._console = Console()

    @override
    def on_report(self, number: int, message: Any) -> None:
        """A cell is done."""
        assert isinstance(message, Line)
        self._journal.add(message)
        self._done += 1
        self._console.print(f"{message.name} ({self._done} of {len(self._cells)})", highlight=False)

    @override
    def on_end(self, number: int) -> None:
        """What is done was reported; what was stopped is not done."""

    @override
    def on_notice(self, text: str) -> None:
        self._console.print(text)
