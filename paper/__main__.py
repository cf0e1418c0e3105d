"""`python -m paper`: every figure, table and claim of the paper, and how far it has come."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Annotated, Any, final

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn

from handrail._storage import only_process
from handrail.errors import HandrailError, InvalidArgument, StorageFailure
from handrail.executors import Executor, Outcome, Watcher, executor_named
from paper.exhibit import Exhibit
from paper.experiment import experiments
from paper.job import Job, Standing, seconds_left, share_done
from paper.plan import Plan, exhibits_named, make_plan
from paper.report import PAGE, Report, write_results

_PROGRAM = "python -m paper"

out = Console()


def reproduce(
    figures: Annotated[
        list[str] | None,
        typer.Argument(metavar="[all | FIGURE…]", help="Which; --list names them."),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Of every experiment; by default its own number.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="At a time; by default one per core.")
    ] = None,
    on: Annotated[
        str, typer.Option(help="Where: processes, ray, or the address of a Ray cluster.")
    ] = "processes",
    quick: Annotated[
        bool, typer.Option("--quick", help="2 seeds and fewer episodes, to see that it works.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="By default results, or results/quick with --quick."),
    ] = None,
    listed: Annotated[
        bool, typer.Option("--list", help="Name the figures and their experiments.")
    ] = False,
) -> None:
    """Reproduce the paper: each figure and table with our numbers beside its claims."""
    names = figures or ["all"]
    if listed:
        _list(exhibits_named(names))
        return
    # What is cut down has a folder of its own, or its report would replace that of the whole.
    target = folder or (Path("results") / "quick" if quick else Path("results"))
    plan = make_plan(names, target, seeds, quick)
    executor = executor_named(on, jobs, ["paper"])
    _make_folder(target)
    try:
        with only_process(target, "reproducing"):
            report = _reproduce(plan, executor, _command(names, seeds, quick))
    except OSError as error:
        raise StorageFailure(
            f"{error.filename or target}: {error.strerror or error}. What was finished is kept."
        ) from error
    out.print(report.table(), highlight=False)
    out.print(f"Report: {target / PAGE}", highlight=False)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgument(
            f"--out {folder}: {error.strerror or error}. Expected a folder that can be written to."
        ) from error


def _list(exhibits: Sequence[Exhibit]) -> None:
    for exhibit in exhibits:
        names = ", ".join(one.name for one in experiments() if exhibit.name in one.figures)
        out.print(f"[bold]{exhibit.name}[/]: {exhibit.title} ({names or 'no experiment'})")


def _reproduce(plan: Plan, executor: Executor, command: str) -> Report:
    outcome = run_jobs(plan.unfinished(), executor)
    if outcome.failures:
        raise HandrailError("\n".join(outcome.failures))
    if outcome.stopped:
        out.print("Stopped. The same command continues where it was.", highlight=False)
        raise typer.Exit(130)
    out.print("Drawing figures and writing the report …", highlight=False)
    return write_results(plan, command)


def _command(figures: Sequence[str], seeds: int | None, quick: bool) -> str:
    """What to type to get the same numbers."""
    options = [] if seeds is None else [f"--seeds {seeds}"]
    options += ["--quick"] if quick else []
    return " ".join([_PROGRAM, *figures, *options])


def run_jobs(jobs: Sequence[Job], executor: Executor) -> Outcome:
    """Do them all, longest first, so that no core is idle in the end."""
    ordered = sorted(jobs, key=lambda job: -job.experiment.study.rough_seconds)
    with _Board(ordered) as board:
        return executor.run(ordered, board)


@final
class _Board(Watcher):
    """One bar for everything with the time left, and a line for each job at work."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._fractions = [0.0] * len(jobs)
        self._before = [0.0] * len(jobs)
        self._begun: dict[int, float] = {}
        self._took: dict[int, float] = {}
        self._console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TextColumn("{task.fields[note]}"),
            console=self._console,
        )
        self._whole = self._progress.add_task("everything", total=1.0, note="")
        self._lines: dict[int, TaskID] = {}
        self._shown = self._logged = 0.0

    def __enter__(self) -> _Board:
        if self._jobs:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def on_report(self, number: int, message: Any) -> None:
        fraction: float = message
        if number not in self._begun:
            self._begun[number], self._before[number] = monotonic(), fraction
            name = self._jobs[number].name
            self._lines[number] = self._progress.add_task(f"  {name}", total=1.0, note="")
        self._fractions[number] = fraction
        self._progress.update(self._lines[number], completed=fraction)
        self._show()

    def on_end(self, number: int) -> None:
        if number in self._lines:
            self._progress.remove_task(self._lines.pop(number))
        if self._jobs[number].done:  # and not only told to stop
            self._took[number] = monotonic() - self._begun.get(number, monotonic())
            self._fractions[number] = 1.0
        self._show()

    def on_notice(self, text: str) -> None:
        self._console.print(text)

    def _show(self) -> None:
        """At most a few times a second: jobs may say something after every episode."""
        if monotonic() - self._shown < 0.25 and len(self._took) < len(self._jobs):
            return
        self._shown = monotonic()
        standings, at_a_time = self._standings(), max(len(self._lines), 1)
        left = timedelta(seconds=round(seconds_left(standings, at_a_time)))
        note = f"{len(self._took)} of {len(self._jobs)} jobs, about {left} left"
        self._progress.update(self._whole, completed=share_done(standings), note=note)
        if not self._console.is_terminal and monotonic() - self._logged > 30.0:
            self._logged = monotonic()  # a log file gets a line now and then instead of a bar
            self._console.print(f"{share_done(standings):.0%}, {note}", highlight=False)

    def _standings(self) -> list[Standing]:
        now = monotonic()
        return [
            Standing(
                job.experiment.name,
                job.experiment.study.rough_seconds,
                self._fractions[number],
                self._took.get(number, now - begun if (begun := self._begun.get(number)) else None),
                self._before[number],
            )
            for number, job in enumerate(self._jobs)
        ]


app = typer.Typer(pretty_exceptions_enable=False)
app.command()(reproduce)


def main() -> None:
    """Run the command; errors that we foresee are printed as one message."""
    try:
        app(prog_name=_PROGRAM)
    except HandrailError as error:
        text = f"[bold red]error:[/] {escape(str(error))}"
        Console(stderr=True).print(text, highlight=False, soft_wrap=True)  # no path is cut in two
        sys.exit(2)


if __name__ == "__main__":
    main()
