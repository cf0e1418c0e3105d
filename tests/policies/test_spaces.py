"""What environments observe and take, and what policies see and draw."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import PPO

import handrail as hr
from handrail.errors import InvalidPolicy
from handrail.policies import fitted, fitting, flat_observation, flat_space
from handrail.sb3 import Handrail, policy_of
from tests.support.environments import Numbered
from tests.support.sb3_models import Numbers

EVERYWHERE = hr.Box([0.0, 1.0], [1.0, 1.0])
RIGHT = [hr.AtLeast(0.99, action=1, where=EVERYWHERE, name="right")]

PARTS = gym.spaces.Dict(
    {
        "speed": gym.spaces.Box(0.0, 9.0, (1,), np.float32),
        "gear": gym.spaces.Discrete(3, start=1),
        "position": gym.spaces.Box(-1.0, 1.0, (2, 2), np.float32),
    }
)
PAIR = gym.spaces.Tuple([gym.spaces.MultiBinary(2), PARTS])


def _numbered() -> gym.Env[Any, Any]:
    return gym.wrappers.TimeLimit(Numbered(), 30)


def _small(env: Any) -> hr.CategoricalPolicy:
    return hr.CategoricalPolicy.mlp(env, hidden=[16], seed=0)


def test_discrete_actions_are_numbered_as_the_space_says() -> None:
    assert fitted(np.array([0, 1]), gym.spaces.Discrete(2, start=3)).tolist() == [3, 4]
    assert fitted(1, gym.spaces.Discrete(2)) == 1
    plain = gym.make("CartPole-v1")
    assert fitting(plain) is plain


def test_continuous_actions_are_clipped() -> None:
    space = gym.spaces.Box(-1.0, 2.0, (2,), np.float32)
    clipped = fitted(np.array([[-3.0, 3.0]]), space)
    assert clipped.tolist() == [[-1.0, 2.0]]
    assert clipped.dtype == np.float32


@pytest.mark.parametrize("n", [0, 2])
def test_a_learner_takes_actions_that_are_not_numbered_from_0(n: int) -> None:
    """Right pays, and it is action 4 of the environment, 1 of the policy."""
    env: Any = gym.vector.SyncVectorEnv([_numbered] * n) if n else _numbered()
    learner = hr.Reinforce(env, _small(env), constraints=RIGHT, step_size=1e-3, seed=0)
    learner.learn(episodes=4)
    assert learner.evaluate(episodes=2).mean > 0.4  # to the left there is nothing
    assert learner.policy.outputs(np.array([[0.4, 1.0]]))[0, 1] >= 0.99
    actions, _ = learner.predict(np.array([[0.2, 1.0], [0.4, 1.0]]), deterministic=True)
    assert actions.tolist() == [4, 4]
    assert learner.predict(np.array([0.2, 1.0]), deterministic=True)[0] == 4


@pytest.mark.parametrize("deterministic", [False, True])
def test_a_policy_is_evaluated_by_the_numbers_of_the_space(deterministic: bool) -> None:
    policy = _small(Numbered())
    hr.enforce(policy, RIGHT).raise_if_unsatisfied()
    found = hr.evaluate(policy, _numbered(), RIGHT, episodes=3, deterministic=deterministic)
    assert found.satisfied
    assert found.mean > 0.4


def test_stable_baselines3_would_do_other_actions() -> None:
    def shifted(action: Any) -> Any:
        return action + 3

    model = PPO("MlpPolicy", _numbered(), n_steps=16, batch_size=16, device="cpu")
    for refused in (lambda: policy_of(model), lambda: hr.evaluate(model, _numbered(), episodes=1)):
        with pytest.raises(
            InvalidPolicy,
            match=r"numbers actions from 0, but this environment acts in Discrete\(2, start=3\).*"
            r"TransformAction\(env, lambda action: action \+ 3, gymnasium.spaces.Discrete\(2\)\)",
        ):
            refused()
    env = gym.wrappers.TransformAction(_numbered(), shifted, gym.spaces.Discrete(2))
    model = PPO("MlpPolicy", env, n_steps=16, batch_size=16, device="cpu", seed=0)
    rail = Handrail(RIGHT)
    model.learn(16, callback=rail)
    assert rail.worst_violation <= 0.0
    assert hr.evaluate(model, env, RIGHT, episodes=3).mean > 0.4


def test_parts_of_an_observation_are_seen_one_behind_the_other() -> None:
    """In the order of the space: that of the alphabet, where it was given as a plain dict."""
    seen = {"speed": [4.0], "gear": 2, "position": [[0.1, 0.2], [0.3, 0.4]]}
    flat = flat_observation(seen, PARTS)
    assert np.allclose(flat, [0, 1, 0, 0.1, 0.2, 0.3, 0.4, 4.0])
    box = flat_space(PARTS)
    assert box.shape == (8,)
    assert box.low.tolist() == [0, 0, 0, -1, -1, -1, -1, 0]
    assert box.high.tolist() == [1, 1, 1, 1, 1, 1, 1, 9]
    assert flat_space(PAIR).shape == (10,)
    assert np.allclose(flat_observation((np.array([1, 0]), seen), PAIR)[:3], [1, 0, 0])
    assert flat_space(gym.spaces.Discrete(5)).shape == (5,)
    board = gym.spaces.Box(0.0, 1.0, (5, 5))
    assert flat_space(board) is board


@pytest.mark.parametrize(
    "space", [gym.spaces.Text(5), gym.spaces.Dict({"name": gym.spaces.Text(5)})], ids=str
)
def test_observations_that_are_no_numbers_are_refused(space: gym.Space[Any]) -> None:
    with pytest.raises(InvalidPolicy, match=r"must be numbers: a Box, .* observes .*Text"):
        hr.CategoricalPolicy.mlp((space, gym.spaces.Discrete(2)))


@pytest.mark.parametrize("space", [PARTS, PAIR, gym.spaces.Discrete(8)], ids=["Dict", "Tuple", "D"])
@pytest.mark.parametrize("n", [0, 2])
def test_a_learner_sees_parts_as_a_list_of_numbers(space: gym.Space[Any], n: int) -> None:
    def make() -> gym.Env[Any, Any]:
        return Numbers(observations=space)

    env: Any = gym.vector.SyncVectorEnv([make] * n) if n else make()
    states = np.stack([flat_observation(space.sample(), space) for _ in range(3)]).astype(float)
    rules = [hr.AtLeast(0.9, action=2, where=hr.Points(np.unique(states, axis=0)), name="third")]
    learner = hr.Reinforce(env, _small(env), constraints=rules, seed=0)
    learner.learn(episodes=2)
    assert (learner.policy.outputs(states)[:, 2] >= 0.9 - 1e-6).all()
    found = hr.evaluate(learner.policy, make(), rules, episodes=1)
    assert found.satisfied
    observation = space.sample()
    action, _ = learner.predict(observation, deterministic=True)
    flat = flat_observation(observation, space)
    assert action == learner.policy.outputs(flat[None])[0].argmax()
