"""From the entries of `constraints` to constraints: one for each entry and requirement.

An entry says where (`where` and `table`, or `region`) and what (`require`, or a column of the
table). Rows of a table with the same requirement make one constraint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar, final

from handrail.constraints import PlacedConstraint
from handrail.errors import InvalidConstraint, InvalidRulebook
from handrail.formulas import UnknownName
from handrail.regions import Place, Points
from handrail.rulebook.declared_observations import DeclaredObservations
from handrail.rulebook.environment import ObservedRanges
from handrail.rulebook.findings import file_words, gather, unknown
from handrail.rulebook.region_entry import in_words, read_region, region_in_words
from handrail.rulebook.region_schema import OTHERS, SHAPES
from handrail.rulebook.requirement import (
    Alternatives,
    DeclaredActions,
    LikelyRequirement,
    Preference,
    Required,
    Requirement,
    barrier_requirement,
    is_about_draws,
    parse_likely,
    parse_preference,
    parse_requirement,
)
from handrail.rulebook.schema import (
    MAX_CONSTRAINTS,
    BarrierEntry,
    ConstraintEntry,
    File,
    PreferredEntry,
    SymmetryEntry,
)
from handrail.rulebook.slope_requirement import (
    SlopeRequirement,
    parse_lipschitz,
    parse_monotone,
)
from handrail.rulebook.source import KeyPath, Source, Spot
from handrail.rulebook.states_entry import (
    Room,
    StatesEntry,
    StatesTable,
    TableRow,
    read_place,
    read_table,
)
from handrail.rulebook.states_file import ArrayFiles
from handrail.rulebook.symmetry import Symmetry, read_symmetry


@final
@dataclass(frozen=True)
class Built:
    """A constraint, the requirement it was made from and where that is, and both in words."""

    constraint: PlacedConstraint
    requirement: Required
    spot: Spot
    words: str


@final
@dataclass(frozen=True)
class _Group:
    """A requirement and the rows of the table that it holds at."""

    spot: Spot
    requirement: Required
    rows: list[TableRow]


def build_constraints(
    source: Source, file: File, observed: ObservedRanges, arrays: ArrayFiles
) -> list[Built]:
    """The constraints of the file; one per entry and requirement.

    `any` is what is `observed`, and states that the file refers to are in `arrays`.
    """
    _refuse_repeated_names(source, ("observations",), file.names)
    if isinstance(file.actions, list):  # YAML itself refuses repeated keys
        _refuse_repeated_names(source, ("actions",), file.actions)
    for branch, names in DeclaredActions.of(file.actions).by_branch.items():
        _refuse_repeated_names(source, ("actions", branch), names)
    _refuse_repeated_names(source, ("constraints",), [entry.name for entry in file.constraints])
    _refuse_reserved_names(source, file)
    room = Room.of(DeclaredObservations.of(file.observations))
    entries = enumerate(file.constraints)
    nested = gather(
        partial(_build, source, file, index, entry, room, observed, arrays)
        for index, entry in entries
    )
    built = [one for several in nested for one in several]
    if len(built) > MAX_CONSTRAINTS:
        raise _too_many(built[MAX_CONSTRAINTS].spot)
    _refuse_repetition(built)
    return built


def _build(
    source: Source,
    file: File,
    index: int,
    entry: ConstraintEntry,
    room: Room,
    observed: ObservedRanges,
    arrays: ArrayFiles,
) -> list[Built]:
    path: KeyPath = ("constraints", index)
    observations = DeclaredObservations.of(file.observations)
    _refuse_unnamed(source, path, entry, observations)
    table = StatesTable()
    if entry.table is not None:
        table = read_table(source, (*path, "table"), entry.table, observations.names)
    locate = _locator(source, path, entry, table, observations, room, observed, arrays)
    built = []
    actions = DeclaredActions.of(file.actions)
    groups = _groups(source, path, entry, table, file)
    for group in groups:
        where, words = locate(group.rows)
        requirement = group.requirement
        name = entry.name if len(groups) == 1 else f"{entry.name}: {requirement.text}"
        constraint = _constrain(group, where, name, entry.priority, actions)
        sentence = f"{entry.name}: {requirement.text} {words}"
        built.append(Built(constraint, requirement, group.spot, sentence))
    return built


def _locator(
    source: Source,
    path: KeyPath,
    entry: ConstraintEntry,
    table: StatesTable,
    observations: DeclaredObservations,
    room: Room,
    observed: ObservedRanges,
    arrays: ArrayFiles,
) -> Callable[[Sequence[TableRow]], tuple[Place, str]]:
    """From rows of the table to where a requirement holds, also in words."""
    if entry.region is not None:
        names = observations.names
        region = read_region(source, (*path, "region"), entry.region, names, observed)
        return lambda _: (region, region_in_words(region, names))
    place = read_place(source, path, entry.where, table, observations, arrays)
    room.take(place, len(entry.require) if isinstance(entry.require, list) else 1)

    def locate(rows: Sequence[TableRow]) -> tuple[Place, str]:
        points = _points(place, rows)
        return points, f"at {_points_in_words(points, place)}"

    return locate


def _points_in_words(points: Points, place: StatesEntry) -> str:
    """'12 states of frames.npy', '9 states (x from -2 to 2, phi 0.25)'."""
    n_states = f"{len(points)} {'state' if len(points) == 1 else 'states'}"
    files = f" of {', '.join(place.references)}" if place.references else ""
    names = place.observations.names
    return f"{n_states}{files}{f' ({in_words(points.states, names)})' if names else ''}"


def _refuse_unnamed(
    source: Source, path: KeyPath, entry: ConstraintEntry, observations: DeclaredObservations
) -> None:
    """What is written with names of observations, where these have none."""
    for key in ("region", "table"):
        if observations.parts and getattr(entry, key) is not None:
            raise source.spot((*path, key)).error(
                f"the numbers of {observations} have no names to write a {key} with. Give the "
                "states in an array file: where: {states: frames.npy}."
            )


def _points(place: StatesEntry, rows: Sequence[TableRow]) -> Points:
    try:
        return Points(place.states(rows))
    except InvalidConstraint as error:
        raise place.spot.error(error.told(file_words())) from None


def _constrain(
    group: _Group, where: Place, name: str, priority: float, actions: DeclaredActions
) -> PlacedConstraint:
    try:
        constraint = group.requirement.at(where, name, priority)
        if actions.range is not None and not isinstance(group.requirement, Symmetry):
            actions.range.refuse_one_beyond(constraint, group.requirement.text)
        return constraint
    except InvalidConstraint as error:  # such as an equality on a region
        raise group.spot.error(error.told(file_words())) from None


def _groups(
    source: Source,
    path: KeyPath,
    entry: ConstraintEntry,
    table: StatesTable,
    file: File,
) -> list[_Group]:
    if entry.require is not None and table.has_requirements:
        raise source.spot((*path, "require")).error(
            "the table has a column 'require' already. Remove the key or the column."
        )
    if entry.barrier is not None:
        return [_barrier(source, path, entry, entry.barrier, table, file)]
    if entry.symmetric is not None:
        return [_symmetry(source, path, entry, entry.symmetric, table, file)]
    if entry.any_of is not None:
        return [_any_of(source, path, entry, entry.any_of, table, file)]
    for key, check in _OTHER_KEYS.items():
        texts = getattr(entry, key)
        if texts is not None:
            check(source.spot((*path, key)), entry, table)
            return _groups_of_key(source, (*path, key), texts, table, file)
    if entry.require is None and not table.has_requirements:
        column = ", or a last column 'require' to the table" if entry.region is None else ""
        raise source.spot(path).error(
            f"nothing is required. Add a key such as require: right >= 0.95{column}."
        )
    if table.has_requirements:
        return _groups_of_rows(table, file)
    return _groups_of_key(source, (*path, "require"), entry.require, table, file)


def _check_preference(spot: Spot, entry: ConstraintEntry, table: StatesTable) -> None:
    """Alone in an entry."""
    if entry.require is not None or table.has_requirements:
        raise spot.error(
            "a constraint requires something, or prefers an action. Write two constraints."
        )


def _check_slopes(spot: Spot, entry: ConstraintEntry, table: StatesTable) -> None:
    """Alone in an entry, and on a region."""
    asked = (entry.require, entry.monotone, entry.lipschitz)
    if sum(one is not None for one in asked) > 1 or table.has_requirements:
        raise spot.error(
            "a constraint has one of `require`, `monotone` and `lipschitz`. Write two constraints."
        )
    if entry.region is None:
        raise spot.error(
            "this is about how an action changes from one state to the next, and between single "
            "states there is none. Give a `region`."
        )


def _barrier(
    source: Source,
    path: KeyPath,
    entry: ConstraintEntry,
    barrier: BarrierEntry,
    table: StatesTable,
    file: File,
) -> _Group:
    spot = source.spot((*path, "barrier"))
    if entry.require is not None or table.has_requirements:
        raise spot.error("a constraint requires something, or is a barrier. Write two constraints.")
    try:
        requirement = barrier_requirement(barrier, DeclaredActions.of(file.actions), file.names)
    except InvalidConstraint as error:
        raise spot.error(str(error).removeprefix("barrier: ")) from None
    return _Group(spot, requirement, list(table.rows))


def _symmetry(
    source: Source,
    path: KeyPath,
    entry: ConstraintEntry,
    symmetric: SymmetryEntry,
    table: StatesTable,
    file: File,
) -> _Group:
    spot = source.spot((*path, "symmetric"))
    if entry.require is not None or table.has_requirements:
        raise spot.error("a constraint requires something, or is symmetric. Write two constraints.")
    if entry.region is not None and not symmetric.within:
        raise spot.error(
            "a network cannot be exactly symmetric on all the states of a region. Allow a "
            "difference, such as within: 0.02."
        )
    try:
        symmetry = read_symmetry(symmetric, DeclaredActions.of(file.actions), file.names)
    except InvalidConstraint as error:
        raise spot.error(str(error)) from None
    return _Group(spot, symmetry, list(table.rows))


def _any_of(
    source: Source,
    path: KeyPath,
    entry: ConstraintEntry,
    alternatives: Sequence[str | PreferredEntry],
    table: StatesTable,
    file: File,
) -> _Group:
    spot = source.spot((*path, "any of"))
    if entry.require is not None or entry.prefer is not None or table.has_requirements:
        raise spot.error(
            "a constraint requires something, or leaves a choice. Write two constraints."
        )
    parts = dict[tuple[object, ...], Requirement | Preference]()
    for index, one in enumerate(alternatives):
        own = source.spot((*path, "any of", index))
        part = (
            _parse(own, one, file)
            if isinstance(one, str)
            else _parse_preference(own, one.prefer, file)
        )
        if isinstance(part, LikelyRequirement):
            raise own.error(
                f"{part.text!r} is about drawn actions, and cannot be one of several alternatives. "
                "Require it, or choose between bounds on means."
            )
        if parts.setdefault(part.key, part) is not part:
            raise own.error(f"{part.text!r} is among the alternatives already. Remove it.")
    return _Group(spot, Alternatives(tuple(parts.values())), list(table.rows))


def _groups_of_rows(table: StatesTable, file: File) -> list[_Group]:
    """Rows with the same requirement make one constraint."""
    groups: dict[tuple[object, ...], _Group] = {}
    parsed: dict[str, Requirement | LikelyRequirement] = {}  # long tables repeat a few requirements
    for row in table.rows:
        if row.require not in parsed:
            if len(parsed) >= MAX_CONSTRAINTS:
                raise _too_many(row.spot)
            parsed[row.require] = _parse(row.spot, row.require, file)
        requirement = parsed[row.require]
        group = groups.setdefault(requirement.key, _Group(row.spot, requirement, []))
        group.rows.append(row)
    return list(groups.values())


def _groups_of_key(
    source: Source,
    path: KeyPath,
    require: str | list[str] | None,
    table: StatesTable,
    file: File,
) -> list[_Group]:
    """Every requirement of the key holds at all states."""
    parse = _PARSERS[str(path[-1])]
    groups = dict[tuple[object, ...], _Group]()
    texts = enumerate(require) if isinstance(require, list) else [(None, str(require))]
    for index, text in texts:
        spot = source.spot(path if index is None else (*path, index))
        requirement = parse(spot, text, file)
        if requirement.key in groups:
            raise spot.error(f"{requirement.text!r} is required twice. Remove one of them.")
        groups[requirement.key] = _Group(spot, requirement, list(table.rows))
    return list(groups.values())


def _too_many(spot: Spot) -> InvalidRulebook:
    return spot.error(
        f"from here on the file has more than {MAX_CONSTRAINTS:,} constraints, one for each entry "
        "and requirement. Join those that require the same."
    )


def _parse(spot: Spot, text: str, file: File) -> Requirement | LikelyRequirement:
    actions = DeclaredActions.of(file.actions)
    try:
        if is_about_draws(text):
            return parse_likely(text, actions)
        return parse_requirement(text, actions, file.names)
    except UnknownName as error:
        names = [*actions.names, *file.names]
        message = unknown("action or observation", error.name, names)
        raise spot.without_key().error(message) from None
    except InvalidConstraint as error:
        raise spot.error(str(error)) from None


_Parsed = TypeVar("_Parsed", Preference, SlopeRequirement)


def _parser(
    parse: Callable[[str, DeclaredActions, Sequence[str]], _Parsed],
) -> Callable[[Spot, str, File], _Parsed]:
    """The same with the place in the file for errors."""

    def parsed(spot: Spot, text: str, file: File) -> _Parsed:
        try:
            return parse(text, DeclaredActions.of(file.actions), file.names)
        except InvalidConstraint as error:
            raise spot.error(str(error)) from None

    return parsed


_parse_preference = _parser(parse_preference)

# Instead of `require`: what must not stand beside each.
_OTHER_KEYS: dict[str, Callable[[Spot, ConstraintEntry, StatesTable], None]] = {
    "prefer": _check_preference,
    "monotone": _check_slopes,
    "lipschitz": _check_slopes,
}

# How a text under each key is read.
_PARSERS: dict[str, Callable[[Spot, str, File], Required]] = {
    "require": _parse,
    "prefer": _parse_preference,
    "monotone": _parser(parse_monotone),
    "lipschitz": _parser(parse_lipschitz),
}


def _refuse_repeated_names(source: Source, path: KeyPath, names: Sequence[str]) -> None:
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        known = first.setdefault(name, index)
        if known != index:
            line = source.spot((*path, known)).line
            raise source.spot((*path, index)).error(
                f"the name {name!r} is already used on line {line}. Give each a name of its own."
            )


def _refuse_reserved_names(source: Source, file: File) -> None:
    """What is a key of a place already; those of shapes in a file with regions only."""
    if OTHERS in file.names:
        raise source.spot(("observations", file.names.index(OTHERS))).error(
            f"{OTHERS!r} stands for all observations that a place does not name, so none can be "
            "called so. Rename it."
        )
    if all(entry.region is None for entry in file.constraints):
        return
    for index, name in enumerate(file.names):
        if name in SHAPES:
            raise source.spot(("observations", index)).error(
                f"{name!r} is the key of a shape in a region, so no observation of a file with "
                "regions can be called so. Rename it."
            )


def _refuse_repetition(built: Sequence[Built]) -> None:
    """Two constraints that say the same at the same place, or share a name that was composed."""
    said: dict[tuple[object, ...], Built] = {}
    names: dict[str, Built] = {}
    for new in built:
        name = new.constraint.name
        if names.setdefault(name, new) is not new:
            raise new.spot.error(
                f"a constraint called {name!r} exists already. Rename one of them."
            )
        places, remedy = _places(new.constraint)
        for place in places:
            old = said.setdefault((place, *new.requirement.key), new)
            if old is not new:
                raise new.spot.error(
                    f"{name!r} says what {old.constraint.name!r} on line {old.spot.line} says "
                    f"already, {remedy}"
                )


def _places(constraint: PlacedConstraint) -> tuple[list[object], str]:
    """What no other constraint that says the same may have, and what to do if one has."""
    if constraint.region is not None:
        return [repr(constraint.region.describe())], "in the same region. Remove one of them."
    # Adding zero makes 0.0 of -0.0.
    states = [state.tobytes() for state in constraint.states + 0.0]
    return list(states), "at one state at least. Leave that state out of one of them."
