"""A PPO agent that balances perfectly is edited to obey the paper's constraints on Cartpole.

Trains the agent (half a minute on a laptop core), writes it and the states it visits, and prints
what `edit` and `enforce` alone change on these states. Networks in float32 round differently on
different processors, so the agent, and all numbers about it, are those of yours. Needs
Stable-Baselines3. Run with `python examples/edit_ppo.py`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

import handrail as hr
from handrail import sb3
from handrail._types import Array
from handrail.enforcement import (
    References,
    given_references,
    influence_between,
    references_of_space,
)
from handrail.learning.episode import Start, greedy, play

CARTPOLE = "CartPole-v1"
EPISODES = 20
FILES = ("cartpole", "cartpole_regions")


def trained() -> PPO:
    """An agent that balances perfectly, with the settings of RL Zoo."""
    model = PPO(
        "MlpPolicy",
        make_vec_env(CARTPOLE, n_envs=8, seed=0),
        n_steps=32,
        batch_size=256,
        gae_lambda=0.8,
        gamma=0.98,
        n_epochs=20,
        learning_rate=lambda left: 1e-3 * left,
        clip_range=lambda left: 0.2 * left,
        seed=0,
        device="cpu",
    )
    return model.learn(100_000)


def visited(policy: hr.Policy) -> Array:
    """States (n, 4) of some episodes of the most probable actions."""
    env = gym.make(CARTPOLE)
    starts = [Start.of(seed=0, number=number) for number in range(EPISODES)]
    return np.concatenate([play(env, greedy(policy), one.environment).states for one in starts])


def random_states(book: hr.Rulebook) -> References:
    """What `handrail edit` takes without --states."""
    space = book.make_environment().observation_space
    assert isinstance(space, gym.spaces.Box)
    return references_of_space(space, book.constraints, book.scale())


def score(policy: hr.Policy) -> float:
    """Average of other episodes than those that were visited."""
    return hr.evaluate(policy, CARTPOLE, episodes=EPISODES, deterministic=True, seed=1).mean


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("runs/ppo"))
    folder = parser.parse_args().folder
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    model = trained()
    model.save(folder / "ppo.zip")
    policy = sb3.policy_of(model)
    states = visited(policy)
    np.save(folder / "visited.npy", states)

    methods: dict[str, Callable[[hr.Policy, hr.Rulebook], object]] = {
        "enforce": lambda policy, book: hr.enforce(policy, book.constraints),
        "edit, random states": lambda policy, book: hr.edit(
            policy, book.constraints, random_states(book)
        ),
        "edit, visited states": lambda policy, book: hr.edit(policy, book.constraints, states),
    }
    title = f"{len(states):,} visited states; average score before: {score(policy):.1f}"
    table = Table(title=title, title_justify="left")
    for column in ("constraints", "by", "largest change", "mean change", "other choice", "score"):
        table.add_column(column, justify="left" if column in ("constraints", "by") else "right")
    for name in FILES:
        book = hr.load_rulebook(name)
        references = given_references(states, book.constraints)
        before = policy.outputs(references.states)
        for method, make_obey in methods.items():
            changed = sb3.policy_of(sb3.load(folder / "ppo.zip"))
            make_obey(changed, book)
            effects = influence_between(
                references, before, changed.outputs(references.states), policy.quantity
            )
            table.add_row(
                name,
                method,
                f"{effects.largest_change:.3f}",
                f"{effects.mean_change:.4f}",
                f"{effects.share_of_changed_choices:.2%}",
                f"{score(changed):.1f}",
            )
    Console().print(table)


if __name__ == "__main__":
    main()
