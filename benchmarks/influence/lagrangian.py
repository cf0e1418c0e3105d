"""PPO-Lagrangian in its textbook form: a critic of costs, and a price that dual ascent finds."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from torch import Tensor, nn
from torch.optim import Adam

from handrail._types import Array, Mask

_HIDDEN, _RATE, _EPOCHS, _BATCH = 64, 1e-3, 10, 256


@final
class Lagrangian(BaseCallback):
    """Turns PPO's advantages into those of reward less price times cost.

    As OmniSafe has it: (A_reward - λ A_cost) / (1 + λ), the advantages of rewards standardised and
    those of costs centred. Costs come from a `Supervised` environment.

    Args:
        limit: the share of forbidden actions that is allowed in constrained places.
        rate: of the ascent, per rollout.
    """

    def __init__(self, limit: float, rate: float) -> None:
        super().__init__()
        self.price = 0.0
        self._limit, self._rate = limit, rate
        self._costs: list[Array] = []
        self._ends: list[Mask] = []
        self._inside = 0.0

    def _on_training_start(self) -> None:
        shape = self.model.observation_space.shape
        assert shape is not None  # a Box
        self._critic = CostCritic(shape[0])

    def _on_rollout_start(self) -> None:
        self._costs, self._ends, self._inside = [], [], 0.0

    def _on_step(self) -> bool:
        infos = self.locals["infos"]
        self._costs.append(np.array([one["cost"] for one in infos]))
        self._ends.append(np.array(self.locals["dones"], dtype=bool))
        self._inside += sum(one["in_place"] for one in infos)
        return True

    def _on_rollout_end(self) -> None:
        model: Any = self.model
        buffer, costs = model.rollout_buffer, np.array(self._costs)
        values = self._critic.values(buffer.observations)
        last = self._critic.values(self.locals["new_obs"][None])[0]
        advantages = generalised_advantages(
            costs, values, last, np.array(self._ends), model.gamma, model.gae_lambda
        )
        self._critic.fit(buffer.observations, advantages + values)
        self.price = ascended(self.price, float(costs.sum()), self._inside, self._limit, self._rate)
        buffer.advantages = priced(buffer.advantages, advantages, self.price)


@final
class CostCritic:
    """The discounted cost to come, of a state."""

    def __init__(self, n_observations: int) -> None:
        self._network = nn.Sequential(
            nn.Linear(n_observations, _HIDDEN),
            nn.Tanh(),
            nn.Linear(_HIDDEN, _HIDDEN),
            nn.Tanh(),
            nn.Linear(_HIDDEN, 1),
        )
        self._optimizer = Adam(self._network.parameters(), lr=_RATE)

    def values(self, observations: Array) -> Array:
        """Of states (time, environment, n_observations): (time, environment)."""
        with torch.no_grad():
            found: Array = self._value(observations).numpy().astype(np.float64)
        return found

    def fit(self, observations: Array, returns: Array) -> None:
        """To returns (time, environment), by the mean square."""
        states = observations.reshape(-1, observations.shape[-1])
        wanted = torch.as_tensor(returns.reshape(-1), dtype=torch.float32)
        for _ in range(_EPOCHS):
            for chosen in torch.randperm(len(states)).split(_BATCH):
                self._optimizer.zero_grad()
                loss = nn.functional.mse_loss(self._value(states[chosen.numpy()]), wanted[chosen])
                loss.backward()
                self._optimizer.step()

    def _value(self, observations: Array) -> Tensor:
        states = torch.as_tensor(observations, dtype=torch.float32)
        found: Tensor = self._network(states).squeeze(-1)
        return found


def generalised_advantages(
    costs: Array, values: Array, last: Array, ends: Mask, discount: float, decay: float
) -> Array:
    """Of costs (time, environment), with the values of their states and of those after the last.

    Args:
        costs: (time, environment).
        values: (time, environment), of the states before.
        last: (environment,), of the states after the last step.
        ends: (time, environment), whether an episode ended with the step.
        discount: γ.
        decay: λ of generalised advantages.
    """
    advantages, following, behind = np.zeros_like(values), last, np.zeros_like(last)
    for time in reversed(range(len(costs))):
        goes_on = 1.0 - ends[time]
        error = costs[time] + discount * goes_on * following - values[time]
        behind = error + discount * decay * goes_on * behind
        advantages[time], following = behind, values[time]
    return advantages


def priced(rewards: Array, costs: Array, price: float) -> Array:
    """Advantages (time, environment) of rewards less the price times those of costs."""
    standard = (rewards - rewards.mean()) / (rewards.std() + 1e-8)
    both = (standard - price * (costs - costs.mean())) / (1.0 + price)
    result: Array = both.astype(rewards.dtype)
    return result


def ascended(price: float, cost: float, inside: float, limit: float, rate: float) -> float:
    """The price after a rollout with so many forbidden actions on so many steps in places."""
    if not inside:
        return price
    return max(0.0, price + rate * (cost / inside - limit))
