"""What learns where, what it is told, and for how long: settings were chosen on seeds from 100.

Those of DQN on CartPole are the tuned ones of rl-baselines3-zoo. Networks of SAC and TD3 are
smaller than its [256, 256] and [400, 300], which Pendulum does not need. On LunarLander nothing is
trained to the end: ten seeds must fit on two cores, so a plain training is given about a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Literal, final

import numpy as np
from stable_baselines3 import DQN, SAC, TD3
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from handrail import AtLeast, AtMost, Box, Mean, Prefer
from handrail.constraints import PlacedConstraint

# Without a rail, with one, and with one that keeps random steps to allowed actions.
Arm = Literal["plain", "rail", "allowed"]

_SMALL = {"net_arch": [64, 64]}


@final
@dataclass(frozen=True)
class Setting:
    """One algorithm in one environment.

    Attributes:
        name: as files call it.
        title: for people.
        environment: Gymnasium's id.
        algorithm: what learns.
        steps: of the environment.
        constraints: what the rail holds.
        arms: that are compared.
        margin: how far inside their bounds states are held (`Everywhere`): where every update moves
            the policy, a wide one makes holdings rare.
        options: of the algorithm, the same for all arms.
    """

    name: str
    title: str
    environment: str
    algorithm: type[OffPolicyAlgorithm]
    steps: int
    constraints: tuple[PlacedConstraint, ...]
    arms: tuple[Arm, ...]
    margin: float
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def model(self, seed: int) -> OffPolicyAlgorithm:
        """Fresh, on one thread of the CPU."""
        make: Callable[..., OffPolicyAlgorithm] = self.algorithm
        given = deepcopy(dict(self.options))  # Stable-Baselines3 writes into what it is given
        if self.algorithm is TD3:
            given["action_noise"] = NormalActionNoise(np.zeros(1), np.full(1, 0.1))
        return make("MlpPolicy", self.environment, seed=seed, device="cpu", **given)

    def in_short(self) -> Setting:
        """Enough to see that it runs."""
        return replace(self, steps=800)


# Pendulum-v1 observes cos, sin and speed; upright is (1, 0), and a torque acts with its sign.
_TOP_RIGHT = Box([0.9, 0.05, 0.0], [1.0, 0.3, 1.0])
_TOP_LEFT = Box([0.9, -0.3, -1.0], [1.0, -0.05, 0.0])
_BACK_TO_THE_TOP = (
    AtMost(-1.0, Mean(0), _TOP_RIGHT, name="falls right: push left"),
    AtLeast(1.0, Mean(0), _TOP_LEFT, name="falls left: push right"),
)

SAC_PENDULUM = Setting(
    "sac-pendulum",
    "SAC, Pendulum-v1",
    "Pendulum-v1",
    SAC,
    5000,
    _BACK_TO_THE_TOP,
    ("plain", "rail"),
    1.0,
    {"learning_rate": 1e-3, "policy_kwargs": _SMALL},
)
TD3_PENDULUM = Setting(
    "td3-pendulum",
    "TD3, Pendulum-v1",
    "Pendulum-v1",
    TD3,
    5000,
    _BACK_TO_THE_TOP,
    ("plain", "rail"),
    1.0,
    {"learning_rate": 1e-3, "gamma": 0.98, "learning_starts": 500, "policy_kwargs": _SMALL},
)

# CartPole-v1 observes position, speed, angle and its speed: push to where the pole leans and falls.
_LEANS_RIGHT = Box([-1.0, -1.0, 0.05, 0.1], [1.0, 1.0, 0.2, 1.0])
_LEANS_LEFT = Box([-1.0, -1.0, -0.2, -1.0], [1.0, 1.0, -0.05, -0.1])

DQN_CARTPOLE = Setting(
    "dqn-cartpole",
    "DQN, CartPole-v1",
    "CartPole-v1",
    DQN,
    50_000,
    (
        Prefer(1, by=0.1, where=_LEANS_RIGHT, name="leans right: push right"),
        Prefer(0, by=0.1, where=_LEANS_LEFT, name="leans left: push left"),
    ),
    ("plain", "rail", "allowed"),
    0.02,
    {
        "learning_rate": 2.3e-3,
        "batch_size": 64,
        "buffer_size": 100_000,
        "learning_starts": 1000,
        "gamma": 0.99,
        "target_update_interval": 10,
        "train_freq": 256,
        "gradient_steps": 128,
        "exploration_fraction": 0.16,
        "exploration_final_eps": 0.04,
        "policy_kwargs": {"net_arch": [256, 256]},
    },
)

# LunarLander-v3 observes x, y, their speeds, the angle, its speed, and whether each leg touches the
# ground. In the air and upright: fast and low, the main engine brakes; hardly falling, it is off.
_FALLS_FAST = Box(
    [-0.4, 0.1, -0.3, -1.0, -0.2, -0.3, 0.0, 0.0], [0.4, 0.6, 0.3, -0.6, 0.2, 0.3, 0.0, 0.0]
)
_HARDLY_FALLS = Box(
    [-0.4, 0.2, -0.3, -0.1, -0.2, -0.3, 0.0, 0.0], [0.4, 1.4, 0.3, 0.1, 0.2, 0.3, 0.0, 0.0]
)

SAC_LUNAR_LANDER = Setting(
    "sac-lunar_lander",
    "SAC, LunarLanderContinuous-v3",
    "LunarLanderContinuous-v3",
    SAC,
    40_000,
    (
        AtLeast(0.2, Mean(0), _FALLS_FAST, name="falls fast: main engine on"),
        AtMost(-0.2, Mean(0), _HARDLY_FALLS, name="hardly falls: main engine off"),
    ),
    ("plain", "rail"),
    1.0,
    {
        "learning_rate": 3e-4,  # with 1e-3, nearly every update crosses the margin
        "train_freq": 4,
        "gradient_steps": 1,
        "learning_starts": 1000,
        "policy_kwargs": _SMALL,
    },
)
DQN_LUNAR_LANDER = Setting(
    "dqn-lunar_lander",
    "DQN, LunarLander-v3",
    "LunarLander-v3",
    DQN,
    40_000,
    (
        Prefer(2, over=0, by=0.1, where=_FALLS_FAST, name="falls fast: main engine, not nothing"),
        Prefer(0, over=2, by=0.1, where=_HARDLY_FALLS, name="hardly falls: nothing, not main"),
    ),
    ("plain", "rail", "allowed"),
    0.02,
    {
        "learning_rate": 6.3e-4,
        "batch_size": 128,
        "buffer_size": 50_000,
        "learning_starts": 1000,
        "gamma": 0.99,
        "target_update_interval": 250,
        "train_freq": 64,
        "gradient_steps": 32,
        "exploration_fraction": 0.12,
        "exploration_final_eps": 0.1,
        "policy_kwargs": _SMALL,
    },
)

SETTINGS = (SAC_PENDULUM, TD3_PENDULUM, SAC_LUNAR_LANDER, DQN_CARTPOLE, DQN_LUNAR_LANDER)
SEEDS = range(10)
