"""Measure everything and write the page, the pictures and the numbers."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.table import Table

from benchmarks.harness import cores_got, settle_allocator, this_machine
from benchmarks.kernel.comparison import measure_kernels
from benchmarks.kernel.report import kernel_figure
from benchmarks.learning.environment_steps import measure_learning
from benchmarks.learning.inference import measure_inference
from benchmarks.plan import FULL, QUICK, Plan
from benchmarks.proof.report import proof_figure
from benchmarks.proof.results import measure_regions
from benchmarks.report import page
from benchmarks.results import Results, as_json, targets
from benchmarks.startup import measure_startup
from benchmarks.update.comparison import measure_updates
from benchmarks.update.enforcement import measure_enforcement
from benchmarks.update.growth import measure_growth
from benchmarks.update.report import growth_figure

Part = TypeVar("Part")


def main() -> None:
    """Parse, measure, write, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="small sizes: does everything run? (needs --out)"
    )
    parser.add_argument("--out", type=Path, help="directory to write to (docs/benchmarks)")
    options = parser.parse_args()
    if options.quick and options.out is None:
        parser.error("--quick would overwrite the real measurements: say where with --out.")

    console = Console()
    results = _measure(QUICK if options.quick else FULL, options.quick, console)
    out = options.out or Path("docs/benchmarks")
    _write(results, out)
    console.print(_summary(results))
    console.print(f"{results.minutes:.1f} minutes; written to {out}")


def _measure(plan: Plan, quick: bool, console: Console) -> Results:
    start = time.perf_counter()
    settle_allocator()
    cores = [cores_got()]

    def part(name: str, measure: Callable[[Plan], Part]) -> Part:
        console.print(f"{name} …")
        result = measure(plan)
        cores.append(cores_got())
        return result

    update = part("one constrained update", measure_updates)
    kernel = part("the kernel", measure_kernels)
    growth = part("growth", measure_growth)
    inference = part("one observation", measure_inference)
    enforcement = part("exact enforcement", measure_enforcement)
    learning = part("whole training runs", measure_learning)
    regions = part("regions and proofs", measure_regions)
    startup = part("the start of the command line", measure_startup)
    return Results(
        machine=this_machine(cores),
        plan=plan,
        command="python -m benchmarks --quick" if quick else "python -m benchmarks",
        minutes=(time.perf_counter() - start) / 60.0,
        update=update,
        kernel=kernel,
        growth=growth,
        inference=inference,
        enforcement=enforcement,
        learning=learning,
        regions=regions,
        startup=startup,
    )


def _write(results: Results, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / "README.md").write_text(page(results), encoding="utf-8")
    (out / "results.json").write_text(as_json(results), encoding="utf-8")
    growth_figure(results.growth).savefig(out / "growth.png", dpi=150)
    kernel_figure(results.kernel).savefig(out / "kernel.png", dpi=150)
    proof_figure(results.regions.growth).savefig(out / "proofs.png", dpi=150)


def _summary(results: Results) -> Table:
    table = Table("target", "asked", "measured", "verdict")
    for target in targets(results):
        table.add_row(target.what, target.asked, target.measured, target.verdict)
    return table


if __name__ == "__main__":
    main()
