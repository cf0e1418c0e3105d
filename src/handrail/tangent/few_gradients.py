"""Gradients of a few functionals of a small plain network, in NumPy.

What `factors` does for any network and any number of states. Where both are small, most of that
would be overhead.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch

from handrail._types import Array
from handrail.policies import PassedArrays
from handrail.tangent.factors import OuterFactor
from handrail.tangent.gradient import Gradient


@final
@dataclass(frozen=True)
class FewGradients:
    """Of n states with r functionals each, as outer products (see `factors.OuterFactor`).

    Attributes:
        layers: first to last.
    """

    layers: tuple[PassedArrays, ...]

    def gram(self, other: FewGradients) -> Array:
        """Inner products (n, r, n', r')."""
        (n, r), (other_n, other_r) = self._shape, other._shape
        total = np.zeros((n, r, other_n, other_r))
        with _as_torch():
            for one, another in zip(self.layers, other.layers, strict=True):
                inputs = one.inputs @ another.inputs.T
                if one.has_bias:
                    inputs += 1.0
                signals = (
                    one.signals.reshape(n * r, -1)
                    @ another.signals.reshape(other_n * other_r, -1).T
                )
                products = signals.reshape(total.shape)
                products *= inputs[:, None, :, None]
                total += products
        return total

    def squares(self) -> Array:
        """Squared lengths (n, r)."""
        total = np.zeros(self._shape)
        with _as_torch():
            for one in self.layers:
                inputs = np.square(one.inputs).sum(axis=1) + float(one.has_bias)
                total += np.square(one.signals).sum(axis=2) * inputs[:, None]
        return total

    def combined(self, coefficients: Array) -> Gradient:
        """With coefficients (n, r), summed."""
        parts: list[Array] = []
        with _as_torch():
            for one in self.layers:
                signals = np.einsum("nr,nrd->nd", coefficients, one.signals)
                parts.append(signals.T @ one.inputs)
                parts += [signals.sum(axis=0)] if one.has_bias else []
        return Gradient(tuple(map(torch.from_numpy, parts)))

    def factors(self) -> list[OuterFactor]:
        """The same for products with many others, on the same memory."""
        return [
            OuterFactor(torch.from_numpy(one.inputs), torch.from_numpy(one.signals), one.has_bias)
            for one in self.layers
        ]

    @property
    def _shape(self) -> tuple[int, int]:
        n, r, _ = self.layers[0].signals.shape
        return n, r


def _as_torch() -> AbstractContextManager[Any]:
    """Without warnings: whoever asks looks whether it is finite."""
    return np.errstate(all="ignore")
