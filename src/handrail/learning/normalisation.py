"""Observations that `NormalizeObservation` normalises, while constraints stay in the raw numbers.

The wrapper shows (x - mean) / √(variance + ε) by statistics that move with every step: another
policy of x after each. So its work is done by a layer of the policy (`Normaliser`), by statistics
that stand still during an episode and take in what was observed before the policy is updated. The
wrapper shows x itself meanwhile. Wrappers that change observations in a fixed, known way are the
user's own choice of units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, final

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorObservationWrapper, VectorWrapper
from numpy.typing import NDArray

from handrail._storage import tensor
from handrail._types import Array
from handrail.errors import EnvironmentFailure, InvalidPolicy, InvalidRun
from handrail.learning.episode import Episode
from handrail.policies import Normaliser

_STATISTICS = "obs_rms"  # what normalising wrappers keep

# Each kind, and its method that normalises what the environment inside has observed.
_KINDS = {
    gym.wrappers.NormalizeObservation: "observation",
    gym.wrappers.vector.NormalizeObservation: "observations",
}

_Environment = gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any]


def refuse_normalised(env: _Environment) -> None:
    """Refuse an environment with a wrapper that normalises observations, however deep inside."""
    for moving in _normalised(env):
        raise InvalidPolicy(
            f"{_in_words(moving)} Remove it, or scale by fixed numbers instead, {FIXED}"
        )


def refuse_unfollowed(env: _Environment) -> None:
    """Refuse normalised observations that no layer of a policy can stand for."""
    if normalisation_of(env) is not None:
        return
    for moving in _normalised(env):
        raise InvalidPolicy(
            f"{_in_words(moving)} One of them can be followed, around the environment (around a "
            "vector of them, gymnasium.wrappers.vector.NormalizeObservation), if nothing around it "
            f"changes observations. Otherwise scale by fixed numbers, {FIXED}"
        )


def _in_words(moving: bool) -> str:
    how = "on a scale that moves with every step" if moving else "by averages of its own"
    return (
        "NormalizeObservation shows the policy other numbers than those that constraints speak of, "
        f"{how}: they would be held and measured at the wrong states."
    )


FIXED = (
    "for example with gymnasium.wrappers.TransformObservation(env, lambda seen: (seen - means) / "
    "sizes, new_space), and write the constraints in these."
)


def _normalised(env: Any) -> Iterator[bool]:
    """For each wrapper that normalises observations, whether its averages are known to change."""
    if isinstance(
        env, gym.wrappers.NormalizeObservation | gym.wrappers.vector.NormalizeObservation
    ):
        yield bool(env.update_running_mean)
    if isinstance(env, gym.Wrapper | VectorWrapper):
        yield from _normalised(env.env)
    elif isinstance(env, SyncVectorEnv):
        for one in env.envs:
            yield from _normalised(one)
    elif isinstance(env, AsyncVectorEnv):  # in processes of their own, where wrappers can be asked
        yield from (False for found in env.call("has_wrapper_attr", _STATISTICS) if found)


def normalisation_of(env: _Environment) -> Normalisation | None:
    """What normalises observations, if it is one wrapper whose results nothing else changes."""
    if len(list(_normalised(env))) != 1:
        return None
    wrapper: Any = env
    while type(wrapper) not in _KINDS:
        changes = isinstance(wrapper, gym.ObservationWrapper | VectorObservationWrapper)
        if changes or not isinstance(wrapper, gym.Wrapper | VectorWrapper):
            return None  # it is a class of their own, or inside a sub-environment
        wrapper = wrapper.env
    found = Normalisation(wrapper)
    known = isinstance(found.space, gym.spaces.Box)
    return found if known and env.observation_space == wrapper.observation_space else None


@final
class Normalisation:
    """A `NormalizeObservation`, whose work a layer of the policy does.

    Args:
        wrapper: of one environment, or of a vector of them.
    """

    def __init__(self, wrapper: Any) -> None:
        self._wrapper = wrapper
        self._method = _KINDS[type(wrapper)]
        self._observed: Any = None  # what the environment inside observed last

    @property
    def space(self) -> gym.Space[Any]:
        """Of what the environment itself observes, one at a time."""
        inside = self._wrapper.env
        is_vector = isinstance(inside, gym.vector.VectorEnv)
        space: gym.Space[Any] = (
            inside.single_observation_space if is_vector else inside.observation_space
        )
        return space

    def layer(self, dtype: torch.dtype) -> Normaliser:
        """What the wrapper does by its present statistics, in front of a network."""
        return Normaliser(*self._numbers(), np.inf, dtype)

    def set(self, layer: Normaliser) -> None:
        """Let a layer have the present statistics."""
        layer.set(*self._numbers(), np.inf)

    def is_followed_by(self, layer: Normaliser) -> bool:
        """Whether a layer has the present statistics."""
        return all(map(np.array_equal, self._numbers(), (layer.mean.numpy(), layer.size.numpy())))

    def take_in(self, episodes: Sequence[Episode]) -> None:
        """All that was observed in these, unless the user has frozen the statistics."""
        if self._wrapper.update_running_mean:
            for one in episodes:
                self._wrapper.obs_rms.update(np.concatenate([one.states, one.final_state[None]]))

    @contextmanager
    def left_out(self, act: Callable[[Any], Any]) -> Iterator[Callable[[Any], Any]]:
        """Until it ends, the environment shows its own numbers, and no statistics move.

        Yields:
            `act`, which acts in these: anything else is a wrapper that changes them.
        """

        def note(observed: Any) -> Any:
            self._observed = observed
            return observed

        def act_in_own_numbers(shown: Any) -> Any:
            if not np.array_equal(shown, self._observed):
                raise EnvironmentFailure(
                    "A wrapper around NormalizeObservation changes what that has normalised, so "
                    "what the policy would be shown is not known. Put NormalizeObservation around "
                    "that wrapper."
                )
            return act(shown)

        setattr(self._wrapper, self._method, note)
        try:
            yield act_in_own_numbers
        finally:
            delattr(self._wrapper, self._method)  # back to that of its class

    def memory(self) -> dict[str, NDArray[Any]]:
        """What `recall` needs to go on exactly from here."""
        statistics = self._wrapper.obs_rms
        return {
            "mean": np.array(statistics.mean),
            "variance": np.array(statistics.var),
            "count": np.array([float(statistics.count)]),
        }

    def recall(self, memory: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what was remembered."""
        if not memory:
            raise InvalidRun(
                "The saved learner saw observations as they are, but NormalizeObservation is "
                "around this environment. Load it with the environment alone."
            )
        statistics, shape = self._wrapper.obs_rms, self.space.shape or ()
        mean, variance = (memory.get(name) for name in ("mean", "variance"))
        count = float(tensor(memory, "count", (1,))[0])
        for one in (mean, variance):
            if one is None or one.shape != shape or not np.isfinite(one).all():
                raise InvalidRun(
                    f"The saved statistics of observations are not those of shape {shape}."
                )
        statistics.mean, statistics.var, statistics.count = mean, variance, count

    def _numbers(self) -> tuple[Array, Array]:
        """Mean and size (n_observations,), in float64."""
        statistics = self._wrapper.obs_rms
        mean = np.asarray(statistics.mean, dtype=np.float64).ravel()
        variance = np.asarray(statistics.var, dtype=np.float64).ravel()
        return mean, np.sqrt(variance + self._wrapper.epsilon)


@contextmanager
def in_own_numbers(
    normalisation: Normalisation | None, act: Callable[[Any], Any]
) -> Iterator[Callable[[Any], Any]]:
    """How to act while the environment shows its own numbers, whatever normalises them."""
    if normalisation is None:
        yield act
        return
    with normalisation.left_out(act) as acting:
        yield acting
