"""What outlives a process: a line per episode, and a checkpoint to go on from.

After every step everything is consistent: it is remembered, and learned from if it was time. An
environment cannot be saved in mid-episode, but its start depends on the seed and the episode's
number alone: on resume, the episode in progress begins anew and the actions it had taken are taken
again. Where the environment is deterministic, the run then continues bit for bit; elsewhere, it
merely continues.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, final

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from handrail._storage import STATE_FORMAT, check_format, load_state, save_state, to_line, under
from handrail.errors import Diverged, InvalidRun
from handrail.learning import Start
from handrail.runs.metrics import METRICS
from paper.q_learning.learner import Learner, Memory, Transition
from paper.q_learning.network import Floats

CHECKPOINT = "checkpoint.safetensors"
Arrays = dict[str, NDArray[Any]]


@final
@dataclass(frozen=True)
class Played:
    """An episode that is over."""

    score: float
    length: int


@final
class Episodes:
    """One after the other, each from the seed and its number.

    Attributes:
        number: of the one in progress.
        actions: that it has taken.
        state: where it is.
    """

    number: int
    actions: list[int]
    state: Floats

    def __init__(self, env: gym.Env[Any, Any], seed: int) -> None:
        self._env, self._seed = env, seed
        self._begin(0)

    def step(self, action: int) -> tuple[Transition, Played | None]:
        """Take one step; if it was the last of its episode, the next one has begun."""
        before = self.state
        after, reward, terminated, truncated, _ = self._env.step(action)
        self.state = np.asarray(after, np.float32)
        self.actions.append(action)
        self._score += float(reward)
        over = bool(terminated or truncated)
        taken = Transition(before, action, float(reward), self.state, bool(terminated), over)
        if not over:
            return taken, None
        played = Played(self._score, len(self.actions))
        self._begin(self.number + 1)
        return taken, played

    def replay(self, number: int, actions: list[int]) -> None:
        """Be in the middle of an episode again."""
        self._begin(number)
        for action in actions:
            self.step(action)

    def _begin(self, number: int) -> None:
        self.number = number
        self.actions = []
        self._score = 0.0
        state, _ = self._env.reset(seed=Start.of(self._seed, number).environment)
        self.state = np.asarray(state, np.float32)


@final
class Journal:
    """The files of one learner.

    Args:
        folder: where they are; must exist.
        identity: what a checkpoint must agree with.
    """

    def __init__(self, folder: Path, identity: dict[str, Any]) -> None:
        self._folder, self._identity = folder, identity
        self._losses, self._loss = 0, 0.0
        self._metrics: BinaryIO | None = None

    def open(self, learner: Learner, episodes: Episodes) -> None:
        """Bring a fresh learner to where the checkpoint is, and the metrics with it."""
        path, length = self._folder / CHECKPOINT, 0
        if path.exists():
            tensors, state = load_state(path)
            check_format(state, path)
            if state["identity"] != self._identity:
                raise InvalidRun(
                    f"{path} comes from another study or seed. Choose another folder, or delete "
                    "this one."
                )
            length = state["bytes"]
            self._losses, self._loss = state["losses"]
            _restore(learner, tensors, state)
            episodes.replay(state["episode"], tensors["actions"].tolist())
        self._metrics = _cut(self._folder / METRICS, length)

    def count(self, loss: float, steps: int) -> None:
        """Another update, after so many steps."""
        if not math.isfinite(loss):
            raise Diverged(f"The loss is {loss} after {steps} steps. Try a smaller step_size.")
        self._losses += 1
        self._loss += loss

    def write(self, episode: int, played: Played, steps: int) -> None:
        """A line of the metrics."""
        line = {
            "episode": episode,
            "score": played.score,
            "length": played.length,
            "steps": steps,
            "loss": self._loss / self._losses if self._losses else None,
        }
        self._file.write(to_line(line))
        self._losses, self._loss = 0, 0.0

    def save(self, learner: Learner, episodes: Episodes) -> None:
        """Write a checkpoint."""
        os.fsync(self._file.fileno())
        tensors, state = _snapshot(learner)
        tensors["actions"] = np.array(episodes.actions, dtype=np.int64)
        state |= {
            "format": STATE_FORMAT,
            "identity": self._identity,
            "bytes": self._file.tell(),
            "losses": [self._losses, self._loss],
            "episode": episodes.number,
        }
        save_state(self._folder / CHECKPOINT, tensors, state)

    def close(self) -> None:
        """Let the metrics go."""
        if self._metrics is not None:
            self._metrics.close()

    @property
    def _file(self) -> BinaryIO:
        assert self._metrics is not None, "open it first"
        return self._metrics


def _snapshot(learner: Learner) -> tuple[Arrays, dict[str, Any]]:
    """All that `_restore` needs."""
    tensors: Arrays = {
        "online": learner.online.parameters,
        "target": learner.target.parameters,
        "adam.means": learner.adam.means,
        "adam.squares": learner.adam.squares,
    }
    for name, column in _columns(learner.memory).items():
        tensors[f"memory.{name}"] = column[: len(learner.memory)]
    state = {
        "steps": learner.steps,
        "updates": learner.adam.count,
        "added": learner.memory.added,
        "chance": learner.rng.bit_generator.state,
    }
    return tensors, state


def _restore(learner: Learner, tensors: Arrays, state: dict[str, Any]) -> None:
    """A fresh learner becomes the one of the checkpoint."""
    for name, target in (
        ("online", learner.online.parameters),
        ("target", learner.target.parameters),
        ("adam.means", learner.adam.means),
        ("adam.squares", learner.adam.squares),
    ):
        target[:] = tensors[name]  # in place: networks have views of these
    columns = _columns(learner.memory)
    for name, values in under("memory.", tensors).items():
        columns[name][: len(values)] = values
    learner.steps, learner.adam.count = state["steps"], state["updates"]
    learner.memory.added = state["added"]
    learner.rng.bit_generator.state = state["chance"]


def _columns(memory: Memory) -> Arrays:
    return {
        name: getattr(memory, name)
        for name in ("states", "actions", "rewards", "afters", "futures", "goes_on")
    }


def _cut(path: Path, length: int) -> BinaryIO:
    """The metrics, ready to be appended to; what came after the checkpoint will come again."""
    path.touch()
    if path.stat().st_size < length:
        raise InvalidRun(f"{path} is shorter than when the checkpoint was written: it was altered.")
    os.truncate(path, length)
    file = path.open("ab", buffering=0)
    file.seek(0, os.SEEK_END)
    return file
