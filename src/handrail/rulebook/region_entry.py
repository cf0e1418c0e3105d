"""`region` in a file: the region that it describes, and a region in the words of a file.

Every observation is named once, in the shape or beside it, or is one of the `others`. What the
library refuses about a shape is told with the file's names, at the key that is to blame.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeVar, final

import numpy as np

from handrail._types import Array
from handrail.errors import InvalidConstraint
from handrail.formulas import (
    InvalidFormula,
    LinearBounds,
    UnknownName,
    parse_bounds,
    parse_formula,
)
from handrail.regions import Ball, Box, Curve, Polytope, Region, Union
from handrail.rulebook.environment import ObservedRanges
from handrail.rulebook.findings import file_words, gather, unknown
from handrail.rulebook.region_schema import (
    LARGEST,
    OTHERS,
    SMALLEST,
    BallEntry,
    CurveEntry,
    PolytopeEntry,
    RegionEntry,
)
from handrail.rulebook.source import KeyPath, Source, Spot

T = TypeVar("T")
_FORM = "A half-space reads like: phi_dot <= -8*phi - 2."

# A number, or a range.
_Extent = float | tuple[float, float]


def read_region(
    source: Source,
    path: KeyPath,
    entry: RegionEntry | Sequence[RegionEntry],
    observations: tuple[str, ...],
    observed: ObservedRanges,
) -> Region:
    """The region at this path of the file; `observed` is what `any` stands for."""
    if isinstance(entry, RegionEntry):
        return _RegionReader(source, path, entry, observations, observed).region()
    readers = [
        _RegionReader(source, (*path, index), part, observations, observed)
        for index, part in enumerate(entry)
    ]
    parts = gather(reader.region for reader in readers)
    _refuse_repetition(source, path, parts)
    return Union(parts)


def _refuse_repetition(source: Source, path: KeyPath, parts: Sequence[Region]) -> None:
    described = [part.describe() for part in parts]
    for index, part in enumerate(described):
        first = described.index(part)
        if first < index:
            line = source.spot((*path, first)).line
            raise source.spot((*path, index)).error(
                f"this region repeats the one on line {line}. Remove one of them."
            )


@final
@dataclass(frozen=True)
class _RegionReader:
    """One mapping of `region`.

    Attributes:
        source: for messages.
        path: of the mapping.
        entry: the mapping.
        observations: all of the file's, in its order.
        observed: what `any` stands for.
    """

    source: Source
    path: KeyPath
    entry: RegionEntry
    observations: tuple[str, ...]
    observed: ObservedRanges

    def region(self) -> Region:
        """The shape, or a box if there is none."""
        region = self._shape()
        low, high = region.bounds
        for name, size in zip(self.observations, high - low, strict=True):
            if 0.0 < size < SMALLEST:
                raise self._spot().error(
                    f"{name} varies by {size:g} only, and at least {SMALLEST:g} is needed to "
                    "compute with. Use other units."
                )
        return region

    def _shape(self) -> Region:
        entry = self.entry
        if entry.polytope is not None:
            self._check_names("polytope", entry.polytope.of)
            return self._polytope(entry.polytope)
        if entry.ball is not None:
            self._check_names("ball", entry.ball.of)
            return self._ball(entry.ball)
        if entry.curve is not None:
            self._check_formulas(entry.curve)
            return self._curve(entry.curve)
        self._check_coverage("", ())
        return self._box()

    def _spot(self, *keys: str | int) -> Spot:
        return self.source.spot((*self.path, *keys))

    def _check_names(self, shape: str, of: Sequence[str]) -> None:
        for index, name in enumerate(of):
            spot = self._spot(shape, "of", index)
            self._check_known(spot, name)
            if name in of[:index]:
                raise spot.error(f"`of` names {name!r} twice. Remove one of them.")
        self._check_coverage(shape, of)

    def _check_formulas(self, curve: CurveEntry) -> None:
        for name in curve.formulas:
            self._check_known(self._spot("curve", name), name)
        self._check_coverage("curve", list(curve.formulas))
        for name, extent in self.entry.extents.items():
            if isinstance(extent, list | str):
                raise self._spot(name).error(
                    f"beside a curve {name!r} cannot have a range: only t runs. Give it a number "
                    "here, or an expression in the curve."
                )

    def _check_known(self, spot: Spot, name: str) -> None:
        if name not in self.observations:
            raise spot.without_key().error(unknown("observation", name, self.observations))

    def _check_coverage(self, shape: str, inside: Sequence[str]) -> None:
        """Every observation is named once, in the shape or beside it, or is one of the others."""
        for name in self.entry.extents:
            if name != OTHERS:
                self._check_known(self._spot(name), name)
            if name in inside:
                raise self._spot(name).error(
                    f"{name!r} is also in the {shape}. Remove it here or there."
                )
        given = OTHERS in self.entry.extents
        if self._unnamed and not given:
            raise self._spot().error(
                f"nothing is said about {', '.join(self._unnamed)}. Give every observation a "
                "number, a range such as [-2, 2], or a part in a shape; or all that are left the "
                f"same: {OTHERS}: 0."
            )
        if given and not self._unnamed:
            raise self._spot(OTHERS).error(
                f"every observation is named, so `{OTHERS}` stands for none. Remove it."
            )

    @cached_property
    def _unnamed(self) -> list[str]:
        named = {*self.entry.inside, *self.entry.extents}
        return [name for name in self.observations if name not in named]

    def _others(self) -> dict[int, _Extent]:
        """The observations beside the shape, by their index."""
        inside = self.entry.inside
        return {
            index: self._extent(name)
            for index, name in enumerate(self.observations)
            if name not in inside
        }

    def _extent(self, name: str) -> _Extent:
        named = name in self.entry.extents
        key, among = (name, [name]) if named else (OTHERS, self._unnamed)
        extent = self.entry.extents[key]
        if isinstance(extent, str):  # `any`
            return self.observed.of(name, among, self._spot(key))
        return _plain(extent)

    def _indices(self, names: Sequence[str]) -> list[int]:
        return [self.observations.index(name) for name in names]

    def _box(self) -> Box:
        ranges = [_ends(extent) for extent in self._others().values()]
        if all(low == high for low, high in ranges):
            raise self._spot().error(
                "every observation is a number: this is a single state, not a region. Give one of "
                "them a range such as [-2, 2], or use `where`."
            )
        return Box([low for low, _ in ranges], [high for _, high in ranges])

    def _polytope(self, entry: PolytopeEntry) -> Polytope:
        coordinates, others = self._indices(entry.of), self._others()
        if entry.vertices is not None:
            for index, vertex in enumerate(entry.vertices):
                self._check_length(("polytope", "vertices", index), vertex, entry.of)
            make = partial(Polytope, entry.vertices, coordinates, others)
            return self._made(make, ("polytope", "vertices"), entry.of)
        make = partial(Polytope.from_half_spaces, *self._half_spaces(entry), coordinates, others)
        return self._made(make, ("polytope", "half_spaces"), entry.of)

    def _half_spaces(self, entry: PolytopeEntry) -> tuple[list[list[float]], list[float]]:
        """Normals and offsets: normals @ observations <= offsets."""
        normals, offsets = [], []
        for index, text in enumerate(entry.half_spaces or ()):
            keys = "polytope", "half_spaces", index
            bounds = self._made(partial(_half_space, text, entry.of), keys, entry.of)
            sign, bound = (1.0, bounds.upper) if np.isinf(bounds.lower) else (-1.0, bounds.lower)
            self._check_sizes(keys, [*bounds.weights, bound])
            normals.append((sign * bounds.weights).tolist())
            offsets.append(sign * bound)
        return normals, offsets

    def _check_sizes(self, keys: KeyPath, numbers: Sequence[float]) -> None:
        sizes = [abs(number) for number in numbers if number != 0.0]
        if min(sizes) < SMALLEST or max(sizes) > LARGEST:
            raise self._spot(*keys).error(
                f"its numbers run from {min(sizes):g} to {max(sizes):g} in size, and those between "
                f"{SMALLEST:g} and {LARGEST:g} can be computed with. Use other units."
            )

    def _ball(self, entry: BallEntry) -> Ball:
        self._check_length(("ball", "centre"), entry.centre, entry.of)
        others = self._others()
        # The library wants a centre in every coordinate: of a range, its middle.
        middles = {index: _middle(extent) for index, extent in others.items()}
        middles |= dict(zip(self._indices(entry.of), entry.centre, strict=True))
        centre = [middles[index] for index in range(len(self.observations))]
        ranges = {index: extent for index, extent in others.items() if isinstance(extent, tuple)}
        make = partial(Ball, centre, entry.radius, self._indices(entry.of), ranges)
        return self._made(make, ("ball",), self.observations)

    def _curve(self, entry: CurveEntry) -> Curve:
        for name, formula in entry.formulas.items():
            if isinstance(formula, str):
                self._made(partial(parse_formula, formula, ["t"]), ("curve", name), ())
        fixed = {index: _middle(extent) for index, extent in self._others().items()}
        formulas = [
            entry.formulas[name] if name in entry.formulas else fixed[index]
            for index, name in enumerate(self.observations)
        ]
        make = partial(Curve, formulas, entry.from_, entry.to)
        return self._made(make, ("curve",), self.observations)

    def _check_length(self, keys: KeyPath, values: Sequence[float], of: Sequence[str]) -> None:
        if len(values) != len(of):
            raise self._spot(*keys).error(
                f"expected {len(of)} numbers, one each for {', '.join(of)}, but got {len(values)}."
            )

    def _made(self, make: Callable[[], T], keys: KeyPath, names: Sequence[str]) -> T:
        """What `make` makes; what it refuses is an error at these keys."""
        try:
            with np.errstate(all="ignore"):  # sizes that vanish are refused when all is made
                return make()
        except InvalidConstraint as error:
            raise self._spot(*keys).error(error.told(file_words(names))) from None


def _half_space(text: str, names: Sequence[str]) -> LinearBounds:
    try:
        bounds = parse_bounds(text, names, "observation")
    except UnknownName as error:
        raise InvalidConstraint(
            f"unknown observation {error.place}: `of` names {', '.join(names)}."
        ) from None
    except InvalidFormula as error:
        raise InvalidConstraint(f"{error} {_FORM}") from None
    if np.isfinite(bounds.lower) and np.isfinite(bounds.upper):
        raise InvalidConstraint(
            f"it has two bounds (== is two), but a half-space has one: write two half-spaces. "
            f"{_FORM}"
        )
    return bounds


def _plain(extent: float | Sequence[float]) -> _Extent:
    if isinstance(extent, Sequence):
        low, high = extent
        return low, high
    return extent


def _ends(extent: _Extent) -> tuple[float, float]:
    return extent if isinstance(extent, tuple) else (extent, extent)


def _middle(extent: _Extent) -> float:
    low, high = _ends(extent)
    return 0.5 * low + 0.5 * high


def in_words(states: Array, observations: Sequence[str]) -> str:
    """'x from -2 to 2, x_dot 0, phi 0.25'."""
    parts = []
    for name, column in zip(observations, states.T, strict=True):
        low, high = _tidy_ends(float(column.min()), float(column.max()))
        parts.append(f"{name} {low:g}" if low == high else f"{name} from {low:g} to {high:g}")
    return ", ".join(parts)


def _tidy_ends(low: float, high: float) -> tuple[float, float]:
    """0, not -5.4e-11: a polytope is a hair larger than its half-spaces say."""
    hair = 1e-9 * (high - low)
    return (0.0 if abs(low) < hair else low), (0.0 if abs(high) < hair else high)


def region_in_words(region: Region, observations: Sequence[str]) -> str:
    """'everywhere in a ball of phi, phi_dot (phi from 0.1 to 0.3, phi_dot 0, x 0, x_dot 0)'."""
    if isinstance(region, Union):
        parts = "; ".join(_shape_in_words(part, observations) for part in region.parts)
        return f"everywhere in {len(region.parts)} regions: {parts}"
    preposition = "on" if isinstance(region, Curve) else "in"
    return f"everywhere {preposition} {_shape_in_words(region, observations)}"


def _shape_in_words(region: Region, observations: Sequence[str]) -> str:
    """The observations of the shape first."""
    bounds = np.stack(region.bounds)
    if isinstance(region, Box):
        return f"a box ({in_words(bounds, observations)})"
    described = region.describe()
    of = described.get("coordinates") or np.flatnonzero(bounds[0] < bounds[1]).tolist()
    order = [*of, *(i for i in range(len(observations)) if i not in of)]
    names = [observations[i] for i in order]
    ranges = in_words(bounds[:, order], names)
    return f"a {described['shape']} of {', '.join(names[: len(of)])} ({ranges})"
