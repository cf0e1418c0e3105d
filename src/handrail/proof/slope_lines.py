"""Between which lines the slope of an activation lies on an interval.

What `relaxation` knows of activations, one derivative further. At a kink the slope is anything
between those of the two sides (Clarke's generalised derivative): the slope of a chord over kinks is
a mean of such values, so bounds of all of them are bounds of every chord.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from scipy.special import expit

from handrail._types import Array, Mask
from handrail.policies import Activation
from handrail.proof.relaxation import Lines, Nearest

# Lines at a step may not be steeper: what rounding costs grows with them.
_STEEPEST = 128.0

_DENSITY_AT_ZERO = (2.0 * np.pi) ** -0.5


class SlopeBand(NamedTuple):
    """On intervals of the input h, all (n, width): low ≤ slope ≤ high, and lines over h."""

    low: Array
    high: Array
    lines: Lines


@final
@dataclass(frozen=True)
class Bend:
    """What is known of the slope g of an activation.

    Attributes:
        extremes: the lowest and the highest g on intervals, from its values at their ends.
        slope: the derivative of g.
        steepest: |slope| is nowhere above this.
        sag: g'' is nowhere below minus this, and
        bulge: nowhere above this, where h ≤ `ends`.
        ends: beyond, g is bounded by its extremes only.
    """

    extremes: Callable[[Array, Array, Array, Array], tuple[Array, Array]]
    slope: Callable[[Array], Array]
    steepest: float
    sag: float
    bulge: float
    ends: float = np.inf


def has_slope_lines(activation: Activation) -> bool:
    """Whether anything can be proven of the slopes of a network with it."""
    return activation.name in _STEPS or activation.name in _BENDS


def steepest_line(activation: Activation) -> float:
    """No line of `slope_band` is steeper."""
    bend = _BENDS.get(activation.name)
    return _STEEPEST if bend is None else bend.steepest


def slope_band(activation: Activation, low: Array, high: Array) -> SlopeBand:
    """On intervals [low, high], both (n, width)."""
    step = _STEPS.get(activation.name)
    if step is not None:
        return step(low, high)
    return _smooth_band(activation, _BENDS[activation.name], low, high)


def _smooth_band(activation: Activation, bend: Bend, low: Array, high: Array) -> SlopeBand:
    """Level lines for wide intervals; for short ones a chord and a tangent, moved apart.

    With κ = `sag`, g + κ(h - m)²/2 is convex, m the middle of an interval of width w: so g is below
    every line that is above both ends, plus κw²/8, and above its tangent at m, less κw²/8. With
    `bulge` for κ the same the other way round. The nearest at m is taken, on each side for itself.
    """
    at_low, at_high = activation.slopes(low), activation.slopes(high)
    least, most = bend.extremes(low, high, at_low, at_high)
    # Torch's function is not quite the continuous one that all of this is true of.
    least, most = least - activation.jump, most + activation.jump
    middle, width = 0.5 * (low + high), high - low
    bends = high <= bend.ends
    chord = (at_high - at_low) / np.maximum(width, np.finfo(np.float64).tiny)
    chord = np.clip(chord, -bend.steepest, bend.steepest)
    through = (at_low - chord * low, at_high - chord * high)
    tangent = np.where(bends, bend.slope(np.minimum(middle, bend.ends)), 0.0)
    at_middle = activation.slopes(middle) - tangent * middle
    sag, bulge = (0.125 * one * width * width + activation.jump for one in (bend.sag, bend.bulge))
    lower, upper = Nearest(middle, 0.0 * low, least, 1.0), Nearest(middle, 0.0 * low, most, -1.0)
    lower.offer(tangent, at_middle - sag, bends)
    lower.offer(chord, np.minimum(*through) - bulge, bends)
    upper.offer(tangent, at_middle + bulge, bends)
    upper.offer(chord, np.maximum(*through) + sag, bends)
    return SlopeBand(least, most, Lines(lower.slope, lower.offset, upper.slope, upper.offset))


def _step_band(below: float, low: Array, high: Array) -> SlopeBand:
    """From `below` to 1 at 0: ReLU and the like.

    Above lies the line through (low, below) and (0, 1), below that through (0, below) and (high,
    1): each is used if the interval is mostly on its side.
    """
    undecided = (low <= 0.0) & (high >= 0.0)
    level = np.where(low > 0.0, 1.0, below)
    rise = 1.0 - below
    left = undecided & (high < -low) & (rise <= -_STEEPEST * low)
    right = undecided & (high > -low) & (rise <= _STEEPEST * high)
    upper = np.where(left, rise / np.where(left, -low, 1.0), 0.0)
    lower = np.where(right, rise / np.where(right, high, 1.0), 0.0)
    most = np.where(undecided, 1.0, level)
    return SlopeBand(level, most, Lines(lower, level, upper, most))


def _hardtanh_band(low: Array, high: Array) -> SlopeBand:
    """1 within (-1, 1), 0 outside."""
    inside: Mask = (low > -1.0) & (high < 1.0)
    outside: Mask = (low > 1.0) | (high < -1.0)
    least, most = np.where(inside, 1.0, 0.0), np.where(outside, 0.0, 1.0)
    level = np.zeros_like(low)
    return SlopeBand(least, most, Lines(level, least, level, most))


def _rising(low: Array, high: Array, at_low: Array, at_high: Array) -> tuple[Array, Array]:
    """Of a convex activation."""
    del low, high
    return at_low, at_high


def _one_peak(peak: float) -> Callable[[Array, Array, Array, Array], tuple[Array, Array]]:
    """Of an S-shaped activation, which is steepest at 0."""

    def extremes(low: Array, high: Array, at_low: Array, at_high: Array) -> tuple[Array, Array]:
        across = (low <= 0.0) & (high >= 0.0)
        return np.minimum(at_low, at_high), np.where(across, peak, np.maximum(at_low, at_high))

    return extremes


def _dip_and_peak(
    first: float, last: float, peak: float
) -> Callable[[Array, Array, Array, Array], tuple[Array, Array]]:
    """Of GELU and SiLU: a peak between `first` and `last`, a dip of 1 less that at minus these."""

    def extremes(low: Array, high: Array, at_low: Array, at_high: Array) -> tuple[Array, Array]:
        peaks = (low <= last) & (high >= first)
        dips = (low <= -first) & (high >= -last)
        most = np.where(peaks, peak, np.maximum(at_low, at_high))
        return np.where(dips, 1.0 - peak, np.minimum(at_low, at_high)), most

    return extremes


def _tanh_bend(h: Array) -> Array:
    value = np.tanh(h)
    result: Array = -2.0 * value * (1.0 - value * value)
    return result


def _gelu_bend(h: Array) -> Array:
    result: Array = _DENSITY_AT_ZERO * np.exp(-0.5 * h * h) * (2.0 - h * h)
    return result


def _silu_bend(h: Array) -> Array:
    result: Array = expit(h) * expit(-h) * (2.0 - h * np.tanh(0.5 * h))
    return result


def _logistic_bend(h: Array) -> Array:
    """Of the logistic function itself, which is the slope of softplus."""
    result: Array = expit(h) * expit(-h)
    return result


def _sigmoid_bend(h: Array) -> Array:
    result: Array = -_logistic_bend(h) * np.tanh(0.5 * h)
    return result


def _elu_bend(h: Array) -> Array:
    result: Array = np.exp(np.minimum(h, 0.0))
    return result


_STEPS: dict[str, Callable[[Array, Array], SlopeBand]] = {
    "relu": lambda low, high: _step_band(0.0, low, high),
    "leaky_relu": lambda low, high: _step_band(0.01, low, high),
    "hardtanh": _hardtanh_band,
}

# Extrema of g' and g'' over all h, rounded outwards (tests/proof/test_slope_lines.py).
_BENDS = {
    "tanh": Bend(_one_peak(1.0), _tanh_bend, steepest=0.77, sag=2.0, bulge=0.66667),
    "sigmoid": Bend(_one_peak(0.25), _sigmoid_bend, steepest=0.0963, sag=0.125, bulge=0.041667),
    "softplus": Bend(_rising, _logistic_bend, steepest=0.2501, sag=0.09623, bulge=0.09623),
    "gelu": Bend(
        _dip_and_peak(1.414, 1.415, 1.129), _gelu_bend, steepest=0.798, sag=0.7788, bulge=0.7788
    ),
    "silu": Bend(
        _dip_and_peak(2.399, 2.4, 1.09984), _silu_bend, steepest=0.501, sag=0.30819, bulge=0.30819
    ),
    "elu": Bend(_rising, _elu_bend, steepest=1.0, sag=0.0, bulge=1.0, ends=0.0),
    "id": Bend(_rising, np.zeros_like, steepest=0.0, sag=0.0, bulge=0.0),
}
