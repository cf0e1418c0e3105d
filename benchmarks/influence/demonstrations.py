"""Knowledge as demonstrations: imitated before training, and pulled at while it goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor
from torch.optim import Adam, Optimizer
from torch.utils.hooks import RemovableHandle

from benchmarks.influence.places import Places

_PER_PLACE = 256
_STEPS, _RATE = 500, 1e-3


@final
@dataclass(frozen=True)
class Demonstrations:
    """States (n, n_observations), and the actions (n, n_actions) that nobody takes there."""

    states: Tensor
    forbidden: Tensor

    @classmethod
    def of(cls, places: Places, seed: int) -> Demonstrations:
        """Random states of all places."""
        states, forbidden = places.samples(_PER_PLACE, seed)
        return cls(torch.as_tensor(states, dtype=torch.float32), torch.as_tensor(forbidden))


def imitation_loss(log_probabilities: Tensor, forbidden: Tensor) -> Tensor:
    """The mean of -log P(anything that is allowed), from (n, n_actions) of both."""
    allowed = log_probabilities.masked_fill(forbidden, -torch.inf)
    return -allowed.logsumexp(dim=1).mean()


def _loss_of(policy: ActorCriticPolicy, shown: Demonstrations) -> Tensor:
    distribution: Any = policy.get_distribution(shown.states).distribution
    return imitation_loss(distribution.logits, shown.forbidden)  # torch normalises them


def imitate(policy: ActorCriticPolicy, shown: Demonstrations, steps: int = _STEPS) -> float:
    """Behaviour cloning, with an optimiser of its own; what the loss is in the end."""
    optimizer = Adam(policy.parameters(), lr=_RATE)
    for _ in range(steps):
        optimizer.zero_grad()
        _loss_of(policy, shown).backward()
        optimizer.step()
    policy.optimizer.zero_grad()
    with torch.no_grad():
        return float(_loss_of(policy, shown))


@final
class Pull(BaseCallback):
    """Adds the gradient of weight · imitation loss to every step of the optimiser."""

    def __init__(self, shown: Demonstrations, weight: float) -> None:
        super().__init__()
        self._shown, self._weight = shown, weight
        self._handle: RemovableHandle | None = None

    def _on_training_start(self) -> None:
        optimizer: Optimizer = self.model.policy.optimizer
        self._handle = optimizer.register_step_pre_hook(self._before_step)

    def _on_training_end(self) -> None:
        if self._handle is not None:
            self._handle.remove()

    def _on_step(self) -> bool:
        return True

    def _before_step(self, *_: object) -> None:
        policy = self.model.policy
        assert isinstance(policy, ActorCriticPolicy)
        learning = [one for one in policy.parameters() if one.grad is not None]
        loss = _loss_of(policy, self._shown)
        for parameter, part in zip(
            learning, torch.autograd.grad(loss, learning, allow_unused=True), strict=True
        ):
            if part is not None and parameter.grad is not None:
                parameter.grad.add_(part, alpha=self._weight)
