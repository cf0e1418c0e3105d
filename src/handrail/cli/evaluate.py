"""`handrail evaluate`: play without learning, and measure whether the policy obeys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import typer
from rich.console import Console

from handrail.cli.options import Deterministic, Imports, import_modules
from handrail.constraints import measure_fresh
from handrail.errors import InvalidArgument
from handrail.learning import Evaluation, evaluate
from handrail.rulebook import load_rulebook
from handrail.runs import Run, SavedPolicy, open_policy, open_runs

out = Console()


def evaluate_policies(
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
    import_modules(modules or [])
    if path.is_dir() and constraints is None:
        for run in open_runs(path):
            _evaluate_run(run, episodes, deterministic, rows, fresh)
        return
    book = None if constraints is None else load_rulebook(constraints)
    opened = open_policy(path, "Other constraints are measured of one policy", book)
    source = opened if book is None else opened.with_constraints_of(book)
    if source.note:
        out.print(f"[yellow]note:[/] {source.note}", highlight=False, soft_wrap=True)
    evaluation = evaluate(
        source.policy,
        _stage(source, path),
        source.constraints or None,
        episodes,
        deterministic,
        tolerance=source.tolerance,
    )
    _say(source.description, evaluation, rows)
    if fresh and source.constraints:
        out.print(str(measure_fresh(source.policy, source.constraints, fresh, seed=0)))


def _evaluate_run(run: Run, episodes: int, deterministic: bool, rows: int, fresh: int) -> None:
    agent = run.agent()
    behind = len(run.records()) - agent.episodes
    note = f", {behind} behind what was recorded: resume it first" if behind > 0 else ""
    said = f"seed {run.seed} (policy after {agent.episodes} episodes{note})"
    _say(said, agent.evaluate(episodes, deterministic), rows)
    if fresh:
        out.print(str(measure_fresh(agent.policy, run.rulebook.constraints, fresh, run.seed)))


def _stage(source: SavedPolicy, path: Path) -> gym.Env[Any, Any]:
    if source.rulebook is not None:
        return source.rulebook.make_environment()
    if source.env is None:
        raise InvalidArgument(
            f"{path} does not say which environment its policy acts in. Name a constraint file "
            "that does: --constraints FILE."
        )
    return source.env


def _say(who: str, evaluation: Evaluation, rows: int) -> None:
    out.print(f"{who}: {evaluation}", highlight=False, soft_wrap=True)
    if evaluation.violations is not None:
        out.print(evaluation.violations.table(at_most=rows))
