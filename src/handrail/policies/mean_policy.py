"""Continuous actions: what every policy does that says a mean for each dimension."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from handrail._types import Array
from handrail.policies.activation import ACTIVATIONS
from handrail.policies.coordinates import Coordinates, WithinRange
from handrail.policies.policy import Policy
from handrail.policies.quantity import MEAN, Quantity


class MeanPolicy(Policy):
    """Its network returns the means that constraints are about, as they are."""

    quantity: Quantity = MEAN
    _raw_name: ClassVar[str] = "mean actions"
    limits: tuple[Array, Array] | None = None
    """(low, high), (n_actions,) each, that its environment clips actions to, where it is known."""

    def clipped_to(self, limits: tuple[Array, Array] | None) -> Self:
        """Itself, in an environment that clips actions to these limits."""
        self.limits = limits
        return self

    def mean(self, states: ArrayLike) -> Array:
        """The mean action: (n, n_actions) for a batch, (n_actions,) for one flat observation."""
        if np.ndim(states) == 1:
            return self.head(self._raw_of_one(np.asarray(states)))
        return self.outputs(states)

    @property
    def coordinates(self) -> Coordinates:
        """Behind a tanh, log-odds within the range; else means as they are."""
        layers, ends = self.layers(), self.output_range()
        if layers is None or ends is None or layers.activations[-1] is not ACTIVATIONS["tanh"]:
            return self.quantity
        return WithinRange(*ends)

    def output_range(self) -> tuple[Array, Array] | None:
        """That of the last activation, scaled."""
        layers = self.layers()
        return None if layers is None else layers.output_range()

    def through_head(self, outputs: Array, vectors: Array) -> Array:
        """Unchanged."""
        del outputs
        return vectors

    def likeliest(self, outputs: Array) -> Array:
        """The means."""
        return outputs
