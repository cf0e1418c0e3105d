"""Small environments and models of Stable-Baselines3 for the tests, and those that are refused."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from sb3_contrib import TQC, RecurrentPPO
from stable_baselines3 import PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.distributions import (
    CategoricalDistribution,
    SquashedDiagGaussianDistribution,
)
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, MlpExtractor
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    VecFrameStack,
    VecMonitor,
    VecNormalize,
)
from torch import Tensor, nn

import handrail as hr
from handrail._types import Array
from tests.conftest import small_policy


class Pictures(gym.Env[Any, Any]):
    """Random pictures; action 1 pays."""

    def __init__(self, shape: tuple[int, ...] = (36, 36, 1)) -> None:
        self.observation_space = gym.spaces.Box(0, 255, shape, np.uint8)
        self.action_space = gym.spaces.Discrete(3)
        self.steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._look(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self._look(), float(action == 1), self.steps >= 20, False, {}

    def _look(self) -> Any:
        return self.np_random.integers(0, 256, self.observation_space.shape, dtype=np.uint8)


class Numbers(gym.Env[Any, Any]):
    """Random numbers of any shape; any actions; the first number pays."""

    def __init__(
        self,
        shape: tuple[int, ...] = (4,),
        actions: gym.Space[Any] | None = None,
        observations: gym.Space[Any] | None = None,
    ) -> None:
        self.observation_space = observations or gym.spaces.Box(-1.0, 1.0, shape)
        self.action_space = actions or gym.spaces.Discrete(3)
        self.steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self.observation_space.sample(), 1.0, self.steps >= 20, False, {}


class Masked(Numbers):
    """Action 2 is never allowed, and taking it is an error."""

    def action_masks(self) -> Any:
        return np.array([True, True, False])

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert action != 2
        return super().step(action)


class Two(BaseFeaturesExtractor):
    """Two features that are learned."""

    def __init__(self, observation_space: gym.Space[Any]) -> None:
        super().__init__(observation_space, features_dim=2)
        self.linear = nn.Linear(int(np.prod(observation_space.shape or ())), 2)

    def forward(self, observations: Tensor) -> Tensor:
        features: Tensor = torch.tanh(self.linear(observations.flatten(1)))
        return features


class Glance(BaseFeaturesExtractor):
    """Four features of a picture, through one convolution."""

    def __init__(self, observation_space: gym.Space[Any]) -> None:
        super().__init__(observation_space, features_dim=4)
        self.look = nn.Sequential(nn.Conv2d(1, 2, 12, stride=12), nn.ReLU(), nn.Flatten())
        self.linear = nn.Linear(18, 4)

    def forward(self, observations: Tensor) -> Tensor:
        features: Tensor = self.linear(self.look(observations)).relu()
        return features


def ppo(env: Any = "CartPole-v1", policy: Any = "MlpPolicy", **settings: Any) -> PPO:
    """A small PPO with a fixed seed."""
    settings = {"n_steps": 64, "batch_size": 32, "n_epochs": 2, **settings}
    return PPO(policy, env, seed=0, device="cpu", **settings)


def probabilities(model: BaseAlgorithm, states: Array) -> Array:
    """As Stable-Baselines3 itself computes them, in float32."""
    policy: Any = model.policy
    observations = torch.as_tensor(states, dtype=torch.float32)
    with torch.no_grad():
        result: Array = policy.get_distribution(observations).distribution.probs.double().numpy()
    return result


def values(model: BaseAlgorithm, states: Array) -> Tensor:
    """What the critic says."""
    policy: Any = model.policy
    with torch.no_grad():
        found: Tensor = policy.predict_values(torch.as_tensor(states, dtype=torch.float32))
    return found


def at_least(states: Array, bound: float = 0.9) -> list[hr.Constraint]:
    """One action at each state: 0, 1, 0, 1, …"""
    return [
        hr.AtLeast(bound, number % 2, hr.Points(states[number : number + 1]), name=f"s{number}")
        for number in range(len(states))
    ]


CARTPOLE_STATES = np.array([[0.0, 0.0, -0.15, -0.5], [0.0, 0.0, 0.15, 0.5]])
CARTPOLE = at_least(CARTPOLE_STATES, 0.95)


REQUIRED = 1e-4  # of any policy that acts
TILTED = hr.Box([-0.5, -0.5, 0.1, 0.3], [0.5, 0.5, 0.2, 0.6])


def parameters(model: BaseAlgorithm) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.policy.named_parameters()}


def changed(model: BaseAlgorithm, before: dict[str, Tensor]) -> set[str]:
    return {name for name, p in model.policy.named_parameters() if not torch.equal(p, before[name])}


class Watch(BaseCallback):
    """What the policy would do at some states, at every step it acts."""

    def __init__(self, states: Array) -> None:
        super().__init__()
        self.states = states
        self.seen: list[Array] = []

    def _on_step(self) -> bool:
        self.seen.append(probabilities(self.model, self.states))
        return True


class Forward(ActorCriticPolicy):
    """Has an opinion of its own besides its layers."""

    def _get_action_dist_from_latent(self, latent_pi: Tensor) -> Any:
        return self.action_dist.proba_distribution(
            action_logits=5.0 + self.action_net(latent_pi).cos()
        )


class Bold(ActorCriticPolicy):
    """A temperature: what it says of the zero logits of a fresh network is right."""

    def _get_action_dist_from_latent(self, latent_pi: Tensor) -> Any:
        return self.action_dist.proba_distribution(action_logits=2.0 * self.action_net(latent_pi))


class Bounded(ActorCriticPolicy):
    """Means through tanh, which changes none of a fresh network."""

    def _get_action_dist_from_latent(self, latent_pi: Tensor) -> Any:
        means = self.action_net(latent_pi).tanh()
        return self.action_dist.proba_distribution(means, self.log_std)


class Wilful(ActorCriticPolicy):
    """Its distribution is that of its layers, but rollouts get another action."""

    def forward(self, obs: Tensor, deterministic: bool = False) -> Any:
        actions, says, likelihood = super().forward(obs, deterministic)
        return 1 - actions, says, likelihood


class Deaf(ActorCriticPolicy):
    """Acts by its layers only while it learns."""

    def predict(self, *args: Any, **settings: Any) -> Any:
        actions, memory = super().predict(*args, **settings)
        return 0 * actions, memory


def own_forward() -> PPO:
    """Not of a class, but of one model."""
    model = ppo()
    policy: Any = model.policy
    policy.forward = partial(policy.forward, deterministic=True)
    return model


class Louder(MlpExtractor):
    """A hundredth more than its layers say, in rollouts only."""

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        return 1.01 * self.forward_actor(features), self.forward_critic(features)


class Quieter(MlpExtractor):
    """A hundredth less, always."""

    def forward_actor(self, features: Tensor) -> Tensor:
        return 0.99 * super().forward_actor(features)


def with_extractor(kind: type[MlpExtractor]) -> type[ActorCriticPolicy]:
    class Custom(ActorCriticPolicy):
        def _build_mlp_extractor(self) -> None:
            self.mlp_extractor = kind(self.features_dim, self.net_arch, self.activation_fn)

    return Custom


def with_distribution(distribution: Any) -> type[ActorCriticPolicy]:
    class Custom(ActorCriticPolicy):
        def _build(self, lr_schedule: Any) -> None:
            self.action_dist = distribution
            super()._build(lr_schedule)

    return Custom


class Heated(CategoricalDistribution):
    """Draws otherwise than its probabilities say."""

    def sample(self) -> Tensor:
        return 0 * super().sample()


class Lookalike:
    """Has all that an actor-critic policy has."""

    def __init__(self, policy: Any) -> None:
        self._policy = policy

    def __getattr__(self, name: str) -> Any:
        if name == "lstm_actor":
            raise AttributeError(name)
        return getattr(self._policy, name)


def lookalike() -> PPO:
    model = ppo()
    model.policy = Lookalike(model.policy)  # type: ignore[assignment]
    return model


class OneBody(ActorCriticPolicy):
    """The critic reads the actor's layers."""

    def _build_mlp_extractor(self) -> None:
        super()._build_mlp_extractor()
        self.mlp_extractor.value_net = self.mlp_extractor.policy_net


