"""Any agent played without learning, and measured."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3.common.evaluation import evaluate_policy
from torch import nn

import handrail as hr
from handrail.sb3.callback import Handrail
from handrail.sb3.policy import policy_of
from tests.conftest import small_policy
from tests.policies.test_gaussian import gaussian
from tests.support.pendulum import RULES
from tests.support.sb3_models import (
    CARTPOLE,
    CARTPOLE_STATES,
    REFUSED,
    Masked,
    Numbers,
    Pictures,
    at_least,
    ppo,
)


class TestEvaluate:
    def test_their_own_evaluation_works_as_always(self) -> None:
        model = ppo()
        model.learn(64, callback=Handrail(CARTPOLE))
        env = gym.wrappers.RecordEpisodeStatistics(gym.make("CartPole-v1"))
        scores, lengths = evaluate_policy(
            model, env, n_eval_episodes=3, warn=False, return_episode_rewards=True
        )
        assert scores == lengths  # CartPole pays 1 per step

    def test_all_agents_the_same_way(self) -> None:
        model = ppo()
        rules = at_least(CARTPOLE_STATES, 0.55)  # so little that episodes end
        agent = hr.Reinforce("CartPole-v1", policy_of(model), rules, tolerance=1e-5)
        env = gym.make("CartPole-v1")
        agents = (model, agent, agent.policy)
        first = [hr.evaluate(one, env, rules, episodes=3) for one in agents]
        again = [hr.evaluate(one, env, rules, episodes=3) for one in agents]
        for found, repeated in zip(first, again, strict=True):
            assert found.lengths == tuple(map(int, found.scores))  # CartPole pays 1 per step
            assert found.satisfied
            assert len(found.scores) == 3
            assert repeated.scores == found.scores
        assert first[1].scores == first[2].scores
        by_model, by_agent = (
            hr.evaluate(one, env, episodes=2, deterministic=True) for one in (model, agent)
        )
        assert by_model.scores == by_agent.scores
        assert by_model.violations is None
        assert hr.evaluate(model, env, episodes=3, seed=1).scores != first[0].scores

    def test_violations_are_told(self) -> None:
        found = hr.evaluate(ppo(), "CartPole-v1", "cartpole", episodes=1)
        assert not found.satisfied
        assert found.violations is not None
        assert "constraint rows violated" in str(found)

    def test_chance_is_left_alone(self) -> None:
        model = ppo()
        before = torch.get_rng_state()
        hr.evaluate(model, "CartPole-v1", episodes=1)
        assert torch.equal(torch.get_rng_state(), before)

    def test_pictures_and_masks(self) -> None:
        pictures = hr.evaluate(ppo(Pictures(), "CnnPolicy"), Pictures(), episodes=1)
        assert pictures.lengths == (20,)
        masked = MaskablePPO("MlpPolicy", Masked(), n_steps=32, batch_size=32, seed=0, device="cpu")
        assert hr.evaluate(masked, Masked(), episodes=3).lengths == (20, 20, 20)

    @pytest.mark.parametrize(
        ("agent", "env", "message"),
        [
            (lambda: nn.Linear(4, 2), "CartPole-v1", "a Reinforce or a policy, but got Linear"),
            (
                lambda: small_policy(4, 3),
                "CartPole-v1",
                "among 3 actions, but the environment has 2",
            ),
            (
                lambda: small_policy(4, 2),
                5,
                "Expected a Gymnasium id or an environment, but got int",
            ),
            (lambda: small_policy(4, 2), "Nowhere-v0", "Gymnasium cannot make 'Nowhere-v0'"),
            (
                lambda: small_policy(4, 2),
                gym.make_vec("CartPole-v1"),
                "but got CartPoleVectorEnv. Vector envi",
            ),
            (ppo, Numbers(), r"acts in Discrete\(2\), but the environment has .*Discrete\(3\)"),
            (ppo, Numbers((5,), gym.spaces.Discrete(2)), "The model observes Box.*has Box"),
        ],
    )
    def test_what_is_refused(self, agent: Any, env: Any, message: str) -> None:
        with pytest.raises(hr.HandrailError, match=message):
            hr.evaluate(agent(), env)

    def test_settings_that_make_no_sense(self) -> None:
        with pytest.raises(
            hr.errors.InvalidArgument, match="episodes must be a positive whole number"
        ):
            hr.evaluate(small_policy(4, 2), "CartPole-v1", episodes=0)
        with pytest.raises(hr.errors.InvalidArgument, match="tolerance must be 0 or more"):
            hr.evaluate(small_policy(4, 2), "CartPole-v1", tolerance=-1.0)
        with pytest.raises(hr.errors.InvalidRulebook, match="names 8 observations"):
            hr.evaluate(small_policy(4, 2), "CartPole-v1", "lunar_lander")
        normalised = REFUSED["VecNormalize"][0]()
        with pytest.raises(hr.errors.InvalidPolicy, match="VecNormalize"):
            hr.evaluate(normalised, "CartPole-v1")


def test_a_policy_is_evaluated_within_the_range() -> None:
    policy = gaussian(3, 1, std=3.0)
    first = hr.evaluate(policy, "Pendulum-v1", RULES, episodes=2, seed=4)
    again = hr.evaluate(policy, gym.make("Pendulum-v1"), RULES, episodes=2, seed=4)
    assert first.scores == again.scores
    assert not first.satisfied
    with pytest.raises(hr.errors.InvalidPolicy, match="Use a CategoricalPolicy"):
        hr.evaluate(gaussian(4, 1), "CartPole-v1")
