"""Env runners whose module obeys whenever it acts, in environments that show it raw numbers.

An env runner makes a module of its own when it starts, with weights by chance, and RLlib then gives
it the learner's, which are held. But if Ray starts a runner anew that had died unnoticed, the first
thing that RLlib asks of it may be to sample.
"""

from __future__ import annotations

from typing import Any, final

from ray.rllib.core import COMPONENT_RL_MODULE
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from handrail.errors import InvalidPolicy
from handrail.learning import Keeper, refuse_normalised
from handrail.rllib.module import policy_of


@final
class HeldEnvRunner(SingleAgentEnvRunner):
    """Samples by weights of the learner; without any, it holds its own first.

    Attributes:
        refusal: why nothing can be held in its environment; empty if it can.
    """

    def __init__(self, **settings: Any) -> None:
        self.refusal = ""
        self._is_held = False
        super().__init__(**settings)

    def make_env(self) -> None:
        """As RLlib does, and look whether it normalises observations.

        Whoever makes runners asks for the refusal. Raised here, in the constructor of an actor, it
        would never arrive: RLlib logs it and fails for want of runners.
        """
        super().make_env()
        self.refusal = ""
        try:
            refuse_normalised(self.env)
        except InvalidPolicy as error:
            self.refusal = str(error)

    def make_module(self) -> None:
        """As RLlib does, with weights by chance."""
        super().make_module()
        self._is_held = False

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over what there is, the learner's weights perhaps."""
        super().set_state(state)
        self._is_held = self._is_held or COMPONENT_RL_MODULE in state

    def take_over(self, state: dict[str, Any]) -> None:
        """Weights of the learner, however old, in place of any that it has."""
        self._weights_seq_no = 0
        self.set_state(state)

    def sample(self, **settings: Any) -> Any:
        """Episodes of a module that obeys."""
        if self.refusal:
            raise InvalidPolicy(self.refusal)
        if not self._is_held:
            module = self.module.unwrapped()
            spaces = module.observation_space, module.action_space
            Keeper(policy_of(module), spaces, self.config.terms).hold(0, "RLlib")
            self._is_held = True
        return super().sample(**settings)
