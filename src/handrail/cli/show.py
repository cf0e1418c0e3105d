"""`handrail show` and `handrail studio`: to look at a run, and to draw on a policy."""

from __future__ import annotations

import threading
import webbrowser
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
    """Print the table, and draw all of a run: pictures, and a page that needs nothing else."""
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
    page = hr.studio.write_page(runs, target / "index.html", plane)
    if json:
        say_json({"summary": summary, "pictures": paths, "page": page})
        return
    for path in (*paths, page):
        say(path)


def studio(
    given: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE|NAME|RUN|MODEL.zip|POLICY.onnx]",
            help="A constraint file, a bundled one's name, a run, or a policy's file. A .zip "
            "contains pickles: only files you trust.",
        ),
    ] = None,
    constraints: Annotated[
        str | None,
        typer.Option(metavar="FILE|NAME", help="Of a policy that carries no constraint file."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Where Save writes; by default FILE, or NAME.yaml here."),
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Whose curves to draw beside a training's.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="By default any free one.")] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address, open nothing.")
    ] = False,
    modules: Imports = None,
) -> None:
    """Draw constraints on the policy and watch it answer, on a page that only you can open."""
    try:
        serve = hr.studio.serve
    except ModuleNotFoundError as error:
        raise InvalidArgument(
            f'The studio needs {error.name}: pip install "handrail[studio]".'
        ) from error
    import_modules(modules)
    opened = hr.studio.Opened.of(given, constraints, out)
    session = hr.studio.Session(opened, modules or (), compare)

    def ready(address: str) -> None:
        say(f"Studio: {address}\nCtrl-C ends it; unsaved work is kept.")
        if not no_browser:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    serve(session, port, ready)
