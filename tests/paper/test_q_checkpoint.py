"""The double target, by hand; how a learner is kept is tested in test_q_learning."""

from __future__ import annotations

from typing import Any, final

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.logger import Logger

from paper.q_checkpoint import DoubleDQN


@final
class Line(gym.Env[Any, Any]):
    """Two actions on a line; only its spaces matter."""

    observation_space = gym.spaces.Box(-2.0, 2.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)


# s, a, r, s', whether it ends there
TRANSITIONS = [(0.5, 0, 0.0, 1.0, False), (2.0, 1, 0.0, -1.0, False), (1.0, 0, 2.0, 1.0, True)]


def by_hand(kind: type[DQN]) -> DQN:
    """Online Q(s) = (s, 0), target Q(s) = (1, 3), and the three transitions to learn from."""
    model = kind(
        "MlpPolicy",
        Line(),
        learning_rate=0.3,
        gamma=0.5,
        target_update_interval=1,
        device="cpu",
        policy_kwargs={"net_arch": [], "optimizer_class": torch.optim.SGD},
    )
    model.set_logger(Logger(None, []))
    set_linear(model.q_net, weight=[1.0, 0.0], bias=[0.0, 0.0])
    set_linear(model.q_net_target, weight=[0.0, 0.0], bias=[1.0, 3.0])
    buffer = model.replay_buffer
    assert buffer is not None
    for s, a, r, after, done in TRANSITIONS:
        state, action, then = np.array([[s]]), np.array([a]), np.array([[after]])
        buffer.add(state, then, action, np.array([r]), np.array([done]), [{}])
    every = buffer._get_samples(np.arange(len(TRANSITIONS)))
    buffer.sample = lambda *_, **__: every  # type: ignore[method-assign]
    return model


def set_linear(network: torch.nn.Module, weight: list[float], bias: list[float]) -> None:
    with torch.no_grad():
        for parameter, values in zip(network.parameters(), (weight, bias), strict=True):
            parameter.copy_(torch.tensor(values).reshape(parameter.shape))


def online(model: DQN) -> list[list[float]]:
    return [parameter.flatten().tolist() for parameter in model.q_net.parameters()]


def test_the_target_is_the_double_one() -> None:
    """By hand, with γ = 1/2.

    1. s' = 1: online (1, 0) chooses action 0, which the target network values 1. Target 0 + 1/2,
       as is Q(0.5, 0): loss 0. The plain target is 0 + 3/2: error 1, loss 1/2.
    2. s' = -1: online (-1, 0) chooses action 1, valued 3. Target 3/2, Q(2, 1) = 0: loss 3/2 - 1/2.
    3. Terminal: target 2, Q(1, 0) = 1, loss 1/2.
    """
    double, plain = by_hand(DoubleDQN), by_hand(DQN)
    double.train(gradient_steps=1)
    plain.train(gradient_steps=1)
    assert double.logger.name_to_value["train/loss"] == pytest.approx((0 + 1 + 1 / 2) / 3)
    assert plain.logger.name_to_value["train/loss"] == pytest.approx((1 / 2 + 1 + 1 / 2) / 3)
    # Steps of 0.3 along the mean of clip(error) · (s, 1): only transitions 2 and 3 pull.
    assert online(double) == [pytest.approx([1.1, 0.2]), pytest.approx([0.1, 0.1])]
    assert online(plain) == [pytest.approx([1.15, 0.2]), pytest.approx([0.2, 0.1])]


def test_the_target_network_is_put_back() -> None:
    model = by_hand(DoubleDQN)
    target = model.q_net_target
    model.train(gradient_steps=1)
    assert model.q_net_target is target is model.policy.q_net_target
    assert list(target.parameters())[1].tolist() == [1.0, 3.0]
    model._on_step()  # copies the online network, since tau is 1
    assert [parameter.flatten().tolist() for parameter in target.parameters()] == online(model)
    model.replay_buffer = None
    with pytest.raises(AttributeError):
        model.train(gradient_steps=1)
    assert model.q_net_target is target
