"""`handrail sweep`: a group of runs for every choice of settings, all of them compared."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

import handrail as hr
from handrail.cli.compare import COMPARISON, comparison_fields, say_comparison
from handrail.cli.console import disk_refusal, say, say_json
from handrail.cli.options import (
    Imports,
    Json,
    NoReport,
    RuleFile,
    axes_of,
    import_modules,
    settings_of,
)
from handrail.cli.train import CheckpointSeconds, Jobs, Manner, end
from handrail.errors import InvalidArgument


def sweep(
    file: RuleFile,
    grid: Annotated[
        list[str] | None,
        typer.Option(help="A setting and its values: step_size=1e-4,3e-4. Several are combined."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of every setting.")] = 5,
    seed: Annotated[int | None, typer.Option(help="Of the first run of each.")] = None,
    episodes: Annotated[int | None, typer.Option(help="How many to learn from.")] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="What all have in common, as name=value.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Of the sweep; by default runs/NAME-sweep.")
    ] = None,
    last: Annotated[
        int, typer.Option(min=1, help="How many episodes at the end make the score.")
    ] = 100,
    jobs: Jobs = None,
    checkpoint_seconds: CheckpointSeconds = 5.0,
    no_report: NoReport = False,
    json: Json = False,
    modules: Imports = None,
) -> None:
    """Learn with every combination of settings, several seeds each, and compare them."""
    import_modules(modules)
    book = hr.rulebook.with_settings(
        hr.load_rulebook(file), **settings_of(change, episodes=episodes, seed=seed)
    )
    if not grid:
        raise InvalidArgument("What is to be swept? Such as: --grid step_size=1e-4,3e-4.")
    chosen = hr.runs.choices(axes_of(grid, "--grid"))
    _refuse_unfit(chosen, book)
    target = Path("runs") / f"{book.name}-sweep" if folder is None else folder
    groups = hr.runs.start_sweep(target, book, chosen, seeds, modules or ())
    runs = [run for group in groups for run in group.runs]
    unfinished = [run for run in runs if not run.finished]
    if not json:
        counts = [hr.constraints.counted(len(groups), "setting"), f"{len(runs)} runs"]
        say(f"{book.name}: {', '.join(counts)}, {len(unfinished)} to learn, in {target}")
    executor = hr.executors.executor_named(jobs=jobs, modules=modules or ())
    manner = Manner(executor, checkpoint_seconds, no_report, json)
    _learn(target, groups, unfinished, last, manner)


def _refuse_unfit(chosen: Sequence[hr.runs.Choice], book: hr.Rulebook) -> None:
    for one in chosen:
        try:
            one.applied_to(book)
        except InvalidArgument as error:
            raise InvalidArgument(f"--grid {error}") from None


def _learn(
    target: Path,
    groups: Sequence[hr.runs.Group],
    unfinished: Sequence[hr.Run],
    last: int,
    manner: Manner,
) -> None:
    """Learn what is left, and compare all that has come to its end."""
    from handrail.cli.progress import learn

    outcome = learn(unfinished, manner.executor, manner.checkpoint_seconds)
    failures, page, compared = [*outcome.failures], None, None
    if any(run.finished for group in groups for run in group.runs):
        compared = hr.report.compare_runs(*(group.folder for group in groups), last=last)
        try:
            if not manner.no_report:
                page = hr.report.write_comparison(compared, target / COMPARISON)
        except OSError as error:  # what the learning failed of is said all the same
            failures.append(disk_refusal(error))
    if manner.json:
        comparison = None if compared is None else comparison_fields(compared, page)
        answer = {"sweep": target, "stopped": outcome.stopped, "failures": failures}
        say_json({**answer, "comparison": comparison})
    elif compared is not None:
        say_comparison(compared, page)
    end(outcome.stopped, failures, shlex.join(["handrail", *sys.argv[1:]]), manner.json)
