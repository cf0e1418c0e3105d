"""Continuous actions without noise of their own: what a network returns is what is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Never, final

import numpy as np
from torch import nn

from handrail._types import Array
from handrail.errors import InvalidPolicy, ShapeMismatch
from handrail.policies.mean_policy import MeanPolicy
from handrail.policies.policy import Actions


@final
class DeterministicPolicy(MeanPolicy):
    """a = module(s): the actor of TD3, or that of SAC without its noise.

    Constraints are about the action, which is its own mean. Nothing is drawn, so there is no
    likelihood, and `Reinforce` cannot learn it.

    Args:
        module: maps a batch of observations (n, *observation_shape) to actions (n, n_actions).
        unit: of a change that matters, for all dimensions or one for each, as the standard
            deviation is of a Gaussian: margins of regions are told in it, and changes elsewhere
            weighed.
    """

    draws: ClassVar[bool] = False

    def __init__(self, module: nn.Module, unit: float | Sequence[float]) -> None:
        super().__init__(module)
        self.unit = np.array(unit, dtype=np.float64)
        sound = np.isfinite(self.unit).all() and (self.unit > 0.0).all()
        if self.unit.ndim > 1 or not self.unit.size or not sound:
            raise InvalidPolicy(
                f"The unit of changes must be a positive number, or one for each dimension of the "
                f"action, but got {unit!r}."
            )

    def with_module(self, module: nn.Module) -> DeterministicPolicy:
        """The same units for the actions of another network."""
        return DeterministicPolicy(module, self.unit.tolist())

    def head(self, raw: Array) -> Array:
        """Itself."""
        if self.unit.ndim and self.unit.size != raw.shape[-1]:
            raise ShapeMismatch(
                f"The policy has {self.unit.size} units of changes, but its network returns "
                f"{raw.shape[-1]} actions."
            )
        return raw

    def scale(self, outputs: Array) -> Array:
        """The units."""
        return np.broadcast_to(self.unit, outputs.shape)

    def natural(self, outputs: Array) -> tuple[Array, Array]:
        """Actions in units of changes."""
        per_raw = np.diag(np.broadcast_to(1.0 / self.unit, outputs.shape[1:]))
        return outputs / self.unit, np.tile(per_raw, (len(outputs), 1, 1))

    def likelihood(self, outputs: Array, actions: Actions) -> Never:
        """There is none."""
        del outputs, actions
        raise InvalidPolicy("A DeterministicPolicy draws nothing, so its actions are not likely.")

    def actor(self, rng: np.random.Generator) -> Callable[[Array], Array]:
        """The action of one observation after the other."""
        del rng

        def act(state: Array) -> Array:
            action = self.head(self._raw_of_one(state))
            if not np.isfinite(action).all():
                raise self._not_finite(state)
            return action

        return act

    def draw(self, outputs: Array, rngs: Sequence[np.random.Generator]) -> Array:
        """The actions, whatever the chance."""
        del rngs
        return outputs
