"""Fixed scaling as a layer of a network: what it observes, in units in which it varies alike.

A pressure of 200,000 Pa beside a length of 1 m makes the tangent kernel deaf to the length: its
inner products are those of what the first layer is given (H4). Dividing the first weights instead
would not help, since a step moves them in the observations' own units all the same. So the scaling
is a layer: fixed numbers, not learned, saved and exported with the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Literal, final

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from handrail._types import Array
from handrail.errors import InvalidPolicy

# As `mlp` takes it: of each observation, or from the observation space.
Scale = Sequence[float] | Literal["auto"]

# Spaces say "any number" by the largest there is, in whatever precision.
_UNBOUNDED = 1e18


@final
class Scaler(nn.Module):
    """y = factor · x + offset, element by element; neither is learned.

    Args:
        factor: (n,).
        offset: (n,).
        dtype: of the network; torch's default one.
    """

    factor: Tensor
    offset: Tensor

    def __init__(
        self, factor: ArrayLike, offset: ArrayLike, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        for name, value in (("factor", factor), ("offset", offset)):
            exact = torch.as_tensor(np.array(value, np.float64))
            self.register_buffer(name, exact.to(dtype or torch.get_default_dtype()))

    @property
    def in_features(self) -> int:
        """How many numbers go in, and come out."""
        return len(self.factor)

    def forward(self, inputs: Tensor) -> Tensor:
        """The scaled inputs (…, n)."""
        return inputs * self.factor + self.offset

    def range_of(self, size: float) -> tuple[Array, Array]:
        """Between what (n,) it brings inputs of at most this size, rounded in its own precision."""
        to, reach = self.arrays()[0].dtype.type, Fraction(size)
        pairs = zip(self.factor.tolist(), self.offset.tolist(), strict=True)
        ends = [
            (Fraction(o) - abs(f) * reach, Fraction(o) + abs(f) * reach)
            for f, o in ((Fraction(f), o) for f, o in pairs)
        ]
        low = np.array([_rounded_down(below, to) for below, _ in ends])
        return low, np.array([-_rounded_down(-above, to) for _, above in ends])

    def arrays(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Factor and offset (n,), on the memory of the tensors."""
        return self.factor.numpy(), self.offset.numpy()

    def in_numpy(self) -> Callable[[NDArray[Any]], NDArray[Any]]:
        """The same of arrays (…, n), on the memory of the tensors."""
        factor, offset = self.arrays()
        return lambda inputs: inputs * factor + offset

    def extra_repr(self) -> str:
        """For people."""
        return f"{self.in_features}"


def centred(sizes: Array, centre: Array, dtype: torch.dtype) -> Scaler:
    """(x - centre) / size."""
    return Scaler(1.0 / sizes, -centre / sizes, dtype)


def onto_range(low: Array, high: Array, dtype: torch.dtype) -> Scaler:
    """From [-1, 1] to [low, high], never a rounding beyond: middle + half · x.

    In real numbers middle ± half stays within, so in any order of rounding it does, too.
    """
    to = np.float64 if dtype == torch.float64 else np.float32
    middle = (0.5 * low + 0.5 * high).astype(to)
    ends = zip(middle.tolist(), low.tolist(), high.tolist(), strict=True)
    half = [
        _rounded_down(min(Fraction(b) - Fraction(m), Fraction(m) - Fraction(a)), to)
        for m, a, b in ends
    ]
    return Scaler(half, middle, dtype)


def _rounded_down(exact: Fraction, to: type[np.floating]) -> float:
    """The nearest number of this precision that is not above."""
    found = to(float(exact))
    while Fraction(float(found)) > exact:
        found = np.nextafter(found, to(-np.inf))
    return float(found)


def input_scaling(
    observations: gym.spaces.Box,
    scale: Scale | None,
    centre: Sequence[float] | None,
    dtype: torch.dtype,
) -> Scaler | None:
    """What stands in front of a network that observes this; None if nothing was asked for.

    Args:
        observations: the space.
        scale: (n_observations,) typical sizes, or "auto": half the range of each.
        centre: (n_observations,) typical values; of "auto", the middle of each range.
        dtype: of the network.
    """
    if scale is None and centre is None:
        return None
    n = int(np.prod(observations.shape))
    if isinstance(scale, str):
        sizes, middle = _of_space(observations, scale)
    else:
        sizes, middle = np.ones(n) if scale is None else _numbers("scale", scale, n), np.zeros(n)
    if not (sizes > 0.0).all():
        raise _not_numbers("scale", scale, n)
    return centred(sizes, middle if centre is None else _numbers("centre", centre, n), dtype)


def finite_ranges(observations: gym.spaces.Box) -> Array:
    """The lowest and highest of each observation (2, n_observations); infinite if not declared."""
    ends = np.stack([observations.low.ravel(), observations.high.ravel()]).astype(np.float64)
    return np.where(np.abs(ends) < _UNBOUNDED, ends, np.copysign(np.inf, ends))


def _of_space(observations: gym.spaces.Box, scale: str) -> tuple[Array, Array]:
    """Half the range of each observation, and its middle."""
    low, high = finite_ranges(observations)
    if scale != "auto":
        raise _not_numbers("scale", scale, len(low))
    endless = np.flatnonzero(~np.isfinite(low) | ~np.isfinite(high))
    if len(endless):
        which = ", ".join(map(str, endless[:10])) + (", …" if len(endless) > 10 else "")
        raise InvalidPolicy(
            f"scale='auto' takes the ranges of the observation space, but of observation {which} "
            "it has no finite one. Say typical sizes in numbers, one for each of the "
            f"{len(low)} observations: scale=[…]."
        )
    half = 0.5 * high - 0.5 * low
    return np.where(half > 0.0, half, 1.0), low + half


_EXPECTED = {
    "scale": "a positive typical size for each of the {n} observations, or 'auto' for the ranges "
    "of the observation space",
    "centre": "a typical value for each of the {n} observations",
}


def _numbers(name: str, given: Sequence[float], n: int) -> Array:
    try:
        numbers = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise _not_numbers(name, given, n) from None
    if numbers.shape != (n,) or not np.isfinite(numbers).all():
        raise _not_numbers(name, given, n)
    return numbers


def _not_numbers(name: str, given: object, n: int) -> InvalidPolicy:
    said = given if isinstance(given, str) or not isinstance(given, Sequence) else list(given)
    return InvalidPolicy(f"`{name}` needs {_EXPECTED[name].format(n=n)}, but got {said!r}.")
