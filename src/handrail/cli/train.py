"""`handrail train` and `handrail resume`: one run per seed, in parallel processes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

import handrail as hr
from handrail.cli.console import disk_refusal, say
from handrail.cli.options import Imports, RuleFile, RunFolder, import_modules, settings_of
from handrail.errors import HandrailError

Jobs = Annotated[int | None, typer.Option(min=1, help="Processes; by default one per core.")]

CheckpointSeconds = Annotated[float, typer.Option(min=0.0, help="Between checkpoints.")]


def train(
    file: RuleFile,
    episodes: Annotated[int | None, typer.Option(help="How many to learn from.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the first run.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many runs, seed by seed.")] = 1,
    enforcement: Annotated[str | None, typer.Option(help="exact, one_step or none.")] = None,
    baseline: Annotated[
        str | None, typer.Option(help="none, standardised, time_average or value.")
    ] = None,
    step_size: Annotated[float | None, typer.Option(help="Of one update.")] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="Any other setting, as name=value.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Of the runs; by default runs/NAME.")
    ] = None,
    jobs: Jobs = None,
    checkpoint_seconds: CheckpointSeconds = 5.0,
    modules: Imports = None,
) -> None:
    """Learn from a constraint file, one run per seed, and write a report."""
    import_modules(modules)
    settings = settings_of(
        change,
        episodes=episodes,
        seed=seed,
        enforcement=enforcement,
        baseline=baseline,
        step_size=step_size,
    )
    book = hr.rulebook.with_settings(hr.load_rulebook(file), **settings)
    group = hr.runs.free_folder(book.name) if folder is None else folder
    runs = hr.runs.start_runs(group, book, seeds, modules or ())
    number = hr.constraints.counted(len(runs), "run")
    say(f"{book.description or book.name}: {number} in {group}")
    _learn(runs, group, jobs, modules, checkpoint_seconds)


def resume(
    folder: RunFolder,
    episodes: Annotated[int | None, typer.Option(help="A new goal, to learn on to.")] = None,
    jobs: Jobs = None,
    checkpoint_seconds: CheckpointSeconds = 5.0,
    modules: Imports = None,
) -> None:
    """Continue runs that were interrupted, bit for bit as if they had not been."""
    import_modules(modules)
    runs = hr.runs.open_runs(folder)
    runs[0].make_environment().close()  # refused before anything is changed
    if episodes is not None:
        runs = [run.with_episodes(episodes) for run in runs]
    unfinished = [run for run in runs if not run.finished]
    if not unfinished:
        say("Nothing is left to learn. To go on: --episodes with a larger number.")
    _learn(unfinished, folder, jobs, modules, checkpoint_seconds)


def _learn(
    runs: Sequence[hr.Run],
    group: Path,
    jobs: int | None,
    modules: Sequence[str] | None,
    checkpoint_seconds: float,
) -> None:
    from handrail.cli.progress import ProgressLines

    with ProgressLines(runs) as lines:
        executor = hr.executors.executor_named(jobs=jobs, modules=modules or ())
        outcome = hr.runs.learn_all(runs, executor, lines, checkpoint_seconds)
    failures = [*outcome.failures]
    recorded = [run for run in hr.runs.open_runs(group) if run.records()]
    if recorded:
        say(hr.report.summarise_runs(recorded))
        try:
            say(f"Report: {hr.report.write_report(recorded, group / 'report')}")
        except OSError as error:  # what the learning failed of is said all the same
            failures.append(disk_refusal(error))
    if failures:
        raise HandrailError("\n".join(failures))
    if outcome.stopped:
        say(f"Stopped. Continue with: handrail resume {group}")
        raise typer.Exit(130)
