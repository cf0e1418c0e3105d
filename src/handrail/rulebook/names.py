"""Names that a file gets wrong, and the one that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """' Did you mean 'phi'?', or nothing if no known name is close."""
    # Long texts are no misspelt names, and comparing them would take long.
    close = difflib.get_close_matches(name, list(known), n=1) if len(name) <= 100 else []
    return f" Did you mean {close[0]!r}?" if close else ""


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """The message for a name that the file does not declare."""
    names = list(known)
    return (
        f"unknown {what} {name!r}. This file names {', '.join(names)}.{did_you_mean(name, names)}"
    )
