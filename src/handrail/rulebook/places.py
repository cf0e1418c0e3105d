"""`where` and `table` as states: every combination, in the order of the observations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from handrail.arrays import Array
from handrail.errors import InvalidConstraint
from handrail.regions import Points
from handrail.rulebook.format import Grid
from handrail.rulebook.names import unknown
from handrail.rulebook.source import Path, Source, Spot
from handrail.rulebook.tables import Row, Table

MAX_STATES = 1_000_000
# Of all coordinates of a constraint's states together: 160 MB.
_MAX_NUMBERS = 20_000_000

Values = float | list[float] | Grid
Block = Mapping[str, Values]


@final
@dataclass(frozen=True)
class Place:
    """Blocks of `where` and a table, which together name every observation once.

    Attributes:
        spot: for messages about the states as a whole.
        observations: all of the file's, in its order.
        blocks: the mappings of `where`; a single empty one if there is none.
        table: an empty one if there is none.
    """

    spot: Spot
    observations: tuple[str, ...]
    blocks: tuple[Block, ...]
    table: Table

    def points(self, rows: Sequence[Row]) -> Points:
        """The states of all blocks, combined with these rows of the table."""
        states = [
            _combine(block, self.table.columns, rows, self.observations) for block in self.blocks
        ]
        try:
            return Points(np.concatenate(states))
        except InvalidConstraint as error:
            raise self.spot.error(str(error).removeprefix("Points: ")) from None


def read_place(
    source: Source,
    path: Path,
    where: Block | Sequence[Block] | None,
    table: Table,
    observations: tuple[str, ...],
) -> Place:
    """The place of the constraint at this path of the file."""
    place = (*path, "table" if where is None else "where")
    if isinstance(where, Mapping) or where is None:
        blocks: dict[Path, Block] = {place: where or {}}
    else:
        blocks = {(*place, index): block for index, block in enumerate(where)}
    for block_path, block in blocks.items():
        _check_coverage(source, block_path, block, table, observations)
    spot = source.spot(place)
    _refuse_too_many(spot, blocks.values(), max(len(table.rows), 1), len(observations))
    return Place(spot, observations, tuple(blocks.values()), table)


def in_words(states: Array, observations: Sequence[str]) -> str:
    """'x from -2 to 2, x_dot 0, phi 0.25'."""
    parts = []
    for name, column in zip(observations, states.T, strict=True):
        low, high = column.min(), column.max()
        parts.append(f"{name} {low:g}" if low == high else f"{name} from {low:g} to {high:g}")
    return ", ".join(parts)


def _check_coverage(
    source: Source, path: Path, block: Block, table: Table, observations: Sequence[str]
) -> None:
    for name in block:
        spot = source.spot((*path, name))
        if name not in observations:
            raise spot.without_key().error(unknown("observation", name, observations))
        if name in table.columns:
            raise spot.error(f"{name!r} is also a column of the table. Remove it here or there.")
    missing = [name for name in observations if name not in block and name not in table.columns]
    if missing:
        raise source.spot(path).error(
            f"nothing is said about {', '.join(missing)}. Give every observation a value, in "
            "`where` or as a column of `table`."
        )


def _refuse_too_many(spot: Spot, blocks: Iterable[Block], n_rows: int, n_observations: int) -> None:
    limit = min(MAX_STATES, _MAX_NUMBERS // n_observations)
    count = n_rows * sum(math.prod(_count(values) for values in block.values()) for block in blocks)
    if count > limit:
        raise spot.error(
            f"this describes {count:,} states; a constraint has at most {limit:,}. Use coarser "
            "grids, or fix some observations."
        )


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
    block: Block, columns: Sequence[str], rows: Sequence[Row], observations: Sequence[str]
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
