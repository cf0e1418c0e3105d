"""`handrail evaluate`: play without learning, and measure whether the policy obeys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, final

import typer

import handrail as hr
from handrail.cli.console import note, say, say_json, show
from handrail.cli.options import (
    Best,
    Deterministic,
    Imports,
    Json,
    Statistics,
    import_modules,
    open_one,
)
from handrail.errors import InvalidArgument


@final
@dataclass(frozen=True)
class _Played:
    """What a policy did, and what is to be known about it."""

    who: str
    note: str
    evaluation: hr.Evaluation
    fresh: hr.constraints.FreshMeasurement | None


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
    best: Best = False,
    statistics: Statistics = None,
    json: Json = False,
    modules: Imports = None,
) -> None:
    """Play without learning: scores, and whether the constraints hold."""
    import_modules(modules)
    if path.is_dir() and constraints is None and statistics is None:
        runs = hr.runs.open_runs(path)
        played: Iterator[_Played] = (
            _evaluate_run(run, _last_or_best(run, best), episodes, deterministic, fresh)
            for run in runs
        )
    else:
        played = _evaluate_policy(
            path, constraints, episodes, deterministic, fresh, best, statistics
        )
    if json:
        say_json({"policies": [_fields(one, rows) for one in played]})
        return
    for one in played:
        _say(one, rows)


def _evaluate_policy(
    path: Path,
    constraints: str | None,
    episodes: int,
    deterministic: bool,
    fresh: int,
    best: bool,
    statistics: Path | None,
) -> Iterator[_Played]:
    """The one policy in a file, or of a run by other constraints."""
    book = None if constraints is None else hr.load_rulebook(constraints)
    opened = open_one(path, "Other constraints are measured of one policy", book, best, statistics)
    source = opened if book is None else opened.with_constraints_of(book)
    evaluation = hr.evaluate(
        source.policy,
        _stage(source, path),
        source.constraints or None,
        episodes,
        deterministic,
        tolerance=source.tolerance,
    )
    measured = None
    if fresh and source.constraints:
        measured = hr.constraints.measure_fresh(source.policy, source.constraints, fresh, seed=0)
    yield _Played(source.description, source.note, evaluation, measured)


def _last_or_best(run: hr.Run, best: bool) -> tuple[hr.learning.Learner, str]:
    """A policy of a run, and which it is."""
    if best:
        agent = run.best_agent()
        return agent, hr.runs.best_in_words(run, agent)
    agent = run.agent()
    learned = hr.constraints.counted(agent.episodes, "episode")
    behind = len(run.records()) - agent.episodes
    late = f", {behind} behind what was recorded: resume it first" if behind > 0 else ""
    return agent, f"policy after {learned}{late}"


def _evaluate_run(
    run: hr.Run,
    policy: tuple[hr.learning.Learner, str],
    episodes: int,
    deterministic: bool,
    fresh: int,
) -> _Played:
    agent, which = policy
    who = f"seed {run.seed} ({which})"
    evaluation = agent.evaluate(episodes, deterministic)
    measured = None
    if fresh:
        constraints = run.rulebook.constraints
        measured = hr.constraints.measure_fresh(agent.policy, constraints, fresh, run.seed)
    return _Played(who, "", evaluation, measured)


def _stage(source: hr.runs.SavedPolicy, path: Path) -> Any:
    """The environment to play in."""
    if source.rulebook is not None:
        return source.rulebook.environment_for(source.spaces[0])
    if source.env is None:
        raise InvalidArgument(
            f"{path} does not say which environment its policy acts in. Name a constraint file "
            "that does: --constraints FILE."
        )
    return source.env


def _say(played: _Played, rows: int) -> None:
    if played.note:
        note(played.note)
    say(f"{played.who}: {played.evaluation}")
    if played.evaluation.violations is not None:
        show(played.evaluation.violations.table(at_most=rows))
    if played.evaluation.drawn is not None:
        for one in played.evaluation.drawn.by_constraint:
            say(f"Against {one}")
    if played.fresh is not None:
        say(played.fresh)


def _fields(played: _Played, rows: int) -> dict[str, Any]:
    """What programs get to know of it; rows as many as the table has."""
    found = played.evaluation
    return {
        "policy": played.who,
        "note": played.note,
        "scores": found.scores,
        "lengths": found.lengths,
        "mean": found.mean,
        "deviation": found.deviation,
        "satisfied": found.satisfied,
        "worst_violation": found.worst_violation,
        "tolerance": found.tolerance,
        "costs": found.costs,
        "drawn": found.drawn,
        "rows": [] if found.violations is None else row_fields(found.violations, rows),
        "fresh": played.fresh,
    }


def row_fields(found: hr.Violations, at_most: int | None = None) -> list[dict[str, Any]]:
    """The rows of constraints, worst first."""
    return [
        {
            "constraint": found.labels[i],
            "state": found.states[i],
            "lower": found.lower[i],
            "upper": found.upper[i],
            "value": found.values[i],
            "violation": found.violations[i],
        }
        for i in range(len(found))[:at_most]
    ]
