"""`handrail show`: a run's pictures and its table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import handrail as hr
from handrail.cli.console import say, say_json
from handrail.cli.options import At, Imports, Json, Over, RunFolder, import_modules, plane_of
from handrail.errors import InvalidArgument


def show(
    folder: RunFolder,
    over: Over = None,
    at: At = None,
    pictures: Annotated[
        Path | None, typer.Option("--out", help="Where pictures go; by default RUN/pictures.")
    ] = None,
    json: Json = False,
    modules: Imports = None,
) -> None:
    """Draw score, loss, violation, influence, the policy and its proof, and print the table."""
    import_modules(modules)
    runs = [run for run in hr.runs.open_runs(folder) if run.records()]
    if not runs:
        raise InvalidArgument(f"{folder} has recorded no episode yet: there is nothing to show.")
    plane = plane_of(runs[0].rulebook, over, at)
    summary = hr.report.summarise_runs(runs)
    if not json:
        say(summary)
    target = folder / "pictures" if pictures is None else pictures
    paths = hr.report.write_pictures(runs, target, plane)
    if json:
        say_json({"summary": summary, "pictures": paths})
        return
    for path in paths:
        say(path)
