"""A double Q-learner that can be interrupted: its target, metrics, checkpoints to continue from.

Between two rollouts, everything is consistent: all transitions are stored, all gradient steps are
taken. Only there is a checkpoint written. An environment cannot be saved in mid-episode, but its
start depends on the seed and the episode's number alone: on resume, the episode in progress begins
anew and the actions it had taken are taken again. Where the environment is deterministic, the run
then continues bit for bit; elsewhere, it merely continues.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any, SupportsFloat, final

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3 import DQN
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback

from handrail._storage import (
    STATE_FORMAT,
    check_format,
    load_state,
    prefixed,
    save_state,
    to_line,
    under,
)
from handrail.errors import Diverged, InvalidRun
from handrail.learning import Start
from handrail.runs.metrics import METRICS

CHECKPOINT = "checkpoint.safetensors"
_ASK_SECONDS = 0.5  # how long an order to stop may go unheard within an episode
_COUNTERS = ("num_timesteps", "_n_calls", "_n_updates", "_episode_num", "exploration_rate")
_TRANSITION = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
Arrays = dict[str, NDArray[Any]]


@final
class DoubleDQN(DQN):
    """DQN whose target values the online network's best action by the target network.

    Double Q-learning (van Hasselt et al. 2016) on top of Stable-Baselines3's DQN.

    `DQN.train` takes the maximum of what `q_net_target` answers. While it runs, we answer with the
    one value of the action that the online network would take, whose maximum is itself: the double
    target. So this follows Stable-Baselines3's own 40 lines, whatever they become, instead of a
    copy of them.
    """

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """Gradient steps towards the double target."""
        online, target = self.q_net, self.q_net_target

        def value_of_the_online_choice(observations: torch.Tensor) -> torch.Tensor:
            choice = online(observations).argmax(dim=1, keepdim=True)
            value: torch.Tensor = target(observations).gather(1, choice)
            return value

        self.q_net_target = value_of_the_online_choice  # type: ignore[assignment]
        try:
            super().train(gradient_steps, batch_size)
        finally:  # the target network is updated outside of `train`
            self.q_net_target = target


@final
class NumberedEpisodes(gym.Wrapper[Any, Any, Any, Any]):
    """Starts each episode from the seed and its number, and remembers its actions."""

    def __init__(self, env: gym.Env[Any, Any], seed: int) -> None:
        super().__init__(env)
        self.next = 0
        self.actions: list[int] = []
        self._seed = seed

    def reset(
        self,
        *,
        seed: int | None = None,  # noqa: ARG002 (Stable-Baselines3 gives one, once)
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Begin the next episode."""
        start = Start.of(self._seed, self.next).environment
        self.next += 1
        self.actions = []
        return self.env.reset(seed=start, options=options)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take one step."""
        self.actions.append(int(action))
        return self.env.step(action)


@final
class LearningLog(BaseCallback):
    """Follows one learner: a line per episode, a checkpoint now and then, an ear for `stop`.

    Attributes:
        stopped: whether learning ended because it was told to.
    """

    def __init__(
        self,
        folder: Path,
        episodes: NumberedEpisodes,
        identity: dict[str, Any],
        report: Callable[[float], None],
        stop: Callable[[], bool],
        checkpoint_seconds: float,
    ) -> None:
        super().__init__()
        self.stopped = False
        self._folder, self._episodes, self._identity = folder, episodes, identity
        self._report, self._stop, self._checkpoint_seconds = report, stop, checkpoint_seconds
        self._saved_at = self._asked_at = monotonic()
        self._asked_after = 0  # episodes
        self._updates, self._losses, self._loss = 0, 0, 0.0

    def restore(self, model: DoubleDQN) -> None:
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
            self._updates, self._losses, self._loss = state["losses"]
            _restore(model, self._episodes, tensors, state)
        self._metrics = _cut(self._folder / METRICS, length)

    def save(self, model: DoubleDQN) -> None:
        """Write a checkpoint; only between rollouts."""
        os.fsync(self._metrics.fileno())
        tensors, state = _snapshot(model, self._episodes)
        state |= {
            "format": STATE_FORMAT,
            "identity": self._identity,
            "bytes": self._metrics.tell(),
            "losses": [self._updates, self._losses, self._loss],
        }
        save_state(self._folder / CHECKPOINT, tensors, state)
        self._saved_at = monotonic()

    def close(self) -> None:
        """Let the metrics go."""
        self._metrics.close()

    def _on_rollout_start(self) -> None:
        """Everything is consistent here; `_on_step` comes before its transition is stored."""
        assert isinstance(self.model, DoubleDQN)
        self._count_losses()
        self.stopped = self._told_to_stop()
        if self.stopped or monotonic() - self._saved_at >= self._checkpoint_seconds:
            self.save(self.model)

    def _on_step(self) -> bool:
        if self.stopped:  # the checkpoint does not know this step: it will be taken again
            return False
        played = self.locals["infos"][0].get("episode")
        if played is not None:
            self._write(float(played["r"]), int(played["l"]))
        return True

    def _write(self, score: float, length: int) -> None:
        line = {
            "episode": self.model._episode_num,
            "score": score,
            "length": length,
            "steps": self.num_timesteps,
            "loss": self._loss / self._losses if self._losses else None,
        }
        self._metrics.write(to_line(line))
        self._losses, self._loss = 0, 0.0

    def _count_losses(self) -> None:
        """The gradient steps between the last rollout and this one."""
        taken = self.model._n_updates - self._updates
        if taken == 0:
            return
        loss = float(self.logger.name_to_value["train/loss"])
        if not math.isfinite(loss):
            raise Diverged(
                f"The loss is {loss} after {self.num_timesteps} steps. Try a smaller learning_rate."
            )
        self._updates += taken
        self._losses += taken
        self._loss += taken * loss

    def _told_to_stop(self) -> bool:
        """Ask after every episode, and within long ones."""
        episodes, now = self._episodes.next, monotonic()
        if episodes == self._asked_after and now - self._asked_at < _ASK_SECONDS:
            return False
        self._asked_after, self._asked_at = episodes, now
        self._report(min(1.0, self.num_timesteps / self.model._total_timesteps))
        return self._stop()


def _snapshot(model: DoubleDQN, episodes: NumberedEpisodes) -> tuple[Arrays, dict[str, Any]]:
    """All that `_restore` needs."""
    buffer = _buffer(model)
    legacy = np.random.get_state(legacy=False)  # noqa: NPY002 (Stable-Baselines3 draws from it)
    assert isinstance(legacy, dict)
    tensors: Arrays = {
        **prefixed("policy.", _arrays(model.policy.state_dict())),
        **{f"buffer.{name}": getattr(buffer, name)[: buffer.size()] for name in _TRANSITION},
        "actions": np.array(episodes.actions, dtype=np.int64),
        "numpy": legacy["state"]["key"],
        "torch": torch.get_rng_state().numpy(),
    }
    for i, values in model.policy.optimizer.state_dict()["state"].items():
        tensors |= prefixed(f"optimizer.{i}.", _arrays(values))
    state = {
        "counters": {name: getattr(model, name) for name in _COUNTERS},
        "buffer": [buffer.pos, buffer.full],
        "numpy": [legacy["state"]["pos"], legacy["has_gauss"], legacy["gauss"]],
        "exploration": model.action_space.np_random.bit_generator.state,
    }
    return tensors, state


def _restore(
    model: DoubleDQN, episodes: NumberedEpisodes, tensors: Arrays, state: dict[str, Any]
) -> None:
    """A fresh learner becomes the one of the checkpoint."""
    for name, value in state["counters"].items():
        setattr(model, name, value)
    model.policy.load_state_dict(_tensors(under("policy.", tensors)))
    _restore_optimizer(model.policy.optimizer, under("optimizer.", tensors))
    buffer = _buffer(model)
    buffer.pos, buffer.full = state["buffer"]
    for name, values in under("buffer.", tensors).items():
        getattr(buffer, name)[: len(values)] = values
    assert model.env is not None
    episodes.next = model._episode_num
    model._last_obs = model.env.reset()  # type: ignore[assignment]
    for action in tensors["actions"]:
        model._last_obs = model.env.step(action[None])[0]  # type: ignore[assignment]
    # Chance comes last: whatever was drawn until here is forgotten.
    position, has_gauss, gauss = state["numpy"]
    np.random.set_state(("MT19937", tensors["numpy"], position, has_gauss, gauss))  # noqa: NPY002
    torch.set_rng_state(torch.from_numpy(tensors["torch"].copy()))
    model.action_space.np_random.bit_generator.state = state["exploration"]


def _restore_optimizer(optimizer: torch.optim.Optimizer, arrays: Arrays) -> None:
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, tensor in _tensors(arrays).items():
        i, name = key.split(".")
        # Our files have no arrays without axes, but Adam's count of steps is one.
        state.setdefault(int(i), {})[name] = tensor.reshape(()) if name == "step" else tensor
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def _buffer(model: DoubleDQN) -> ReplayBuffer:
    assert model.replay_buffer is not None
    return model.replay_buffer


def _arrays(tensors: dict[str, torch.Tensor]) -> Arrays:
    return {name: tensor.detach().numpy() for name, tensor in tensors.items()}


def _tensors(arrays: Arrays) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}


def _cut(path: Path, length: int) -> Any:
    """The metrics, ready to be appended to; what came after the checkpoint will come again."""
    path.touch()
    if path.stat().st_size < length:
        raise InvalidRun(f"{path} is shorter than when the checkpoint was written: it was altered.")
    os.truncate(path, length)
    file = path.open("ab", buffering=0)
    file.seek(0, os.SEEK_END)
    return file
