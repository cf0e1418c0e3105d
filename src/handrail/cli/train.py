"""`handrail train` and `handrail resume`: one run per seed, in parallel processes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, final

import typer

import handrail as hr
from handrail.cli.console import disk_refusal, say, say_json
from handrail.cli.options import (
    Imports,
    Json,
    NoReport,
    On,
    RuleFile,
    RunFolder,
    allow_modules_of_the_folder,
    import_modules,
    settings_of,
)
from handrail.errors import HandrailError

Jobs = Annotated[int | None, typer.Option(min=1, help="At a time; by default one per core.")]

CallbackName = Annotated[
    str | None,
    typer.Option(
        "--callback",
        metavar="MODULE:FUNCTION",
        help="Called as function(agent, record, seconds) after every episode; False ends a run.",
    ),
]

CheckpointSeconds = Annotated[float, typer.Option(min=0.0, help="Between checkpoints.")]


@final
@dataclass(frozen=True)
class Manner:
    """How to learn, and how to answer."""

    executor: hr.executors.Executor
    checkpoint_seconds: float
    no_report: bool
    json: bool
    callback: hr.runs.NamedCallback | None = None

    @classmethod
    def of(
        cls,
        on: str,
        jobs: int | None,
        checkpoint_seconds: float,
        no_report: bool,
        json: bool,
        modules: Sequence[str],
        callback: str | None,
    ) -> Manner:
        """As the options say; the user's modules are imported here, and wherever runs learn."""
        import_modules(modules)
        if callback is None:
            executor = hr.executors.executor_named(on, jobs, modules)
            return cls(executor, checkpoint_seconds, no_report, json, None)
        allow_modules_of_the_folder()
        named = hr.runs.NamedCallback.of(callback)
        executor = hr.executors.executor_named(on, jobs, [*modules, named.module])
        return cls(executor, checkpoint_seconds, no_report, json, named)


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
    on: On = "processes",
    jobs: Jobs = None,
    checkpoint_seconds: CheckpointSeconds = 5.0,
    callback: CallbackName = None,
    no_report: NoReport = False,
    json: Json = False,
    modules: Imports = None,
) -> None:
    """Learn from a constraint file, one run per seed, and write a report."""
    manner = Manner.of(on, jobs, checkpoint_seconds, no_report, json, modules or (), callback)
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
    if not json:
        number = hr.constraints.counted(len(runs), "run")
        say(f"{book.description or book.name}: {number} in {group}")
    _learn(group, runs, runs, manner)


def resume(
    folder: RunFolder,
    episodes: Annotated[int | None, typer.Option(help="A new goal, to learn on to.")] = None,
    on: On = "processes",
    jobs: Jobs = None,
    checkpoint_seconds: CheckpointSeconds = 5.0,
    callback: CallbackName = None,
    no_report: NoReport = False,
    json: Json = False,
    modules: Imports = None,
) -> None:
    """Continue runs that were interrupted, bit for bit as if they had not been."""
    manner = Manner.of(on, jobs, checkpoint_seconds, no_report, json, modules or (), callback)
    runs = hr.runs.open_runs(folder)
    runs[0].make_environment().close()  # refused before anything is changed
    if episodes is not None:
        runs = [run.with_episodes(episodes) for run in runs]
    unfinished = [run for run in runs if not run.finished]
    if not unfinished and not json:
        say("Nothing is left to learn. To go on: --episodes with a larger number.")
    _learn(folder, runs, unfinished, manner)


def _learn(
    group: Path, runs: Sequence[hr.Run], unfinished: Sequence[hr.Run], manner: Manner
) -> None:
    """Learn what is left, and answer.

    Args:
        group: the folder of the runs.
        runs: that the command is about. Without a report the answer is about these only: other
            tasks may be at work in the rest of the group.
        unfinished: those of them that are to be learned.
        manner: of learning and answering.
    """
    from handrail.cli.progress import learn

    outcome = learn(
        unfinished, manner.executor, manner.checkpoint_seconds, callback=manner.callback
    )
    failures = [*outcome.failures]
    concerned = runs if manner.no_report else hr.runs.open_runs(group)
    recorded = [run for run in concerned if run.records()]
    summary = hr.report.summarise_runs(recorded) if recorded else None
    if summary is not None and not manner.json:
        say(summary)
    page = None
    if recorded and not manner.no_report:
        try:
            page = hr.studio.write_report(recorded, group / "report")
        except OSError as error:  # what the learning failed of is said all the same
            failures.append(disk_refusal(error))
    if manner.json:
        say_json(
            {
                "group": group,
                "runs": [run.folder for run in runs],
                "stopped": outcome.stopped,
                "failures": failures,
                "summary": summary,
                "report": page,
            }
        )
    elif page is not None:
        say(f"Report: {page}")
    imports = [word for module in runs[0].modules for word in ("--import", module)]
    again = shlex.join(["handrail", "resume", str(group), *imports])
    end(outcome.stopped, failures, again, manner.json)


def end(stopped: bool, failures: Sequence[str], again: str, json: bool) -> None:
    """Leave with what went wrong, or with what to type after a Ctrl-C."""
    if failures:
        raise HandrailError("\n".join(failures))
    if stopped:
        if not json:
            say(f"Stopped. Continue with: {again}")
        raise typer.Exit(130)
