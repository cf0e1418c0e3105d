"""Checks shared by the shapes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from handrail._types import Array, Indices
from handrail.errors import InvalidConstraint

_MAX_GRID = 10_000_000


def as_vector(values: ArrayLike, what: str) -> Array:
    """Finite numbers (n,), or a refusal that says what they were meant to be."""
    try:
        vector = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidConstraint(f"{what} must be a list of numbers: {error}") from error
    if vector.ndim != 1 or not len(vector):
        raise InvalidConstraint(
            f"{what} must be a list of numbers, one per coordinate, but has shape {vector.shape}."
        )
    if not np.isfinite(vector).all():
        raise InvalidConstraint(
            f"{what} is unbounded or not a number: {vector.tolist()}. Give every coordinate a "
            "finite value."
        )
    vector.setflags(write=False)
    return vector


def check_grid(count: int, n_varying: int) -> None:
    """At least the two ends of every axis, and not more states than fit in memory."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 2:
        raise InvalidConstraint(
            f"A grid has at least 2 values along each coordinate, but got {count!r}."
        )
    if count**n_varying > _MAX_GRID:
        raise InvalidConstraint(
            f"A grid of {count} values along {n_varying} coordinates has {count**n_varying:,} "
            f"states; at most {_MAX_GRID:,}. Use a coarser one, or spread()."
        )


def as_number(value: object, what: str) -> float:
    """A finite number, or a refusal."""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise InvalidConstraint(f"{what} must be a finite number, but is {value!r}.")
    return float(value)


def as_range(value: object, what: str) -> tuple[float, float]:
    """(low, high) with low < high."""
    if not isinstance(value, Sequence | np.ndarray) or isinstance(value, str) or len(value) != 2:
        raise InvalidConstraint(f"{what} must be a range (low, high), but is {value!r}.")
    low, high = (as_number(end, f"{what}: an end of the range") for end in value)
    if low >= high:
        raise InvalidConstraint(
            f"{what} is empty: it runs from {low:g} to {high:g}. The first must be the lower."
        )
    return low, high


def as_index(value: object, n_coordinates: int, what: str) -> int:
    """One of the coordinates 0 … n_coordinates - 1."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidConstraint(f"{what} must be the index of a coordinate, but is {value!r}.")
    index = int(value)
    if not 0 <= index < n_coordinates:
        raise InvalidConstraint(
            f"{what} {index} does not exist: the coordinates are 0 to {n_coordinates - 1}."
        )
    return index


def as_coordinates(values: Sequence[int], n_coordinates: int, what: str) -> Indices:
    """Distinct indices of coordinates, at least one."""
    indices = [as_index(value, n_coordinates, f"{what}: coordinate") for value in values]
    if not indices:
        raise InvalidConstraint(f"{what}: coordinates is empty. Name at least one.")
    for position, index in enumerate(indices):
        if index in indices[:position]:
            raise InvalidConstraint(f"{what}: coordinate {index} is named twice.")
    return np.array(indices, dtype=np.intp)


def as_mapping(values: object, what: str) -> Mapping[object, object]:
    """A mapping from indices of coordinates; None is an empty one."""
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise InvalidConstraint(
            f"{what} must map coordinates to values, such as {{0: (-1, 1)}}, but is {values!r}."
        )
    return values


def as_triples(values: object) -> list[tuple[int, Any, Any]]:
    """(index, low, high) of ranges, as descriptions write them."""
    if not isinstance(values, list) or not all(
        isinstance(value, list) and len(value) == 3 and isinstance(value[0], int)
        for value in values
    ):
        raise InvalidConstraint(
            f"Ranges are described by a list of [index, low, high], but got {values!r}."
        )
    return [tuple(value) for value in values]
