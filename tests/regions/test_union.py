"""Unions: their parts and shares, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from handrail.errors import InvalidConstraint
from handrail.regions.ball import Ball
from handrail.regions.box import Box
from handrail.regions.curve import Curve
from handrail.regions.points import Points
from handrail.regions.union import Union


def test_parts_of_a_union() -> None:
    box, disk, line = Box([0, 0], [1, 1]), Ball([0, 0], 1), Curve(["t", 0.0], 0, 1)
    union = Union([Union([box, disk]), line])
    assert union.parts == [box, disk, line]
    assert box.parts == [box]
    assert len(union.covers()) == 3
    assert len(union.section(0, 1, np.zeros(2))) == 3


def test_a_union_without_overlap_is_uniform_by_volume() -> None:
    union = Union([Box([0, 0], [1, 1]), Box([5, 5], [8, 6])])
    states = union.spread(4096)
    assert (states[:, 0] > 4).mean() == pytest.approx(0.75, abs=1e-3)
    different = Union([Box([0, 0], [1, 0]), Box([5, 5], [8, 6])])
    assert (different.spread(4096)[:, 0] > 4).mean() == pytest.approx(0.5, abs=1e-3)


REFUSALS: list[tuple[Callable[[], object], str]] = [
    (lambda: Union([Box([0], [1])]), "Union needs at least 2 regions, but got 1"),
    (lambda: Union(Box([0], [1])), "Union needs a list of regions"),  # type: ignore[arg-type]
    (lambda: Union([Box([0], [1]), Points([0.0])]), "part 1 is Points, but a union is of"),  # type: ignore[list-item]
    (lambda: Union([Box([0], [1]), 3]), "part 1 is no region: 3"),  # type: ignore[list-item]
    (lambda: Union([Box([0], [1]), Ball([0, 0], 1)]), "its parts have 1, 2 coordinates"),
]


@pytest.mark.parametrize(("make", "message"), REFUSALS, ids=[text for _, text in REFUSALS])
def test_refusals(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidConstraint, match=message):
        make()
