"""Text from elsewhere, made safe to show, and small tables of it.

A name in a constraint file may hold any character: what a terminal would obey is made visible.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def visible(text: str) -> str:
    r"""Control characters as escapes such as \x1b; lines stay."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one == "\n" else _escaped(one) for one in text)


def html_text(text: str) -> str:
    """The same on a page: no markup either."""
    return escape(visible(text))


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of text, each as wide as it must be, to the right."""
    lines = [[visible(cell) for cell in line] for line in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = ["─" * width for width in widths]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (lines[0], rule, *lines[1:])
    )


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
