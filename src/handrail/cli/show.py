"""`handrail show`: a run's pictures and its table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import handrail as hr
from handrail.cli.console import say
from handrail.cli.options import At, Imports, Over, RunFolder, import_modules, plane_of
from handrail.errors import InvalidArgument


def show(
    folder: RunFolder,
    over: Over = None,
    at: At = None,
    pictures: Annotated[
        Path | None, typer.Option("--out", help="Where pictures go; by default RUN/pictures.")
    ] = None,
    modules: Imports = None,
) -> None:
    """Draw score, loss, violation, influence, the policy and its proof, and print the table."""
    import_modules(modules)
    runs = [run for run in hr.runs.open_runs(folder) if run.records()]
    if not runs:
        raise InvalidArgument(f"{folder} has recorded no episode yet: there is nothing to show.")
    plane = plane_of(runs[0].rulebook, over, at)
    say(hr.report.summarise_runs(runs))
    target = folder / "pictures" if pictures is None else pictures
    for path in hr.report.write_pictures(runs, target, plane):
        say(path)
