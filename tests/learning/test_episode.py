"""Playing: episodes depend on the seed and their number alone, and failures say where they were."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from handrail._types import Array
from handrail.errors import EnvironmentFailure
from handrail.learning.episode import (
    Episode,
    Start,
    drawing,
    drawing_together,
    greedy,
    greedy_together,
    play,
    play_in_parallel,
)
from handrail.learning.player import is_playing
from handrail.learning.reinforce import Reinforce
from tests.conftest import small_policy
from tests.support.environments import Corridor, Failing, corridor


def right(_: Array) -> int:
    return 1


def test_an_episode_is_what_happened() -> None:
    episode = play(corridor(), right, seed=0)
    n = len(episode)
    start = round(float(episode.states[0][0]) * 5)
    assert n == 5 - start
    np.testing.assert_allclose(episode.states[:, 0], (start + np.arange(n)) / 5, atol=1e-7)
    np.testing.assert_array_equal(episode.actions, 1)
    np.testing.assert_allclose(episode.rewards, [-0.1] * (n - 1) + [1.0])
    np.testing.assert_allclose(episode.final_state, [1.0, 1.0])
    assert episode.terminated
    assert episode.score == pytest.approx(1.0 - 0.1 * (n - 1))


def test_a_time_limit_is_not_a_termination() -> None:
    episode = play(corridor(steps=7), lambda _: 0, seed=0)
    assert len(episode) == 7
    assert not episode.terminated


def test_an_environment_may_write_into_its_own_observation() -> None:
    class InPlace(Corridor):
        buffer = np.zeros(2)

        def _observe(self) -> Any:
            self.buffer[:] = [self.position / self.length, 1.0]
            return self.buffer

    episode = play(gym.wrappers.TimeLimit(InPlace(), 20), right, seed=0)
    assert len(set(episode.states[:, 0])) == len(episode)


@pytest.mark.parametrize("steps", [255, 256, 257, 600])
def test_a_long_episode_is_kept_from_its_first_state_to_its_last(steps: int) -> None:
    shown: list[Array] = []

    def act(state: Array) -> int:
        shown.append(state.copy())
        return int(state[0] < 0.5)

    episode = play(corridor(steps=steps), act, seed=0)
    assert len(episode) == steps
    np.testing.assert_array_equal(episode.states, shown)
    assert {0.4, 0.6} == set(episode.states[-2:, 0].round(6))
    assert episode.final_state[0] == episode.states[-2, 0]


def test_an_episode_depends_on_its_number_alone() -> None:
    policy = small_policy(4, 2)
    env = gym.make("CartPole-v1")

    def episode(number: int) -> Episode:
        start = Start.of(seed=3, number=number)
        return play(env, drawing(policy, start.rng), start.environment)

    first = [episode(number) for number in (0, 1, 2)]
    again = episode(1)
    np.testing.assert_array_equal(first[1].states, again.states)
    np.testing.assert_array_equal(first[1].actions, again.actions)
    assert not np.array_equal(first[0].states[0], first[1].states[0])


def test_streams_and_seeds_never_meet() -> None:
    starts = [
        (Start.of(seed, number, stream).environment, Start.of(seed, number, stream).rng.random())
        for seed in range(4)
        for number in range(20)
        for stream in range(3)
    ]
    assert len({environment for environment, _ in starts}) == len(starts)
    assert len({draw for _, draw in starts}) == len(starts)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_side_by_side_plays_the_episodes_that_one_after_the_other_would(
    mode: AutoresetMode,
) -> None:
    policy = small_policy(4, 2)
    envs = SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 3, autoreset_mode=mode)
    starts = [Start.of(0, number) for number in range(3)]
    act = drawing_together(policy, [start.rng for start in starts])
    together = play_in_parallel(envs, act, [start.environment for start in starts])
    env = gym.make("CartPole-v1")
    for number, episode in enumerate(together):
        start = Start.of(0, number)
        alone = play(env, drawing(policy, start.rng), start.environment)
        np.testing.assert_array_equal(episode.actions, alone.actions)
        np.testing.assert_array_equal(episode.states, alone.states)
        np.testing.assert_array_equal(episode.final_state, alone.final_state)
        assert episode.terminated == alone.terminated


def test_side_by_side_tells_time_limits_from_terminations() -> None:
    envs = SyncVectorEnv([partial(corridor, steps=4, length=length) for length in (2, 50)])
    short, long = play_in_parallel(envs, lambda states: np.ones(len(states), dtype=int), [0, 1])
    assert short.terminated
    assert not long.terminated
    assert len(long) == 4


def test_environments_that_are_vectors_by_nature_play_too() -> None:
    envs = gym.make_vec("CartPole-v1", num_envs=3, vectorization_mode="vector_entry_point")
    policy = small_policy(4, 2)
    starts = [Start.of(0, number) for number in range(3)]
    act = drawing_together(policy, [start.rng for start in starts])
    episodes = play_in_parallel(envs, act, [start.environment for start in starts])
    assert len(episodes) == 3
    for episode in episodes:
        np.testing.assert_array_equal(episode.rewards, 1.0)


def test_greedy_takes_the_most_probable_action() -> None:
    policy = small_policy(2, 2)
    states = np.random.default_rng(0).normal(size=(20, 2))
    best = policy.probabilities(states).argmax(axis=1)
    np.testing.assert_array_equal([greedy(policy)(state) for state in states], best)
    np.testing.assert_array_equal(greedy_together(policy)(states), best)


def test_drawing_together_follows_the_probabilities() -> None:
    policy = small_policy(2, 3)
    states = np.tile([0.3, -0.7], (4000, 1))
    act = drawing_together(policy, [np.random.default_rng(k) for k in range(4000)])
    shares = np.bincount(act(states), minlength=3) / 4000
    np.testing.assert_allclose(shares, policy.probabilities(states[0]), atol=0.03)


@pytest.mark.filterwarnings("ignore:invalid value encountered in dot")  # of inf - inf
@pytest.mark.parametrize(
    ("how", "step", "message"),
    [
        ("raise", 2, "The environment raised RuntimeError at step 2: the simulator crashed"),
        ("raise", -1, "The environment raised RuntimeError on reset: the simulator crashed"),
        ("nan observation", 1, r"observation is not finite at step 1: \[nan, nan\]"),
        ("nan observation", -1, "observation is not finite on reset"),
        ("infinite observation", 2, r"observation is not finite at step 2: \[inf, inf\]"),
        ("nan reward", 1, "reward is nan at step 1. Rewards must be finite"),
        ("text reward", 1, "reward is 'much' at step 1. It must be one number"),
        ("number as a text", 1, "reward is '1' at step 1. It must be one number"),
        ("array reward", 1, r"reward is array\(\[1.\]\) at step 1. It must be one number"),
        ("no reward", 1, "reward is None at step 1. It must be one number"),
        ("huge reward", 1, "reward is 10+ at step 1. It must be one number"),
        ("complex reward", 1, "reward is 1j at step 1. It must be one number"),
        (
            "longer observation",
            1,
            r"observation at step 1 has the shape \(3,\), but its observati",
        ),
        ("nested observation", -1, r"observation on reset has the shape \(1, 2\), but its observ"),
        ("no observation", 2, "observation at step 2 is not an array of numbers"),
        ("texts as an observation", 1, "observation at step 1 is not an array of numbers"),
        ("complex observation", 1, "observation at step 1 is not an array of numbers"),
        ("terminated nan", 1, "`terminated` is nan at step 1. It must be True or False"),
        ("terminated none", 0, "`terminated` is None at step 0. It must be True or False"),
        ("terminated text", 0, "`terminated` is 'no' at step 0. It must be True or False"),
        ("truncated two", 2, "`truncated` is 2 at step 2. It must be True or False"),
        ("exit", 1, "The environment raised SystemExit at step 1: 3"),
        ("ragged observation", 1, "observation at step 1 is not an array of numbers"),
    ],
)
def test_failures_name_their_source_and_step(how: str, step: int, message: str) -> None:
    policy = small_policy(2, 2)
    env = Failing(corridor(steps=6, length=50), how, step)
    rng = np.random.default_rng(0)
    with pytest.raises(EnvironmentFailure, match=message):
        play(env, drawing(policy, rng), seed=0)


@pytest.mark.parametrize("value", [np.True_, np.array(True), np.array([True]), 1, 1.0])
def test_ways_to_say_that_an_episode_has_ended(value: Any) -> None:
    policy = small_policy(2, 2)
    env = Failing(corridor(steps=6, length=50), "terminated", 2, value=value)
    episode = play(env, drawing(policy, np.random.default_rng(0)), seed=0)
    assert len(episode) == 3
    assert episode.terminated is True


@pytest.mark.parametrize("when", [2, -1])
def test_an_interrupt_says_what_was_waited_for(when: int) -> None:
    """Of a step that hangs."""
    env = Failing(corridor(steps=6, length=50), "interrupt", when)
    agent = Reinforce(env, small_policy(2, 2), seed=0)
    with pytest.raises(KeyboardInterrupt) as interrupted:
        agent.learn(episodes=1)
    where = "step 2" if when > 0 else "its reset"
    assert str(interrupted.value) == (
        f"Episode 0: Interrupted while waiting for {where} of the environment Corridor. What was "
        "learned before it is kept."
    )
    assert not is_playing()
    assert (agent.episodes, agent.steps) == (0, 0)
    assert agent.learn(episodes=1)[0].episode == 0  # goes on as if nothing had been


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("raise", "raised RuntimeError at step 2"),
        ("nan observation", "observation is not finite at step 2"),
        ("nan reward", "reward is nan at step 2"),
        ("exit", "raised SystemExit at step 2"),
        ("complex observation", "observation at step 2 is not an array of numbers|raised"),
    ],
)
def test_failures_side_by_side(how: str, message: str) -> None:
    policy = small_policy(2, 2)
    envs = SyncVectorEnv([lambda: Failing(corridor(steps=6, length=50), how, 2)] * 2)
    act = drawing_together(policy, [np.random.default_rng(k) for k in range(2)])
    with pytest.raises(EnvironmentFailure, match=message):
        play_in_parallel(envs, act, [0, 1])
