"""What people see. Text is printed as it is: no name in a constraint file can change its style.

rich is imported when something is printed, not before: it takes as long as all else that a command
needs to start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail._text import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def console(stderr: bool = False) -> Console:
    """The terminal; what is printed on it has no markup, so that none can be smuggled in."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def say(answer: object, style: str | None = None) -> None:
    """Anything, as it says itself; no path is cut in two at the end of a line."""
    console().print(visible(str(answer)), style=style, soft_wrap=True)


def note(text: str) -> None:
    """What people should know beside what they asked for."""
    _begin_with("note:", "yellow", text)


def complain(text: str) -> None:
    """Why there is no answer."""
    _begin_with("error:", "bold red", text, stderr=True)


def show(table: Table) -> None:
    """A table, as wide as the terminal at most."""
    console().print(table)


def _begin_with(word: str, style: str, text: str, stderr: bool = False) -> None:
    from rich.text import Text

    line = Text.assemble((word, style), " ", visible(text))
    console(stderr).print(line, soft_wrap=True)
