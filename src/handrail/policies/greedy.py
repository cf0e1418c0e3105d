"""Discrete actions by what they are worth: the one that a network values most is taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Never, final

import numpy as np
from numpy.typing import ArrayLike
from torch import nn

from handrail._types import Array, Indices
from handrail.errors import InvalidPolicy
from handrail.policies.policy import Actions, Policy
from handrail.policies.quantity import VALUE, Quantity


@final
class GreedyPolicy(Policy):
    """a = argmax module(s)[a]: the Q network of DQN, without its exploration.

    Of values only the order counts, and how far apart they are: constraints are `Prefer`, with
    margins in the units of the values. Nothing is drawn, so no action has a probability.

    Args:
        module: maps a batch of observations (n, *observation_shape) to the values of all actions
            (n, n_actions).
    """

    quantity: Quantity = VALUE
    draws: ClassVar[bool] = False
    _raw_name: ClassVar[str] = "values of actions"

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module)

    def with_module(self, module: nn.Module) -> GreedyPolicy:
        """By the values of another network."""
        return GreedyPolicy(module)

    def values(self, states: ArrayLike) -> Array:
        """Of all actions: (n, n_actions) for a batch, (n_actions,) for one flat observation."""
        if np.ndim(states) == 1:
            return self._raw_of_one(np.asarray(states))
        return self.outputs(states)

    def head(self, raw: Array) -> Array:
        """Itself."""
        return raw

    def through_head(self, outputs: Array, vectors: Array) -> Array:
        """Unchanged."""
        del outputs
        return vectors

    def scale(self, outputs: Array) -> Array:
        """Values as they are."""
        return np.ones_like(outputs)

    def natural(self, outputs: Array) -> tuple[Array, Array]:
        """Values as they are: what a learner has found out about them should stay."""
        n, n_actions = outputs.shape
        return outputs, np.tile(np.eye(n_actions), (n, 1, 1))

    def likelihood(self, outputs: Array, actions: Actions) -> Never:
        """There is none."""
        del outputs, actions
        raise InvalidPolicy("A GreedyPolicy draws nothing, so its actions are not likely.")

    def actor(self, rng: np.random.Generator) -> Callable[[Array], int]:
        """The action of one observation after the other."""
        del rng

        def act(state: Array) -> int:
            values = self._raw_of_one(state)
            if not np.isfinite(values).all():
                raise self._not_finite(state)
            return int(values.argmax())

        return act

    def draw(self, outputs: Array, rngs: Sequence[np.random.Generator]) -> Indices:
        """The actions that are valued most, whatever the chance."""
        del rngs
        return self.likeliest(outputs)

    def likeliest(self, outputs: Array) -> Indices:
        """Those that are valued most; of equals, the first."""
        chosen: Indices = outputs.argmax(axis=1)
        return chosen
