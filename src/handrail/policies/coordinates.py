"""In what outputs of a policy move freely, so that their first order reaches far.

A probability moves freely in its log-odds (`quantity.Probability`), a mean action that a tanh keeps
in a range in the same of where it is in that range (`WithinRange`), one that nothing bounds as it
is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import expit, logit
from typing_extensions import override

from handrail._types import Array, Mask

# No nearer to an end of the range than this share of it: a tanh rounds to 1 there.
_NEAREST = 2.0**-52


class Coordinates(ABC):
    """Of weighted sums of outputs, weights (n, n_actions), a sum at one state each.

    In them the first-order model reaches far: a probability near 1, or a mean near the end of the
    range that a tanh keeps it in, hardly moves with the weights, but its log-odds move as ever.
    """

    @abstractmethod
    def is_curved(self, weights: Array, alone: Mask) -> Mask:
        """Which samples (n,) of weights (n, n_actions) have a coordinate other than their value.

        `alone` (n,) are those that make up a row by themselves; no other has one.
        """

    @abstractmethod
    def coordinate(self, weights: Array, outputs: Array) -> tuple[Array, Array]:
        """An unbounded coordinate φ (n,) of curved samples, and its slope dφ/dvalue (n,).

        Both arguments are (n, n_actions).
        """

    @abstractmethod
    def coordinate_of_bound(self, weights: Array, bound: Array, inwards: Array) -> Array:
        """Of values so far inside finite bounds (n,) of curved samples."""

    @abstractmethod
    def value_at(self, weights: Array, coordinate: Array) -> Array:
        """The value (n,) that has this coordinate."""


@final
@dataclass(frozen=True)
class WithinRange(Coordinates):
    """Of outputs behind a tanh: the log-odds of where in its range an output is, twice its input.

    Attributes:
        low: (n_actions,).
        high: (n_actions,).
    """

    low: Array
    high: Array

    @override
    def is_curved(self, weights: Array, alone: Mask) -> Mask:
        """One output by itself."""
        result: Mask = alone & ((weights != 0.0).sum(axis=1) == 1)
        return result

    @override
    def coordinate(self, weights: Array, outputs: Array) -> tuple[Array, Array]:
        share, width = self._share(weights, (weights * outputs).sum(axis=1))
        return logit(share), 1.0 / (width * share * (1.0 - share))

    @override
    def coordinate_of_bound(self, weights: Array, bound: Array, inwards: Array) -> Array:
        # A bound at the end of the range or beyond it asks for nothing that could be missed.
        result: Array = logit(self._share(weights, bound + inwards)[0])
        return result

    @override
    def value_at(self, weights: Array, coordinate: Array) -> Array:
        low, width = self._range(weights)
        result: Array = low + width * expit(coordinate)
        return result

    def _share(self, weights: Array, values: Array) -> tuple[Array, Array]:
        """Of the range that is below the values (n,), and how wide that range is (n,)."""
        low, width = self._range(weights)
        return np.clip((values - low) / width, _NEAREST, 1.0 - _NEAREST), width

    def _range(self, weights: Array) -> tuple[Array, Array]:
        ends = np.stack([weights @ self.low, weights @ self.high])
        return ends.min(axis=0), np.abs(ends[1] - ends[0])
