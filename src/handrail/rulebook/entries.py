"""Tables: pasted text with a column for each observation and a line for each state."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np

from handrail._types import Array
from handrail.constraints import PlacedConstraint
from handrail.errors import InvalidConstraint
from handrail.regions import Place, Points
from handrail.rulebook.findings import gather, unknown
from handrail.rulebook.region_entry import in_file_words, in_words, read_region, region_in_words
from handrail.rulebook.requirement import Actions, Requirement, constrain, parse_requirement
from handrail.rulebook.schema import REQUIRE, SHAPES, ConstraintEntry, File, Grid
from handrail.rulebook.source import KeyPath, Source, Spot

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


def read_table(source: Source, path: KeyPath, text: str, observations: Sequence[str]) -> Table:
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
    return Table(columns, rows, has_requirements)


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


def _refuse_repeated_rows(rows: Sequence[Row]) -> None:
    seen: dict[tuple[object, ...], Spot] = {}
    for row in rows:
        first = seen.setdefault((row.values, row.require), row.spot)
        if first is not row.spot:
            raise row.spot.error(f"this row repeats line {first.line}. List each state once.")


MAX_STATES = 1_000_000


# Of all coordinates of a constraint's states together: 160 MB.
_MAX_NUMBERS = 20_000_000


Values = float | list[float] | Grid


Block = Mapping[str, Values]


@final
@dataclass(frozen=True)
class StatesEntry:
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
    path: KeyPath,
    where: Block | Sequence[Block] | None,
    table: Table,
    observations: tuple[str, ...],
) -> StatesEntry:
    """The place of the constraint at this path of the file."""
    place = (*path, "table" if where is None else "where")
    if isinstance(where, Mapping) or where is None:
        blocks: dict[KeyPath, Block] = {place: where or {}}
    else:
        blocks = {(*place, index): block for index, block in enumerate(where)}
    for block_path, block in blocks.items():
        _check_coverage(source, block_path, block, table, observations)
    spot = source.spot(place)
    _refuse_too_many(spot, blocks.values(), max(len(table.rows), 1), len(observations))
    return StatesEntry(spot, observations, tuple(blocks.values()), table)


def _check_coverage(
    source: Source, path: KeyPath, block: Block, table: Table, observations: Sequence[str]
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


@final
@dataclass(frozen=True)
class Built:
    """A constraint, the requirement it was made from and where that is, and both in words."""

    constraint: PlacedConstraint
    requirement: Requirement
    spot: Spot
    words: str


@final
@dataclass(frozen=True)
class _Group:
    """A requirement and the rows of the table that it holds at."""

    spot: Spot
    requirement: Requirement
    rows: list[Row]


def build_constraints(source: Source, file: File) -> list[Built]:
    """The constraints of the file; one per entry and requirement."""
    _refuse_repeated_names(source, "observations", file.observations)
    if isinstance(file.actions, list):  # YAML itself refuses repeated keys
        _refuse_repeated_names(source, "actions", file.actions)
    _refuse_repeated_names(source, "constraints", [entry.name for entry in file.constraints])
    _refuse_reserved_names(source, file)
    entries = enumerate(file.constraints)
    nested = gather(partial(_build, source, file, index, entry) for index, entry in entries)
    built = [one for several in nested for one in several]
    _refuse_repetition(built)
    return built


def _build(source: Source, file: File, index: int, entry: ConstraintEntry) -> list[Built]:
    path: KeyPath = ("constraints", index)
    observations = tuple(file.observations)
    table = Table()
    if entry.table is not None:
        table = read_table(source, (*path, "table"), entry.table, observations)
    locate = _locator(source, path, entry, table, observations)
    built = []
    groups = _groups(source, path, entry, table, Actions.of(file.actions))
    for group in groups:
        where, words = locate(group.rows)
        requirement = group.requirement
        name = entry.name if len(groups) == 1 else f"{entry.name}: {requirement.text}"
        constraint = _constrain(group, where, name, entry.priority)
        sentence = f"{entry.name}: {requirement.text} {words}"
        built.append(Built(constraint, requirement, group.spot, sentence))
    return built


def _locator(
    source: Source,
    path: KeyPath,
    entry: ConstraintEntry,
    table: Table,
    observations: tuple[str, ...],
) -> Callable[[Sequence[Row]], tuple[Place, str]]:
    """From rows of the table to where a requirement holds, also in words."""
    if entry.region is not None:
        region = read_region(source, (*path, "region"), entry.region, observations)
        return lambda _: (region, region_in_words(region, observations))
    place = read_place(source, path, entry.where, table, observations)

    def locate(rows: Sequence[Row]) -> tuple[Place, str]:
        points = place.points(rows)
        n_states = f"{len(points)} {'state' if len(points) == 1 else 'states'}"
        return points, f"at {n_states} ({in_words(points.states, observations)})"

    return locate


def _constrain(group: _Group, where: Place, name: str, priority: float) -> PlacedConstraint:
    try:
        return constrain(group.requirement, where, name, priority)
    except InvalidConstraint as error:  # an equality on a region
        raise group.spot.error(in_file_words(str(error))) from None


def _groups(
    source: Source, path: KeyPath, entry: ConstraintEntry, table: Table, actions: Actions
) -> list[_Group]:
    if entry.require is not None and table.has_requirements:
        raise source.spot((*path, "require")).error(
            "the table has a column 'require' already. Remove the key or the column."
        )
    if entry.require is None and not table.has_requirements:
        column = ", or a last column 'require' to the table" if entry.region is None else ""
        raise source.spot(path).error(
            f"nothing is required. Add a key such as require: right >= 0.95{column}."
        )
    if table.has_requirements:
        return _groups_of_rows(table, actions)
    return _groups_of_key(source, (*path, "require"), entry.require, table, actions)


def _groups_of_rows(table: Table, actions: Actions) -> list[_Group]:
    """Rows with the same requirement make one constraint."""
    groups: dict[tuple[object, ...], _Group] = {}
    parsed: dict[str, Requirement] = {}  # long tables repeat a few requirements
    for row in table.rows:
        if row.require not in parsed:
            parsed[row.require] = _parse(row.spot, row.require, actions)
        requirement = parsed[row.require]
        group = groups.setdefault(requirement.key, _Group(row.spot, requirement, []))
        group.rows.append(row)
    return list(groups.values())


def _groups_of_key(
    source: Source,
    path: KeyPath,
    require: str | list[str] | None,
    table: Table,
    actions: Actions,
) -> list[_Group]:
    """Every requirement of the key holds at all states."""
    groups: dict[tuple[object, ...], _Group] = {}
    texts = enumerate(require) if isinstance(require, list) else [(None, str(require))]
    for index, text in texts:
        spot = source.spot(path if index is None else (*path, index))
        requirement = _parse(spot, text, actions)
        if requirement.key in groups:
            raise spot.error(f"{requirement.text!r} is required twice. Remove one of them.")
        groups[requirement.key] = _Group(spot, requirement, list(table.rows))
    return list(groups.values())


def _parse(spot: Spot, text: str, actions: Actions) -> Requirement:
    try:
        return parse_requirement(text, actions)
    except InvalidConstraint as error:
        message = str(error)
        named = spot.without_key() if message.startswith("unknown action") else spot
        raise named.error(message) from None


def _refuse_repeated_names(source: Source, key: str, names: Sequence[str]) -> None:
    for index, name in enumerate(names):
        if name in names[:index]:
            first = source.spot((key, names.index(name))).line
            raise source.spot((key, index)).error(
                f"the name {name!r} is already used on line {first}. Give each a name of its own."
            )


def _refuse_reserved_names(source: Source, file: File) -> None:
    """In a region, the key of a shape cannot be an observation."""
    if all(entry.region is None for entry in file.constraints):
        return
    for index, name in enumerate(file.observations):
        if name in SHAPES:
            raise source.spot(("observations", index)).error(
                f"{name!r} is the key of a shape in a region, so no observation of a file with "
                "regions can be called so. Rename it."
            )


def _refuse_repetition(built: Sequence[Built]) -> None:
    """Two constraints that say the same at the same place, or share a name that was composed."""
    seen: dict[tuple[object, ...], list[Built]] = {}
    names: dict[str, Built] = {}
    for new in built:
        name = new.constraint.name
        if names.setdefault(name, new) is not new:
            raise new.spot.error(
                f"a constraint called {name!r} exists already. Rename one of them."
            )
        for old in seen.setdefault(new.requirement.key, []):
            shared = _shared(old.constraint, new.constraint)
            if shared:
                raise new.spot.error(
                    f"{name!r} says what {old.constraint.name!r} on line {old.spot.line} says "
                    f"already, {shared}"
                )
        seen[new.requirement.key].append(new)


def _shared(old: PlacedConstraint, new: PlacedConstraint) -> str:
    """What two constraints have in common and what to do about it, or nothing."""
    if old.region is not None and new.region is not None:
        same = old.region.describe() == new.region.describe()
        return "in the same region. Remove one of them." if same else ""
    if old.region is not None or new.region is not None:
        return ""
    states = np.concatenate([old.states, new.states])
    if len(np.unique(states, axis=0)) == len(states):
        return ""
    return "at one state at least. Leave that state out of one of them."
