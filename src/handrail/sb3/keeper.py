"""Constraints kept on one model: what acts must be what is held."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import final

from numpy.typing import ArrayLike
from stable_baselines3.common.base_class import BaseAlgorithm

from handrail._threads import one_thread
from handrail.enforcement import Enforcement, Enforcer
from handrail.errors import UnsatisfiedConstraints
from handrail.learning import Holding, Keeper, Terms
from handrail.policies import Policy
from handrail.sb3.policy import policy_of, refuse_changed


@final
class ModelKeeper:
    """Keeps constraints on a model.

    Args:
        model: its actor is changed in place.
        terms: what must hold, and how.
    """

    def __init__(self, model: BaseAlgorithm, terms: Terms) -> None:
        self._model = model
        self._network = model.policy
        spaces = model.observation_space, model.action_space
        self._keeper = Keeper(policy_of(model), spaces, terms)

    @property
    def policy(self) -> Policy:
        """Of the model, on its very parameters."""
        return self._keeper.policy

    @property
    def enforcer(self) -> Enforcer:
        """Remembers from one holding to the next which states of regions matter."""
        return self._keeper.enforcer

    def keeps(self, model: BaseAlgorithm) -> bool:
        """Whether this is the model, with the network it had."""
        return model is self._model and model.policy is self._network

    def learned_from(self, states: ArrayLike) -> None:
        """The states (n, *observation_shape) of a rollout."""
        self._keeper.learned_from(states)

    def hold(self) -> tuple[Holding, Enforcement]:
        """Make the model obey now; on failure it is as it was."""
        self._network.set_training_mode(False)  # as it acts; `train` goes back by itself
        with one_thread():
            refuse_changed(self._network, self.policy)  # what is held must be what acts
        try:
            return self._keeper.hold(self._model.num_timesteps, type(self._model).__name__)
        except UnsatisfiedConstraints as error:
            raise UnsatisfiedConstraints(f"{error}{self._hint()}") from error

    def hold_and_watch(self) -> tuple[Holding, Enforcement]:
        """The same, and from here on `look` tells whether it still obeys."""
        holding, result = self.hold()
        start = perf_counter()
        self._keeper.watch()
        return replace(holding, seconds=holding.seconds + perf_counter() - start), result

    def look(self) -> tuple[Holding, bool] | None:
        """The model as it acts if it is not held now, and whether it obeys; None if unwatched."""
        self._network.set_training_mode(False)
        return self._keeper.look(self._model.num_timesteps)

    def _hint(self) -> str:
        """What only a fresh network of Stable-Baselines3 has: a last layer that is almost zero."""
        if self._model.num_timesteps or not getattr(self._network, "ortho_init", False):
            return ""
        if self._keeper.is_impossible():
            return ""
        return (
            " A fresh network of Stable-Baselines3 is almost linear, which may be why: try "
            'policy_kwargs={"ortho_init": False}.'
        )
