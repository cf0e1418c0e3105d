"""Train every arm of every comparison, then write the page and the picture.

What was trained is kept and not trained again: Ctrl-C whenever you like, and start it once more.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, final

from rich.console import Console

from benchmarks.ppo.comparison import COMPARISONS, FIRST_SEED, Comparison
from benchmarks.ppo.report import learning_curves, page
from benchmarks.ppo.run import ArmRun
from handrail.executors import Executor, Watcher, executor_named

_CACHE = Path("results/ppo")


def main() -> None:
    """Parse, train what is missing, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ppo", description=__doc__)
    names = [one.name for one in COMPARISONS]
    parser.add_argument("comparisons", nargs="*", help=f"of {', '.join(names)}; by default all")
    parser.add_argument("--seeds", type=int, help="fewer than the comparison has (needs --out)")
    parser.add_argument("--steps", type=int, help="fewer than the comparison has (needs --out)")
    parser.add_argument("--on", default="processes", help="or ray, or the address of a Ray cluster")
    parser.add_argument("--jobs", type=int, help="at a time; by default one per core")
    parser.add_argument("--out", type=Path, help="where to write the page (docs/benchmarks)")
    options = parser.parse_args()
    unknown = sorted(set(options.comparisons) - set(names))
    if unknown:
        parser.error(f"unknown comparison {unknown[0]!r}: choose among {', '.join(names)}.")
    if (options.seeds or options.steps) and options.out is None:
        parser.error("fewer seeds or steps would overwrite the real numbers: say where with --out.")
    asked = options.comparisons or names
    cache = _CACHE if options.out is None else options.out / "runs"
    limited = [
        one.limited(options.seeds, options.steps) for one in COMPARISONS if one.name in asked
    ]
    runs = {comparison: _runs_of(comparison, cache) for comparison in limited}
    executor = executor_named(options.on, options.jobs, ["benchmarks"])
    if not _train_missing([one for several in runs.values() for one in several], executor):
        return
    out = options.out or Path("docs/benchmarks")
    out.mkdir(parents=True, exist_ok=True)
    read = {
        comparison: {(one.arm, one.seed): one.read() for one in several}
        for comparison, several in runs.items()
    }
    (out / "ppo.md").write_text(page(read), encoding="utf-8")
    learning_curves(read).savefig(out / "ppo.png", dpi=130)
    Console().print(f"wrote {out / 'ppo.md'} and {out / 'ppo.png'}")


def _runs_of(comparison: Comparison, folder: Path) -> list[ArmRun]:
    """Seed by seed, so that a part of them is a comparison already."""
    pairs = [(FIRST_SEED + n, arm) for arm, seeds in comparison.arms.items() for n in range(seeds)]
    return [ArmRun(comparison, arm, seed, folder) for seed, arm in sorted(pairs)]


def _train_missing(runs: list[ArmRun], executor: Executor) -> bool:
    missing = [one for one in runs if not one.path.exists()]
    if missing:
        missing[0].folder.mkdir(parents=True, exist_ok=True)
    outcome = executor.run(missing, _Board(missing))
    for failure in outcome.failures:
        Console(stderr=True).print(f"[red]{failure}[/]")
    return not outcome.failures and not outcome.stopped


@final
class _Board(Watcher):
    """A line whenever a run ends."""

    def __init__(self, runs: list[ArmRun]) -> None:
        self._runs = runs
        self._ended = 0
        self._console = Console()

    def on_report(self, number: int, message: Any) -> None:
        """The fraction of its steps that a run has done; a line per run is enough."""

    def on_end(self, number: int) -> None:
        """One more."""
        self._ended += 1
        name = self._runs[number].name
        self._console.print(f"{name} ({self._ended} of {len(self._runs)})", highlight=False)

    def on_notice(self, text: str) -> None:
        """About all of them."""
        self._console.print(text)


if __name__ == "__main__":
    main()
