"""Episodes: what an environment and a policy make together, one at a time or side by side.

Chance comes from the run's seed, a stream and the number of an episode, so that each can be played
again without those before it.

Nothing that an environment gives is taken on trust: a learner that learned from a text, from half
an observation or from NaN would have learned something else, without a word. Whatever is not what
Gymnasium asks for is an `EnvironmentFailure` with its step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from handrail._types import Array
from handrail.errors import EnvironmentFailure, EpisodeInterrupted, InvalidArgument
from handrail.learning.cost import COST, cost_among, total_cost
from handrail.policies import Actions, Policy

LEARNING, EVALUATION, PREDICTION = 0, 1, 2  # streams of chance that never meet

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))  # and nearly all observations

_MOST_ROWS, _NUMBERS_IN_BLOCK = 256, 2**14  # of the states of an episode that lie together

_NUMBERS = frozenset({float, np.float64, np.float32})  # nearly all rewards are one of these


@final
@dataclass(frozen=True)
class Episode:
    """One trajectory.

    Attributes:
        states: (n, *observation_shape), in which the actions were taken.
        actions: (n,) indices, or (n, n_actions) as they were drawn, before the environment clips.
        rewards: (n,).
        final_state: (*observation_shape), after the last action.
        terminated: whether the environment ended it. If not, a time limit cut it short, and its
            final state still has a value.
        cost: the sum of `info["cost"]` over its steps; None if the environment names no cost.
    """

    states: Array
    actions: Actions
    rewards: Array
    final_state: Array
    terminated: bool
    cost: float | None = None

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def score(self) -> float:
        """The undiscounted sum of rewards."""
        return float(self.rewards.sum())


@final
@dataclass(frozen=True)
class Start:
    """What decides an episode besides the policy: two streams of chance.

    Both come from the run's seed and the episode's number alone, so any episode can be played
    again without the ones before it. That is what makes a resumed run continue bit for bit.
    """

    environment: int
    rng: np.random.Generator

    @classmethod
    def of(cls, seed: int, number: int, stream: int = LEARNING) -> Start:
        """The start of episode `number` of a stream."""
        environment, draws = np.random.SeedSequence([seed, stream, number]).spawn(2)
        return cls(int(environment.generate_state(1)[0]), np.random.default_rng(draws))


# One observation -> an action; or observations (n, *observation_shape) -> actions (n, …).
Act = Callable[[Array], Any]
ActTogether = Callable[[Array], Actions]


def drawing(policy: Policy, rng: np.random.Generator) -> Act:
    """Draw actions from the policy."""
    return policy.actor(rng)


def greedy(policy: Policy) -> Act:
    """Always take the most likely action."""
    return lambda state: policy.likeliest(policy.outputs(state[None]))[0]


def drawing_together(policy: Policy, rngs: Sequence[np.random.Generator]) -> ActTogether:
    """Draw an action per sub-environment, each from its own stream."""
    return lambda states: policy.draw(policy.outputs(states), rngs)


def greedy_together(policy: Policy) -> ActTogether:
    """Always take the most likely action in each sub-environment."""
    return lambda states: policy.likeliest(policy.outputs(states))


def environment_named(name: str) -> gym.Env[Any, Any]:
    """The environment of a Gymnasium id."""
    try:
        return gym.make(name)
    except gym.error.Error as error:
        raise InvalidArgument(f"Gymnasium cannot make {name!r}: {error}") from error


def first_state(env: gym.Env[Any, Any], seed: int) -> Array:
    """In which an episode of this seed begins (*observation_shape)."""
    state = _observed(_reset(env, seed), env.observation_space.shape or ())
    _refuse_bad_observation(state, 0)
    return state


def play(env: gym.Env[Any, Any], act: Act, seed: int) -> Episode:
    """Play one episode from a reset with this seed."""
    actions: list[Any] = []
    rewards: list[Any] = []
    costs: dict[int, Any] = {}
    shape = env.observation_space.shape or ()
    # States lie in blocks: an array of its own for each takes longer to make, and to put together.
    n_rows = max(1, min(_MOST_ROWS, _NUMBERS_IN_BLOCK // max(1, math.prod(shape))))
    blocks = [np.empty((n_rows, *shape))]
    block, row = blocks[0], 0
    block[0] = _observed(_reset(env, seed), shape)
    state = block[0, ...]
    finished = terminated = False
    # The hot loop: nothing is looked up, checked or formatted here that can wait.
    step, ndarray, floats = env.step, np.ndarray, _FLOATS
    while not finished:
        try:
            action = act(state)
        except Exception:  # whoever acts has words of their own for what they were shown
            _refuse_bad_observation(state, len(actions))
            raise
        actions.append(action)
        try:
            observation, reward, terminated, truncated, info = step(action)
            if info and COST in info:
                costs[len(rewards)] = info[COST]
        except (Exception, SystemExit) as error:
            raise _raised("environment", error, len(rewards)) from error
        except KeyboardInterrupt as interrupt:
            raise _interrupted(env, f"step {len(rewards)}") from interrupt
        row += 1
        if row == n_rows:
            block, row = np.empty((n_rows, *shape)), 0
            blocks.append(block)
        if (
            type(observation) is ndarray
            and observation.dtype in floats
            and (observation.shape == shape)
        ):
            block[row] = observation
        else:
            block[row] = _observed(observation, shape, len(rewards))
        state = block[row, ...]
        if type(terminated) is not bool or type(truncated) is not bool:
            terminated = _flag(terminated, "terminated", len(rewards))
            truncated = _flag(truncated, "truncated", len(rewards))
        rewards.append(reward)
        finished = terminated or truncated
    blocks[-1] = block[: row + 1]
    return _episode(np.concatenate(blocks), actions, rewards, terminated, total_cost(costs))


def play_in_parallel(
    envs: gym.vector.VectorEnv[Any, Any, Any], act: ActTogether, seeds: Sequence[int]
) -> list[Episode]:
    """Play one episode in each sub-environment, side by side.

    Each is played to its end, however long the others take: taking whichever finish first would
    prefer short episodes.
    """
    # Environments that are vectorised by nature have one stream of chance for all.
    each = isinstance(envs.unwrapped, (SyncVectorEnv, AsyncVectorEnv))
    shape = envs.observation_space.shape or ()
    current = _observed(_reset(envs, list(seeds) if each else seeds[0]), shape)
    mode = envs.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
    trails = [_Trail() for _ in range(envs.num_envs)]
    step = 0
    while any(trail.episode is None for trail in trails):
        try:
            actions = act(current)
        except Exception:
            _refuse_bad_observation(current, step)
            raise
        try:
            observations, rewards, terminated, truncated, infos = envs.step(actions)
        except (Exception, SystemExit) as error:
            raise _raised("environments", error, step) from error
        except KeyboardInterrupt as interrupt:
            raise _interrupted(envs, f"step {step}") from interrupt
        following = _observed(observations, shape, step)
        ended = [_flag(one, "terminated", step) for one in terminated]
        finished = np.array(ended) | [_flag(one, "truncated", step) for one in truncated]
        for i, trail in enumerate(trails):
            if trail.episode is not None:
                continue
            # In this mode a sub-environment that has finished has begun its next episode already.
            begun = bool(finished[i]) and mode == AutoresetMode.SAME_STEP
            own = infos.get("final_info", {}) if begun else infos
            trail.add(current[i], actions[i], rewards[i], cost_among(own, i))
            if finished[i]:
                last = infos["final_obs"][i] if begun else following[i]
                trail.end(_observed(last, shape[1:], step), ended[i])
        if mode == AutoresetMode.DISABLED and finished.any():
            restarted, _ = envs.reset(options={"reset_mask": finished})
            following = _observed(restarted, shape, step)
        current = following
        step += 1
    return [trail.episode for trail in trails if trail.episode is not None]


@final
class _Trail:
    """An episode in the making."""

    def __init__(self) -> None:
        self.episode: Episode | None = None
        self._states: list[Array] = []
        self._actions: list[Any] = []
        self._rewards: list[Any] = []
        self._costs: dict[int, Any] = {}

    def add(self, state: Array, action: Any, reward: Any, cost: Any) -> None:
        if cost is not None:
            self._costs[len(self._rewards)] = cost
        self._states.append(state)
        self._actions.append(action)
        self._rewards.append(reward)

    def end(self, final_state: Array, terminated: bool) -> None:
        self.episode = _episode(
            np.stack([*self._states, final_state]),
            self._actions,
            self._rewards,
            terminated,
            total_cost(self._costs),
        )


def _reset(env: Any, seed: int | list[int]) -> Any:
    try:
        observation, _ = env.reset(seed=seed)
    except (Exception, SystemExit) as error:
        raise EnvironmentFailure(
            f"The environment raised {type(error).__name__} on reset: {error}"
        ) from error
    except KeyboardInterrupt as interrupt:
        raise _interrupted(env, "its reset") from interrupt
    return observation


def _raised(who: str, error: BaseException, step: int) -> EnvironmentFailure:
    return EnvironmentFailure(f"The {who} raised {type(error).__name__} at step {step}: {error}")


def _interrupted(env: Any, what: str) -> EpisodeInterrupted:
    name = type(env.unwrapped).__name__ if env.spec is None else env.spec.id
    return EpisodeInterrupted(f"Interrupted while waiting for {what} of the environment {name}.")


def _observed(observation: Any, shape: tuple[int, ...], step: int | None = None) -> Array:
    """An observation as numbers (*shape), after a step or a reset.

    In memory of its own: environments may write the next one into the same.
    """
    try:
        # Neither texts nor complex numbers become real ones in silence.
        numbers = np.array(observation).astype(np.float64, casting="same_kind")
    except (TypeError, ValueError) as error:
        raise EnvironmentFailure(
            f"The environment's observation {_when(step)} is not an array of numbers: {error}"
        ) from error
    if numbers.shape != shape:
        raise EnvironmentFailure(
            f"The environment's observation {_when(step)} has the shape {numbers.shape}, but its "
            f"observation_space says {shape}."
        )
    return numbers


def _when(step: int | None) -> str:
    return "on reset" if step is None else f"at step {step}"


def _flag(value: Any, name: str, step: int) -> bool:
    """Whether an episode has ended: True or False, as a number (0 or 1) or in an array of one."""
    found = np.asarray(value)
    if found.size == 1 and found.dtype.kind in "biuf" and found.item() in (0, 1):
        return bool(found.item())
    raise EnvironmentFailure(
        f"The environment's `{name}` is {value!r} at step {step}. It must be True or False."
    )


def _refuse_bad_observation(state: Array, step: int) -> None:
    if not np.isfinite(state).all():
        when = _when(step - 1 if step else None)
        raise EnvironmentFailure(
            f"The environment's observation is not finite {when}: {state.tolist()}."
        )


def _episode(
    observed: Array, actions: list[Any], rewards: list[Any], terminated: bool, cost: float | None
) -> Episode:
    """Of what was observed (n + 1, *observation_shape), before and after each of n actions."""
    if not np.isfinite(observed).all():
        for step, state in enumerate(observed):
            _refuse_bad_observation(state, step)
    return Episode(
        states=observed[:-1],
        actions=np.array(actions),
        rewards=_rewards(rewards),
        final_state=observed[-1],
        terminated=terminated,
        cost=cost,
    )


def _rewards(rewards: list[Any]) -> Array:
    """(n,), each of them a finite number."""
    if not _NUMBERS.issuperset(map(type, rewards)):
        rewards = [_number(one, step) for step, one in enumerate(rewards)]
    values: Array = np.array(rewards, dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise EnvironmentFailure(
            f"The environment's reward is {values[bad[0]]} at step {bad[0]}. "
            "Rewards must be finite."
        )
    return values


def _number(reward: Any, step: int) -> float:
    """One reward; arrays, texts and the like are none, though some could be taken for one."""
    if np.ndim(reward) == 0 and not isinstance(reward, (str, bytes, complex)):
        try:
            return float(reward)
        except (TypeError, ValueError, OverflowError):
            pass  # said below
    raise EnvironmentFailure(
        f"The environment's reward is {reward!r} at step {step}. It must be one number."
    )
