"""What the steps of episodes were worth: discounted returns, compared with a baseline.

Safe returns are never compared with anything: a baseline weighs steps against each other, a safe
return is what a constraint needs (paper, remark on other policy-gradient methods).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from typing import final

import numpy as np
from scipy.signal import lfilter
from typing_extensions import override

from handrail._storage import tensor
from handrail._types import Array
from handrail.errors import InvalidArgument
from handrail.learning.episode import Episode
from handrail.settings import LearnerSettings

# A least-squares fit solves a system of about twice this size at every update.
MOST_OBSERVATIONS = 256


def discounted(rewards: Array, discount: float, after: float = 0.0) -> Array:
    """G_k = r_k + γ G_{k+1} (docs/explanation/paper.md, note 5), with `after` in place of G_n."""
    # The recursion, run backwards in time, is a first-order linear filter.
    initial = np.array([discount * after])
    returns, _ = lfilter([1.0], [1.0, -discount], rewards[::-1], zi=initial)
    result: Array = returns[::-1].copy()
    return result


class Baseline(ABC):
    """Turns episodes into what each step is worth to the learner."""

    @abstractmethod
    def advantages(self, episodes: Sequence[Episode], discount: float) -> list[Array]:
        """One array (n_steps,) per episode; what was seen may be remembered."""

    @abstractmethod
    def memory(self) -> dict[str, Array]:
        """What it remembers, to be saved."""

    @abstractmethod
    def recall(self, memory: Mapping[str, Array]) -> None:
        """Continue from a saved memory; `InvalidRun` if it is none of this baseline."""


@final
class NoBaseline(Baseline):
    """The returns themselves."""

    @override
    def advantages(self, episodes: Sequence[Episode], discount: float) -> list[Array]:
        return [discounted(episode.rewards, discount) for episode in episodes]

    @override
    def memory(self) -> dict[str, Array]:
        return {}

    @override
    def recall(self, memory: Mapping[str, Array]) -> None:
        """There is nothing to recall."""


@final
class Standardised(Baseline):
    """Mean 0 and (unbiased) standard deviation 1 over the update, as the paper's authors do."""

    @override
    def advantages(self, episodes: Sequence[Episode], discount: float) -> list[Array]:
        """All zero where returns do not differ."""
        returns = [discounted(episode.rewards, discount) for episode in episodes]
        together = np.concatenate(returns)
        deviation = float(together.std(ddof=1)) if len(together) > 1 else 0.0
        if deviation == 0.0:
            return [np.zeros(len(one)) for one in returns]
        return [(one - together.mean()) / deviation for one in returns]

    @override
    def memory(self) -> dict[str, Array]:
        return {}

    @override
    def recall(self, memory: Mapping[str, Array]) -> None:
        """There is nothing to recall."""


