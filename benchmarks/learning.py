"""A whole training run, next to nothing but the environment's own steps."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, final

import gymnasium as gym
import numpy as np

from benchmarks.plan import Plan
from handrail.records import Seconds
from handrail.reinforce import Reinforce
from handrail.rulebook import load, with_settings
from handrail.runs import make_policy

# What a run may cost, in units of the bare steps.
MOST = {"cartpole": 5.0, "cartpole_500": 5.0, "lunar_lander": 2.5}
_WARM_UP = 3


@final
@dataclass(frozen=True)
class LearningCost:
    """One environment.

    Attributes:
        name: of the bundled constraint file.
        episodes: that were learned from and stepped through bare, block by block in turns.
        steps: environment steps of them.
        bare_seconds: per step, of the environment alone: the same actions, the same seeds.
        ratio: time of learning over time of the bare steps, of the sums over all blocks.
        quartiles: of the ratios of the blocks.
        shares: where the learning time goes, by stage; what is left of 1 is recording.
        most: what was asked for.
    """

    name: str
    episodes: int
    steps: int
    bare_seconds: float
    ratio: float
    quartiles: tuple[float, float]
    shares: dict[str, float]
    most: float


def measure_learning(plan: Plan) -> list[LearningCost]:
    """Time whole runs with exact enforcement, settings of the bundled files."""
    return [_measure(name, plan) for name in MOST]


def _measure(name: str, plan: Plan) -> LearningCost:
    book = with_settings(load(name), network={"hidden": [plan.width]})
    tape = _Tape(book.make_environment())
    settings = book.settings.learner
    agent = Reinforce.with_settings(tape, make_policy(book, tape), book.constraints, settings)
    agent.learn(episodes=_WARM_UP, progress_bar=False)
    before = agent.steps
    spent: list[Seconds] = []
    learning, bare = [], []
    for _ in range(plan.learning_blocks):
        tape.episodes.clear()
        start = time.perf_counter()
        agent.learn(
            episodes=plan.learning_episodes,
            progress_bar=False,
            callbacks=[lambda _agent, _record, seconds: spent.append(seconds)],
        )
        learning.append(time.perf_counter() - start)
        start = time.perf_counter()
        tape.replay()
        bare.append(time.perf_counter() - start)
    ratios = np.array(learning) / np.array(bare)
    stages = ("collecting", "predicting", "solving", "updating")
    return LearningCost(
        name=name,
        episodes=plan.learning_blocks * plan.learning_episodes,
        steps=agent.steps - before,
        bare_seconds=sum(bare) / (agent.steps - before),
        ratio=sum(learning) / sum(bare),
        quartiles=(float(np.quantile(ratios, 0.25)), float(np.quantile(ratios, 0.75))),
        shares={
            stage: sum(getattr(one, stage) for one in spent) / sum(learning) for stage in stages
        },
        most=MOST[name],
    )


@final
class _Tape(gym.Wrapper[Any, Any, Any, Any]):
    """Remembers seeds and actions, to step through the same episodes without a policy."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.episodes: list[tuple[int | None, list[Any]]] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a new episode on the tape."""
        self.episodes.append((seed, []))
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Put the action on the tape."""
        self.episodes[-1][1].append(action)
        return self.env.step(action)

    def replay(self) -> None:
        """The environment alone."""
        for seed, actions in self.episodes:
            self.env.reset(seed=seed)
            for action in actions:
                self.env.step(action)
