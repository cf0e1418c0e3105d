"""Observations that `VecNormalize` normalises, while constraints stay in the environment's numbers.

What acts is the network behind (x - mean) / √(variance + ε), clipped; so that is what is held,
proven and exported, with a `Normaliser` as its first layer. Statistics that move with every step
would make another policy of it at every step. While a model learns under constraints they stand
still during a rollout, and move before the policy is held for the next one.

Of a Dict each part has statistics of its own, if it has any (`norm_obs_keys`); as a layer in front
of flat states, those of a part that is left as it is are 0 and 1.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any, TypeAlias, final
from weakref import WeakKeyDictionary

import gymnasium as gym
import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import (
    VecCheckNan,
    VecEnv,
    VecEnvWrapper,
    VecMonitor,
    VecNormalize,
    VecVideoRecorder,
)
from typing_extensions import override

from handrail._types import Array
from handrail.constraints import counted
from handrail.errors import InvalidPolicy, InvalidRun
from handrail.policies import Normaliser, Policy
from handrail.sb3.observations import states_of

# What may stand around a VecNormalize: it leaves observations as they are.
_LEAVES_OBSERVATIONS = (VecMonitor, VecCheckNan, VecVideoRecorder, VecNormalize)

# Steps after which the statistics of an off-policy model move: its own rollouts may be one step.
_LONG = 1000

# Of observations, or of each part of a Dict: statistics, and what environments observe.
_Statistics: TypeAlias = RunningMeanStd | dict[str, RunningMeanStd]
_Seen: TypeAlias = Array | dict[str, Array]

# Of models that came from files, which say nothing of what their observations were normalised by.
_GIVEN: WeakKeyDictionary[BaseAlgorithm, VecNormalize] = WeakKeyDictionary()


def normalisation_of(model: BaseAlgorithm) -> VecNormalize | None:
    """What normalises the observations that a model sees; None if nothing does.

    A model without an environment, as one just loaded, does not say; then what `load` was given.
    """
    env, given = model.get_env(), _GIVEN.get(model)
    if env is None:
        return given
    found = _found_in(env)
    if found is None and given is not None:
        raise InvalidPolicy(
            "The model was loaded with statistics, so it sees normalised observations, but its "
            "environment does not normalise them: VecNormalize.load(statistics, env), with "
            "training = False, does."
        )
    return found


def is_normalised_by(model: BaseAlgorithm, normalisation: VecNormalize | None) -> bool:
    """Whether a model still sees what it saw through this, or as it is; asked before every rollout.

    Sub-environments, which may be other processes, are not asked again.
    """
    env, found = model.get_env(), []
    while isinstance(env, VecEnvWrapper):
        found += [env] if isinstance(env, VecNormalize) and env.norm_obs else []
        env = env.venv
    return found == ([] if normalisation is None else [normalisation])


def raw_policy(shown: Policy, normalisation: VecNormalize | None) -> Policy:
    """The policy of the environment's own observations, on the very same parameters.

    Args:
        shown: of what the network is shown.
        normalisation: what stands before that. Its statistics are copied: they may move on.
    """
    if normalisation is None:
        return shown
    return shown.behind(Normaliser(*_numbers(normalisation), shown.dtype))


def clipped_in_words(normalisation: VecNormalize, states: Array) -> str:
    """How many of these states (n, n_observations) are seen clipped, and what helps; or nothing."""
    mean, size, limit = _numbers(normalisation)
    away = np.abs(states - np.ravel(mean)) / np.ravel(size)
    clipped = (away > limit).any(axis=1)
    if not clipped.any():
        return ""
    statistics = normalisation.obs_rms
    known = list(statistics.values()) if isinstance(statistics, dict) else [statistics]
    seen = counted(round(max(one.count for one in known)), "observation")
    return (
        f"VecNormalize has seen {seen}, and takes {clipped.mean():.0%} of the constrained states "
        f"for so unusual that it clips them (up to {away.max():.3g} standard deviations, "
        f"clip_obs={normalisation.clip_obs:g}): the network cannot tell them apart, and is steep "
        "in between. Let it see more before `learn`, by some hundred steps in the environment "
        "(venv.step), or load statistics (VecNormalize.load)."
    )


def refuse_moving(normalisation: VecNormalize | None) -> None:
    """Refuse statistics that the next step of the environment would change."""
    if normalisation is not None and normalisation.training and normalisation.venv is not None:
        raise InvalidPolicy(
            "VecNormalize still moves its statistics with every step (training=True), so what is "
            "held, proven or exported now would be true of another policy than the next one. "
            "Freeze them first: model.get_vec_normalize_env().training = False. While a model "
            "learns, the callback Handrail holds them still."
        )


def remember_statistics(model: BaseAlgorithm, path: str | Path) -> None:
    """What a file that `VecNormalize.save` wrote says of a model that was loaded without it."""
    try:
        with Path(path).open("rb") as file:
            found = pickle.load(file)  # of a file that is trusted: `load` says so
    except Exception as error:  # whatever a pickle runs into
        raise InvalidRun(
            f"The statistics {path} cannot be read: {type(error).__name__}: {error}. They are a "
            "file that VecNormalize.save wrote."
        ) from error
    if not isinstance(found, VecNormalize):
        raise InvalidRun(
            f"The statistics {path} are a {type(found).__name__}, not a VecNormalize: "
            "VecNormalize.save writes one."
        )
    if _shapes(found.observation_space) != _shapes(model.observation_space):
        raise InvalidRun(
            f"The statistics {path} are of {found.observation_space}, but the model observes "
            f"{model.observation_space}."
        )
    if found.norm_obs:
        _refuse_unknown(found)
        _GIVEN[model] = found


def _shapes(space: gym.Space[Any]) -> Any:
    parts = space.spaces.items() if isinstance(space, gym.spaces.Dict) else [("", space)]
    return {name: part.shape for name, part in parts}


def _found_in(env: VecEnv) -> VecNormalize | None:
    if any(env.env_is_wrapped(gym.wrappers.NormalizeObservation)):
        raise InvalidPolicy(
            "NormalizeObservation keeps statistics of its own in each sub-environment, so the same "
            "state would be shown as other numbers in each. Use VecNormalize around them all."
        )
    found: VecNormalize | None = None
    around: list[VecEnvWrapper] = []
    while isinstance(env, VecEnvWrapper):
        if isinstance(env, VecNormalize) and env.norm_obs:
            if found is not None:
                raise InvalidPolicy(
                    "Two VecNormalize(norm_obs=True) are around one environment. Use one; the "
                    "other may normalise rewards: norm_obs=False."
                )
            found = env
        elif found is None:
            around.append(env)
        env = env.venv
    if found is not None:
        _refuse_unknown(found)
        _refuse_changes_behind(around)
    return found


def _refuse_unknown(normalisation: VecNormalize) -> None:
    """What computes something else than a `Normaliser`."""
    if type(normalisation) is not VecNormalize:
        raise InvalidPolicy(
            f"{type(normalisation).__name__} is a class of your own derived from VecNormalize, so "
            "what it shows the policy is not known. Use VecNormalize itself."
        )
    statistics: object = getattr(normalisation, "obs_rms", None)
    if statistics is None:
        raise InvalidPolicy(
            "VecNormalize has no statistics of observations: it was made with norm_obs=False, and "
            "that was switched on later. Make it with norm_obs=True."
        )
    if isinstance(statistics, dict) and set(statistics) != set(normalisation.norm_obs_keys or ()):
        raise InvalidPolicy(
            f"VecNormalize has statistics of {sorted(statistics)}, but norm_obs_keys was changed "
            f"to {normalisation.norm_obs_keys}. Make it with the keys that it is to normalise."
        )


def _refuse_changes_behind(around: list[VecEnvWrapper]) -> None:
    for one in around:
        if type(one) not in _LEAVES_OBSERVATIONS:
            raise InvalidPolicy(
                f"{type(one).__name__} stands around VecNormalize(norm_obs=True) and may change "
                "what that has normalised, so what the policy sees is not known. Put VecNormalize "
                "around it instead."
            )


def _numbers(normalisation: VecNormalize) -> tuple[Array, Array, Array]:
    """Mean, size and limit, as `VecNormalize._normalize_obs` computes with them.

    Of a Dict, of its flat states; the limit one for each of them.
    """
    statistics: Any = normalisation.obs_rms
    if not isinstance(statistics, dict):
        return *_scaling(statistics, normalisation), np.array(float(normalisation.clip_obs))
    space = normalisation.observation_space
    assert isinstance(space, gym.spaces.Dict)  # it has statistics of its parts
    parts = [
        _numbers_of_part(part, statistics.get(name), normalisation)
        for name, part in space.spaces.items()
    ]
    mean, size, limit = (np.concatenate(numbers) for numbers in zip(*parts, strict=True))
    return mean, size, limit


def _numbers_of_part(
    part: gym.Space[Any], statistics: RunningMeanStd | None, normalisation: VecNormalize
) -> tuple[Array, Array, Array]:
    clip, n = float(normalisation.clip_obs), gym.spaces.flatdim(part)
    if statistics is not None:
        mean, size = _scaling(statistics, normalisation)
        return mean.ravel(), size.ravel(), np.full(n, clip)
    # Discrete values are 0 and 1 in a state, which a limit of 1 leaves as they are.
    limit = np.inf if isinstance(part, gym.spaces.Box) else max(clip, 1.0)
    return np.zeros(n), np.ones(n), np.full(n, limit)


def _scaling(statistics: RunningMeanStd, normalisation: VecNormalize) -> tuple[Array, Array]:
    size: Array = np.sqrt(statistics.var + normalisation.epsilon)
    return statistics.mean, size


@final
class StillNormalisation:
    """The statistics of a VecNormalize: still while a model acts, moved in between.

    Only what is normalised stands still; the statistics of rewards go on as usual.

    Args:
        model: that acts.
        normalisation: between the model and its environment.
        front: the same as a layer of the policy that is held; follows.
    """

    def __init__(
        self, model: BaseAlgorithm, normalisation: VecNormalize, front: Normaliser
    ) -> None:
        self._model, self._front = model, front
        self._wrapper: Any = normalisation  # whose statistics are typed as those of a Dict
        self._moving = self._users()
        self._still: _Statistics | None = None
        self._first: _Seen | None = None  # observations that a rollout began with
        self._observed: list[_Seen] = []  # after each of its steps

    def begin(self) -> None:
        """Until `end`, statistics move in `move` alone; or until this training is left."""
        self._wrapper.obs_rms = self._moving = self._users()
        training = self._model.start_time

        def still(moving: RunningMeanStd) -> RunningMeanStd:
            goes_on = lambda: self._model.start_time == training  # noqa: E731
            return _StillStatistics(moving, goes_on, self.end)

        self._still = _each(still, self._moving)
        self._first, self._observed = None, []
        self._wrapper.obs_rms = self._still

    def end(self) -> None:
        """Leave the statistics to the user."""
        self._wrapper.obs_rms = self._users()

    def move(self) -> None:
        """Take in what was observed since; the policy and the model's next step see by that."""
        if self._observed and self._wrapper.training:
            for part, moving in _by_part(self._moving).items():
                moving.update(np.concatenate([_by_part(one)[part] for one in self._observed]))
        for still in _by_part(self._still or {}).values():
            still.follow()
        self._front.set(*_numbers(self._wrapper))
        observed: _Seen = self._wrapper.old_obs
        if self._model._last_obs is not None:
            self._model._last_obs = self._wrapper.normalize_obs(observed)
        self._first, self._observed = deepcopy(observed), []

    def observe(self) -> None:
        """A step was made."""
        self._observed.append(deepcopy(self._wrapper.old_obs))

    @property
    def is_due(self) -> bool:
        """Whether a model whose rollouts are a few steps has observed as much as in a long one."""
        return bool(self._wrapper.training) and len(self._observed) >= _LONG

    def visited(self) -> Array:
        """The states (n, *observation_shape) of the rollout that ends, as the environment has them.

        In the order of time: the first, and those after all steps but the last.
        """
        first = [] if self._first is None else [self._first]
        seen = [*first, *self._observed][: len(self._observed)]
        parts = {
            name: np.stack([_by_part(one)[name] for one in seen]) for name in _by_part(seen[0])
        }
        space: gym.Space[Any] = self._wrapper.observation_space
        return states_of(space, parts if isinstance(space, gym.spaces.Dict) else parts[""])

    def is_as_held(self) -> bool:
        """Whether the environment normalises as the policy that was held does."""
        mean, size, limit = _numbers(self._wrapper)
        front = self._front
        return bool(
            self._wrapper.norm_obs
            and self._wrapper.obs_rms is self._still
            and np.array_equal(mean.ravel(), front.mean.numpy())
            and np.array_equal(size.ravel(), front.size.numpy())
            and np.array_equal(limit, front.limit.numpy())
        )

    def _users(self) -> _Statistics:
        """The user's own statistics, also if a training that was left holds them still."""
        return _each(
            lambda found: found.moving if isinstance(found, _StillStatistics) else found,
            self._wrapper.obs_rms,
        )


