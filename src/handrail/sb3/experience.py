"""The states that a model has visited, as they arrive."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from typing_extensions import override

from handrail._types import Array
from handrail.sb3.normalisation import StillNormalisation
from handrail.sb3.observations import states_of

# Steps of an off-policy model that are as much news as a rollout: its own rollouts may be one step.
_STEPS = 1000


def present_states(model: BaseAlgorithm) -> NDArray[Any] | None:
    """Those (n, *observation_shape) that its environments are in now, before any normalising.

    As they are observed, on the memory of the model where that is one array: images are large, and
    this may be asked at every step. Before its first step those in which episodes begin, since
    `learn` has reset the environments; None if it was never called.
    """
    normalised = model.get_vec_normalize_env() is not None
    seen: Any = model._last_original_obs if normalised else model._last_obs
    if seen is None:
        return None
    if isinstance(seen, dict):
        once: Any = {name: part[None] for name, part in seen.items()}
    else:
        once = seen[None]
    return states_of(model.observation_space, once)


class Experience(ABC):
    """Of one model, asked when a rollout ends."""

    @abstractmethod
    def news(self) -> Array | None:
        """States (n, *observation_shape) in the order of time; None if too few."""


def experience_of(
    model: BaseAlgorithm, normalisation: StillNormalisation | None = None
) -> Experience:
    """From wherever the model keeps what it learns from, in the environment's own numbers.

    Args:
        model: that learns.
        normalisation: of what a rollout buffer keeps; a replay buffer keeps what it was before.
    """
    if isinstance(model, OffPolicyAlgorithm):
        return Replayed(model)
    return RolledOut(model) if normalisation is None else Normalised(normalisation)


@final
class RolledOut(Experience):
    """All of the rollout that ends."""

    def __init__(self, model: BaseAlgorithm) -> None:
        self._model: Any = model  # an on-policy one

    @override
    def news(self) -> Array:
        return states_of(self._model.observation_space, self._model.rollout_buffer.observations)


@final
class Normalised(Experience):
    """The same, before it was normalised."""

    def __init__(self, normalisation: StillNormalisation) -> None:
        self._normalisation = normalisation

    @override
    def news(self) -> Array:
        return self._normalisation.visited()


@final
class Replayed(Experience):
    """The newest of the replay buffer, a thousand steps at a time."""

    def __init__(self, model: OffPolicyAlgorithm) -> None:
        self._model = model
        self._told = model.num_timesteps

    @override
    def news(self) -> Array | None:
        self._told = min(self._told, self._model.num_timesteps)  # which a new training begins anew
        new = self._model.num_timesteps - self._told
        if new < _STEPS:
            return None
        self._told = self._model.num_timesteps
        buffer = self._model.replay_buffer
        assert buffer is not None  # a model that learns has one
        stored = buffer.buffer_size if buffer.full else buffer.pos
        newest = buffer.pos - np.arange(min(new // buffer.n_envs, stored), 0, -1)
        kept: Any = buffer.observations  # of a Dict, those of its parts
        rows = newest % buffer.buffer_size
        if isinstance(kept, dict):
            kept = {name: part[rows] for name, part in kept.items()}
        else:
            kept = kept[rows]
        return states_of(self._model.observation_space, kept)
