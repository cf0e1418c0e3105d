"""Between which numbers the slope of an activation is on an interval.

Differences of two networks need it (a chord has a slope of those in between), and so do derivatives
of one. At a kink the slope is anything between those of the two sides (Clarke's generalised
derivative): the slope of a chord over kinks is a mean of such values, so bounds of all of them are
bounds of every chord.
"""

from __future__ import annotations

import numpy as np

from handrail._types import Array
from handrail.policies import Activation, Clipping, NearRectifier, Sigmoidal

# Inflections are known to less than this, outwards.
_INFLECTION_IS_ROUNDED = 1e-3


def slope_range(activation: Activation, low: Array, high: Array) -> tuple[Array, Array]:
    """The least and the most (n, width) on intervals [low, high], both sides of kinks included."""
    shape = activation.shape
    if isinstance(shape, Clipping):
        inside, outside = (low > -1.0) & (high < 1.0), (low > 1.0) | (high < -1.0)
        return inside.astype(np.float64), (~outside).astype(np.float64)
    # The next numbers are on the other side of a kink that is an end.
    ends = (
        activation.slopes(np.nextafter(low, -np.inf)),
        activation.slopes(np.nextafter(high, np.inf)),
    )
    least, most = np.minimum(*ends), np.maximum(*ends)
    if isinstance(shape, Sigmoidal):  # steepest at 0
        return least, np.where((low <= 0.0) & (high >= 0.0), activation.lipschitz, most)
    if isinstance(shape, NearRectifier):
        # Steepest at the inflection; f'(-h) = 1 - f'(h).
        about = shape.inflection - _INFLECTION_IS_ROUNDED
        steep = (low <= shape.inflection) & (high >= about)
        falls = (low <= -about) & (high >= -shape.inflection)
        return (
            np.where(falls, 1.0 - activation.lipschitz, least),
            np.where(steep, activation.lipschitz, most),
        )
    return least, most  # convex: its slopes rise
