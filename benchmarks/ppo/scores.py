"""The score of every episode that a model of Stable-Baselines3 plays while it learns."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from stable_baselines3.common.callbacks import BaseCallback


class Stopped(Exception):
    """Asked to stop: what was not finished is done again."""


@final
class Scores(BaseCallback):
    """Notes every episode that ends.

    Args:
        stop: asked after every rollout; `Stopped` ends the learning.

    Attributes:
        scores: one per episode, in the order in which they ended.
        ends: environment steps (of all environments together) at the end of each episode.
    """

    def __init__(self, stop: Callable[[], bool]) -> None:
        super().__init__()
        self.scores: list[float] = []
        self.ends: list[int] = []
        self._stop = stop

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self.scores.append(float(info["episode"]["r"]))
                self.ends.append(self.num_timesteps)
        return True

    def _on_rollout_end(self) -> None:
        if self._stop():
            raise Stopped
