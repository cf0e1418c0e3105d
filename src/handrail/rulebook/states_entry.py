"""Finitely many states, as a file lists them: `where`, all combinations of values, and `table`.

A table is pasted text with a column for each observation and a line for each state; what it leaves
open, `where` says, with `others` for all that are not named; or `where` refers to an array file.
Here all of them become arrays of states, in the order of the observations.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from handrail._types import Array
from handrail.errors import InvalidConstraint
from handrail.rulebook.declared_observations import DeclaredObservations
from handrail.rulebook.findings import unknown
from handrail.rulebook.region_schema import OTHERS
from handrail.rulebook.schema import REQUIRE, Grid, StatesReference
from handrail.rulebook.source import KeyPath, Source, Spot
from handrail.rulebook.states_file import MAX_NUMBERS, ArrayFiles

_SEPARATOR = re.compile(r"[\s,|]+")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)

# The line under the header of a Markdown table.
_RULE = re.compile(r"[-|:+\s]*--[-|:+\s]*")

# Of all constraints of a file together.
MAX_STATES = 100_000

Values = float | list[float] | Grid
Block = Mapping[str, Values]


@final
@dataclass(frozen=True)
class TableRow:
    """One line of a table; `require` is empty where the table has no such column."""

    spot: Spot
    values: tuple[float, ...]
    require: str = ""


@final
@dataclass(frozen=True)
class StatesTable:
    """The columns are observations, in the order of the table."""

    columns: tuple[str, ...] = ()
    rows: tuple[TableRow, ...] = ()
    has_requirements: bool = False


def read_table(
    source: Source, path: KeyPath, text: str, observations: Sequence[str]
) -> StatesTable:
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
    _refuse_repeated_rows(rows)
    return StatesTable(columns, rows, has_requirements)


def _lines(source: Source, path: KeyPath, text: str) -> list[tuple[Spot, str]]:
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


def _row(spot: Spot, line: str, columns: Sequence[str], has_requirements: bool) -> TableRow:
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
    return TableRow(spot, values, cells[-1] if has_requirements else "")


def _number(spot: Spot, column: str, cell: str) -> float:
    value = float(cell) if _NUMBER.fullmatch(cell) else math.nan
    if not math.isfinite(value):
        raise spot.error(f"expected a number in column {column!r}, but got {cell!r}.")
    return value


def _refuse_repeated_rows(rows: Sequence[TableRow]) -> None:
    seen: dict[tuple[object, ...], Spot] = {}
    for row in rows:
        first = seen.setdefault((row.values, row.require), row.spot)
        if first is not row.spot:
            raise row.spot.error(f"this row repeats line {first.line}. List each state once.")


@final
@dataclass(frozen=True)
class FileBlock:
    """States (n, n_observations) of an array file, and how `where` refers to it."""

    reference: str
    states: Array


@final
@dataclass(frozen=True)
class StatesEntry:
    """Blocks of `where` and a table, which together name every observation once.

    Attributes:
        spot: for messages about the states as a whole.
        observations: all of the file's.
        blocks: the mappings of `where`; a single empty one if there is none.
        table: an empty one if there is none, and beside array files.
    """

    spot: Spot
    observations: DeclaredObservations
    blocks: tuple[Block | FileBlock, ...]
    table: StatesTable

    @property
    def count(self) -> int:
        """How many states there are, over all rows of the table."""
        return max(len(self.table.rows), 1) * sum(map(_count_of_block, self.blocks))

    @property
    def references(self) -> list[str]:
        """To array files."""
        return [one.reference for one in self.blocks if isinstance(one, FileBlock)]

    def states(self, rows: Sequence[TableRow]) -> Array:
        """(n, *observation_shape) of all blocks, combined with these rows of the table."""
        states = [
            block.states
            if isinstance(block, FileBlock)
            else _combine(block, self.table.columns, rows, self.observations.names)
            for block in self.blocks
        ]
        return np.concatenate(states).reshape(-1, *self.observations.shape)


@final
@dataclass
class Room:
    """What is left of the states that a file may describe; refused before they are built."""

    total: int
    used: int = 0

    @classmethod
    def of(cls, observations: DeclaredObservations) -> Room:
        """For a file with these observations."""
        return cls(min(MAX_STATES, MAX_NUMBERS // observations.count))

    def take(self, entry: StatesEntry, times: int) -> None:
        """The states of an entry, as often as something is required at them."""
        before, self.used = self.used, self.used + times * entry.count
        if self.used > self.total:
            with_others = f", {self.used:,} with those before" if before else ""
            raise entry.spot.error(
                f"this describes {times * entry.count:,} states{with_others}; the constraints of a "
                f"file have at most {self.total:,} together. {_fewer(entry)}"
            )


def _fewer(entry: StatesEntry) -> str:
    if entry.references:
        return "Keep fewer of them: those that matter, each once."
    return "Use coarser grids, fix some observations, or write a region."


def read_place(
    source: Source,
    path: KeyPath,
    where: Block | StatesReference | Sequence[Block | StatesReference] | None,
    table: StatesTable,
    observations: DeclaredObservations,
    arrays: ArrayFiles,
) -> StatesEntry:
    """The place of the constraint at this path of the file; array files are among `arrays`."""
    place = (*path, "table" if where is None else "where")
    blocks: dict[KeyPath, Block | StatesReference]
    if isinstance(where, Mapping | StatesReference) or where is None:
        blocks = {place: where or {}}
    else:
        blocks = {(*place, index): block for index, block in enumerate(where)}
    whole = tuple(
        _in_file(source.spot((*block_path, "states")), block, table, observations, arrays)
        if isinstance(block, StatesReference)
        else _covering(source, block_path, block, table, observations)
        for block_path, block in blocks.items()
    )
    return StatesEntry(source.spot(place), observations, whole, table)


def _in_file(
    spot: Spot,
    block: StatesReference,
    table: StatesTable,
    observations: DeclaredObservations,
    arrays: ArrayFiles,
) -> FileBlock:
    if table.rows:
        raise spot.error(
            "states of a file say all of every state, so a table has nothing to add. Write two "
            "constraints."
        )
    try:
        return FileBlock(block.states, arrays.states(block.states, observations))
    except InvalidConstraint as error:
        raise spot.error(str(error)) from None


def _covering(
    source: Source,
    path: KeyPath,
    block: Block,
    table: StatesTable,
    declared: DeclaredObservations,
) -> Block:
    """The block with values for all observations that the table does not have."""
    if declared.parts:
        raise source.spot(path).error(
            f"the numbers of {declared} have no names to write states with. Give the states in an "
            "array file: where: {states: frames.npy}."
        )
    observations = declared.names
    named = {name: values for name, values in block.items() if name != OTHERS}
    for name in named:
        spot = source.spot((*path, name))
        if name not in observations:
            raise spot.without_key().error(unknown("observation", name, observations))
        if name in table.columns:
            raise spot.error(f"{name!r} is also a column of the table. Remove it here or there.")
    missing = [name for name in observations if name not in named and name not in table.columns]
    if OTHERS not in block:
        if missing:
            raise source.spot(path).error(
                f"nothing is said about {', '.join(missing)}. Give every observation a value, in "
                f"`where` or as a column of `table`; or all that are left the same: {OTHERS}: 0."
            )
        return named
    if not missing:
        raise source.spot((*path, OTHERS)).error(
            f"every observation is named, so `{OTHERS}` stands for none. Remove it."
        )
    return {**named, **dict.fromkeys(missing, block[OTHERS])}


def _count_of_block(block: Block | FileBlock) -> int:
    if isinstance(block, FileBlock):
        return len(block.states)
    return math.prod(map(_count, block.values()))


def _count(values: Values) -> int:
    if isinstance(values, Grid):
        return values.count
    return len(values) if isinstance(values, list) else 1


def _axis(values: Values) -> Array:
    if not isinstance(values, Grid):
        return np.atleast_1d(np.asarray(values, dtype=np.float64))
    # Ends near the largest float: the result is not finite, and Points says so.
    with np.errstate(over="ignore", invalid="ignore"):
        return np.linspace(values.from_, values.to, values.count)


def _combine(
    block: Block, columns: Sequence[str], rows: Sequence[TableRow], observations: Sequence[str]
) -> Array:
    """Rows of the table slowest, then the observations of the block in the file's order."""
    axes = {name: _axis(block[name]) for name in observations if name in block}
    n_grid = math.prod(len(axis) for axis in axes.values())
    states = np.empty((max(len(rows), 1), n_grid, len(observations)))
    period = n_grid
    for name, axis in axes.items():
        period //= len(axis)
        states[:, :, observations.index(name)] = axis[np.arange(n_grid) // period % len(axis)]
    for column, name in enumerate(columns):
        values = np.array([row.values[column] for row in rows])
        states[:, :, observations.index(name)] = values[:, None]
    return states.reshape(-1, len(observations))
