"""A random 5000-wide Cartpole policy is made to obey the paper's 18 constraints, with no training.

Prints every constraint before and after, the scores of 20 episodes of CartPole-v1 before and after,
and writes a picture of the policy on the φ-φ̇ plane. Run with
`python examples/obey_before_training.py`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

import handrail as hr
from handrail._types import Array
from handrail.constraints import bound_in_words, counted, state_in_words
from handrail.learning.episode import Start, drawing, play
from handrail.report.drawing import draw_policy, draw_states, new_figure
from handrail.report.plane import Plane
from handrail.rulebook.rulebook import load_rulebook

EPISODES = 20
RIGHT = 1
PLANE = Plane(
    at=(0.0, 0.0, 0.0, 0.0),
    horizontal=2,
    vertical=3,
    horizontal_range=(-0.4, 0.4),
    vertical_range=(-0.4, 0.4),
)


def scores(policy: hr.CategoricalPolicy, episodes: int) -> Array:
    """Scores (episodes,) of the policy on CartPole-v1, the same starts for every policy."""
    env = gym.make("CartPole-v1")
    starts = [Start.of(seed=0, number=number) for number in range(episodes)]
    return np.array([play(env, drawing(policy, s.rng), s.environment).score for s in starts])


def table(before: hr.Violations, after: hr.Violations) -> Table:
    """Every constraint with its bound, before and after."""
    later = dict(zip(after.labels, after.values, strict=True))
    result = Table(title="The paper's 18 constraints on a random network", title_justify="left")
    for name in ("constraint", "state (x, ẋ, φ, φ̇)", "bound", "before", "after"):
        result.add_column(name, justify="left" if name == "constraint" else "right")
    for i in sorted(range(len(before)), key=lambda i: before.labels[i]):
        result.add_row(
            before.labels[i],
            state_in_words(before.states[i]),
            bound_in_words(before.lower[i], before.upper[i]),
            f"{before.values[i]:.4f}",
            f"{later[before.labels[i]]:.7f}",
        )
    return result


def picture(policies: dict[str, hr.CategoricalPolicy], rules: list[hr.Constraint]) -> Figure:
    """π(push right) over the φ-φ̇ plane, before and after, with the constrained states."""
    figure = new_figure(9.6, 4.3)
    panels = figure.subplots(1, len(policies), sharey=True)
    for axes, (title, policy) in zip(panels, policies.items(), strict=True):
        mesh = draw_policy(axes, policy, PLANE, action=RIGHT)
        for rule, colour in zip(rules, ("#b2182b", "#2166ac"), strict=True):
            draw_states(
                axes,
                rule.states,
                PLANE,
                label=f"{rule.name}: at least 95 % (9 cart positions)",
                markerfacecolor=colour,
            )
        axes.set_title(title)
        axes.set_xlabel(r"pole angle $\varphi$ (rad)")
    panels[0].set_ylabel(r"angular velocity $\dot{\varphi}$ (rad/s)")
    figure.colorbar(mesh, ax=panels, label="probability of pushing right")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    return figure


def main() -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the random network")
    parser.add_argument("--picture", type=Path, default=Path("runs/demo/policy.png"))
    options = parser.parse_args()

    console = Console()
    env = gym.make("CartPole-v1")
    rules = list(load_rulebook("cartpole").constraints)
    untouched = hr.CategoricalPolicy.mlp(env, hidden=[5000], seed=options.seed)
    policy = hr.CategoricalPolicy.mlp(env, hidden=[5000], seed=options.seed)

    before = hr.measure(policy, rules)
    # The first call of anything loads half of torch: time the second.
    hr.enforce(hr.CategoricalPolicy.mlp(env, hidden=[5000], seed=options.seed), rules)
    start = time.perf_counter()
    enforcement = hr.enforce(policy, rules).raise_if_unsatisfied()
    milliseconds = 1e3 * (time.perf_counter() - start)
    after = hr.measure(policy, rules)
    console.print(table(before, after))

    took = counted(enforcement.iterations, "iteration")
    score_before, score_after = scores(untouched, EPISODES), scores(policy, EPISODES)
    console.print(
        f"\nworst violation {before.worst_violation:+.3f} → {after.worst_violation:+.1e} "
        f"in {took}, {milliseconds:.0f} ms"
    )
    console.print(
        f"CartPole-v1, {EPISODES} episodes, no training: average score "
        f"{score_before.mean():.1f} → [bold]{score_after.mean():.1f}[/bold] of 500"
    )

    titles = {
        f"before: average score {score_before.mean():.0f}": untouched,
        f"after {took}, no training: {score_after.mean():.0f}": policy,
    }
    options.picture.parent.mkdir(parents=True, exist_ok=True)
    picture(titles, rules).savefig(options.picture, dpi=150)
    console.print(f"picture: {options.picture}")


if __name__ == "__main__":
    main()
