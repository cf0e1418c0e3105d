"""Regions from plain values, the inverse of `describe`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from handrail.errors import InvalidConstraint
from handrail.regions.ball import Ball
from handrail.regions.box import Box
from handrail.regions.curve import Curve
from handrail.regions.polytope import Polytope
from handrail.regions.region import Region
from handrail.regions.union import Union


def region_from(described: Mapping[str, Any]) -> Region:
    """The region that `describe` gave these values for, to the last bit.

    Raises:
        InvalidConstraint: if it is no such description.
    """
    if not isinstance(described, Mapping):
        raise InvalidConstraint(f"A region is described by a mapping, but got {described!r}.")
    shape = described.get("shape")
    make = _SHAPES.get(shape) if isinstance(shape, str) else None
    if make is None:
        raise InvalidConstraint(f"Unknown shape {shape!r}: the shapes are {', '.join(_SHAPES)}.")
    try:
        return make(described)
    except KeyError as error:
        raise InvalidConstraint(
            f"The description of a {shape} lacks {error}. It has {', '.join(described)}."
        ) from error


def _box(described: Mapping[str, Any]) -> Box:
    return Box(described["low"], described["high"])


def _ball(described: Mapping[str, Any]) -> Ball:
    ranges = {index: (low, high) for index, low, high in _triples(described["ranges"])}
    return Ball(described["centre"], described["radius"], described["coordinates"], ranges)


def _polytope(described: Mapping[str, Any]) -> Polytope:
    others = {
        index: low if low == high else (low, high)
        for index, low, high in _triples(described["others"])
    }
    return Polytope(described["vertices"], described["coordinates"], others)


def _curve(described: Mapping[str, Any]) -> Curve:
    return Curve(described["expressions"], described["t_min"], described["t_max"])


def _union(described: Mapping[str, Any]) -> Union:
    return Union([region_from(part) for part in described["parts"]])


def _triples(values: object) -> list[tuple[int, Any, Any]]:
    if not isinstance(values, list) or not all(
        isinstance(value, list) and len(value) == 3 and isinstance(value[0], int)
        for value in values
    ):
        raise InvalidConstraint(
            f"Ranges are described by a list of [index, low, high], but got {values!r}."
        )
    return [tuple(value) for value in values]


_SHAPES: Mapping[str, Callable[[Mapping[str, Any]], Region]] = {
    "box": _box,
    "ball": _ball,
    "polytope": _polytope,
    "curve": _curve,
    "union": _union,
}
