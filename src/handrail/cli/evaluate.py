"""`handrail evaluate`: play without learning, and measure whether the policy obeys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import handrail as hr
from handrail.cli.console import note, say, show
from handrail.cli.options import Deterministic, Imports, import_modules
from handrail.errors import InvalidArgument


def evaluate(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="RUN|POLICY",
            help="A run, or a group of runs; or a file that `handrail edit`, `Reinforce.save` or "
            "Stable-Baselines3 (.zip) wrote. A .zip contains pickles: only files you trust.",
        ),
    ],
    constraints: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|NAME",
            help="What to measure, and where to play; by default what RUN was made with.",
        ),
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, help="Per run.")] = 20,
    deterministic: Deterministic = False,
    rows: Annotated[int, typer.Option(min=1, help="Constraint rows to show, worst first.")] = 20,
    fresh: Annotated[
        int, typer.Option(min=0, help="Measure regions on so many fresh states in all, too.")
    ] = 0,
    modules: Imports = None,
) -> None:
    """Play without learning: scores, and whether the constraints hold."""
    import_modules(modules)
    if path.is_dir() and constraints is None:
        for run in hr.runs.open_runs(path):
            _evaluate_run(run, episodes, deterministic, rows, fresh)
        return
    book = None if constraints is None else hr.load_rulebook(constraints)
    opened = hr.runs.open_policy(path, "Other constraints are measured of one policy", book)
    source = opened if book is None else opened.with_constraints_of(book)
    if source.note:
        note(source.note)
    evaluation = hr.evaluate(
        source.policy,
        _stage(source, path),
        source.constraints or None,
        episodes,
        deterministic,
        tolerance=source.tolerance,
    )
    _say(source.description, evaluation, rows)
    if fresh and source.constraints:
        say(hr.constraints.measure_fresh(source.policy, source.constraints, fresh, seed=0))


def _evaluate_run(run: hr.Run, episodes: int, deterministic: bool, rows: int, fresh: int) -> None:
    agent = run.agent()
    learned = hr.constraints.counted(agent.episodes, "episode")
    behind = len(run.records()) - agent.episodes
    late = f", {behind} behind what was recorded: resume it first" if behind > 0 else ""
    who = f"seed {run.seed} (policy after {learned}{late})"
    _say(who, agent.evaluate(episodes, deterministic), rows)
    if fresh:
        constraints = run.rulebook.constraints
        say(hr.constraints.measure_fresh(agent.policy, constraints, fresh, run.seed))


def _stage(source: hr.runs.SavedPolicy, path: Path) -> Any:
    """The environment to play in."""
    if source.rulebook is not None:
        return source.rulebook.make_environment()
    if source.env is None:
        raise InvalidArgument(
            f"{path} does not say which environment its policy acts in. Name a constraint file "
            "that does: --constraints FILE."
        )
    return source.env


def _say(who: str, evaluation: hr.Evaluation, rows: int) -> None:
    say(f"{who}: {evaluation}")
    if evaluation.violations is not None:
        show(evaluation.violations.table(at_most=rows))
