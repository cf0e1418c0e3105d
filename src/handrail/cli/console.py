"""What people see, and what programs read instead: with --json, standard output is one document.

Text is printed as it is: no name in a constraint file can change its style.
Only tables need rich, which takes as long to import as all else that a command needs to start.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import typer

from handrail._text import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def say(answer: object, colour: str | None = None) -> None:
    """Anything, as it says itself; no path is cut in two at the end of a line."""
    typer.secho(visible(str(answer)), fg=colour)


def say_json(answer: object) -> None:
    """An answer for programs, all there is on standard output."""
    typer.echo(in_json(answer), nl=False)


def in_json(answer: object) -> str:
    """A document, its last line ended."""
    return f"{json.dumps(_plain(answer), indent=2, ensure_ascii=False, allow_nan=False)}\n"


def _plain(answer: Any) -> Any:
    """As JSON has it: dataclasses by their fields, arrays as lists; what is no number is null."""
    if is_dataclass(answer) and not isinstance(answer, type):
        return {one.name: _plain(getattr(answer, one.name)) for one in fields(answer)}
    if isinstance(answer, Mapping):
        return {str(key): _plain(value) for key, value in answer.items()}
    if isinstance(answer, list | tuple):
        return [_plain(one) for one in answer]
    if isinstance(answer, PurePath):
        return str(answer)
    if hasattr(answer, "tolist"):  # of numpy, which takes long to import
        return _plain(answer.tolist())
    return None if isinstance(answer, float) and not math.isfinite(answer) else answer


def note(text: str) -> None:
    """What people should know beside what they asked for."""
    typer.echo(f"{typer.style('note:', fg='yellow')} {visible(text)}")


def complain(text: str) -> None:
    """Why there is no answer."""
    typer.echo(f"{typer.style('error:', fg='red', bold=True)} {visible(text)}", err=True)


def disk_refusal(error: OSError) -> str:
    """A full disk, or a folder that is not ours, in words."""
    return (
        f"{error.filename or 'A file'}: {error.strerror or error}. What was saved before is as it "
        "was: make room, or choose another folder."
    )


def show(table: Table) -> None:
    """A table, as wide as the terminal at most."""
    console().print(table)


def console(stderr: bool = False) -> Console:
    """The terminal for what moves or has columns; it knows no markup, so none is smuggled in."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)