def _by_part(whole: Any) -> dict[str, Any]:
    """What there is of each part of a Dict; of observations without parts, under no name."""
    return whole if isinstance(whole, dict) else {"": whole}


def _each(
    change: Callable[[RunningMeanStd], RunningMeanStd], statistics: _Statistics
) -> _Statistics:
    """The same of other statistics, made of these."""
    if isinstance(statistics, dict):
        return {name: change(one) for name, one in statistics.items()}
    return change(statistics)


@final
class _StillStatistics(RunningMeanStd):
    """Statistics that stay as they are for as long as a training goes on.

    Args:
        moving: the user's own, which they follow when told.
        goes_on: whether the training does: one that was interrupted ends without a word.
        release: put the user's own back.
    """

    def __init__(
        self,
        moving: RunningMeanStd,
        goes_on: Callable[[], bool],
        release: Callable[[], None],
    ) -> None:
        self.moving = moving
        self._goes_on, self._release = goes_on, release
        self.follow()

    def follow(self) -> None:
        """Be as the user's own are now."""
        self.mean, self.var, self.count = self.moving.mean, self.moving.var, self.moving.count

    @override
    def update(self, arr: Any) -> None:
        if not self._goes_on():
            self._release()
            self.moving.update(arr)

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        """In files and copies, ordinary statistics: those that the policy acts by."""
        numbers = {"mean": self.mean, "var": self.var, "count": self.count}
        return RunningMeanStd, (1e-4, self.mean.shape), numbers
