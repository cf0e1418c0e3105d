"""What is compared: an environment, a constraint file, an algorithm and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, final

from torch import nn

Arm = Literal["plain", "handrail", "pressure"]
PRESSURE = 0.1  # of the arm that also pulls inside every minibatch update
FIRST_SEED = 1000  # settings were chosen with seeds below it: none of these decided anything


@final
@dataclass(frozen=True, eq=False)
class Comparison:
    """One comparison.

    Attributes:
        name: of its files.
        title: for people.
        environment: a Gymnasium id.
        rules: the bundled constraint file.
        algorithm: of Stable-Baselines3.
        steps: of training.
        arms: what is compared, and on how many seeds, from `FIRST_SEED`.
        learning_rate: at the beginning; it falls linearly to 0.
        n_envs: environments side by side.
        settings: of the algorithm, the same for all arms; its defaults where nothing is said.
        pass_mark: an average over 100 episodes that counts as solved.
    """

    name: str
    title: str
    environment: str
    rules: str
    algorithm: str
    steps: int
    arms: Mapping[Arm, int]
    learning_rate: float
    n_envs: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    pass_mark: float = 0.0

    def limited(self, seeds: int | None, steps: int | None) -> Comparison:
        """The same with fewer seeds or steps."""
        arms = {arm: min(count, seeds or count) for arm, count in self.arms.items()}
        return replace(self, arms=arms, steps=min(self.steps, steps or self.steps))


LUNAR_LANDER = Comparison(
    name="lunar_lander",
    title="LunarLander-v3, PPO",
    environment="LunarLander-v3",
    rules="lunar_lander",
    algorithm="PPO",
    steps=300_000,
    arms={"handrail": 10, "plain": 10, "pressure": 5},
    learning_rate=5e-4,
    n_envs=16,
    settings={
        "n_steps": 128,
        "batch_size": 256,
        "gamma": 0.999,
        "gae_lambda": 0.98,
        "policy_kwargs": {
            "activation_fn": nn.ReLU,
            "net_arch": {"pi": [256, 256], "vf": [256, 256]},
        },
    },
    pass_mark=200.0,
)
# Settings of the others: the RL Zoo's, or close to them, with fewer environments and steps.
CARTPOLE = Comparison(
    name="cartpole",
    title="CartPole-v1, PPO",
    environment="CartPole-v1",
    rules="cartpole_500",
    algorithm="PPO",
    steps=100_000,
    arms={"handrail": 10, "plain": 10, "pressure": 10},
    learning_rate=1e-3,
    n_envs=8,
    settings={
        "n_steps": 32,
        "batch_size": 256,
        "n_epochs": 20,
        "gamma": 0.98,
        "gae_lambda": 0.8,
    },
    pass_mark=475.0,
)
CARTPOLE_A2C = Comparison(
    name="cartpole_a2c",
    title="CartPole-v1, A2C",
    environment="CartPole-v1",
    rules="cartpole_500",
    algorithm="A2C",
    steps=100_000,
    arms={"handrail": 10, "plain": 10},
    learning_rate=7e-4,
    n_envs=8,
    settings={"n_steps": 32},  # 5 by default: constraints are held before every rollout
    pass_mark=475.0,
)
ACROBOT = Comparison(
    name="acrobot",
    title="Acrobot-v1, PPO",
    environment="Acrobot-v1",
    rules="acrobot",
    algorithm="PPO",
    steps=50_000,
    arms={"handrail": 5, "plain": 5},
    learning_rate=3e-4,
    n_envs=8,
    settings={"n_steps": 256, "n_epochs": 4, "gamma": 0.99, "gae_lambda": 0.94},
    pass_mark=-100.0,
)
PENDULUM = Comparison(
    name="pendulum",
    title="Pendulum-v1 (continuous), PPO",
    environment="Pendulum-v1",
    rules="pendulum",
    algorithm="PPO",
    steps=100_000,
    arms={"handrail": 5, "plain": 5},
    learning_rate=1e-3,
    n_envs=8,
    settings={
        "n_steps": 256,
        "batch_size": 256,
        "gamma": 0.95,
        # With the library's tiny last layer a network is almost linear at first, which cannot
        # tell pushing along at the bottom from pushing back at the top.
        "policy_kwargs": {"ortho_init": False},
    },
    pass_mark=-200.0,
)
COMPARISONS = (LUNAR_LANDER, CARTPOLE, CARTPOLE_A2C, ACROBOT, PENDULUM)
