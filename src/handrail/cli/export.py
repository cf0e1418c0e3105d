"""`handrail export`: the policy of a run, a saved learner or an SB3 model in a file of its own."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, final

import typer

import handrail as hr
from handrail.cli.console import note, say, say_json
from handrail.cli.options import Imports, Json, import_modules, refuse_ending, refuse_existing
from handrail.errors import InvalidArgument


@final
class Format(StrEnum):
    """What kind of file."""

    onnx = "onnx"
    numpy = "numpy"


_ENDINGS = {Format.onnx: ".onnx", Format.numpy: ".npz"}


def export(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="A run; or a file that `Reinforce.save` or Stable-Baselines3 (.zip) wrote. A .zip "
            "contains pickles: only files you trust.",
        ),
    ],
    kind: Annotated[
        Format, typer.Option("--format", help="numpy: for networks of plain layers.")
    ] = Format.onnx,
    target: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="By default RUN/policy.onnx, or beside a saved file."),
    ] = None,
    constraints: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|NAME",
            help="A constraint file whose report travels along; by default RUN's own constraints. "
            "A .zip has none.",
        ),
    ] = None,
    json: Json = False,
    modules: Imports = None,
) -> None:
    """Write a policy to a file that runs without Handrail, the report of its constraints inside."""
    import_modules(modules)
    if target is not None:
        _refuse_other_format(target, kind)
        refuse_ending(target, _ENDINGS[kind], f"A policy in the format {kind.value}")
    book = None if constraints is None else hr.load_rulebook(constraints)
    opened = hr.runs.open_policy(path, "A file holds one policy", book)
    source = opened if book is None else opened.with_constraints_of(book)
    file = source.stem.with_name(source.stem.name + _ENDINGS[kind]) if target is None else target
    refuse_existing(file, "--out")
    names = source.rulebook
    space = source.spaces[0]
    space.seed(0)  # the same policy gives the same file
    write = {Format.onnx: hr.export_onnx, Format.numpy: hr.export_numpy}[kind]
    exported = write(
        source.policy,
        file,
        source.constraints,
        observations=() if names is None else names.observations,
        actions=() if names is None else names.actions,
        constraint_file="" if names is None else names.text,
        states=[space.sample()],
        tolerance=source.tolerance,
    )
    if json:
        say_json({"policy": source.description, "note": source.note, "file": exported})
        return
    say(source.description)
    if source.note:
        note(source.note)
    say(exported)
    if kind is Format.numpy:
        say(f"\nThese lines run it:\n\n{hr.export.LOADER.rstrip()}")


def _refuse_other_format(target: Path, kind: Format) -> None:
    """The name of a file of the other format, most likely because that one was meant."""
    for other, ending in _ENDINGS.items():
        if other is not kind and target.suffix == ending:
            raise InvalidArgument(
                f"--out {target} is the name of a file of the format {other.value}: say --format "
                f"{other.value}, or {target.with_suffix(_ENDINGS[kind])}."
            )
