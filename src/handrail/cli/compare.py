"""`handrail compare`: groups of runs side by side, in a table and in pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import handrail as hr
from handrail.cli.console import say, say_json
from handrail.cli.options import Json, NoReport

COMPARISON = "comparison"


def compare(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUNS...",
            help="Groups of runs, sweeps (all their groups), runs; others are compared with the "
            "first.",
        ),
    ],
    episodes: Annotated[
        int | None,
        typer.Option(min=1, help="Compare after so many; by default after all that they share."),
    ] = None,
    last: Annotated[
        int, typer.Option(min=1, help="Of these, how many at the end make the score.")
    ] = 100,
    target: Annotated[
        Path | None,
        typer.Option("--out", help="Where pictures go; by default `comparison`, next to the runs."),
    ] = None,
    no_report: NoReport = False,
    json: Json = False,
) -> None:
    """Compare groups of runs: IQM with intervals, who is better how probably, pictures."""
    found = hr.report.compare_runs(*folders, episodes=episodes, last=last)
    beside = found.contestants[0].folder.parent / COMPARISON
    page = None if no_report else hr.report.write_comparison(found, target or beside)
    if json:
        say_json(comparison_fields(found, page))
    else:
        say_comparison(found, page)


def say_comparison(found: hr.report.Comparison, page: Path | None) -> None:
    """The table, and where the pictures are."""
    say(found)
    if page is not None:
        say(f"Pictures: {page}")


def comparison_fields(found: hr.report.Comparison, page: Path | None) -> dict[str, Any]:
    """What programs get to know of it."""
    return {
        "measure": found.measure,
        "episodes": found.episodes,
        "last": found.last,
        "groups": found.standings,
        "remarks": found.remarks,
        "report": page,
    }
