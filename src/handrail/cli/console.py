"""What people see. Text is printed as it is: no name in a constraint file can change its style.

Only tables need rich, which takes as long to import as all else that a command needs to start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from handrail._text import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def say(answer: object, colour: str | None = None) -> None:
    """Anything, as it says itself; no path is cut in two at the end of a line."""
    typer.secho(visible(str(answer)), fg=colour)


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
