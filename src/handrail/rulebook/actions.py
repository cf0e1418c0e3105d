"""The actions of a file: their names, and the ranges of continuous ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from handrail.quantities import Quantity


@final
@dataclass(frozen=True)
class Actions:
    """What the policy decides on.

    Attributes:
        names: in the environment's order.
        ranges: (from, to) of each continuous action; None if actions are discrete.
    """

    names: tuple[str, ...]
    ranges: tuple[tuple[float, float], ...] | None

    @classmethod
    def of(cls, declared: list[str] | Mapping[str, list[float]]) -> Actions:
        """As a file declares them."""
        if isinstance(declared, Mapping):
            return cls(tuple(declared), tuple((low, high) for low, high in declared.values()))
        return cls(tuple(declared), None)

    @property
    def quantity(self) -> Quantity:
        """What requirements are about."""
        return Quantity.PROBABILITY if self.ranges is None else Quantity.MEAN

    def __len__(self) -> int:
        return len(self.names)

    def __str__(self) -> str:
        if self.ranges is None:
            return ", ".join(self.names)
        pairs = zip(self.names, self.ranges, strict=True)
        return ", ".join(f"{name} from {low:g} to {high:g}" for name, (low, high) in pairs)
