"""What a policy decides, and constraints are about: probabilities of actions, or mean actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import final


@final
class Quantity(Enum):
    """Of every action (or dimension of the action) there is one."""

    PROBABILITY = "probability"
    """Of a discrete action: between 0 and 1, and they add up to 1."""
    MEAN = "mean"
    """Of a dimension of a continuous action: any number."""


@final
@dataclass(frozen=True)
class Mean:
    """The mean of a continuous action, wherever a constraint takes an action.

    Args:
        dimension: of the action: an index, or {dimension: weight} for a weighted sum.
    """

    dimension: int | Mapping[int, float]
