"""What learns in which environment, and for how long: settings were chosen on seeds from 100."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, final

from benchmarks.influence.navigation import ID as NAVIGATION_ID
from benchmarks.ppo.comparison import ACROBOT as PPO_ACROBOT
from benchmarks.ppo.comparison import CARTPOLE as PPO_CARTPOLE
from benchmarks.ppo.comparison import LUNAR_LANDER as PPO_LUNAR_LANDER

LearnerName = Literal["reinforce", "ppo"]


@final
@dataclass(frozen=True)
class Setting:
    """One learner in one environment.

    Attributes:
        environment: its name in `knowledge`.
        title: for people.
        id: Gymnasium's.
        learner: what learns.
        budget: episodes of `Reinforce`, environment steps of PPO.
        options: of the learner, the same for all arms.
        hidden: widths of the network of `Reinforce`.
        scale: typical sizes of its observations.
        learning_rate: of PPO at the beginning; it falls linearly to 0.
        n_envs: of PPO, side by side.
        pass_mark: an average that counts as solved.
        normalised: whether PPO's rewards are divided by how far returns vary (`VecNormalize`), for
            all arms; scores are not.
    """

    environment: str
    title: str
    id: str
    learner: LearnerName
    budget: int
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    hidden: tuple[int, ...] = (1000,)
    scale: tuple[float, ...] | None = None
    learning_rate: float = 3e-4
    n_envs: int = 8
    pass_mark: float = 0.0
    normalised: bool = False

    @property
    def name(self) -> str:
        """As files call it."""
        rewards = "-normalised" if self.normalised else ""
        return f"{self.environment}-{self.learner}-{self.budget}{rewards}"

    @property
    def unit(self) -> str:
        """Of the budget."""
        return "episodes" if self.learner == "reinforce" else "steps"

    def lasting(self, budget: int) -> Setting:
        """The same for longer or shorter."""
        return replace(self, budget=budget)

    def with_normalised_rewards(self) -> Setting:
        """The same learner, to which all tasks pay alike."""
        return replace(self, normalised=True)

    def in_short(self) -> Setting:
        """Enough to see that it runs."""
        return self.lasting(6 if self.learner == "reinforce" else 4096)


def _reinforce(environment: str, title: str, id_: str, episodes: int, **others: Any) -> Setting:
    return Setting(environment, title, id_, "reinforce", episodes, **others)


CARTPOLE_REINFORCE = _reinforce(
    "cartpole", "CartPole-v1", "CartPole-v1", 300, options={"step_size": 1e-4}, pass_mark=475.0
)
LUNAR_LANDER_REINFORCE = _reinforce(
    "lunar_lander",
    "LunarLander-v3",
    "LunarLander-v3",
    300,
    options={"step_size": 2e-4, "discount": 0.999},
    pass_mark=200.0,
)
ACROBOT_REINFORCE = _reinforce(
    "acrobot",
    "Acrobot-v1",
    "Acrobot-v1",
    200,
    options={"step_size": 3e-4},
    scale=(1.0, 1.0, 1.0, 1.0, 4.0, 9.0),
    pass_mark=-100.0,
)
MOUNTAIN_CAR_REINFORCE = _reinforce(
    "mountain_car",
    "MountainCar-v0",
    "MountainCar-v0",
    200,
    options={"step_size": 1e-4},
    scale=(0.5, 0.03),
    pass_mark=-110.0,
)
NAVIGATION_REINFORCE = _reinforce(
    "navigation", "Navigation", NAVIGATION_ID, 400, options={"step_size": 1e-3}, pass_mark=8.0
)

CARTPOLE_PPO = Setting(
    "cartpole",
    "CartPole-v1",
    "CartPole-v1",
    "ppo",
    60_000,
    options=PPO_CARTPOLE.settings,
    learning_rate=PPO_CARTPOLE.learning_rate,
    n_envs=PPO_CARTPOLE.n_envs,
    pass_mark=475.0,
)
LUNAR_LANDER_PPO = Setting(
    "lunar_lander",
    "LunarLander-v3",
    "LunarLander-v3",
    "ppo",
    100_000,
    options=PPO_LUNAR_LANDER.settings,
    learning_rate=PPO_LUNAR_LANDER.learning_rate,
    n_envs=PPO_LUNAR_LANDER.n_envs,
    pass_mark=200.0,
)
ACROBOT_PPO = Setting(
    "acrobot",
    "Acrobot-v1",
    "Acrobot-v1",
    "ppo",
    PPO_ACROBOT.steps,
    options=PPO_ACROBOT.settings,
    learning_rate=PPO_ACROBOT.learning_rate,
    n_envs=PPO_ACROBOT.n_envs,
    pass_mark=-100.0,
)
MOUNTAIN_CAR_PPO = Setting(
    "mountain_car",
    "MountainCar-v0",
    "MountainCar-v0",
    "ppo",
    60_000,
    options={"n_steps": 128, "batch_size": 256, "n_epochs": 10, "gamma": 0.99, "ent_coef": 0.01},
    learning_rate=3e-3,
    pass_mark=-110.0,
)
NAVIGATION_PPO = Setting(
    "navigation",
    "Navigation",
    NAVIGATION_ID,
    "ppo",
    40_000,
    options={"n_steps": 64, "batch_size": 128, "gamma": 0.98, "gae_lambda": 0.9},
    learning_rate=1e-3,
    pass_mark=8.0,
)
SETTINGS = (
    CARTPOLE_REINFORCE,
    CARTPOLE_PPO,
    LUNAR_LANDER_REINFORCE,
    LUNAR_LANDER_PPO,
    ACROBOT_REINFORCE,
    ACROBOT_PPO,
    MOUNTAIN_CAR_REINFORCE,
    MOUNTAIN_CAR_PPO,
    NAVIGATION_REINFORCE,
    NAVIGATION_PPO,
)
