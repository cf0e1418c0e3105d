"""While advice gives a head start, one number of the critic follows what that earns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from stable_baselines3 import A2C
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from torch import nn

import handrail as hr
from handrail.sb3 import Handrail, policy_of
from handrail.sb3.critic_level import CriticLevel
from handrail.settings import Fading, Reach
from tests.support.sb3_models import CARTPOLE, at_least, changed, parameters, ppo

ALREADY = at_least(np.array([[0.0, 0.0, 0.2, 0.0], [0.0, 0.0, -0.2, 0.0]]), 0.01)


class AfterRollouts(BaseCallback):
    """How far the critic's level is off when a rollout has ended, and what was changed by then."""

    def __init__(self) -> None:
        super().__init__()
        self.off: list[float] = []
        self.levels: list[float] = []
        self.before: list[float] = []

    def _on_rollout_start(self) -> None:
        self.before.append(level(self.model))

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        buffer: Any = self.model.rollout_buffer  # type: ignore[attr-defined]
        self.off.append(float((buffer.returns - buffer.values).mean()))
        self.levels.append(level(self.model))


def level(model: BaseAlgorithm) -> float:
    network: Any = model.policy
    return float(network.value_net.bias.item())


def moves(model: BaseAlgorithm, rail: Handrail, steps: int) -> list[bool]:
    """Of each rollout, whether it moved the level at its end."""
    watch = AfterRollouts()
    model.learn(steps, callback=[rail, watch])
    return [one != other for one, other in zip(watch.levels, watch.before, strict=True)]


def test_it_is_where_the_returns_are() -> None:
    model, watch = ppo(), AfterRollouts()
    model.learn(192, callback=[Handrail(CARTPOLE), watch])
    assert watch.off == pytest.approx([0.0] * 3, abs=1e-5)
    assert all(one != other for one, other in zip(watch.levels, watch.before, strict=True))


def test_one_number_is_all_that_moves() -> None:
    """By as much as values were off, and the values that PPO clips by go with it."""
    model = ppo(clip_range_vf=0.2)
    model.learn(64)
    before, buffer = parameters(model), model.rollout_buffer
    values: NDArray[Any] = buffer.values.copy()
    off = float((buffer.returns - values).mean())
    assert abs(off) > 0.1
    advantages = buffer.advantages.copy()
    CriticLevel(model).follow()
    assert changed(model, before) == {"value_net.bias"}
    assert level(model) - float(before["value_net.bias"]) == pytest.approx(off, abs=1e-6)
    np.testing.assert_allclose(buffer.values, values + off, rtol=1e-6)
    np.testing.assert_array_equal(buffer.advantages, advantages)


@pytest.mark.parametrize(
    ("reach", "expected"),
    [
        ("auto", [True, True, True]),  # advice for fifty rollouts
        (10.0, [True, True, True]),  # for good
        (Fading(first=10, last=0.001, updates=2), [True, True, False]),
        (0.001, [False, False, False]),  # only where I said
    ],
)
def test_it_follows_as_long_as_advice_is_fading(reach: Reach, expected: list[bool]) -> None:
    assert moves(ppo(), Handrail(CARTPOLE, reach=reach), 192) == expected


def test_one_sided_knowledge_gives_no_head_start() -> None:
    assert moves(ppo(), Handrail(CARTPOLE[:1]), 128) == [False, False]


def test_what_obeys_already_has_none_either() -> None:
    """So a training whose constraints never matter is the same as one without a rail."""
    assert moves(ppo(), Handrail(ALREADY), 128) == [False, False]


def test_a2c_has_a_critic_too() -> None:
    model = A2C("MlpPolicy", "CartPole-v1", n_steps=32, seed=0, device="cpu")
    assert moves(model, Handrail(CARTPOLE), 64) == [True, True]


def test_a_critic_that_ends_otherwise_is_left_alone() -> None:
    model = ppo()
    network: Any = model.policy
    network.value_net = nn.Sequential(nn.Linear(64, 1), nn.Softplus())
    model.learn(64)
    before = parameters(model)
    CriticLevel(model).follow()
    assert changed(model, before) == set()
    network.value_net = nn.Linear(64, 1, bias=False)
    CriticLevel(model).follow()
    network.value_net = nn.Linear(64, 1).requires_grad_(False)
    bias = network.value_net.bias.clone()
    CriticLevel(model).follow()
    assert torch.equal(network.value_net.bias, bias)


def test_the_policy_that_comes_out_obeys() -> None:
    """The critic's level is nothing that a rail notices as somebody else's change."""
    model, rail = ppo(n_epochs=4), Handrail(CARTPOLE)
    model.learn(256, callback=rail)
    assert rail.worst_violation <= 1e-5
    assert hr.measure(policy_of(model), CARTPOLE).worst_violation <= 1e-5
