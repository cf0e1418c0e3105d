"""Imitation before training, and the pull during it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3 import PPO

from benchmarks.influence.demonstrations import Demonstrations, Pull, imitate, imitation_loss
from benchmarks.influence.places import Places
from benchmarks.influence.training import worst_of
from handrail import AtLeast, Box
from handrail.sb3 import policy_of


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
