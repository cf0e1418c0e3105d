"""What a policy decides, and constraints are about: probabilities of actions, or mean actions."""

from __future__ import annotations

from enum import Enum
from typing import final


@final
class Quantity(Enum):
    """Of every action (or dimension of the action) there is one."""

    PROBABILITY = "probability"
    """Of a discrete action: between 0 and 1, and they add up to 1."""
    MEAN = "mean"
    """Of a dimension of a continuous action: any number."""
