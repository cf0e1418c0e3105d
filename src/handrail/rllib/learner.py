"""A learner of PPO whose module obeys whenever anybody can ask for its weights.

A learner makes a module, updates it batch by batch, and gives its weights away: to env runners,
which act by them, and to checkpoints. RLlib calls `after_gradient_based_update` behind the last
minibatch of an update and before the weights go anywhere, so that is where the module is held; and
where it is made, or loaded from a file.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, final

import gymnasium as gym
import numpy as np
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.utils.metrics import NUM_ENV_STEPS_SAMPLED_LIFETIME

from handrail.errors import InvalidPolicy
from handrail.learning import Holding, Keeper
from handrail.rllib.module import policy_of

_NAME = "handrail"  # in results, and in the learner's state


@final
class HeldPPOLearner(PPOTorchLearner):
    """PPO's learner, whose actor is made to obey when it is built, updated or loaded.

    Only the actor's parameters are changed, in place: the critic stays bit for bit as it is, and so
    does the optimiser's state. Every holding is logged, under learners/default_policy/handrail in
    the result of `train`.
    """

    def build(self) -> None:
        """Make the module, refused if it cannot be held, and hold it."""
        super().build()
        module = self.module[DEFAULT_MODULE_ID].unwrapped()
        policy = policy_of(module)
        if isinstance(module.action_space, gym.spaces.Box) and self.config.normalize_actions:
            raise InvalidPolicy(
                "normalize_actions=True sends actions from [-1, 1] to the range of the "
                "environment, so a mean action is not what constraints speak of. Use "
                "config.environment(normalize_actions=False, clip_actions=True)."
            )
        spaces = module.observation_space, module.action_space
        self._history: list[Holding] = []
        self._keeper = Keeper(policy, spaces, self.config.terms)
        self._learner_connector.prepend(VisitedStates(self._keeper))
        self._hold(0)

    @property
    def history(self) -> tuple[Holding, ...]:
        """Every holding so far."""
        return tuple(self._history)

    def after_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        """Behind the last minibatch of an update."""
        super().after_gradient_based_update(timesteps=timesteps)
        self._hold(int(timesteps.get(NUM_ENV_STEPS_SAMPLED_LIFETIME, 0)))

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        **settings: Any,
    ) -> dict[str, Any]:
        """What `set_state` needs to go on from here."""
        state: dict[str, Any] = super().get_state(
            components, not_components=not_components, **settings
        )
        if self._check_component(_NAME, components, not_components):
            state[_NAME] = {"timesteps": self._timesteps, "memory": self._keeper.memory()}
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from another state, whose module is held as well."""
        super().set_state(state)
        own = state.get(_NAME)
        if own is not None:
            self._keeper.recall(own["memory"])
        self._hold(self._timesteps if own is None else own["timesteps"])

    def restore_from_path(
        self, path: Any, *, component: str | None = None, **settings: Any
    ) -> None:
        """Go on from a file; that of a component, such as the module, never has a whole state."""
        super().restore_from_path(path, component=component, **settings)
        if component is not None:
            self._hold(self._timesteps)

    @property
    def _timesteps(self) -> int:
        return self._history[-1].timesteps

    def _hold(self, timesteps: int) -> None:
        holding, _ = self._keeper.hold(timesteps, "PPO")
        self._history.append(holding)
        for name, value in holding.logged().items():
            self.metrics.log_value((DEFAULT_MODULE_ID, _NAME, name), value, window=1)


@final
class VisitedStates(ConnectorV2):
    """In front of what makes batches of episodes: shows their states to a keeper."""

    def __init__(self, keeper: Keeper) -> None:
        super().__init__()
        self._keeper = keeper

    def __call__(self, *, batch: Any, episodes: list[Any], **others: Any) -> Any:
        """The batch as it is."""
        del others
        seen = [one.get_observations(slice(0, len(one))) for one in episodes if len(one)]
        if seen:
            self._keeper.learned_from(np.concatenate([np.asarray(one) for one in seen]))
        return batch
