"""An actor that waits for its critic."""

from __future__ import annotations

from typing import final

from stable_baselines3.common.base_class import BaseAlgorithm

from handrail.policies import Policy
from handrail.tangent import restore, snapshot


@final
class Rest:
    """Takes back what the first updates make of an actor; the critic learns from them.

    What was held may be another policy than the fresh one, and its critic knows nothing of that.

    Args:
        model: that has just begun to learn.
        policy: of its actor, as it has just been held.
        share: of the steps of this training that the rest lasts.
    """

    def __init__(self, model: BaseAlgorithm, policy: Policy, share: float) -> None:
        self._model, self._policy = model, policy
        begun = model.num_timesteps
        self._until = begun + share * (model._total_timesteps - begun)
        self._held = snapshot(policy)

    def lasts(self) -> bool:
        """Whether the rollout that has just ended is for the critic alone."""
        return self._model.num_timesteps < self._until

    def take_back(self) -> None:
        """What an update has made of the actor."""
        restore(self._policy, self._held)
