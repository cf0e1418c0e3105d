"""The mask and the price."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from benchmarks.influence.places import Places
from benchmarks.influence.supervision import Supervised
from handrail import AtLeast, AtMost, Box
from handrail._types import Array

_DO = AtLeast(0.9, 1, Box([0.0], [1.0]), "do")
_PLACES = Places.of([_DO], 3)
_STATES = np.array([[0.5], [1.5], [2.5]])


class _Line(gym.Env[Array, Any]):
    """Two steps along the states above, a reward of 1 each."""

    observation_space = gym.spaces.Box(-10.0, 10.0, (1,), np.float64)
    action_space = gym.spaces.Discrete(3)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        self._at = 0
        return _STATES[0], {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self._at += 1
        return _STATES[self._at], 1.0, self._at == 2, False, {}


def test_the_price_is_taken_where_the_action_is_drawn() -> None:
    env = Supervised(_Line(), _PLACES, price=5.0)
    env.reset()
    assert env.action_masks().tolist() == [False, True, False]
    _, reward, _, _, info = env.step(2)  # at 0.5, against "do"
    assert (reward, info["cost"], info["in_place"]) == (-4.0, 1.0, True)
    assert env.action_masks().tolist() == [True, True, True]
    _, reward, _, _, info = env.step(2)  # at 1.5, where nothing is said
    assert (reward, info["cost"], info["in_place"]) == (1.0, 0.0, False)
    env.reset()
    _, reward, _, _, info = env.step(1)
    assert (reward, info["cost"], info["in_place"]) == (1.0, 0.0, True)


def test_where_everything_is_forbidden_everything_may_be_drawn() -> None:
    both = [_DO, AtMost(0.1, 1, Box([0.0], [1.0]))]
    env = Supervised(_Line(), Places.of(both, 3))
    env.reset()
    assert env.action_masks().tolist() == [True, True, True]
