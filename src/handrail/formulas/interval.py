"""Interval arithmetic: what values an operation can take, given ranges of its operands.

Every result contains each value of the operation that is defined, exact or as NumPy rounds it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from handrail._types import Array, Mask

Interval = tuple[Array, Array]

# NumPy's functions are accurate to 4 units in the last place, or 9e-16.
_RELATIVE = 1e-14

_ABSOLUTE = 1e-300  # below, results may have been flushed to zero

# Where an extremum of sin and cos lies is known to this share of a period up to so many periods.
_PHASE = 1e-9

_MANY_PERIODS = 1e5


def add(a: Interval, b: Interval) -> Interval:
    """The sum."""
    return _outwards(a[0] + b[0], a[1] + b[1])


def subtract(a: Interval, b: Interval) -> Interval:
    """The difference."""
    return _outwards(a[0] - b[1], a[1] - b[0])


def negative(a: Interval) -> Interval:
    """-a, which is exact."""
    return -a[1], -a[0]


def multiply(a: Interval, b: Interval) -> Interval:
    """The product."""
    return _outwards(*_extremes([_zero_for_nan(x * y) for x in a for y in b]))


def divide(a: Interval, b: Interval) -> Interval:
    """The quotient: anything at all if the divisor may be zero."""
    # ∞/∞ stands for values between those of the other ends, so that 0 adds nothing to them.
    low, high = _extremes([_zero_for_nan(x / y) for x in a for y in b])
    return _anything_where(_holds_zero(b), _outwards(low, high))


def power(a: Interval, b: Interval) -> Interval:
    """The b-th power of a; a negative base has one, as in NumPy, if b is an integer."""
    whole = (b[0] == b[1]) & (np.floor(b[0]) == b[0])
    low, high = _real_power(a, b)
    whole_low, whole_high = _whole_power(a, np.where(whole, b[0], 1.0))
    return np.where(whole, whole_low, low), np.where(whole, whole_high, high)


def smaller(a: Interval, b: Interval) -> Interval:
    """The smaller of two."""
    return np.minimum(a[0], b[0]), np.minimum(a[1], b[1])


def larger(a: Interval, b: Interval) -> Interval:
    """The larger of two."""
    return np.maximum(a[0], b[0]), np.maximum(a[1], b[1])


def absolute(a: Interval) -> Interval:
    """|a|, which is exact."""
    low, high = _extremes([np.abs(a[0]), np.abs(a[1])])
    return np.where(_holds_zero(a), 0.0, low), high


def sign(a: Interval) -> Interval:
    """-1, 0 or 1."""
    return np.sign(a[0]), np.sign(a[1])


def below(a: Interval, b: Interval) -> Interval:
    """1 where a < b, else 0."""
    return (a[1] < b[0]).astype(np.float64), (a[0] < b[1]).astype(np.float64)


def square_root(a: Interval) -> Interval:
    """The root of the part that has one; anything at all if no part has."""
    roots = _outwards(np.sqrt(np.maximum(a[0], 0.0)), np.sqrt(a[1]))
    return _anything_where(a[1] < 0.0, roots)


def has_root(a: Interval) -> Mask:
    """Whether all of it has."""
    result: Mask = a[0] >= 0.0
    return result


def has_power(a: Interval, b: Interval) -> Mask:
    """Whether all of a has all powers in b."""
    whole: Mask = (b[0] == b[1]) & (np.floor(b[0]) == b[0])
    return whole | (a[0] >= 0.0)


def logarithm(a: Interval) -> Interval:
    """Of the part that has one; anything at all if no part has."""
    logarithms = _loosely(np.log(np.maximum(a[0], 0.0)), np.log(a[1]))
    return _anything_where(a[1] <= 0.0, logarithms)


def exponential(a: Interval) -> Interval:
    """It increases everywhere."""
    return _loosely(np.exp(a[0]), np.exp(a[1]))


def hyperbolic_tangent(a: Interval) -> Interval:
    """It increases everywhere."""
    low, high = _loosely(np.tanh(a[0]), np.tanh(a[1]))
    return np.maximum(low, -1.0), np.minimum(high, 1.0)


def tangent(a: Interval) -> Interval:
    """It increases between its poles; anything at all across one."""
    pole = _reaches(a, 0.5 * np.pi, np.pi)
    return _anything_where(pole, _loosely(np.tan(a[0]), np.tan(a[1])))


def sine(a: Interval) -> Interval:
    """Between its values at the ends, and ±1 where the interval reaches an extremum."""
    return _wave(a, np.sin(a[0]), np.sin(a[1]), 0.5 * np.pi, -0.5 * np.pi)


def cosine(a: Interval) -> Interval:
    """Between its values at the ends, and ±1 where the interval reaches an extremum."""
    return _wave(a, np.cos(a[0]), np.cos(a[1]), 0.0, np.pi)


def _wave(a: Interval, first: Array, last: Array, crest: float, trough: float) -> Interval:
    low, high = _extremes([first, last])
    low = np.where(_reaches(a, trough, 2.0 * np.pi), -1.0, low - _RELATIVE)
    high = np.where(_reaches(a, crest, 2.0 * np.pi), 1.0, high + _RELATIVE)
    return np.maximum(low, -1.0), np.minimum(high, 1.0)


def _reaches(a: Interval, phase: float, period: float) -> Mask:
    """Whether phase + k · period lies between the ends for an integer k; if in doubt, it does."""
    first, last = (a[0] - phase) / period, (a[1] - phase) / period
    found: Mask = np.floor(last + _PHASE) >= np.ceil(first - _PHASE)
    known = np.maximum(np.abs(first), np.abs(last)) < _MANY_PERIODS
    return found | ~known


def _real_power(a: Interval, b: Interval) -> Interval:
    """Exponents that vary or are no integers: extreme at the corners, for a base of 0 or more."""
    base = np.maximum(a[0], 0.0), np.maximum(a[1], 0.0)
    low, high = _loosely(*_extremes([np.power(x, y) for x in base for y in b]))
    fixed = b[0] == b[1]
    # NumPy has powers of -∞, whatever the exponent, though none of any other negative number.
    without = np.where(fixed, a[1] < 0.0, a[0] < 0.0) | np.isneginf(a[0])
    return _anything_where(without, (low, high))


def _whole_power(a: Interval, exponent: Array) -> Interval:
    """Integer exponents, of any sign."""
    low, high = _extremes([np.power(a[0], exponent), np.power(a[1], exponent)])
    even = np.mod(exponent, 2.0) == 0.0
    across = _holds_zero(a)
    low = np.where(even & (exponent > 0.0) & across, 0.0, low)
    high = np.where(even & (exponent < 0.0) & across, np.inf, high)
    return _anything_where(~even & (exponent < 0.0) & across, _loosely(low, high))


def _holds_zero(a: Interval) -> Mask:
    result: Mask = (a[0] <= 0.0) & (a[1] >= 0.0)
    return result


def _anything_where(chosen: Mask, a: Interval) -> Interval:
    return np.where(chosen, -np.inf, a[0]), np.where(chosen, np.inf, a[1])


def _extremes(values: Sequence[Array]) -> Interval:
    return np.minimum.reduce(values), np.maximum.reduce(values)


def _zero_for_nan(values: Array) -> Array:
    """0 · ∞, where ∞ stands for large numbers, is 0."""
    return np.where(np.isnan(values), 0.0, values)


def _loosely(low: Array, high: Array) -> Interval:
    """Outwards by more than a function of NumPy's is wrong."""
    # inf - inf is no number, so that an infinite end moves by a finite margin.
    largest = np.finfo(np.float64).max
    return _outwards(
        low - (_RELATIVE * np.minimum(np.abs(low), largest) + _ABSOLUTE),
        high + (_RELATIVE * np.minimum(np.abs(high), largest) + _ABSOLUTE),
    )


def _outwards(low: Array, high: Array) -> Interval:
    """Outwards by one unit in the last place; anything at all for an end that is no number."""
    undefined = np.isnan(low) | np.isnan(high)
    return _anything_where(undefined, (np.nextafter(low, -np.inf), np.nextafter(high, np.inf)))
