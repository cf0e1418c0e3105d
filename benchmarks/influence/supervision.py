"""An environment that knows what is forbidden where, and the price of doing it all the same.

An action mask, a reward penalty and the Lagrangian form of a constraint all need the same to be
told at run time; a policy that was made to obey does not.
"""

from __future__ import annotations

from typing import Any, SupportsFloat, final

import gymnasium as gym
import numpy as np

from benchmarks.influence.places import Places
from handrail._types import Array, Mask


@final
class Supervised(gym.Wrapper[Array, Any, Array, Any]):
    """Says what is forbidden at the present state, and takes its price from the reward.

    Outside of a `Monitor`: scores stay those of the task.

    Args:
        env: with Discrete actions.
        places: where something is forbidden.
        price: of a forbidden action; 0 only counts them.
    """

    def __init__(self, env: gym.Env[Array, Any], places: Places, price: float = 0.0) -> None:
        super().__init__(env)
        self.price = price
        self._places = places
        self._forbidden: Mask = np.zeros(places.n_actions, dtype=bool)
        self._inside = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """As the environment does."""
        state, info = self.env.reset(seed=seed, options=options)
        self._look(state)
        return state, info

    def step(self, action: Any) -> tuple[Array, SupportsFloat, bool, bool, dict[str, Any]]:
        """As the environment does, less the price; `cost` and `in_place` tell of the action."""
        cost, inside = float(self._forbidden[int(action)]), self._inside
        state, reward, terminated, truncated, info = self.env.step(action)
        self._look(state)
        told = {**info, "cost": cost, "in_place": inside}
        return state, float(reward) - self.price * cost, terminated, truncated, told

    def action_masks(self) -> Mask:
        """What may be done (n_actions,): MaskablePPO asks for it. Everything, if nothing may."""
        return np.ones_like(self._forbidden) if self._forbidden.all() else ~self._forbidden

    def _look(self, state: Array) -> None:
        self._forbidden = self._places.forbidden(state[None])[0]
        self._inside = bool(self._places.inside(state[None])[0])
