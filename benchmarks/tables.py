"""Tables and numbers of the page."""

from __future__ import annotations

from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table: words to the left, numbers to the right."""
    rule = ["---", *("---:" for _ in header[1:])]
    lines = [header, rule, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def milliseconds(seconds: float) -> str:
    """Three digits, without an exponent."""
    value = 1e3 * seconds
    return f"{value:,.0f}" if value >= 100.0 else f"{value:#.3g}"


def quartiles(pair: tuple[float, float]) -> str:
    """From the lower to the upper."""
    return f"{pair[0]:.2f} … {pair[1]:.2f}"


def threads(count: int) -> str:
    """How many, in words."""
    return "1 thread" if count == 1 else f"{count} threads"
