"""`handrail studio`: draw constraints on the policy, on a page of this computer."""

from __future__ import annotations

import threading
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

import handrail as hr
from handrail.cli.console import say
from handrail.cli.options import Imports, import_modules
from handrail.errors import InvalidArgument


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
