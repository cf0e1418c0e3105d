"""Lines around the slopes of activations: sound on every interval, and close on short ones."""

from __future__ import annotations

import numpy as np
import pytest

from handrail._types import Array
from handrail.policies import ACTIVATIONS, IDENTITY, Activation
from handrail.proof.slope_lines import has_slope_lines, slope_band, steepest_line

EVERY = [pytest.param(one, id=one.name) for one in (*ACTIVATIONS.values(), IDENTITY)]
WIDTHS = (1e-9, 1e-4, 1e-2, 0.3, 2.0, 9.0)
ROUNDING = 4e-15


def intervals(rng: np.random.Generator, width: float) -> tuple[Array, Array, Array]:
    """Their ends (n, 1), and values inside (n, m)."""
    middle = rng.uniform(-6.0, 6.0, (3000, 1))
    middle[:1000] = rng.choice([-1.0, 0.0, 1.0, 1.4142, 2.3994, -2.3994], (1000, 1))
    low, high = (middle + side * width * rng.random((3000, 1)) for side in (-1.0, 1.0))
    inside = low + rng.random((3000, 40)) * (high - low)
    return low, high, np.concatenate([low, inside, high], axis=1)


@pytest.mark.parametrize("activation", EVERY)
@pytest.mark.parametrize("width", WIDTHS)
def test_slopes_lie_between_their_lines(activation: Activation, width: float) -> None:
    rng = np.random.default_rng(0)
    low, high, inside = intervals(rng, width)
    band = slope_band(activation, low, high)
    slopes = activation.slopes(inside)
    allowed = ROUNDING + activation.jump
    assert (band.low <= slopes + allowed).all()
    assert (slopes <= band.high + allowed).all()
    lines = band.lines
    assert (lines.lower_slope * inside + lines.lower_offset <= slopes + allowed).all()
    assert (slopes <= lines.upper_slope * inside + lines.upper_offset + allowed).all()
    steepest = np.abs([lines.lower_slope, lines.upper_slope]).max()
    assert steepest <= steepest_line(activation)


@pytest.mark.parametrize("activation", EVERY)
def test_short_intervals_lose_only_their_square(activation: Activation) -> None:
    """But around kinks, where nothing less than the jump can be said."""
    low = np.linspace(-3.03, 2.97, 61)[:, None]  # no kink is nearer than the width
    band = slope_band(activation, low, low + 1e-3)
    middle = low + 5e-4
    lines = band.lines
    gap = (lines.upper_slope - lines.lower_slope) * middle + lines.upper_offset - lines.lower_offset
    assert gap.max() <= 1e-6 + 3.0 * activation.jump


@pytest.mark.parametrize("name", ["relu", "leaky_relu", "hardtanh"])
def test_at_a_kink_the_slope_is_anything_between_its_sides(name: str) -> None:
    activation, kink = ACTIVATIONS[name], 1.0 if name == "hardtanh" else 0.0
    at = np.full((1, 1), kink)
    sides = activation.slopes(np.array([kink - 1e-9, kink + 1e-9]))
    band = slope_band(activation, at, at)
    assert (band.low.item(), band.high.item()) == (sides.min(), sides.max())


def test_every_activation_has_lines() -> None:
    assert all(has_slope_lines(one) for one in ACTIVATIONS.values())
