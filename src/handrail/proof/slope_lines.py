"""Between which lines the slope of an activation lies on an interval.

What `relaxation` knows of activations, one derivative further; level lines are those of
`slope_range`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from scipy.special import expit

from handrail._types import Array
from handrail.policies import Activation
from handrail.proof.relaxation import Lines, Nearest
from handrail.proof.slope_range import slope_range

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
        slope: the derivative of g.
        steepest: |slope| is nowhere above this.
        sag: g'' is nowhere below minus this, and
        bulge: nowhere above this, where h ≤ `ends`.
        ends: beyond, g is bounded by its extremes only.
    """

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
        return step(activation, low, high)
    return _smooth_band(activation, _BENDS[activation.name], low, high)


def _smooth_band(activation: Activation, bend: Bend, low: Array, high: Array) -> SlopeBand:
    """Level lines for wide intervals; for short ones a chord and a tangent, moved apart.

    With κ = `sag`, g + κ(h - m)²/2 is convex, m the middle of an interval of width w: so g is below
    every line that is above both ends, plus κw²/8, and above its tangent at m, less κw²/8. With
    `bulge` for κ the same the other way round. The nearest at m is taken, on each side for itself.
    """
    at_low, at_high = activation.slopes(low), activation.slopes(high)
    least, most = slope_range(activation, low, high)
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


def _step_band(activation: Activation, low: Array, high: Array) -> SlopeBand:
    """From a slope below 0 to 1 above: ReLU and the like.

    Above lies the line through (low, least) and (0, 1), below that through (0, least) and (high,
    1): each is used if the interval is mostly on its side.
    """
    least, most = slope_range(activation, low, high)
    rise = most - least
    left = (rise > 0.0) & (high < -low) & (rise <= -_STEEPEST * low)
    right = (rise > 0.0) & (high > -low) & (rise <= _STEEPEST * high)
    upper = np.where(left, rise / np.where(left, -low, 1.0), 0.0)
    lower = np.where(right, rise / np.where(right, high, 1.0), 0.0)
    return SlopeBand(least, most, Lines(lower, least, upper, most))


def _level_band(activation: Activation, low: Array, high: Array) -> SlopeBand:
    """Of a hardtanh, which has two steps."""
    least, most = slope_range(activation, low, high)
    level = np.zeros_like(low)
    return SlopeBand(least, most, Lines(level, least, level, most))


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


_STEPS: dict[str, Callable[[Activation, Array, Array], SlopeBand]] = {
    "relu": _step_band,
    "leaky_relu": _step_band,
    "hardtanh": _level_band,
}

# Extrema of g' and g'' over all h, rounded outwards (tests/proof/test_slope_lines.py).
_BENDS = {
    "tanh": Bend(_tanh_bend, steepest=0.77, sag=2.0, bulge=0.66667),
    "sigmoid": Bend(_sigmoid_bend, steepest=0.0963, sag=0.125, bulge=0.041667),
    "softplus": Bend(_logistic_bend, steepest=0.2501, sag=0.09623, bulge=0.09623),
    "gelu": Bend(_gelu_bend, steepest=0.798, sag=0.7788, bulge=0.7788),
    "silu": Bend(_silu_bend, steepest=0.501, sag=0.30819, bulge=0.30819),
    "elu": Bend(_elu_bend, steepest=1.0, sag=0.0, bulge=1.0, ends=0.0),
    "id": Bend(np.zeros_like, steepest=0.0, sag=0.0, bulge=0.0),
}
