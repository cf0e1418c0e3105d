"""A PD controller for CartPole becomes constraints, and learning goes on from there.

The controller damps too much and knows nothing of the cart: it holds the pole up while the cart
drifts off the track. Prints the scores of the controller, of a network that obeys it where it is
sure, and of the same network after learning, beside one that learns without it. Run with
`python examples/from_a_controller.py`.
"""

from __future__ import annotations

import argparse

import gymnasium as gym
import numpy as np
from rich.console import Console
from rich.table import Table

import handrail as hr
from handrail._types import Array
from handrail.learning.episode import Start, play

LEFT, RIGHT = 0, 1
STEP_SIZE = 3e-4
# x, ẋ, φ, φ̇: where the controller is to be trusted.
REGION = hr.Box(low=[-2.4, -0.5, -0.1, -0.5], high=[2.4, 0.5, 0.1, 0.5])


def pd_controller(state: Array) -> int:
    """Push to where the pole leans, and is about to lean."""
    _, _, phi, phi_dot = state
    return RIGHT if phi + 5.0 * phi_dot > 0.0 else LEFT


def controller_scores(episodes: int, seed: int) -> list[float]:
    """Of the controller itself, from the starts that `evaluate` uses."""
    env = gym.make("CartPole-v1")
    starts = [Start.of(seed, number, stream=1) for number in range(episodes)]
    return [play(env, pd_controller, start.environment).score for start in starts]


def learned_scores(
    constraints: list[hr.Constraint], seed: int, episodes: int, evaluated: int
) -> tuple[float, float, float]:
    """Average scores before learning, while learning, and after."""
    agent = hr.Reinforce("CartPole-v1", constraints=constraints, step_size=STEP_SIZE, seed=seed)
    before = agent.evaluate(evaluated).mean
    records = agent.learn(episodes)
    meanwhile = float(np.mean([record.score for record in records]))
    after = agent.evaluate(evaluated)
    assert after.satisfied
    return before, meanwhile, after.mean


def main() -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=150, help="to learn from")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--evaluated", type=int, default=20, help="episodes per score")
    options = parser.parse_args()

    console = Console()
    sample = hr.sample_controller(pd_controller, REGION, count=50, clearance=0.15)
    console.print(f"The controller: {sample}.", highlight=False)
    constraints = sample.constraints(margin=0.05)

    seeds = range(options.seeds)
    own = [float(np.mean(controller_scores(options.evaluated, seed))) for seed in seeds]
    title = f"CartPole-v1, average score of {options.evaluated} episodes, ± over {len(seeds)} seeds"
    table = Table(title=title, title_justify="left")
    table.add_column("")
    after = f"after {options.episodes} episodes"
    for column in ("before learning", "while learning", after):
        table.add_column(column, justify="right")
    table.add_row("the controller itself", _in_words(own), "", "")
    for name, rules in (("constraints from it", constraints), ("no constraints", [])):
        scores = [
            learned_scores(rules, seed, options.episodes, options.evaluated) for seed in seeds
        ]
        table.add_row(name, *(_in_words(column) for column in zip(*scores, strict=True)))
    console.print(table)


def _in_words(scores: list[float] | tuple[float, ...]) -> str:
    return f"{np.mean(scores):.0f} ± {np.std(scores):.0f}"


if __name__ == "__main__":
    main()
