"""Normalised observations as a layer: what a wrapper of the environment does in front of a network.

`VecNormalize` and `NormalizeObservation` show a network (x - mean) / size, maybe clipped. As a
layer of the network, the whole is a policy of x again: of the numbers that constraints speak of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from typing_extensions import override

from handrail._types import Array
from handrail.errors import InvalidPolicy

_NUMBERS = ("mean", "size", "limit")


@final
class Normaliser(nn.Module):
    """y = (x - mean) / size, clipped to ±limit; none of it is learned.

    As the wrappers compute it: in float64, rounded to what the network takes in the end. In float32
    a mean of a thousand times the size would leave three digits of x.

    Args:
        mean: (n,).
        size: (n,), positive.
        limit: of what comes out, one or (n,); infinite for none.
        dtype: of what comes out, that of the network; torch's default one.
    """

    mean: Tensor
    size: Tensor
    limit: Tensor

    def __init__(
        self,
        mean: ArrayLike,
        size: ArrayLike,
        limit: ArrayLike = np.inf,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.dtype = dtype or torch.get_default_dtype()
        for name in _NUMBERS:
            self.register_buffer(name, torch.empty(0, dtype=torch.float64))
        self.set(mean, size, limit)

    def set(self, mean: ArrayLike, size: ArrayLike, limit: ArrayLike) -> None:
        """Other statistics, in tensors of their own: whoever has read the old ones can tell."""
        numbers = [np.array(one, np.float64).ravel() for one in (mean, size)]
        (centre, spread), device = numbers, self.mean.device
        sound = np.isfinite(centre).all() and np.isfinite(spread).all() and (spread > 0.0).all()
        ends = np.array(limit, np.float64)
        fitting = centre.shape == spread.shape and ends.shape in ((), centre.shape)
        if not fitting or not sound or not (ends > 0.0).all():
            raise InvalidPolicy(
                "Normalised observations need a finite mean and a positive size each, and a "
                f"positive limit, but got the means {centre.tolist()}, the sizes "
                f"{spread.tolist()} and the limit {ends.tolist()}."
            )
        for name, value in zip(_NUMBERS, (centre, spread, ends), strict=True):
            setattr(self, name, torch.as_tensor(value, device=device))

    @property
    def in_features(self) -> int:
        """How many numbers go in, and come out."""
        return len(self.mean)

    @override
    def forward(self, inputs: Tensor) -> Tensor:
        """The normalised inputs (n, *observation_shape), in the network's precision."""
        shape = inputs.shape[1:]  # the statistics are in C order
        normalised = (inputs.double() - self.mean.view(shape)) / self.size.view(shape)
        limit = self.limit.view(shape) if self.limit.ndim else self.limit
        return normalised.clamp(-limit, limit).to(self.dtype)

    def in_numpy(self) -> Callable[[NDArray[Any]], NDArray[Any]]:
        """The same of arrays (…, n), by the statistics of now."""
        mean, size, limit = (one.cpu().numpy() for one in (self.mean, self.size, self.limit))
        to = np.dtype(str(self.dtype).removeprefix("torch."))

        def normalise(inputs: NDArray[Any]) -> NDArray[Any]:
            rounded: NDArray[Any] = np.clip((inputs - mean) / size, -limit, limit).astype(to)
            return rounded

        return normalise

    def scaling(self) -> tuple[Array, Array]:
        """Factor and offset (n,) of f x + o, which it is but for the limit and for rounding."""
        mean, size = self.mean.cpu().numpy(), self.size.cpu().numpy()
        return 1.0 / size, -mean / size

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Normaliser:
        """To another device or precision: what comes out; the statistics stay in float64."""
        del recurse
        kind = fn(torch.empty(0, dtype=self.dtype, device=self.mean.device))
        self.dtype = kind.dtype
        for name in _NUMBERS:
            setattr(self, name, getattr(self, name).to(kind.device))
        return self

    @override
    def extra_repr(self) -> str:
        """For people."""
        return f"{self.in_features}, limit={float(self.limit.min()):g}"


def normaliser_in(module: nn.Module) -> Normaliser | None:
    """What normalises observations in a network, however deep inside."""
    return next((part for part in module.modules() if isinstance(part, Normaliser)), None)
