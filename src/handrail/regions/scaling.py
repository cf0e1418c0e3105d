"""Coordinates in which a figure fills [-1, 1]: units do not matter there, and rounding is known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from handrail.arrays import Array

# A figure is flat if it is thinner than this share of its width: no hull or proof is safe then.
FLAT = 1e-10
_SLACK = 1e-12
_EPSILON = float(np.finfo(np.float64).eps)


@final
@dataclass(frozen=True)
class Scaling:
    """From coordinates to scaled ones and back.

    Attributes:
        middle: (k,) of the figure.
        half: (k,) half its width; 1 where it has none.
    """

    middle: Array
    half: Array

    @classmethod
    def of(cls, points: Array) -> Scaling:
        """That puts points (n, k) into [-1, 1]."""
        low, high = points.min(axis=0), points.max(axis=0)
        half = 0.5 * high - 0.5 * low
        return cls(0.5 * low + 0.5 * high, np.where(half > 0.0, half, 1.0))

    def forth(self, points: Array) -> Array:
        """Scaled."""
        result: Array = (points - self.middle) / self.half
        return result

    def back(self, scaled: Array) -> Array:
        """In the original coordinates."""
        result: Array = self.middle + self.half * scaled
        return result

    @property
    def slack(self) -> float:
        """How far outside, in scaled coordinates, rounding may put a point of the boundary."""
        return _SLACK + 16.0 * _EPSILON * float(np.abs(self.middle / self.half).max())


def is_flat(scaled: Array) -> bool:
    """Whether points (n, k) in scaled coordinates lie in a plane of fewer dimensions."""
    widths = np.linalg.svd(scaled - scaled.mean(axis=0), compute_uv=False)
    return len(widths) < scaled.shape[1] or bool(widths[-1] <= FLAT)


def simplex_volumes(simplices: Array) -> Array:
    """Volumes (n,) of simplices (n, k + 1, k)."""
    edges = simplices[:, 1:] - simplices[:, :1]
    result: Array = np.abs(np.linalg.det(edges)) / math.factorial(simplices.shape[2])
    return result
