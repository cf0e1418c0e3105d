"""Double deep Q-learning (van Hasselt et al. 2016): act, remember, learn from what is remembered.

With n-step returns as in Rainbow (Hessel et al. 2018), a target network that follows softly
(Lillicrap et al. 2016), Huber's loss and Adam.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from paper.experiment import QSettings
from paper.q_learning.network import Adam, Choices, Floats, Network

_LARGEST_GRADIENT = 10.0  # longer ones are cut to this length, as Stable-Baselines3 does


@final
@dataclass(frozen=True)
class Transition:
    """One step in the environment.

    Attributes:
        state: where an action was taken.
        action: that one.
        reward: for it.
        after: the state that it led to.
        terminal: nothing comes after it; an episode that was cut off would have gone on.
        last: of its episode, terminal or cut off.
    """

    state: Floats
    action: int
    reward: float
    after: Floats
    terminal: bool
    last: bool


@final
@dataclass(frozen=True)
class Batch:
    """What an update learns from, row by row.

    Attributes:
        states: where actions were taken.
        actions: those.
        returns: the discounted sum of the rewards that followed, up to a state after.
        afters: that state.
        discounts: what its value counts for: γ to the number of these rewards, 0 if terminal.
    """

    states: Floats
    actions: Choices
    returns: Floats
    afters: Floats
    discounts: Floats


@final
class Memory:
    """The newest transitions, as many as there is room for, in the order in which they came."""

    def __init__(self, room: int, width: int) -> None:
        self.states, self.afters = (np.zeros((room, width), np.float32) for _ in range(2))
        self.actions = np.zeros(room, np.int64)
        self.rewards, self.futures = (np.zeros(room, np.float32) for _ in range(2))
        self.goes_on = np.zeros(room, np.float32)
        self.added = 0

    def __len__(self) -> int:
        return min(self.added, len(self.actions))

    def add(self, one: Transition) -> None:
        """In the place of the oldest, if it is full."""
        at = self.added % len(self.actions)
        self.states[at], self.afters[at] = one.state, one.after
        self.actions[at], self.rewards[at] = one.action, one.reward
        self.futures[at] = 0.0 if one.terminal else 1.0
        self.goes_on[at] = 0.0 if one.last else 1.0
        self.added += 1

    def batch(self, ages: Choices, discount: float, lookahead: int) -> Batch:
        """Transitions by age (0: the newest), with n-step returns up to the ends of episodes.

        What came after the newest is not known yet: none may be younger than lookahead - 1.
        """
        room = len(self.actions)
        first = (self.added - 1 - ages) % room
        last, returns = first, self.rewards[first]
        reaches, factor = self.goes_on[first], np.full(len(first), discount, np.float32)
        for _ in range(lookahead - 1):
            # Where the episode is over, everything stays as it is.
            last = np.where(reaches > 0.0, (last + 1) % room, last)
            returns = returns + reaches * factor * self.rewards[last]
            factor = np.where(reaches > 0.0, factor * np.float32(discount), factor)
            reaches = reaches * self.goes_on[last]
        return Batch(
            self.states[first],
            self.actions[first],
            returns,
            self.afters[last],
            factor * self.futures[last],
        )


def double_targets(batch: Batch, online: Floats, target: Floats) -> Floats:
    """The targets r + γ Q'(s', argmax Q(s', a)): the online network chooses, the other values.

    Args:
        batch: rewards and what comes after them.
        online: (n, n_actions), what the network that learns says of the states after.
        target: what the other says of them.
    """
    chosen = target[np.arange(len(target)), online.argmax(axis=1)]
    targets: Floats = batch.returns + batch.discounts * chosen
    return targets


def follow(target: Floats, online: Floats, rate: float) -> None:
    """The soft update θ' ← θ' + τ (θ - θ'), in place."""
    target += rate * (online - target)


def falling(first: float, last: float, share: float) -> float:
    """On the line from the first to the last value; the last one from a share of 1 on."""
    return first + min(1.0, share) * (last - first)


def exploration(settings: QSettings, progress: float) -> float:
    """The probability of a random action after a part of all steps."""
    return falling(1.0, settings.exploration_final, progress / settings.exploration_fraction)


@final
class Learner:
    """One that acts and learns.

    Attributes:
        online: the network that acts.
        target: the one that follows it.
        adam: of the online network.
        memory: of what happened.
        rng: all chance after the first parameters.
        steps: that were taken.
    """

    def __init__(
        self, settings: QSettings, width: int, actions: int, timesteps: int, seed: int
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.online = Network.fresh((width, *settings.hidden, actions), self.rng)
        self.target = self.online.copy()
        self.adam = Adam(self.online.parameters.size)
        self.memory = Memory(settings.memory, width)
        self.steps = 0
        self._settings, self._actions, self._timesteps = settings, actions, timesteps
        self._rows = np.arange(settings.batch)

    @property
    def progress(self) -> float:
        """The part of all steps that was taken."""
        return self.steps / self._timesteps

    def act(self, state: Floats) -> int:
        """At random now and then, else what seems best."""
        if self.rng.random() < exploration(self._settings, self.progress):
            return int(self.rng.integers(self._actions))
        return self.best(state)

    def best(self, state: Floats) -> int:
        """The action of the greatest value."""
        return int(self.online.values(state).argmax())

    def observe(self, one: Transition) -> float | None:
        """Remember, and learn if it is time; the loss of the batch, if one was learned from."""
        self.memory.add(one)
        self.steps += 1
        settings = self._settings
        if self.steps <= settings.learning_starts or self.steps % settings.update_every:
            return None
        if len(self.memory) < settings.lookahead:
            return None
        # Those whose n-step return is known, and not yet written over at its beginning.
        newest = settings.lookahead - 1
        ages = self.rng.integers(newest, len(self.memory), size=settings.batch)
        batch = self.memory.batch(ages, settings.discount, settings.lookahead)
        with np.errstate(over="ignore", invalid="ignore"):  # who diverges is told by the loss
            return self._learn(batch)

    def _learn(self, batch: Batch) -> float:
        """One step of Adam towards the double targets, then the soft update; the mean loss."""
        n, settings = len(batch.actions), self._settings
        # One pass for what is learned and what is chosen: both are the online network's.
        outputs = self.online.outputs(np.concatenate((batch.states, batch.afters)))
        targets = double_targets(batch, outputs[-1][n:], self.target.values(batch.afters))
        errors = outputs[-1][self._rows, batch.actions] - targets
        clipped = np.clip(errors, -1.0, 1.0)  # the slope of Huber's loss
        slopes = np.zeros((n, self._actions), np.float32)
        slopes[self._rows, batch.actions] = clipped / n
        gradient = self.online.gradient([one[:n] for one in outputs], slopes)
        size = float(np.sqrt(gradient @ gradient))
        if size > _LARGEST_GRADIENT:
            gradient *= _LARGEST_GRADIENT / size
        step_size = falling(settings.step_size, settings.step_size_final, self.progress)
        self.adam.descend(self.online.parameters, gradient, step_size)
        follow(self.target.parameters, self.online.parameters, settings.target_rate)
        # Huber's loss, e²/2 within ±1 and |e| - 1/2 beyond, is c (e - c/2) of the clipped error c.
        return float(np.mean(clipped * (errors - 0.5 * clipped)))
