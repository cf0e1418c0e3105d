"""The slopes of activations on intervals: none is outside, and what is said is reached."""

from __future__ import annotations

import numpy as np
import pytest

from handrail.policies import ACTIVATIONS, IDENTITY, Activation
from handrail.proof.slope_range import slope_range
from tests.proof.test_slope_lines import WIDTHS, intervals

EVERY = [pytest.param(one, id=one.name) for one in (*ACTIVATIONS.values(), IDENTITY)]


@pytest.mark.parametrize("activation", EVERY)
@pytest.mark.parametrize("width", WIDTHS)
def test_no_slope_is_outside(activation: Activation, width: float) -> None:
    low, high, inside = intervals(np.random.default_rng(1), width)
    least, most = slope_range(activation, low, high)
    slopes = activation.slopes(inside)
    allowed = 4e-15 + activation.jump
    assert (least <= slopes + allowed).all()
    assert (slopes <= most + allowed).all()
    chords = np.diff(activation.value(inside[:, [0, -1]]), axis=1) / (high - low)
    rounding = allowed + 1e-14 / (high - low)
    assert (chords <= most + rounding).all()
    assert (chords >= least - rounding).all()


@pytest.mark.parametrize("activation", EVERY)
def test_on_a_wide_interval_all_slopes_are_met(activation: Activation) -> None:
    """From -9 to 9: 0 to 1 of ReLU, a little beyond both of GELU and SiLU."""
    least, most = slope_range(activation, np.full((1, 1), -9.0), np.full((1, 1), 9.0))
    slopes = activation.slopes(np.linspace(-9.0, 9.0, 200_001))
    assert slopes.min() == pytest.approx(least.item(), abs=2e-3)
    assert slopes.max() == pytest.approx(most.item(), abs=2e-3)


@pytest.mark.parametrize(
    ("name", "kink", "sides"),
    [("relu", 0.0, (0.0, 1.0)), ("leaky_relu", 0.0, (0.01, 1.0)), ("hardtanh", -1.0, (0.0, 1.0))],
)
def test_at_an_end_that_is_a_kink_both_sides_count(
    name: str, kink: float, sides: tuple[float, float]
) -> None:
    at = np.full((1, 1), kink)
    for low, high in ((at, at), (at, at + 0.5), (at - 0.5, at)):
        least, most = slope_range(ACTIVATIONS[name], low, high)
        assert (least.item(), most.item()) == sides
