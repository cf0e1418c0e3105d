"""A ball's cover, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from handrail.errors import InvalidConstraint
from handrail.regions.ball import Ball
from tests.support.regions import (
    covered,
)


def test_a_ball_s_cover_loses_its_corners_and_nothing_else() -> None:
    ball = Ball([1.0, -2.0], 0.5)
    cover = ball.covers()[0]
    for _ in range(12):
        cover = cover.halves(np.ones(2))
    area = (cover.cells.high - cover.cells.low).prod(axis=1).sum()
    assert len(cover) < 3_500
    assert math.pi / 4 < area < 1.05 * math.pi / 4
    angles = np.linspace(0.0, 2 * math.pi, 3_000)
    sphere = ball.project(np.stack([np.cos(angles), np.sin(angles)], axis=1) * 9 + [1.0, -2.0])
    assert covered(cover.cells, sphere).all()


def test_the_first_box_is_not_smaller_than_the_ball() -> None:
    for centre, radius in ((0.1, 0.2), (1.0, 1e-16 + 1e-12), (-3.3, 0.7), (1e6, 0.1)):
        cells = Ball([centre, 0.5], radius, coordinates=[0]).covers()[0].cells
        assert Fraction(float(cells.low[0, 0])) <= Fraction(centre) - Fraction(radius)
        assert Fraction(float(cells.high[0, 0])) >= Fraction(centre) + Fraction(radius)
        assert cells.low[0, 1] == cells.high[0, 1] == 0.5


REFUSALS: list[tuple[Callable[[], object], str]] = [
    (lambda: Ball([0, 0], 0), "Ball: radius must be positive, but is 0. Use Points"),
    (lambda: Ball([0, 0], -1.0), "Ball: radius must be positive"),
    (lambda: Ball([0, 0], math.inf), "Ball: radius must be a finite number, but is inf"),
    (lambda: Ball([0, 0], "1"), "Ball: radius must be a finite number, but is '1'"),  # type: ignore[arg-type]
    (lambda: Ball([0, math.nan], 1), "Ball: centre is unbounded or not a number"),
    (lambda: Ball([1e9, 0], 1e-9), "Ball: a radius of 1e-09 vanishes beside the centre"),
    (lambda: Ball([0, 0], 1, [0, 0]), "Ball: coordinate 0 is named twice"),
    (lambda: Ball([0, 0], 1, []), "Ball: coordinates is empty"),
    (lambda: Ball([0, 0], 1, [2]), "Ball: coordinate 2 does not exist: .* are 0 to 1"),
    (lambda: Ball([0, 0], 1, [-1]), "Ball: coordinate -1 does not exist"),
    (lambda: Ball([0, 0], 1, [0.5]), "Ball: coordinate must be the index .* but is 0.5"),  # type: ignore[list-item]
    (lambda: Ball([0, 0], 1, [0], {0: (0, 1)}), "Ball: coordinate 0 is in the ball, so"),
    (lambda: Ball([0, 0], 1, [0], {2: (0, 1)}), "Ball: ranges: coordinate 2 does not exist"),
    (lambda: Ball([0, 0], 1, [0], {1: (1, 0)}), "range of coordinate 1 is empty: .* 1 to 0"),
    (lambda: Ball([0, 0], 1, [0], {1: 3}), "must be a range .low, high., but is 3"),  # type: ignore[dict-item]
    (lambda: Ball([0, 0], 1, [0], [(1, 0)]), "Ball: ranges must map coordinates"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("make", "message"), REFUSALS, ids=[text for _, text in REFUSALS])
def test_refusals(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidConstraint, match=message):
        make()
