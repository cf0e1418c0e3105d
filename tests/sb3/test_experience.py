"""Where a model has been lately, from whatever it learns from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from stable_baselines3 import DQN
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from handrail._types import Array
from handrail.sb3.experience import Replayed, experience_of, present_states
from tests.support.sb3_models import ppo


def model_of(n_envs: int, buffer_size: int) -> Any:
    envs = make_vec_env("CartPole-v1", n_envs)
    return DQN("MlpPolicy", envs, device="cpu", buffer_size=buffer_size)


def step(model: Any, number: int) -> None:
    """One step that saw its own number."""
    buffer: ReplayBuffer = model.replay_buffer
    n = buffer.n_envs
    seen = np.full((n, 4), float(number))
    nothing = np.zeros(n)
    buffer.add(seen, seen, np.zeros((n, 1)), nothing, nothing, [{}] * n)
    model.num_timesteps += n


def test_rollouts_are_told_as_a_whole() -> None:
    told: list[Array] = []
    seen: list[Array] = []

    class Ask(BaseCallback):
        def _on_step(self) -> bool:
            seen.append(self.locals["obs_tensor"].numpy().copy())
            return True

        def _on_rollout_end(self) -> None:
            news = experience_of(self.model).news()
            assert news is not None
            told.append(news.copy())

    ppo(make_vec_env("CartPole-v1", 2), n_steps=16).learn(64, callback=Ask())
    np.testing.assert_array_equal(np.concatenate(told), np.concatenate(seen))


@pytest.mark.parametrize("normalised", [False, True])
def test_where_episodes_begin_is_known_before_the_first_step(normalised: bool) -> None:
    """CartPole begins within 0.05 of the middle, whatever VecNormalize makes of that."""
    found: list[Array | None] = []

    class Ask(BaseCallback):
        def _init_callback(self) -> None:
            found.append(present_states(self.model))

        def _on_step(self) -> bool:
            return True

    envs: Any = make_vec_env("CartPole-v1", 2, seed=0)
    model = ppo(VecNormalize(envs) if normalised else envs, n_steps=16)
    assert present_states(model) is None
    model.learn(1, callback=Ask())
    (states,) = found
    assert states is not None
    assert states.shape == (2, 4)
    assert 0.0 < np.abs(states).max() <= 0.05


@pytest.mark.parametrize("buffer_size", [5000, 1500, 600])
def test_a_thousand_steps_at_a_time(buffer_size: int) -> None:
    model = model_of(1, buffer_size)
    experience = experience_of(model)
    assert isinstance(experience, Replayed)
    told: list[list[float]] = []
    for number in range(2500):
        step(model, number)
        news = experience.news()
        if news is not None:
            assert news.shape[1:] == (4,)
            told.append(news[:, 0].tolist())
    kept = min(1000, buffer_size)
    assert told == [list(range(1000 - kept, 1000)), list(range(2000 - kept, 2000))]


def test_several_environments() -> None:
    model = model_of(4, 8000)
    experience = experience_of(model)
    for number in range(250):
        assert experience.news() is None
        step(model, number)
    news = experience.news()
    assert news is not None
    np.testing.assert_array_equal(news[:, 0], np.repeat(np.arange(250.0), 4))


def test_a_training_that_begins_anew() -> None:
    model = model_of(1, 5000)
    experience = experience_of(model)
    for number in range(1500):
        step(model, number)
    assert experience.news() is not None
    model.num_timesteps = 0  # as `learn` does
    for number in range(1000):
        assert experience.news() is None
        step(model, number)
    news = experience.news()
    assert news is not None
    np.testing.assert_array_equal(news[:, 0], np.arange(1000.0))
