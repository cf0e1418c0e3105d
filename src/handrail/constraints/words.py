"""Numbers, states and bounds as people read them, in a sentence or in a notebook's table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from handrail._text import html_text
from handrail._types import Array
from handrail.constraints.amount import Amount, amount_in_words

# Numbers of an observation that a sentence has room for.
_SHOWN = 12

_LEFT, _RIGHT = 'style="text-align:left"', 'style="text-align:right"'


def counted(number: int, noun: str) -> str:
    """1 iteration, 2 iterations, 12,000 states."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(names: Sequence[str], at_most: int = 5) -> str:
    """'a' and 'b'; 'a', 'b', 'c' and 20 others."""
    shown = [repr(name) for name in names[:at_most]]
    left = len(names) - len(shown)
    if left:
        return f"{', '.join(shown)} and {counted(left, 'other')}"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def bound_in_words(lower: Amount, upper: Amount) -> str:
    """≥ 0.95, ≤ 0.05, = 0.5, 0.2 … 0.4 or ≤ 0.5*dv - 1."""
    low, high = amount_in_words(lower), amount_in_words(upper)
    if lower == upper:
        return f"= {low}"
    if high == "inf":
        return f"≥ {low}"
    return f"≤ {high}" if low == "-inf" else f"{low} … {high}"


def state_in_words(state: Array, names: Sequence[str] = ()) -> str:
    """(0, 0, 0.25, 0.05), or (x = 0, phi = 0.25); of a large observation only its shape."""
    if state.size > _SHOWN or (state.ndim > 1 and not names):
        return f"array {state.shape}"
    if names:
        pairs = zip(names, state.ravel(), strict=True)
        return "(" + ", ".join(f"{name} = {value:.3g}" for name, value in pairs) + ")"
    return "(" + ", ".join(f"{value:g}" for value in state) + ")"


def html_table(
    caption: str, rows: Iterable[Sequence[str]], columns: Sequence[str] = (), note: str = ""
) -> str:
    """A small table for a notebook; every text is escaped, whatever it holds.

    Args:
        caption: above it; sentences may have several lines.
        rows: a text per column; the first is to the left, the others to the right.
        columns: their names; without, every row is a name and its value.
        note: below it.
    """
    head = _row(columns, "th", "th") if columns else ""
    body = "".join(_row(row, "td" if columns else "th", "td") for row in rows)
    table = f"<table>{head}{body}</table>" if body else ""
    return f"<div>{_paragraph(caption)}{table}{_paragraph(note)}</div>"


def _paragraph(text: str) -> str:
    return f"<p>{html_text(text).replace(chr(10), '<br>')}</p>" if text else ""


def _row(texts: Sequence[str], first: str, others: str) -> str:
    cells = [f"<{first} {_LEFT}>{html_text(texts[0])}</{first}>"]
    cells += [f"<{others} {_RIGHT}>{html_text(text)}</{others}>" for text in texts[1:]]
    return f"<tr>{''.join(cells)}</tr>"
