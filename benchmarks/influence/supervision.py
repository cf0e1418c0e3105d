"""An environment that knows what is forbidden where, and the price of doing it all the same.

An action mask, a reward penalty and the Lagrangian form of a constraint all need the same to be
told at run time; a policy that was made to obey does not.
"""

from __future__ import annotations

from typing import Any, SupportsFloat, final

import gymnasium as gym
import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

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


@final
class Multiplier(BaseCallback):
    """Moves the price by gradient ascent: up while more than the limit is forbidden, else down.

    Args:
        limit: the share of forbidden actions that is allowed in constrained places.
        rate: of the ascent, per rollout.
    """

    def __init__(self, limit: float, rate: float) -> None:
        super().__init__()
        self.price = 0.0
        self._limit, self._rate = limit, rate
        self._cost = self._inside = 0.0

    def _on_rollout_start(self) -> None:
        self._cost = self._inside = 0.0

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            self._cost += info["cost"]
            self._inside += info["in_place"]
        return True

    def _on_rollout_end(self) -> None:
        self.price = ascended(self.price, self._cost, self._inside, self._limit, self._rate)
        self.training_env.set_attr("price", self.price)


def ascended(price: float, cost: float, inside: float, limit: float, rate: float) -> float:
    """The price after a rollout with so many forbidden actions on so many steps in places."""
    if not inside:
        return price
    return max(0.0, price + rate * (cost / inside - limit))
