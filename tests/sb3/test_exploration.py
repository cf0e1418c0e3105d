"""Chance is kept to what constraints leave."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from sb3_contrib import QRDQN
from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

import handrail as hr
from handrail._types import Array
from handrail.sb3.callback import Handrail
from handrail.sb3.exploration import AllowedActions
from handrail.sb3.policy import policy_of
from tests.support.sb3_models import Numbers

HIGH = hr.Box([0.3, -1.0], [1.0, 1.0])
LOW = hr.Box([-1.0, -1.0], [-0.3, 1.0])
HELD = [
    hr.Prefer(2, by=0.1, where=HIGH, name="two up there"),
    hr.Prefer(0, over=1, by=0.1, where=LOW, name="no one down there"),
]


def allowed_at(states: Array, actions: Array) -> Any:
    """Written out."""
    first = np.float32(states[:, 0])
    bad = (first >= np.float32(0.3)) & (actions != 2) | (first <= np.float32(-0.3)) & (actions == 1)
    return ~bad


class Log(BaseCallback):
    """What was seen and done."""

    def __init__(self) -> None:
        super().__init__()
        self.states: list[Array] = []
        self.actions: list[Array] = []

    def _on_step(self) -> bool:
        self.states.append(np.array(self.model._last_obs))
        self.actions.append(np.array(self.locals["actions"]))
        np.testing.assert_array_equal(self.locals["actions"], self.locals["buffer_actions"])
        return True

    def told(self) -> tuple[Array, Array]:
        return np.concatenate(self.states), np.concatenate(self.actions)


def exploring(algorithm: Any = DQN, env: Any = None, **given: Any) -> Any:
    settings = {"learning_starts": 100, "buffer_size": 1000, "batch_size": 8, **given}
    network: dict[str, Any] = {"net_arch": [8]}
    if algorithm is QRDQN:
        network["n_quantiles"] = 3
    return algorithm(
        "MlpPolicy",
        env or Numbers((2,)),
        seed=0,
        device="cpu",
        policy_kwargs=network,
        exploration_fraction=1.0,
        exploration_final_eps=0.9,
        **settings,
    )


def test_which_are_allowed() -> None:
    both = [*HELD, hr.Prefer(1, over=2, by=0.1, where=hr.Points([[0.0, 0.5]]))]
    states = np.array([[0.5, 0.0], [-0.5, 0.0], [0.0, 0.0], [0.0, 0.5]])
    np.testing.assert_array_equal(
        AllowedActions(both, 3).at(states),
        [[False, False, True], [True, False, True], [True, True, True], [True, True, False]],
    )


def test_points_are_met_as_images_are_seen() -> None:
    """Those that differ from a point in a single number are none."""
    images = np.random.default_rng(0).integers(0, 255, (3, 3, 20, 20), dtype=np.uint8)
    images[2] = images[1]
    images[2, 1, 7, 7] += 1
    held = [hr.Prefer(1, over=0, by=0.1, where=hr.Points(images[:2].astype(np.float64)))]
    allowed = AllowedActions(held, 3)
    np.testing.assert_array_equal(
        allowed.at(images), [[False, True, True], [False, True, True], [True, True, True]]
    )
    assert allowed.are_everywhere(np.array([1, 2]))
    assert not allowed.are_everywhere(np.array([1, 0]))
    zero = AllowedActions([hr.Prefer(1, over=0, by=0.1, where=hr.Points([[0.0, 0.1]]))], 2)
    seen = np.array([[-0.0, 0.1]], dtype=np.float32)
    np.testing.assert_array_equal(zero.at(seen), [[False, True]])


@pytest.mark.parametrize("algorithm", [DQN, QRDQN])
def test_no_random_step_goes_against_a_constraint(algorithm: Any) -> None:
    log = Log()
    exploring(algorithm).learn(300, callback=[Handrail(HELD, explore="allowed"), log])
    states, actions = log.told()
    assert allowed_at(states, actions).all()
    low = actions[states[:, 0] <= -0.3]
    shares = np.bincount(low, minlength=3) / len(low)
    assert shares[1] == 0.0
    assert 0.3 < shares[0] < 0.7  # of the other two, chance has no favourite


def test_by_default_chance_is_free() -> None:
    log = Log()
    rail = Handrail(HELD)
    exploring().learn(300, callback=[rail, log])
    states, actions = log.told()
    against = ~allowed_at(states, actions)
    assert 0.2 < against.mean() < 0.6
    assert rail.worst_violation <= 0.0  # of the greedy policy


def test_several_environments() -> None:
    log = Log()
    envs = make_vec_env(lambda: Numbers((2,)), 3)
    exploring(env=envs).learn(150, callback=[Handrail(HELD, explore="allowed"), log])
    assert allowed_at(*log.told()).all()


def test_the_model_is_saved_without_it_and_read_while_it_learns(tmp_path: Path) -> None:
    class Save(BaseCallback):
        def _on_step(self) -> bool:
            policy_of(self.model)
            self.model.save(tmp_path / "model")
            return True

    model = exploring()
    model.learn(3, callback=[Handrail(HELD, explore="allowed"), Save()])
    with zipfile.ZipFile(tmp_path / "model.zip") as archive:
        assert b"_sample_action" not in archive.read("data")
    assert "_sample_action" not in vars(model)
    assert "_sample_action" not in vars(DQN.load(tmp_path / "model"))


def test_an_interrupted_training_leaves_nothing_that_acts() -> None:
    class Stop(BaseCallback):
        def _on_step(self) -> bool:
            raise KeyboardInterrupt

    model, log = exploring(), Log()
    with pytest.raises(KeyboardInterrupt):
        model.learn(10, callback=[Handrail(HELD, explore="allowed"), Stop()])
    model.learn(100, callback=log)  # without a rail
    assert not allowed_at(*log.told()).all()


def test_what_is_refused() -> None:
    with pytest.raises(hr.errors.InvalidArgument, match='explore is "freely" or "allowed"'):
        Handrail(HELD, explore="safely")  # type: ignore[arg-type]
    mean = [hr.AtLeast(0.1, hr.Mean(0), hr.Points([[0.0, 0.0]]))]
    env = Numbers((2,), gym.spaces.Box(-1.0, 1.0, (1,)))
    sac = SAC("MlpPolicy", env, device="cpu", buffer_size=9)
    with pytest.raises(hr.errors.InvalidArgument, match="SAC has no such steps: leave it at"):
        sac.learn(3, callback=Handrail(mean, explore="allowed"))
    ppo = PPO("MlpPolicy", Numbers((2,)), device="cpu")
    with pytest.raises(hr.errors.InvalidArgument, match="PPO has no such steps"):
        ppo.learn(3, callback=Handrail(HELD, explore="allowed"))
