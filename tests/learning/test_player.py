"""Who plays, and in which state an episode begins."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import handrail as hr
from handrail._types import Array
from handrail.errors import EnvironmentFailure
from handrail.learning.episode import Start
from handrail.learning.player import make_player

TWO = hr.AtLeast(0.9, 1, hr.Points([0.5, 0.5]), "of two numbers")
RULE = hr.AtLeast(0.9, 1, hr.Points([0.0, 0.0, 0.2, 0.1]), "leaning right")


class Counted(gym.Wrapper[Any, Any, Any, Any]):
    """Whoever films or normalises counts resets."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.resets = 0

    def reset(self, **given: Any) -> Any:
        self.resets += 1
        return super().reset(**given)


class Own(gym.Env[Array, np.int64]):
    """An environment that was never registered."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, begins: Any) -> None:
        self.begins, self.steps, self.resets = begins, 0, 0

    def reset(self, **_: Any) -> tuple[Array, dict[str, Any]]:
        self.resets += 1
        if isinstance(self.begins, Exception):
            raise self.begins
        return np.array(self.begins), {}

    def step(self, _: np.int64) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return np.array(self.begins), 0.0, True, False, {}


def test_an_episode_begins_where_it_will_be_played_from() -> None:
    env = gym.make("CartPole-v1")
    start = Start.of(7, 0)
    found = make_player(env, 1).beginning(start)
    expected, _ = env.reset(seed=start.environment)
    assert found is not None
    np.testing.assert_array_equal(found, expected[None].astype(np.float64))


def test_an_own_environment_is_asked_without_a_step() -> None:
    env = Own([0.3, -0.2])
    found = make_player(env, 1).beginning(Start.of(0, 0))
    np.testing.assert_array_equal(found, [[0.3, -0.2]])
    assert env.steps == 0


@pytest.mark.parametrize(
    ("begins", "words"),
    [
        (RuntimeError("no power"), "Episode 0: .*RuntimeError.*no power"),
        ([np.nan, 0.0], "Episode 0: The environment's observation is not finite"),
        ([0.0], "Episode 0: .*shape"),
    ],
)
def test_what_cannot_begin_is_said_as_in_the_first_episode(begins: Any, words: str) -> None:
    """It was swallowed, and what the first reset would have told was lost."""
    with pytest.raises(EnvironmentFailure, match=words) as early:
        hr.Reinforce(Own(begins), constraints=[TWO], reach=0.001)
    learner = hr.Reinforce(Own(begins), constraints=[TWO], enforcement="none")
    with pytest.raises(EnvironmentFailure) as late:
        learner.learn(episodes=1)
    assert str(early.value) == str(late.value)


@pytest.mark.parametrize(
    ("given", "resets"),
    [
        ({"reach": 0.001}, 1),
        ({"reach": 10.0}, 0),
        ({"reach": hr.Fading(first=10.0)}, 0),
        ({"references": [[0.1, 0.2]], "reach": 0.001}, 0),
    ],
)
def test_where_a_beginning_decides_nothing_the_environment_is_left_alone(
    given: dict[str, Any], resets: int
) -> None:
    env = Own([0.3, -0.2])
    hr.Reinforce(env, constraints=[TWO], **given)
    assert env.resets == resets


def test_whoever_counts_resets_is_left_alone() -> None:
    env = Counted(gym.make("CartPole-v1"))
    hr.Reinforce(env, constraints=[RULE])
    assert env.resets == 0
    assert make_player(env, 1).beginning(Start.of(0, 0)) is None
    together = gym.make_vec("CartPole-v1", num_envs=2)
    assert make_player(together, 2).beginning(Start.of(0, 0)) is None


def test_a_first_holding_leaves_alone_what_is_near_the_beginning() -> None:
    """The observation space of LunarLander is large, and all episodes begin in a small part."""
    rules = [
        one
        for one in hr.load_rulebook("lunar_lander").constraints
        if one.name.startswith("drifting off")
    ]
    bare = gym.make("LunarLander-v3")
    rng = np.random.default_rng(0)
    starts = np.array([bare.reset(seed=seed)[0] for seed in range(40)], dtype=np.float64)
    visited = starts + rng.normal(size=starts.shape) * [0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0, 0]
    change = []
    for env in (bare, Counted(gym.make("LunarLander-v3"))):  # where it begins is known or not
        policy = hr.CategoricalPolicy.mlp(env, hidden=[500], seed=0)
        before = policy.outputs(visited)
        hr.Reinforce(env, policy, rules)
        change.append(np.abs(policy.outputs(visited) - before).mean())
    known, unknown = change
    assert known < 0.7 * unknown
