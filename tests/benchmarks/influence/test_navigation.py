"""The disk, the goal, the walls."""

from __future__ import annotations

import gymnasium as gym
import pytest

from benchmarks.influence.navigation import DOWN, ID, RIGHT, UP


def test_the_disk_and_the_goal_end_an_episode_and_the_walls_stop() -> None:
    env = gym.make(ID)
    state, _ = env.reset(seed=0)
    for action, end, reward in ((RIGHT, True, -10.0), (UP, False, -0.1)):
        state, _ = env.reset(seed=0)
        for _ in range(100):
            state, last, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                break
        assert terminated is end
        assert float(last) == pytest.approx(reward, abs=0.2)
        assert env.observation_space.contains(state)
    assert state[1] > 0.9  # at the upper wall


def test_a_way_round_the_disk_is_worth_ten() -> None:
    env = gym.make(ID)
    _, _ = env.reset(seed=1)
    score, ended = 0.0, False
    for action in 6 * [UP] + 16 * [RIGHT] + 8 * [DOWN]:
        _, reward, ended, _, _ = env.step(action)
        score += float(reward)
        if ended:
            break
    assert ended
    assert 7.0 < score < 11.0
