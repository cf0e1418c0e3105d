"""Tables: pasted text with a column for each observation and a line for each state."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from handrail.rulebook.format import REQUIRE
from handrail.rulebook.names import unknown
from handrail.rulebook.source import Path, Source, Spot

_SEPARATOR = re.compile(r"[\s,|]+")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
# The line under the header of a Markdown table.
_RULE = re.compile(r"[-|:+\s]*--[-|:+\s]*")


@final
@dataclass(frozen=True)
class Row:
    """One line of a table; `require` is empty where the table has no such column."""

    spot: Spot
    values: tuple[float, ...]
    require: str = ""


@final
@dataclass(frozen=True)
class Table:
    """The columns are observations, in the order of the table."""

    columns: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    has_requirements: bool = False


def read_table(source: Source, path: Path, text: str, observations: Sequence[str]) -> Table:
    """The table at this path of the file."""
    lines = _lines(source, path, text)
    if not lines:
        raise source.spot(path).error(
            "the table is empty. Write table: |, and below it a line with the names of the "
            "columns and a line for each state."
        )
    (header_spot, header), *body = lines
    names = _SEPARATOR.split(header)
    has_requirements = names[-1] == REQUIRE
    columns = tuple(names[:-1] if has_requirements else names)
    if not body:
        raise header_spot.error(
            "the table has a header but no states. Write table: | (with the bar, so that lines "
            "stay lines), and a line for each state below the header."
        )
    _check_columns(header_spot, columns, observations)
    rows = tuple(_row(spot, line, columns, has_requirements) for spot, line in body)
    _refuse_repetition(rows)
    return Table(columns, rows, has_requirements)


def _lines(source: Source, path: Path, text: str) -> list[tuple[Spot, str]]:
    """Lines with content, without comments and outer bars."""
    lines = []
    for index, line in enumerate(text.splitlines()):
        content = line.partition("#")[0].strip(" \t,|")
        if content and not _RULE.fullmatch(content):
            lines.append((source.spot_in_block(path, index), content))
    return lines


def _check_columns(spot: Spot, columns: Sequence[str], observations: Sequence[str]) -> None:
    if REQUIRE in columns:
        raise spot.error("the column 'require' must be the last one.")
    if not columns:
        raise spot.error(
            "the table has no column for an observation. Use the key `require` for requirements "
            "alone."
        )
    for index, name in enumerate(columns):
        if name not in observations:
            raise spot.without_key().error(unknown("observation", name, observations))
        if name in columns[:index]:
            raise spot.error(f"the table has two columns {name!r}. Remove one of them.")


def _row(spot: Spot, line: str, columns: Sequence[str], has_requirements: bool) -> Row:
    # A requirement contains blanks: it is what remains behind the numbers.
    cells = _SEPARATOR.split(line, maxsplit=len(columns) if has_requirements else 0)
    expected = len(columns) + has_requirements
    if len(cells) != expected:
        names = [*columns, REQUIRE] if has_requirements else columns
        raise spot.error(
            f"this row has {len(cells)} {'cell' if len(cells) == 1 else 'cells'}, but the table "
            f"has {expected} columns: {', '.join(names)}."
        )
    numbers = zip(columns, cells, strict=False)
    values = tuple(_number(spot, column, cell) for column, cell in numbers)
    return Row(spot, values, cells[-1] if has_requirements else "")


def _number(spot: Spot, column: str, cell: str) -> float:
    value = float(cell) if _NUMBER.fullmatch(cell) else math.nan
    if not math.isfinite(value):
        raise spot.error(f"expected a number in column {column!r}, but got {cell!r}.")
    return value


def _refuse_repetition(rows: Sequence[Row]) -> None:
    seen: dict[tuple[object, ...], Spot] = {}
    for row in rows:
        first = seen.setdefault((row.values, row.require), row.spot)
        if first is not row.spot:
            raise row.spot.error(f"this row repeats line {first.line}. List each state once.")
