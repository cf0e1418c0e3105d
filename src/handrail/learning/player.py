"""Who plays the episodes of an update: one environment after the other, or many side by side."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

import gymnasium as gym
from typing_extensions import override

from handrail._types import Array
from handrail.errors import EnvironmentFailure, EpisodeInterrupted, InvalidArgument
from handrail.learning.episode import (
    Episode,
    Start,
    drawing,
    drawing_together,
    environment_named,
    first_state,
    greedy,
    greedy_together,
    play,
    play_in_parallel,
)
from handrail.learning.normalisation import Normalisation, in_own_numbers, normalisation_of
from handrail.policies import Policy, Spaces, fitted, fitting, spaces_of, takes_as_drawn

AnyEnvironment = gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any]

_played: set[int] = set()  # the number of the episode that is being played, if one is


@final
@dataclass(frozen=True)
class Round:
    """Which episodes to play; each depends on its number alone.

    Attributes:
        seed: of the run.
        stream: of chance, such as learning or evaluation.
        first: number of the first episode.
        deterministic: always take the most likely action.
    """

    seed: int
    stream: int
    first: int
    deterministic: bool = False

    def start(self, number: int) -> Start:
        """The start of an episode of the stream."""
        return Start.of(self.seed, number, self.stream)


class Player(ABC):
    """Plays the episodes of one update."""

    env: AnyEnvironment
    spaces: Spaces
    """Of what policies see, and of what the environment takes."""

    normalisation: Normalisation | None
    """Of what the environment shows, which policies do themselves while they play here."""

    @property
    def observes(self) -> gym.Space[Any]:
        """What the environment itself observes."""
        if isinstance(self.env, gym.vector.VectorEnv):
            space: gym.Space[Any] = self.env.single_observation_space
            return space
        return self.env.observation_space

    @abstractmethod
    def play(self, policy: Policy, which: Round) -> list[Episode]:
        """Episodes `first`, `first` + 1, … as many as an update has."""

    @abstractmethod
    def beginning(self, start: Start) -> Array | None:
        """In which an episode begins (1, *observation_shape); None if it is not known.

        The environment is reset for it, once more than for playing; no step is taken. What is wrong
        with it is said as when the first episode is played.
        """


@final
class SequentialPlayer(Player):
    """Plays in one environment."""

    def __init__(self, env: gym.Env[Any, Any], episodes: int) -> None:
        self.env, self._env = env, fitting(env)
        self.normalisation = normalisation_of(env)
        self.spaces = _spaces_of(env, self.normalisation)
        self._episodes, self._bare = episodes, _is_bare(env)

    @override
    def play(self, policy: Policy, which: Round) -> list[Episode]:
        played = []
        for number in range(which.first, which.first + self._episodes):
            start = which.start(number)
            act = greedy(policy) if which.deterministic else drawing(policy, start.rng)
            with _naming_the_episode(number), in_own_numbers(self.normalisation, act) as acting:
                played.append(play(self._env, acting, start.environment))
        return played

    @override
    def beginning(self, start: Start) -> Array | None:
        if not self._bare:
            return None
        with _naming_the_episode(0):
            return first_state(self._env, start.environment)[None]


@final
class VectorPlayer(Player):
    """Plays in all sub-environments of a vector environment at once."""

    def __init__(self, envs: gym.vector.VectorEnv[Any, Any, Any], episodes: int) -> None:
        if episodes > 1 and episodes % envs.num_envs:
            raise InvalidArgument(
                f"episodes_per_update={episodes} does not fit {envs.num_envs} sub-environments: "
                f"each plays whole episodes. Use a multiple of {envs.num_envs}."
            )
        self.env = self._envs = envs
        self.normalisation = normalisation_of(envs)
        self.spaces = _spaces_of(envs, self.normalisation)
        actions = self.spaces[1]
        if not takes_as_drawn(actions):
            self._envs = gym.wrappers.vector.TransformAction(
                envs, lambda drawn: fitted(drawn, actions), envs.action_space
            )
        if not isinstance(envs.single_observation_space, gym.spaces.Box):
            self._envs = gym.wrappers.vector.FlattenObservation(self._envs)
        self._rounds = max(1, episodes // envs.num_envs)

    @override
    def play(self, policy: Policy, which: Round) -> list[Episode]:
        n = self._envs.num_envs
        played: list[Episode] = []
        for first in range(which.first, which.first + n * self._rounds, n):
            starts = [which.start(first + i) for i in range(n)]
            rngs = [start.rng for start in starts]
            act = greedy_together(policy) if which.deterministic else drawing_together(policy, rngs)
            with _naming_the_episode(first), in_own_numbers(self.normalisation, act) as acting:
                seeds = [start.environment for start in starts]
                played += play_in_parallel(self._envs, acting, seeds)
        return played

    @override
    def beginning(self, start: Start) -> Array | None:
        return None  # sub-environments may be in processes, with wrappers that nobody sees


def _is_bare(env: gym.Env[Any, Any]) -> bool:
    """Whether nothing is around it that may count resets, such as what films or normalises."""
    return env.unwrapped is env or (env.spec is not None and not env.spec.additional_wrappers)


def _spaces_of(env: AnyEnvironment, normalisation: Normalisation | None) -> Spaces:
    if normalisation is None:
        return spaces_of(env)
    if isinstance(env, gym.vector.VectorEnv):
        return spaces_of((normalisation.space, env.single_action_space))
    return spaces_of((normalisation.space, env.action_space))


def make_player(env: str | AnyEnvironment, episodes: int) -> Player:
    """The player for a Gymnasium id, an environment or a vector environment."""
    if isinstance(env, str):
        env = environment_named(env)
    if isinstance(env, gym.vector.VectorEnv):
        return VectorPlayer(env, episodes)
    if isinstance(env, gym.Env):
        return SequentialPlayer(env, episodes)
    raise InvalidArgument(
        f"Expected a Gymnasium id, an environment or a vector environment, but got "
        f"{type(env).__name__}. Try Reinforce('CartPole-v1')."
    )


def is_playing() -> bool:
    """Whether an episode is being played in this process, of which nothing was learned yet."""
    return bool(_played)


@contextmanager
def _naming_the_episode(number: int) -> Iterator[None]:
    _played.add(number)
    try:
        yield
    except EnvironmentFailure as error:
        raise EnvironmentFailure(f"Episode {number}: {error}") from error
    except KeyboardInterrupt as interrupt:
        where = str(interrupt) or "Interrupted."
        raise EpisodeInterrupted(
            f"Episode {number}: {where} What was learned before it is kept."
        ) from interrupt
    finally:
        _played.clear()
