"""A whole training run, next to nothing but the environment's own steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, final
from unittest.mock import patch

import gymnasium as gym

from benchmarks.harness import clocked, quartiles_of
from benchmarks.plan import Plan
from handrail.learning import Episode, Seconds, play
from handrail.learning import player as players
from handrail.learning.episode import Act
from handrail.policies.fused_network import FusedNetwork
from handrail.rulebook import load_rulebook, with_settings
from handrail.runs import make_agent

# What a run may cost, in units of the bare steps.
MOST = {"cartpole": 3.0, "cartpole_500": 3.0, "lunar_lander": 1.8}
_WARM_UP = 3
_Tape = list[tuple[int, list[int]]]


@final
@dataclass(frozen=True)
class LearningCost:
    """One environment.

    Attributes:
        name: of the bundled constraint file.
        compiled: whether the network's passes were (numba).
        episodes: that were learned from and stepped through bare, block by block in turns.
        steps: environment steps of them.
        bare_seconds: per step, of the environment alone: the same actions, the same seeds.
        ratio: time of learning over time of the bare steps, of the sums over all blocks.
        quartiles: of the ratios of the blocks.
        shares: where the learning time goes, by stage; what is left of 1 is recording.
        most: what was asked for.
    """

    name: str
    compiled: bool
    episodes: int
    steps: int
    bare_seconds: float
    ratio: float
    quartiles: tuple[float, float]
    shares: dict[str, float]
    most: float


def measure_learning(plan: Plan) -> list[LearningCost]:
    """Time whole runs with exact enforcement, settings of the bundled files; then without numba."""
    costs = [_measure(name, plan) for name in MOST]
    with patch.object(FusedNetwork, "of", return_value=None):
        costs += [_measure(name, plan) for name in MOST]
    return costs


def _measure(name: str, plan: Plan) -> LearningCost:
    book = with_settings(load_rulebook(name), network={"hidden": [plan.width]})
    agent = make_agent(book)
    env = book.make_environment()
    agent.learn(episodes=_WARM_UP, progress_bar=False)
    before = agent.steps
    spent: list[Seconds] = []
    learning, bare = [], []

    def learn() -> None:
        agent.learn(
            episodes=plan.learning_episodes,
            progress_bar=False,
            callbacks=[lambda _agent, _record, seconds: spent.append(seconds)],
        )

    for _ in range(plan.learning_blocks):
        with taped() as tape:
            learning.append(clocked(learn)[1])
        bare.append(clocked(partial(replay, env, tape))[1])
    stages = ("collecting", "predicting", "solving", "updating")
    return LearningCost(
        name=name,
        compiled=agent.policy.fused() is not None,
        episodes=plan.learning_blocks * plan.learning_episodes,
        steps=agent.steps - before,
        bare_seconds=sum(bare) / (agent.steps - before),
        ratio=sum(learning) / sum(bare),
        quartiles=quartiles_of(learning, bare),
        shares={
            stage: sum(getattr(one, stage) for one in spent) / sum(learning) for stage in stages
        },
        most=MOST[name],
    )


@contextmanager
def taped() -> Iterator[_Tape]:
    """The seed and the actions of every episode that is played in the block."""
    tape: _Tape = []

    def play_and_tape(env: gym.Env[Any, Any], act: Act, seed: int) -> Episode:
        episode = play(env, act, seed)
        tape.append((seed, episode.actions.tolist()))
        return episode

    with patch.object(players, "play", play_and_tape):
        yield tape


def replay(env: gym.Env[Any, Any], tape: _Tape) -> None:
    """The same episodes without a policy: the environment alone."""
    for seed, actions in tape:
        env.reset(seed=seed)
        for action in actions:
            env.step(action)