class Nameless(ActorCriticPolicy):
    """A network of its own making."""

    def _build_mlp_extractor(self) -> None:
        super()._build_mlp_extractor()
        self.mlp_extractor.actor = self.mlp_extractor.policy_net
        del self.mlp_extractor.policy_net


class Own(VecNormalize):
    """Does nothing else so far."""


def cartpoles(n: int = 1) -> DummyVecEnv:
    return DummyVecEnv([lambda: gym.make("CartPole-v1")] * n)


def normalised(n: int = 1, **settings: Any) -> VecNormalize:
    return VecNormalize(cartpoles(n), **settings)


def spaces(**given: Any) -> PPO:
    policy = "MultiInputPolicy" if "observations" in given else "MlpPolicy"
    return ppo(Numbers(**given), policy)


DICT = gym.spaces.Dict({"near": gym.spaces.Box(0.0, 1.0, (2,)), "far": gym.spaces.Box(0.0, 1.0)})
REFUSED: dict[str, tuple[Any, str]] = {
    "TQC": (
        lambda: TQC("MlpPolicy", "Pendulum-v1", device="cpu", buffer_size=10),
        "TQC acts by a TQCPolicy, which Handrail cannot look into.*PPO, A2C, TRPO, Maskable",
    ),
    "recurrent": (
        lambda: RecurrentPPO("MlpLstmPolicy", "CartPole-v1", n_steps=8, device="cpu"),
        r"RecurrentPPO remembers: .*FrameStackObservation\(env, 4\) or VecFrameStack\(venv, 4\)",
    ),
    "state-dependent noise": (
        lambda: ppo("Pendulum-v1", use_sde=True),
        "StateDependentNoiseDistribution.*Leave use_sde at False",
    ),
    "squashed": (
        lambda: ppo("Pendulum-v1", use_sde=True, policy_kwargs={"squash_output": True}),
        "squash_output=True sends mean actions through tanh.*Leave it at False",
    ),
    "VecNormalize that moves": (
        lambda: ppo(normalised()),
        r"VecNormalize still moves its statistics with every step \(training=True\).*Freeze them "
        r"first: model.get_vec_normalize_env\(\).training = False",
    ),
    "two VecNormalize": (
        lambda: ppo(VecNormalize(VecMonitor(normalised()))),
        r"Two VecNormalize\(norm_obs=True\) are around one environment",
    ),
    "VecNormalize of one's own": (
        lambda: ppo(Own(cartpoles())),
        "Own is a class of your own derived from VecNormalize",
    ),
    "something around VecNormalize": (
        lambda: ppo(VecFrameStack(normalised(), 2)),
        r"VecFrameStack stands around VecNormalize\(norm_obs=True\) and may change",
    ),
    "NormalizeObservation": (
        lambda: ppo(gym.wrappers.NormalizeObservation(gym.make("CartPole-v1"))),
        "NormalizeObservation keeps statistics of its own in each sub-env.*Use VecNormalize around",
    ),
    "forward": (lambda: ppo(policy=Forward), "Forward does not act by its layers alone"),
    "temperature": (lambda: ppo(policy=Bold), "a `_get_action_dist_from_latent` of its own"),
    "tanh means": (
        lambda: ppo("Pendulum-v1", Bounded),
        "a `_get_action_dist_from_latent` of its own instead of that of ActorCriticPolicy",
    ),
    "own forward": (lambda: ppo(policy=Wilful), "Wilful .*has a `forward` of its own"),
    "own predict": (lambda: ppo(policy=Deaf), "Deaf .*has a `predict` of its own"),
    "one model's forward": (own_forward, "has a `forward` of its own"),
    "louder": (lambda: ppo(policy=with_extractor(Louder)), "its outputs differ by up to"),
    "quieter": (lambda: ppo(policy=with_extractor(Quieter)), "its outputs differ by up to"),
    "quieter means": (
        lambda: ppo("Pendulum-v1", with_extractor(Quieter)),
        "its outputs differ by up to",
    ),
    "squashed distribution": (
        lambda: ppo("Pendulum-v1", with_distribution(SquashedDiagGaussianDistribution(1))),
        "through SquashedDiagGaussianDistribution.*action_dist as Stable-Baselines3 makes it",
    ),
    "own distribution": (
        lambda: ppo(policy=with_distribution(Heated(2))),
        "through Heated.*action_dist as Stable-Baselines3 makes it",
    ),
    "lookalike": (lookalike, "Lookalike is no ActorCriticPolicy or Maskable.*PPO, A2C, TRPO"),
    "one body": (lambda: ppo(policy=OneBody), "actor of this OneBody shares layers with its crit"),
    "nameless": (lambda: ppo(policy=Nameless), "MlpExtractor has no `policy_net`"),
    "policy": (small_policy, "such as PPO.* but got CategoricalPolicy"),
}
