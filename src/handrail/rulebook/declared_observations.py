"""What a file says of observations: a name for each number, or a shape for each part."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from handrail._types import Indices


@final
@dataclass(frozen=True)
class DeclaredObservations:
    """Names of all numbers; or, where these are too many to be named, shapes of the parts.

    Attributes:
        names: in the environment's order; none where there are shapes.
        parts: the shape of each part; none where there are names. A single one is observed in its
            shape, several are those of a Dict, flat and one behind the other.
    """

    names: tuple[str, ...] = ()
    parts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, written: Sequence[str] | Mapping[str, Sequence[int]]) -> DeclaredObservations:
        """As the key `observations` has them."""
        if isinstance(written, Mapping):
            return cls(parts={name: tuple(shape) for name, shape in written.items()})
        return cls(tuple(written))

    def __str__(self) -> str:
        if self.parts:
            return ", ".join(f"{name} {shape_in_words(one)}" for name, one in self.parts.items())
        return ", ".join(self.names)

    @property
    def count(self) -> int:
        """Of numbers."""
        return math.prod(self.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one state."""
        if len(self.parts) == 1:
            return next(iter(self.parts.values()))
        return (sum(map(math.prod, self.parts.values())) or len(self.names),)

    def with_channels_first(self, moved: Collection[str]) -> DeclaredObservations:
        """The same with the channels of some parts, which are images, moved to the front."""
        shapes = {
            name: channels_first(shape) or shape if name in moved else shape
            for name, shape in self.parts.items()
        }
        return DeclaredObservations(parts=shapes)

    def order_with_channels_first(self, moved: Collection[str]) -> Indices:
        """Where the numbers of such a state are in one of these, both flat (n_observations,)."""
        order, begin = [], 0
        for name, shape in self.parts.items():
            own = begin + np.arange(math.prod(shape)).reshape(shape)
            order.append((np.moveaxis(own, -1, 0) if name in moved else own).ravel())
            begin += own.size
        return np.concatenate(order)


def channels_first(shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape of an image as Stable-Baselines3 shows it to its networks; None: as it is.

    `VecTransposeImage` moves channels, the smallest of three axes, from the end to the front.
    """
    if len(shape) != 3 or shape.index(min(shape)) != 2:
        return None
    height, width, channels = shape
    return channels, height, width


def shape_in_words(shape: Sequence[int]) -> str:
    """84 × 84 × 4."""
    return " × ".join(map(str, shape))