@final
class RunningScale:
    """Measures advantages in units of their recent size, so one step size suits every environment.

    Over a window of episodes, not over one update: when all goes well the advantages of an update
    are small, and dividing by their own size would blow noise up into a full step.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self._recent = np.zeros((0, 2))  # Σ advantage² and steps of each recent episode

    def in_units(self, advantages: list[Array]) -> list[Array]:
        """Divided by the root mean square over the window, which these join first."""
        joining = [(one @ one, len(one)) for one in advantages]
        self._recent = np.concatenate([self._recent, joining])[-self._window :]
        squares, steps = self._recent.sum(axis=0).tolist()
        size = math.sqrt(squares / steps)
        return [one / size for one in advantages] if size > 0.0 else advantages

    def memory(self) -> Array:
        """(n, 2), oldest first."""
        return self._recent

    def recall(self, memory: Mapping[str, Array], name: str) -> None:
        """Continue from a saved memory."""
        self._recent = tensor(memory, name, (None, 2))


@final
class TimeAverage(Baseline):
    """Returns minus the average return at the same step of recent episodes.

    Removes what the clock alone decides: under a time limit, late steps have small returns however
    good they were.

    Args:
        window: how many recent episodes the average is over.
    """

    def __init__(self, window: int) -> None:
        self._recent: deque[Array] = deque(maxlen=window)
        self._scale = RunningScale(window)

    @override
    def advantages(self, episodes: Sequence[Episode], discount: float) -> list[Array]:
        """Returns minus the average over the window, which these episodes join first."""
        returns = [discounted(episode.rewards, discount) for episode in episodes]
        self._recent.extend(returns)
        padded = np.zeros((len(self._recent), max(len(one) for one in (*self._recent, *returns))))
        # An episode that has ended is worth nothing more at later steps.
        for row, one in zip(padded, self._recent, strict=True):
            row[: len(one)] = one
        average = padded.mean(axis=0)
        return self._scale.in_units([one - average[: len(one)] for one in returns])

    @override
    def memory(self) -> dict[str, Array]:
        """The returns of recent episodes, oldest first."""
        saved = {f"returns.{i:06d}": returns for i, returns in enumerate(self._recent)}
        return {**saved, "spread": self._scale.memory()}

    @override
    def recall(self, memory: Mapping[str, Array]) -> None:
        names = sorted(key for key in memory if key.startswith("returns."))
        recent = [tensor(memory, name, (None,)) for name in names]
        self._scale.recall(memory, "spread")
        self._recent.clear()
        self._recent.extend(recent)


@final
class Value(Baseline):
    """Generalised advantages over a value function, fitted to recent episodes by least squares.

    The value of a state is a linear function of its observations, their squares and 1. Where a time
    limit cut an episode short, the value of the state it left off at stands for the rest: the clock
    decides nothing.

    Args:
        n_observations: of a flattened state.
        window: how many recent episodes the fit is over.
        decay: λ of generalised advantages: 1 trusts returns, 0 the value function.
    """

    def __init__(self, n_observations: int, window: int, decay: float) -> None:
        if n_observations > MOST_OBSERVATIONS:
            raise InvalidArgument(
                f"baseline='value' fits up to {MOST_OBSERVATIONS} observations, but this "
                f"environment has {n_observations}. Use baseline='time_average'."
            )
        self._decay = decay
        self._window = window
        size = 2 * n_observations + 1
        self._weights = np.zeros(size)
        # ΦᵀΦ and Φᵀy of the steps of each recent episode: all that a fit needs to know of it.
        self._squares, self._moments = np.zeros((0, size, size)), np.zeros((0, size))
        self._scale = RunningScale(window)

    @override
    def advantages(self, episodes: Sequence[Episode], discount: float) -> list[Array]:
        """Σ_j (γλ)^j δ_{k+j} with δ_k = r_k + γ V(s_{k+1}) - V(s_k), after these joined the fit."""
        features = [_features(np.concatenate([e.states, e.final_state[None]])) for e in episodes]
        for episode, phi in zip(episodes, features, strict=True):
            after = 0.0 if episode.terminated else float(phi[-1] @ self._weights)
            returns = discounted(episode.rewards, discount, after)
            squares, moments = phi[:-1].T @ phi[:-1], phi[:-1].T @ returns
            self._squares = np.concatenate([self._squares, squares[None]])[-self._window :]
            self._moments = np.concatenate([self._moments, moments[None]])[-self._window :]
        self._weights = self._fit()
        return self._scale.in_units(
            [self._generalised(e, phi, discount) for e, phi in zip(episodes, features, strict=True)]
        )

    def _fit(self) -> Array:
        squares, moments = self._squares.sum(axis=0), self._moments.sum(axis=0)
        # Features of unit size, and a ridge that only matters where they say the same.
        size = np.sqrt(squares.diagonal())
        size[size == 0.0] = 1.0  # of observations that were always zero
        gram = squares / (size[:, None] * size)
        gram.ravel()[:: len(size) + 1] += 1e-6
        weights: Array = np.linalg.solve(gram, moments / size) / size
        return weights

    def _generalised(self, episode: Episode, features: Array, discount: float) -> Array:
        values = features @ self._weights
        if episode.terminated:
            values[-1] = 0.0
        errors = episode.rewards + discount * values[1:] - values[:-1]
        return discounted(errors, discount * self._decay)

    @override
    def memory(self) -> dict[str, Array]:
        """The weights, and the moments of recent episodes, oldest first."""
        return {
            "weights": self._weights,
            "squares": self._squares,
            "moments": self._moments,
            "spread": self._scale.memory(),
        }

    @override
    def recall(self, memory: Mapping[str, Array]) -> None:
        size = len(self._weights)
        weights = tensor(memory, "weights", (size,))
        squares = tensor(memory, "squares", (None, size, size))
        moments = tensor(memory, "moments", (len(squares), size))
        self._scale.recall(memory, "spread")
        self._weights, self._squares, self._moments = weights, squares, moments


def _features(states: Array) -> Array:
    """Observations, their squares, and 1: (n, 2 n_observations + 1)."""
    flat = states.reshape(len(states), -1)
    return np.concatenate([flat, flat**2, np.ones((len(flat), 1))], axis=1)


def make_baseline(settings: LearnerSettings, n_observations: int) -> Baseline:
    """The baseline that the settings name."""
    if settings.baseline == "none":
        return NoBaseline()
    if settings.baseline == "standardised":
        return Standardised()
    if settings.baseline == "time_average":
        return TimeAverage(settings.baseline_window)
    return Value(n_observations, settings.baseline_window, settings.advantage_decay)
