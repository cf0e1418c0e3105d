"""The parts of what a user would pick instead: places, mask, price, imitation."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import PPO

from benchmarks.influence.cloning import Demonstrations, Pull, imitate, imitation_loss
from benchmarks.influence.places import Places, against
from benchmarks.influence.supervision import Supervised, ascended
from benchmarks.influence.training import masked, worst_of
from handrail import AtLeast, AtMost, Between, Box, Points
from handrail._types import Array
from handrail.errors import InvalidArgument
from handrail.sb3 import policy_of

_DO = AtLeast(0.9, 1, Box([0.0], [1.0]), "do")
_DONT = AtMost(0.1, {0: 1.0, 2: 1.0}, Box([2.0], [3.0]), "don't")
_PLACES = Places.of([_DO, _DONT, AtLeast(0.9, 0, Points([[9.0]]))], 3)
_STATES = np.array([[0.5], [1.5], [2.5], [9.0]])


def test_places_are_regions_and_say_what_is_against_them() -> None:
    assert _PLACES.inside(_STATES).tolist() == [True, False, True, False]
    assert _PLACES.forbidden(_STATES).tolist() == [
        [True, False, True],
        [False] * 3,
        [True, False, True],
        [False] * 3,
    ]


def test_bounds_that_leave_the_choice_open_forbid_nothing() -> None:
    with pytest.raises(InvalidArgument, match="'open' leaves the choice open"):
        against(Between(0.3, 0.6, 0, Box([0.0], [1.0]), "open"), 2)


def test_a_bound_is_broken_where_it_speaks_and_nowhere_else() -> None:
    probabilities = np.array(
        [[0.2, 0.8, 0.0], [1.0, 0.0, 0.0], [0.05, 0.91, 0.04], [0.0, 1.0, 0.0]]
    )
    assert _PLACES.broken(_STATES, probabilities).tolist() == [True, False, False, False]
    probabilities[[0, 2]] = [[0.04, 0.92, 0.04], [0.1, 0.85, 0.05]]
    assert _PLACES.broken(_STATES, probabilities).tolist() == [False, False, True, False]


def test_masked_probabilities_are_those_of_what_is_left() -> None:
    acting = masked(np.array([[0.2, 0.2, 0.6]]), np.array([[False, False, True]]))
    np.testing.assert_allclose(acting, [[0.5, 0.5, 0.0]])


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


def test_the_multiplier_rises_above_the_limit_and_falls_below_it_but_not_under_zero() -> None:
    assert ascended(1.0, cost=30.0, inside=100.0, limit=0.05, rate=2.0) == pytest.approx(1.5)
    assert ascended(1.0, cost=0.0, inside=100.0, limit=0.05, rate=2.0) == pytest.approx(0.9)
    assert ascended(0.01, cost=0.0, inside=100.0, limit=0.05, rate=2.0) == 0.0
    assert ascended(1.0, cost=0.0, inside=0.0, limit=0.05, rate=2.0) == 1.0


def test_the_imitation_loss_is_that_of_what_is_allowed() -> None:
    probabilities = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]])
    forbidden = torch.tensor([[False, False, True], [True, False, True]])
    loss = imitation_loss(probabilities.log(), forbidden)
    assert float(loss) == pytest.approx(-(np.log(0.75) + np.log(0.8)) / 2)


_LEAN = AtLeast(0.95, 1, Box([-1.0, -1.0, 0.1, 0.0], [1.0, 1.0, 0.2, 1.0]), "lean")


def _model(**options: Any) -> PPO:
    return PPO("MlpPolicy", "CartPole-v1", n_steps=64, n_epochs=1, seed=0, device="cpu", **options)


def test_imitation_makes_the_demonstrated_likely() -> None:
    model = _model()
    shown = Demonstrations.of(Places.of([_LEAN], 2), seed=0)
    assert worst_of(policy_of(model), [_LEAN]) == pytest.approx(0.45, abs=0.05)
    assert imitate(model.policy, shown, steps=150) < 0.05
    assert (worst_of(policy_of(model), [_LEAN]) or 0.0) < 0.1
    assert worst_of(policy_of(model), []) is None


def test_the_pull_works_while_training_lasts_and_then_lets_go() -> None:
    plain, pulled = _model(), _model()
    shown = Demonstrations.of(Places.of([_LEAN], 2), seed=0)
    plain.learn(128)
    pulled.learn(128, callback=Pull(shown, weight=100.0))
    right = [
        policy_of(model).outputs(shown.states.double().numpy())[:, 1].mean()
        for model in (plain, pulled)
    ]
    assert right[1] > right[0]
    assert not pulled.policy.optimizer._optimizer_step_pre_hooks
