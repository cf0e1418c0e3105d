"""Models of Stable-Baselines3, played with by `handrail.evaluate`."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy

import handrail as hr
from handrail.sb3.callback import Handrail
from tests.support.environments import Failing
from tests.support.sb3_models import CARTPOLE, Masked, Numbers, Pictures, ppo


class TestEvaluate:
    def test_their_own_evaluation_works_as_always(self) -> None:
        model = ppo()
        model.learn(64, callback=Handrail(CARTPOLE))
        env = gym.wrappers.RecordEpisodeStatistics(gym.make("CartPole-v1"))
        scores, lengths = evaluate_policy(
            model, env, n_eval_episodes=3, warn=False, return_episode_rewards=True
        )
        assert scores == lengths  # CartPole pays 1 per step

    def test_pictures_and_masks(self) -> None:
        pictures = hr.evaluate(ppo(Pictures(), "CnnPolicy"), Pictures(), episodes=1)
        assert pictures.lengths == (20,)
        masked = MaskablePPO("MlpPolicy", Masked(), n_steps=32, batch_size=32, seed=0, device="cpu")
        assert hr.evaluate(masked, Masked(), episodes=3).lengths == (20, 20, 20)

    def test_chance_is_left_alone(self) -> None:
        model = ppo()
        before = torch.get_rng_state()
        hr.evaluate(model, "CartPole-v1", episodes=1)
        assert torch.equal(torch.get_rng_state(), before)

    @pytest.mark.parametrize(
        ("env", "message"),
        [
            (Numbers(), r"acts in Discrete\(2\), but the environment has .*Discrete\(3\)"),
            (Numbers((5,), gym.spaces.Discrete(2)), "The model observes Box.*has Box"),
        ],
    )
    def test_other_environments(self, env: Any, message: str) -> None:
        with pytest.raises(hr.errors.InvalidArgument, match=message):
            hr.evaluate(ppo(), env)

    @pytest.mark.parametrize("step", [-1, 3])
    @pytest.mark.parametrize("how", ["nan observation", "infinite observation"])
    def test_observations_that_are_not_finite(self, how: str, step: int) -> None:
        """Stable-Baselines3 has other words for them, or none."""
        when = "on reset" if step < 0 else f"at step {step}"
        with pytest.raises(
            hr.errors.EnvironmentFailure, match=f"observation is not finite {when}: .(nan|inf), "
        ):
            hr.evaluate(ppo(), Failing(gym.make("CartPole-v1"), how, step), episodes=1)

    def test_classes_of_ones_own(self) -> None:
        """Registered for what they derive from, wherever they were written."""

        class Mine(PPO):
            pass

        model = Mine("MlpPolicy", "CartPole-v1", seed=0, device="cpu")
        theirs = PPO("MlpPolicy", "CartPole-v1", seed=0, device="cpu")
        ours = hr.evaluate(model, "CartPole-v1", episodes=2)
        assert ours.scores == hr.evaluate(theirs, "CartPole-v1", episodes=2).scores

    def test_a_network_of_theirs_is_no_model(self) -> None:
        with pytest.raises(hr.errors.InvalidArgument, match="but got ActorCriticPolicy"):
            hr.evaluate(ppo().policy, "CartPole-v1")
