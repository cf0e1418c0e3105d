"""Constraints on a difference: between a policy and another one, or itself at another state."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from handrail._types import Array
from handrail.constraints.constraint import PlacedConstraint
from handrail.policies import Policy


@final
@dataclass(frozen=True)
class Twin:
    """What a policy is compared with.

    Attributes:
        policy: another one, at the same state; None for the same one.
        matrix: (n_coordinates, n_coordinates) from a flat state to the one it is compared at; None
            for itself.
        precision: of the other policy, as it acts: "float64" or "float32".
    """

    policy: Policy | None = None
    matrix: Array | None = None
    precision: str = "float64"

    def image(self, states: Array) -> Array:
        """Of states (n, *observation_shape)."""
        if self.matrix is None:
            return states
        return (states.reshape(len(states), -1) @ self.matrix.T).reshape(states.shape)


@final
@dataclass(frozen=True)
class Difference:
    """own · outputs - other · outputs of the twin, weights (n_actions,) each."""

    own: Array
    other: Array


class Paired(PlacedConstraint):
    """|difference| ≤ largest at every state of a place, of one difference or several."""

    @property
    @abstractmethod
    def largest(self) -> float:
        """How far apart the two may be."""

    @property
    @abstractmethod
    def twin(self) -> Twin:
        """The second of the two."""

    @abstractmethod
    def differences(self, n_actions: int) -> list[Difference]:
        """What is compared; of probabilities, one of each policy."""

    @abstractmethod
    def comparison(self) -> dict[str, Any]:
        """What is compared with what, in plain values, for those who write it down."""


def one_of(index: int, n_actions: int) -> Array:
    """Weights of a single output."""
    weights: Array = np.eye(n_actions)[index]
    return weights
