"""`handrail sweep`: a group of runs for every choice of settings, all of them compared."""

from __future__ import annotations

import math
import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, final

import typer

import handrail as hr
from handrail.cli.compare import COMPARISON, comparison_fields, say_comparison
from handrail.cli.console import disk_refusal, say, say_json
from handrail.cli.options import (
    Imports,
    Json,
    NoReport,
    On,
    RuleFile,
    axis_of,
    import_modules,
    settings_of,
    space_of,
)
from handrail.cli.train import CheckpointSeconds, Jobs, Manner, end
from handrail.errors import InvalidArgument

_BEST = 10  # trials of a search that are compared
_RUNS_EACH = 4  # of a search, for every process at a time


@final
class Searcher(StrEnum):
    """Who proposes settings."""

    optuna = "optuna"


def sweep(
    file: RuleFile,
    grid: Annotated[
        list[str] | None,
        typer.Option(help="A setting and its values: step_size=1e-4,3e-4. Several are combined."),
    ] = None,
    search: Annotated[
        Searcher | None, typer.Option(help="Search instead of a grid, and stop poor trials early.")
    ] = None,
    space: Annotated[
        list[str] | None,
        typer.Option(help="To search: step_size=1e-5..1e-3:log, or values as in a grid."),
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Of a search, in all.")] = 50,
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
    on: On = "processes",
    jobs: Jobs = None,
    checkpoint_seconds: CheckpointSeconds = 5.0,
    no_report: NoReport = False,
    json: Json = False,
    modules: Imports = None,
) -> None:
    """Learn with many settings, several seeds each, and compare them: a grid, or a search."""
    import_modules(modules)
    book = hr.rulebook.with_settings(
        hr.load_rulebook(file), **settings_of(change, episodes=episodes, seed=seed)
    )
    if bool(grid) == bool(space) or bool(space) != (search is not None):
        raise InvalidArgument(
            "What is to be swept? Either a grid, such as --grid step_size=1e-4,3e-4; or a search: "
            "--search optuna --space step_size=1e-5..1e-3:log."
        )
    target = Path("runs") / f"{book.name}-sweep" if folder is None else folder
    executor = hr.executors.executor_named(on, jobs, modules or ())
    manner = Manner(executor, checkpoint_seconds, no_report, json)
    if grid:
        with _naming("--grid"):
            chosen = hr.runs.choices([axis_of(one) for one in grid])
            for one in chosen:
                one.applied_to(book)
        groups = hr.runs.start_sweep(target, book, chosen, seeds, modules or ())
        _learn_grid(target, groups, last, manner)
    else:
        with _naming("--space"):
            spaces = [space_of(one) for one in space or ()]
            found = hr.runs.Search(target, book, spaces, seeds, last, tuple(modules or ()))
        # So many trials that to start a process is little beside what it learns.
        at_once = math.ceil(_RUNS_EACH * (jobs or os.cpu_count() or 1) / seeds)
        _learn_trials(found, trials, at_once, manner)


@contextmanager
def _naming(option: str) -> Iterator[None]:
    """Which option it was that gave a value which does not fit."""
    try:
        yield
    except InvalidArgument as error:
        text = str(error)
        raise InvalidArgument(text if text.startswith("--") else f"{option} {text}") from None


def _learn_grid(target: Path, groups: Sequence[hr.runs.Group], last: int, manner: Manner) -> None:
    """Learn what is left, and compare all that has come to its end."""
    from handrail.cli.progress import learn

    runs = [run for group in groups for run in group.runs]
    unfinished = [run for run in runs if not run.finished]
    if not manner.json:
        settings, all_runs = _counted(len(groups), "setting"), _counted(len(runs), "run")
        say(f"{target}: {settings}, {all_runs}, {len(unfinished)} to learn")
    outcome = learn(unfinished, manner.executor, manner.checkpoint_seconds)
    ended = [group.folder for group in groups] if any(run.finished for run in runs) else []
    _answer(target, ended, last, outcome, manner, {})


def _learn_trials(found: hr.runs.Search, trials: int, at_once: int, manner: Manner) -> None:
    """Search on, and compare the best trials."""
    from handrail.cli.progress import learn

    def learn_until(runs: Sequence[hr.Run], until: int) -> hr.executors.Outcome:
        return learn(runs, manner.executor, manner.checkpoint_seconds, until)

    outcome = found.run(trials, at_once, learn_until)
    known = found.trials()
    if not manner.json:
        numbers = Counter(one.state for one in known)
        states = ", ".join(f"{number} {state}" for state, number in numbers.items())
        say(f"{found.folder}: {_counted(len(known), 'trial')} ({states})")
    best = list(dict.fromkeys(one.folder for one in known if one.state == "complete"))[:_BEST]
    fields = {"trials": [_trial_fields(one) for one in known]}
    _answer(found.folder, best, found.last, outcome, manner, fields)


def _trial_fields(trial: hr.runs.SearchTrial) -> dict[str, Any]:
    settings = {hr.settings.setting_name(path): value for path, value in trial.choice.values}
    return {
        "number": trial.number,
        "settings": settings,
        "state": trial.state,
        "score": trial.score,
        "folder": trial.folder,
    }


def _answer(
    target: Path,
    ended: Sequence[Path],
    last: int,
    outcome: hr.executors.Outcome,
    manner: Manner,
    more: dict[str, Any],
) -> None:
    """A comparison of what has come to its end, a page of it, and what went wrong.

    Args:
        target: the folder of the sweep.
        ended: groups, the first that others are compared with.
        last: so many episodes make the score.
        outcome: of the learning.
        manner: of answering.
        more: fields of the answer as JSON.
    """
    failures, page, compared = [*outcome.failures], None, None
    if ended:
        compared = hr.report.compare_runs(*ended, last=last)
        try:
            if not manner.no_report:
                page = hr.report.write_comparison(compared, target / COMPARISON)
        except OSError as error:  # what the learning failed of is said all the same
            failures.append(disk_refusal(error))
    if manner.json:
        comparison = None if compared is None else comparison_fields(compared, page)
        answer = {"sweep": target, "stopped": outcome.stopped, "failures": failures, **more}
        say_json({**answer, "comparison": comparison})
    elif compared is not None:
        say_comparison(compared, page)
    end(outcome.stopped, failures, shlex.join(["handrail", *sys.argv[1:]]), manner.json)


def _counted(number: int, what: str) -> str:
    return hr.constraints.counted(number, what)
