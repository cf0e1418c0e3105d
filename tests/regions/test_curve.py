"""Curves: sampled in t, enclosed piece by piece, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from handrail.errors import InvalidConstraint
from handrail.regions.curve import Curve, CurveCover
from tests.support.regions import (
    EXAMPLES,
    spiral,
)


def test_a_curve_is_sampled_uniformly_in_t() -> None:
    parabola = EXAMPLES["parabola"].region
    t = parabola.sample(4_000, np.random.default_rng(0))[:, 0]
    counts = np.histogram(t, bins=10, range=(-1.0, 2.0))[0]
    assert np.abs(counts - 400).max() < 80


@pytest.mark.parametrize("name", ["circle", "parabola", "spiral", "dwelling"])
def test_boxes_enclose_the_pieces_of_a_curve(name: str) -> None:
    cover = EXAMPLES[name].region.covers()[0]
    assert isinstance(cover, CurveCover)
    assert len(cover) == 16
    widths = []
    for _ in range(7):
        for share in np.linspace(0.0, 1.0, 21):
            t = np.clip(
                cover.t_low + share * (cover.t_high - cover.t_low), cover.t_low, cover.t_high
            )
            states = cover.path.states(t)
            assert ((states >= cover.cells.low) & (states <= cover.cells.high)).all()
        widths.append((cover.cells.high - cover.cells.low).max())
        cover = cover.halves(np.ones(2))
    assert widths[-1] < 0.05 * widths[0]


def test_a_curve_that_can_only_be_bounded_in_small_pieces() -> None:
    curve = Curve(["1/(0.01 + t*t - t + 0.25)", "t"], 0.0, 1.0)
    cover = curve.covers()[0]
    assert len(cover) > 16
    assert np.isfinite(cover.cells.high).all()
    assert np.isfinite(curve.bounds).all()


def test_sections_of_curves_lie_in_the_plane_or_are_nothing() -> None:
    circle = EXAMPLES["circle"].region
    (outline,) = circle.section(0, 2, np.array([9.0, 1.0, 9.0]))
    assert outline.shape == (257, 2)
    np.testing.assert_allclose(np.hypot((outline[:, 0] + 0.2) / 0.05, outline[:, 1] / 0.5), 1.0)
    assert circle.section(0, 2, np.array([9.0, 1.1, 9.0])) == []
    assert circle.section(0, 1, np.zeros(3)) == []


def test_curves_that_cross_themselves_contain_all_of_it() -> None:
    eight = Curve(["sin(7*t)", "cos(5*t)"], 0.0, 2 * math.pi)
    assert eight.contains(eight.sample(3_000, np.random.default_rng(0))).all()
    assert not eight.contains(np.array([[2.0, 0.0], [0.0, 0.05]])).any()


def _only_numbers(t: float) -> list[float]:
    return [math.cos(t), math.sin(t)]


REFUSALS: list[tuple[Callable[[], object], str]] = [
    (lambda: Curve(["t"], 1, 1), "t_min must be below t_max, but they are 1 and 1"),
    (lambda: Curve(["t"], 0, math.inf), "t_max must be a finite number"),
    (lambda: Curve("t", 0, 1), "f must be a list with an expression per coordinate"),
    (lambda: Curve([], 0, 1), "one expression per coordinate, not none"),
    (lambda: Curve(["t", "t^2"], 0, 1), r"Curve: coordinate 1: cannot read '\^' at column 2"),
    (lambda: Curve(["t", None], 0, 1), "must be an expression .* or a number, but is None"),  # type: ignore[list-item]
    (lambda: Curve(["1", 2], 0, 1), "Curve does not move"),
    (lambda: Curve(["1/t"], -1, 1), "coordinate 0, 1/t, is not finite at t = 0"),
    (lambda: Curve(["sqrt(t)"], -1, 1), r"coordinate 0, sqrt\(t\), is not finite at t = -1"),
    (lambda: Curve(["1/(t - 0.333)"], 0, 1), "coordinate 0 cannot be bounded for t between 0.33"),
    (lambda: Curve(["t"], 0, 1, speed=1), "speed is for a curve given as a Python function"),
    (lambda: Curve(_only_numbers, 0, 1), "f works only on single numbers"),  # type: ignore[arg-type]
    (lambda: Curve(np.cos, 0, 1), r"f returned the shape \(3,\) for 3 values of t"),
    (lambda: Curve(lambda t: np.stack([t, t, t]), 0, 1), r"and \(3, 1\) for one"),
    (lambda: Curve(lambda t: 1 // 0, 0, 1), "f failed at t = .*ZeroDivisionError"),
    (lambda: Curve(lambda t: t[:, None] * np.inf, 1, 2), "is not finite"),
    (lambda: Curve(spiral, 0, 1, speed=-1), "finite and not negative, but is -1"),
    (lambda: Curve(spiral, 0, 1, speed=[1, 2]), "one for each of the 3 coordinates"),
    (lambda: Curve(spiral, 0, 1, speed=2.0), "coordinate . moves faster than its speed of 2"),
    (
        lambda: Curve(spiral, 0, 1).covers(),
        "A curve given as a Python function can be proven only with a bound on its speed",
    ),
]


@pytest.mark.parametrize(("make", "message"), REFUSALS, ids=[text for _, text in REFUSALS])
def test_refusals(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidConstraint, match=message):
        make()
