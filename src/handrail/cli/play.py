"""`handrail play`: a policy at work, as an animated GIF or in a window."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import handrail as hr
from handrail.cli.console import say, say_json
from handrail.cli.options import Deterministic, Imports, Json, RunFolder, import_modules


def play(
    folder: RunFolder,
    episodes: Annotated[int, typer.Option(min=1, help="How many.")] = 1,
    deterministic: Deterministic = False,
    window: Annotated[
        bool, typer.Option("--window", help="Show it instead of filming it.")
    ] = False,
    path: Annotated[
        Path | None, typer.Option("--out", help="The film; by default RUN/pictures/play.gif.")
    ] = None,
    json: Json = False,
    modules: Imports = None,
) -> None:
    """Film the policy at work, as an animated GIF, or watch it in a window."""
    import_modules(modules)
    run = hr.runs.open_runs(folder)[0]
    target = folder / "pictures" / "play.gif" if path is None else path
    if window:
        played = hr.report.watch(run, episodes, deterministic)
    else:
        played = hr.report.write_film(run, target, episodes, deterministic)
    if json:
        results = [one.score for one in played]
        say_json({"seed": run.seed, "scores": results, "film": None if window else target})
        return
    scores = ", ".join(f"{episode.score:g}" for episode in played)
    say(f"seed {run.seed}, scores {scores}" + ("" if window else f": {target}"))
