"""Constraints kept on one model: what acts must be what is held."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import final

import numpy as np
from numpy.typing import ArrayLike
from stable_baselines3.common.base_class import BaseAlgorithm

from handrail._threads import one_thread
from handrail.enforcement import Enforcement, Enforcer
from handrail.errors import InvalidPolicy, UnsatisfiedConstraints
from handrail.learning import Holding, Keeper, Terms
from handrail.policies import Policy, normaliser_in
from handrail.sb3.acting_network import ActingNetwork, ActingParts
from handrail.sb3.experience import present_states
from handrail.sb3.exploration import AllowedActions
from handrail.sb3.normalisation import (
    StillNormalisation,
    clipped_in_words,
    is_normalised_by,
    normalisation_of,
    raw_policy,
)
from handrail.sb3.policy import never_acting, policy_by, refuse_changed


@final
class ModelKeeper:
    """Keeps constraints on a model.

    Args:
        model: its actor is changed in place.
        terms: what must hold, and how.

    Attributes:
        normalisation: of what the model observes, held still while it acts; None if there is none.
    """

    def __init__(self, model: BaseAlgorithm, terms: Terms) -> None:
        self._model = model
        self._network = model.policy
        self._shown, self._wrapper = policy_by(model.policy, model), normalisation_of(model)
        self._parts = ActingParts(model.policy, never_acting(model.policy))
        self._holdings, self._make_up = 0, self._parts.make_up()
        policy = raw_policy(self._shown, self._wrapper)
        spaces = model.observation_space, model.action_space
        begin = present_states(model)
        starts = None if begin is None else begin.astype(np.float64)
        self._keeper = Keeper(policy, spaces, terms, starts)
        front = normaliser_in(policy.module)
        self.normalisation = (
            None
            if self._wrapper is None or front is None
            else StillNormalisation(model, self._wrapper, front)
        )

    @property
    def policy(self) -> Policy:
        """Of the model, on its very parameters."""
        return self._keeper.policy

    @property
    def enforcer(self) -> Enforcer:
        """Remembers from one holding to the next which states of regions matter."""
        return self._keeper.enforcer

    def keeps(self, model: BaseAlgorithm) -> bool:
        """Whether this is the model, with the network and the normalisation it had."""
        same = model is self._model and model.policy is self._network
        return same and normalisation_of(model) is self._wrapper

    def acting_network(self) -> ActingNetwork:
        """The model as it acts from here, in a training that begins.

        Between two of them parts may have come to share what only the critic had.
        """
        self._parts = ActingParts(self._network, never_acting(self._network))
        return ActingNetwork(self._parts)

    def allowed_actions(self) -> AllowedActions:
        """That a greedy policy may take while it obeys."""
        space = self._model.action_space
        n_actions = int(getattr(space, "n", 0))
        return AllowedActions(self._keeper.constraints, n_actions)

    def learned_from(self, states: ArrayLike) -> None:
        """The states (n, *observation_shape) of a rollout."""
        self._keeper.learned_from(states)

    def hold(self, before: float | None = None) -> tuple[Holding, Enforcement]:
        """Make the model obey now; on failure it is as it was.

        Args:
            before: its worst violation now, if a `look` has found it.
        """
        self._act()
        self._refuse_changed()  # what is held must be what acts
        if not is_normalised_by(self._model, self._wrapper):
            raise InvalidPolicy(
                "VecNormalize(norm_obs=True) was put around the environment, or taken away, while "
                "the model learns. Do it before: `learn` may be called again."
            )
        if self.normalisation is not None:
            self.normalisation.move()
        try:
            trainer = type(self._model).__name__
            return self._keeper.hold(self._model.num_timesteps, trainer, before)
        except UnsatisfiedConstraints as error:
            raise UnsatisfiedConstraints(f"{error}{self._hint()}") from error

    def _refuse_changed(self) -> None:
        """By its numbers, a network is compared after 1, 2, 4, … holdings and when it was rebuilt.

        Between these only weights have changed: of whatever else acts by them, all is as it was.
        """
        self._holdings += 1
        make_up = self._parts.make_up()
        if make_up == self._make_up and self._holdings & (self._holdings - 1):
            return
        self._make_up = make_up
        with one_thread():
            refuse_changed(self._network, self._shown)

    def begin(self) -> None:
        """A training begins: the one that the model is in now."""
        model, training = self._model, self._model.start_time
        self._keeper.begin(lambda: model.start_time == training)

    def end(self) -> None:
        """It is over: from here on the model learns as if nothing had been kept."""
        self._keeper.end()

    def as_it_is(self) -> Holding:
        """The model as it acts if it is not held now, looked at like any other."""
        self._act()
        return self._keeper.as_it_is(self._model.num_timesteps)

    def hold_and_watch(self, before: float | None = None) -> tuple[Holding, Enforcement]:
        """The same, and from here on `look` tells whether it still obeys."""
        holding, result = self.hold(before)
        start = perf_counter()
        self._keeper.watch()
        return replace(holding, seconds=holding.seconds + perf_counter() - start), result

    def look(self) -> tuple[Holding, bool]:
        """The model as it acts if it is not held now, and whether it obeys; it is watched."""
        self._act()
        return self._keeper.look(self._model.num_timesteps)

    def _act(self) -> None:
        """As it does in a rollout; `train` goes back by itself."""
        self._parts.look()
        if self._parts.any_in_training():
            self._network.set_training_mode(False)

    def _hint(self) -> str:
        """What may be behind a failure, and only Stable-Baselines3 has.

        Statistics that have seen next to nothing, and the fresh network's last layer that is almost
        zero: it tells why constraints are broken, not why they are not proven.
        """
        if self._keeper.is_impossible():
            return ""
        if self._wrapper is not None:
            states = [one.states.reshape(len(one.states), -1) for one in self._keeper.constraints]
            beyond = clipped_in_words(self._wrapper, np.concatenate(states))
            if beyond:
                return f" {beyond}"
        refused = self._keeper.refused
        held = refused is not None and bool(refused.certificates)
        is_fresh = not self._model.num_timesteps and getattr(self._network, "ortho_init", False)
        if held or not is_fresh:
            return ""
        return (
            " A fresh network of Stable-Baselines3 is almost linear, which may be why: try "
            'policy_kwargs={"ortho_init": False}.'
        )
