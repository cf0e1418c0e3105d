"""One training: scores, and what was done in the places that constraints speak of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any, final

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

from benchmarks.off_policy.setting import Arm, Setting
from benchmarks.ppo.scores import Scores
from handrail._types import Array, Mask
from handrail.constraints import PlacedConstraint, Prefer
from handrail.regions import Region
from handrail.sb3 import Handrail
from handrail.settings import Everywhere


@final
@dataclass(frozen=True)
class Training:
    """What one training did.

    Attributes:
        scores: one per episode, in the order in which they ended.
        ends: environment steps at the end of each episode.
        seconds: of one core, for the training; what is noted here excluded.
        seconds_held: of these, looks and holdings.
        steps_in_places: steps at states that a constraint speaks of.
        against: of these, those whose action without noise or chance breaks it.
        drawn_against: of these, those whose action, as it was drawn, breaks it.
        worst_violation: of any policy that acted; None where nothing is held.
        looks: policies that were looked at.
        holdings: of these, those that had to be changed.
    """

    scores: tuple[float, ...]
    ends: tuple[int, ...]
    seconds: float
    seconds_held: float
    steps_in_places: int
    against: int
    drawn_against: int
    worst_violation: float | None = None
    looks: int = 0
    holdings: int = 0


@final
class Places(BaseCallback):
    """Notes every step at a state that a constraint speaks of."""

    def __init__(self, constraints: Sequence[PlacedConstraint]) -> None:
        super().__init__()
        self._constraints = constraints
        self.steps = self.against = self.drawn_against = 0
        self.seconds = 0.0

    def _on_step(self) -> bool:
        start = process_time()
        seen: Array = np.asarray(self.model._last_obs, dtype=np.float64)  # before the step
        for one in self._constraints:
            assert isinstance(one.where, Region)
            if one.where.contains(seen)[0]:
                self._note(one, seen)
        self.seconds += process_time() - start
        return True

    def _note(self, constraint: PlacedConstraint, seen: Array) -> None:
        certain, _ = self.model.predict(seen.astype(np.float32), deterministic=True)
        self.steps += 1
        self.against += int(breaks(constraint, seen, certain)[0])
        self.drawn_against += int(breaks(constraint, seen, self.locals["actions"])[0])


def breaks(constraint: PlacedConstraint, states: Array, actions: Any) -> Mask:
    """Which of these actions (n, …) are not what is asked at their states."""
    taken = np.asarray(actions)
    if isinstance(constraint, Prefer):
        over_all = constraint.over == "all"
        broken: Mask = taken != constraint.action if over_all else taken == constraint.over
        return broken
    flat = taken.astype(np.float64).reshape(len(states), -1)
    violated = constraint.violated_at(states, flat.shape[1])
    assert violated is not None  # it is about one state at a time
    return violated(flat) > 0.0


def _rail(setting: Setting, arm: Arm) -> Handrail:
    return Handrail(
        setting.constraints,
        selection=Everywhere(margin=setting.margin),
        explore="allowed" if arm == "allowed" else "freely",
    )


def train(setting: Setting, arm: Arm, seed: int, stop: Callable[[], bool]) -> Training:
    """All of it; `Stopped` if it is asked to."""
    scores, places = Scores(stop), Places(setting.constraints)
    rail = None if arm == "plain" else _rail(setting, arm)
    callbacks: list[BaseCallback] = [scores, places]
    model, start = setting.model(seed), process_time()
    model.learn(setting.steps, callback=callbacks if rail is None else [rail, *callbacks])
    seconds = process_time() - start - places.seconds
    history = () if rail is None else rail.history
    return Training(
        tuple(scores.scores),
        tuple(scores.ends),
        seconds,
        0.0 if rail is None else rail.seconds,
        places.steps,
        places.against,
        places.drawn_against,
        None if rail is None else rail.worst_violation,
        len(history),
        sum(one.iterations > 0 for one in history),
    )
