"""A pull towards the constraints inside every step of the optimiser."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sb3_contrib import TRPO
from stable_baselines3 import PPO
from stable_baselines3.common.logger import configure

import handrail as hr
from handrail.constraints.expansion import expand
from handrail.enforcement import Targets
from handrail.sb3.callback import Handrail
from handrail.sb3.policy import policy_of
from tests.support.pendulum import RULES, SMALL
from tests.support.sb3_models import (
    CARTPOLE,
    changed,
    parameters,
    ppo,
)


class TestPressure:
    def test_it_is_added_before_the_step_and_taken_off_afterwards(self) -> None:
        """SGD with rate 1 on no gradient: what moves is the pressure."""
        optimiser = {"optimizer_class": torch.optim.SGD, "optimizer_kwargs": {}}
        model = ppo(policy_kwargs=optimiser, learning_rate=1.0)
        model.set_logger(configure(None, []))
        callback = Handrail(CARTPOLE, pressure=0.25)
        callback.init_callback(model)
        callback.on_rollout_end()
        for p in model.policy.parameters():
            p.grad = torch.zeros_like(p)
        before = parameters(model)
        policy = policy_of(model)
        rows = expand(CARTPOLE, policy).fixed
        assert rows is not None
        _, pull = Targets(rows, 1e-5, policy.coordinates).energy(policy)
        assert pull is not None
        model.policy.set_training_mode(True)
        model.policy.optimizer.step()
        assert model.policy.training
        names = {id(p): name for name, p in model.policy.named_parameters()}
        for p, part in zip(policy.parameters, pull.parts, strict=True):
            expected = before[names[id(p)]] - 0.25 * part
            torch.testing.assert_close(p.detach(), expected)
        assert changed(model, before) <= {names[id(p)] for p in policy.parameters}
        callback.on_rollout_start()
        assert not model.policy.optimizer._optimizer_step_pre_hooks

    def test_updates_leave_less_to_correct(self) -> None:
        def violations(pressure: float) -> list[float]:
            model = ppo(n_epochs=10, learning_rate=3e-3)
            callback = Handrail(CARTPOLE, pressure=pressure)
            model.learn(192, callback=callback)
            assert callback.worst_violation <= 1e-5
            assert not model.policy.optimizer._optimizer_step_pre_hooks
            return [one.violation_before for one in callback.history[1:]]

        assert max(violations(10.0)) < max(violations(0.0))

    def test_an_actor_that_learns_otherwise(self) -> None:
        model = TRPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=32, device="cpu")
        with pytest.raises(hr.errors.InvalidArgument, match=r"TRPO, for one.*Leave pressure at 0"):
            model.learn(32, callback=Handrail(CARTPOLE, pressure=1.0))

    def test_what_an_interruption_leaves_is_taken_off(self) -> None:
        model, callback = ppo(), Handrail(CARTPOLE, pressure=1.0)
        callback.init_callback(model)
        callback.on_rollout_end()
        assert model.policy.optimizer._optimizer_step_pre_hooks
        callback.init_callback(model)
        assert not model.policy.optimizer._optimizer_step_pre_hooks

    def interrupted(self, monkeypatch: pytest.MonkeyPatch) -> PPO:
        """By Ctrl-C in the middle of an update."""
        model = ppo()
        with monkeypatch.context() as patch:
            patch.setattr(model, "train", interrupt)
            with pytest.raises(KeyboardInterrupt):
                model.learn(64, callback=Handrail(CARTPOLE, pressure=1.0))
        assert len(model.policy.optimizer._optimizer_step_pre_hooks) == 1
        return model

    @pytest.mark.parametrize("pressure", [0.0, 1.0])
    def test_another_rail_takes_it_off(
        self, monkeypatch: pytest.MonkeyPatch, pressure: float
    ) -> None:
        model = self.interrupted(monkeypatch)
        callback = Handrail(CARTPOLE, pressure=pressure)
        callback.init_callback(model)
        assert not model.policy.optimizer._optimizer_step_pre_hooks
        callback.on_rollout_end()
        assert len(model.policy.optimizer._optimizer_step_pre_hooks) == (pressure > 0.0)

    def test_two_rails_on_one_optimiser_are_one_pressure(self) -> None:
        model = ppo()
        for _ in range(2):
            callback = Handrail(CARTPOLE, pressure=1.0)
            callback.init_callback(model)
            callback.on_rollout_end()
        assert len(model.policy.optimizer._optimizer_step_pre_hooks) == 1

    def test_it_does_not_pull_at_a_training_without_a_rail(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model = self.interrupted(monkeypatch)
        pulls: list[object] = []
        monkeypatch.setattr(Targets, "energy", lambda *_: pulls.append(_))
        model.learn(64)
        assert not pulls

    def test_the_mode_is_restored_after_an_interruption(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model, callback = ppo(), Handrail(CARTPOLE, pressure=1.0)
        callback.init_callback(model)
        callback.on_rollout_end()
        model.policy.set_training_mode(True)
        for p in model.policy.parameters():
            p.grad = torch.zeros_like(p)
        monkeypatch.setattr(Targets, "energy", interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.policy.optimizer.step()
        assert model.policy.training


def interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def test_pressure_pulls_means_towards_their_bounds() -> None:
    left = []
    for pressure in (0.0, 10.0):
        model = PPO("MlpPolicy", "Pendulum-v1", **SMALL)
        callback = Handrail(RULES[:2], pressure=pressure)
        model.learn(320, callback=callback)
        left.append(np.mean([one.violation_before for one in callback.history[1:]]))
    assert left[1] < 0.5 * left[0]
