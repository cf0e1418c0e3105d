"""`handrail export`: the policy of a run, a saved learner or an SB3 model in a file of its own."""

from __future__ import annotations

from dataclasses import fields
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, final

import typer

import handrail as hr
from handrail.cli.console import note, say, say_json
from handrail.cli.options import (
    Best,
    Imports,
    Json,
    Statistics,
    import_modules,
    open_one,
    refuse_ending,
    refuse_existing,
)
from handrail.cli.prove import Cells, Seconds
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
    float32: Annotated[
        bool, typer.Option("--float32", help="ONNX that computes in float32, whatever the policy.")
    ] = False,
    prove: Annotated[
        bool,
        typer.Option(
            "--prove", help="Prove the constraints of the very file; the certificate goes inside."
        ),
    ] = False,
    best: Best = False,
    statistics: Statistics = None,
    cells: Cells = 200_000,
    seconds: Seconds = 60.0,
    json: Json = False,
    modules: Imports = None,
) -> None:
    """Write a policy to a file that runs without Handrail, the report of its constraints inside."""
    import_modules(modules)
    if target is not None:
        _refuse_other_format(target, kind)
        refuse_ending(target, _ENDINGS[kind], f"A policy in the format {kind.value}")
    book = None if constraints is None else hr.load_rulebook(constraints)
    opened = open_one(path, "A file holds one policy", book, best, statistics)
    source = opened if book is None else opened.with_constraints_of(book)
    file = source.stem.with_name(source.stem.name + _ENDINGS[kind]) if target is None else target
    refuse_existing(file, "--out")
    names = source.rulebook
    space = source.spaces[0]
    space.seed(0)  # the same policy gives the same file
    write: Any = hr.export_numpy
    if kind is Format.onnx:
        write = partial(hr.export_onnx, float32=float32)
    elif float32:
        raise InvalidArgument("--float32 is about ONNX: a NumPy file computes in float64.")
    exported: hr.export.Exported = write(
        source.policy,
        file,
        source.constraints,
        observations=() if names is None else names.observations,
        actions=() if names is None else names.actions,
        constraint_file="" if names is None else names,
        states=[space.sample()],
        tolerance=source.tolerance,
        prove=prove,
        budget=hr.Budget(cells, seconds),
    )
    if json:
        _answer(source, exported)
        return
    say(source.description)
    if source.note:
        note(source.note)
    say(exported)
    if kind is Format.numpy:
        say(f"\nThese lines run it:\n\n{hr.export.LOADER.rstrip()}")
    _refuse_unproven(exported)


def _answer(source: hr.runs.SavedPolicy, exported: hr.export.Exported) -> None:
    """For programs; the cells of a proof are nobody's business."""
    found = exported.certificates
    certified = None if found is None else found.certified
    file = {one.name: getattr(exported, one.name) for one in fields(exported)}
    file["certificates"] = None if found is None else [one.status for one in found]
    say_json({"policy": source.description, "note": source.note, "file": file})
    if certified is False:
        raise typer.Exit(1)


def _refuse_unproven(exported: hr.export.Exported) -> None:
    if exported.certificates is not None and not exported.certificates.certified:
        note("not everything is proven of this file, and its certificate says so.")
        raise typer.Exit(1)


def _refuse_other_format(target: Path, kind: Format) -> None:
    """The name of a file of the other format, most likely because that one was meant."""
    for other, ending in _ENDINGS.items():
        if other is not kind and target.suffix == ending:
            raise InvalidArgument(
                f"--out {target} is the name of a file of the format {other.value}: say --format "
                f"{other.value}, or {target.with_suffix(_ENDINGS[kind])}."
            )
