"""What holdings change at states that were visited and are no references.

References are where a rail keeps its influence small. A witness looks at the others: one callback
in front of the rail knows the policy as the learner left it, one behind it the policy that acts.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import ActorCriticPolicy

from benchmarks.influence.places import Places
from handrail._types import Array

# States of a rollout that are looked at, at most. Every fourth, from the first on, may have become
# a reference (`Reservoir.add`): these lie between them.
_LOOKED_AT = 256
_BETWEEN = slice(2, None, 4)


@final
class Witness:
    """Of one training of PPO with a rail.

    Args:
        places: that constraints speak of: what happens there was asked for.

    Attributes:
        before: to be put in front of the rail.
        after: to be put behind it.
        first_change: of a probability by the first holding, on average over what the first rollout
            visited; None for as long as there was none.
        changes: the same by each later holding, over what the rollout before it visited.
    """

    def __init__(self, places: Places) -> None:
        self.before, self.after = _Before(self), _After(self)
        self.first_change: float | None = None
        self.changes: list[float] = []
        self._places = places
        self._fresh: ActorCriticPolicy | None = None
        self._states: NDArray[np.float32] | None = None
        self._outputs: Array | None = None

    def begins(self, policy: ActorCriticPolicy) -> None:
        """As it is before anything is held."""
        self._fresh = deepcopy(policy)

    def comes(self, policy: ActorCriticPolicy) -> None:
        """As a learner left it."""
        if self._states is not None:
            self._outputs = probabilities(policy, self._states)

    def acts(self, policy: ActorCriticPolicy) -> None:
        """From here on."""
        if self._states is not None and self._outputs is not None:
            self.changes.append(_change(self._outputs, probabilities(policy, self._states)))

    def visited(self, observations: NDArray[np.float32], policy: ActorCriticPolicy) -> None:
        """The states (n, n_observations) of a rollout, by this policy."""
        between = observations[_BETWEEN]
        outside = between[~self._places.inside(between.astype(np.float64))]
        states = outside[np.linspace(0, len(outside) - 1, min(len(outside), _LOOKED_AT), dtype=int)]
        self._states = states if len(states) else None
        if self._states is None:
            return
        if self.first_change is None and self._fresh is not None:
            own = probabilities(self._fresh, states)
            self.first_change = _change(own, probabilities(policy, states))


@final
class _Before(BaseCallback):
    """In front of a rail."""

    def __init__(self, witness: Witness) -> None:
        super().__init__()
        self._witness = witness

    def _on_training_start(self) -> None:
        self._witness.begins(_network(self))

    def _on_rollout_start(self) -> None:
        self._witness.comes(_network(self))

    def _on_step(self) -> bool:
        return True


@final
class _After(BaseCallback):
    """Behind it."""

    def __init__(self, witness: Witness) -> None:
        super().__init__()
        self._witness = witness

    def _on_rollout_start(self) -> None:
        self._witness.acts(_network(self))

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        model: Any = self.model
        observations = model.rollout_buffer.observations  # (time, environment, …), float32
        states = observations.reshape(-1, observations.shape[-1])
        self._witness.visited(states, _network(self))


def _network(callback: BaseCallback) -> ActorCriticPolicy:
    network = callback.model.policy
    assert isinstance(network, ActorCriticPolicy)
    return network


@torch.no_grad()
def probabilities(network: ActorCriticPolicy, states: NDArray[np.float32]) -> Array:
    """Of every action (n, n_actions) at the states (n, n_observations)."""
    drawn: Any = network.get_distribution(torch.as_tensor(states)).distribution
    result: Array = drawn.probs.double().numpy()
    return result


def _change(before: Array, after: Array) -> float:
    """The largest of a state's, on average over states."""
    return float(np.abs(after - before).max(axis=1).mean())
