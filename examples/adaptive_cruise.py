"""Adaptive cruise control: a barrier, held and proven before the first step, and learning under it.

The environment (registered as AdaptiveCruise-v0 by importing this module): follow a car that
accelerates as it likes, within ±1.5 m/s² and between 18 and 26 m/s. `adaptive_cruise.yaml` says
what must hold. Run with `python examples/adaptive_cruise.py`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from rich.console import Console
from rich.table import Table

import handrail as hr
from handrail._types import Array

RULES = Path(__file__).with_name("adaptive_cruise.yaml")

SECONDS = 0.1  # of a step
STEPS = 200
LEAD_SPEED = (18.0, 26.0)
LEAD_ACCELERATION = 1.5
ACCELERATION = (-8.5, 2.5)
WANTED = 1.6  # seconds behind the car ahead: more than the 1.5 that the barrier keeps
FURTHEST = 150.0


class AdaptiveCruise(gym.Env[Array, Array]):
    """Observations (distance, relative speed, own speed); the action is the own acceleration.

    Both accelerations are constant during a step, so the motion is exact. A reward is what a step
    costs: being nearer or further than wanted, and accelerating.
    """

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(
            np.array([-50.0, -30.0, 0.0]), np.array([FURTHEST, 30.0, 60.0]), dtype=np.float64
        )
        low, high = ACCELERATION
        self.action_space = gym.spaces.Box(low, high, (1,), dtype=np.float64)
        self._state = np.zeros(3)
        self._lead_wants, self._steps = 0.0, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Behind a car, at least 5 m above what the barrier keeps."""
        super().reset(seed=seed, options=options)
        lead, own = self.np_random.uniform(*LEAD_SPEED), self.np_random.uniform(18.0, 26.0)
        distance = 5.0 + 1.5 * own + self.np_random.uniform(5.0, 40.0)
        self._state = np.array([distance, lead - own, own])
        self._lead_wants, self._steps = 0.0, 0
        return self._state.copy(), {"h": level(self._state)}

    def step(self, action: Array) -> tuple[Array, SupportsFloat, bool, bool, dict[str, Any]]:
        """A tenth of a second."""
        distance, relative, own = self._state
        mine = float(np.clip(action[0], *ACCELERATION))
        mine = max(mine, -own / SECONDS)  # brakes, and does not reverse
        lead = self._lead_acceleration(own + relative)
        distance += relative * SECONDS + 0.5 * (lead - mine) * SECONDS**2
        relative += (lead - mine) * SECONDS
        own += mine * SECONDS
        self._state = np.array([distance, relative, own])
        self._steps += 1
        cost = abs(distance - 5.0 - WANTED * own) / 10.0 + 0.05 * mine**2
        crashed = bool(distance <= 0.0)
        left_behind = bool(distance >= FURTHEST)
        return (
            self._state.copy(),
            -cost * SECONDS - 100.0 * crashed,
            crashed,
            left_behind or self._steps >= STEPS,
            {"h": level(self._state)},
        )

    def _lead_acceleration(self, speed: float) -> float:
        """Changes its mind every two seconds or so; brakes or speeds up fully half of the time."""
        if self._steps == 0 or self.np_random.random() < SECONDS / 2.0:
            wish = self.np_random.choice([-1.0, self.np_random.uniform(-1.0, 1.0), 1.0])
            self._lead_wants = float(wish) * LEAD_ACCELERATION
        low, high = ((limit - speed) / SECONDS for limit in LEAD_SPEED)
        return float(np.clip(self._lead_wants, low, high))


def level(state: Array) -> float:
    """h: metres above 5 m and 1.5 s."""
    return float(state[0] - 5.0 - 1.5 * state[2])


gym.register("AdaptiveCruise-v0", f"{__name__}:AdaptiveCruise")


class Watched(gym.Wrapper[Array, Array, Array, Array]):
    """Remembers how low h fell in each episode."""

    def __init__(self) -> None:
        super().__init__(AdaptiveCruise())
        self.lowest: list[float] = []

    def reset(self, **options: Any) -> tuple[Array, dict[str, Any]]:
        """Begin to watch another one."""
        state, info = self.env.reset(**options)
        self.lowest.append(info["h"])
        return state, info

    def step(self, action: Array) -> tuple[Array, SupportsFloat, bool, bool, dict[str, Any]]:
        """Look at h behind every step."""
        answer = self.env.step(action)
        self.lowest[-1] = min(self.lowest[-1], answer[-1]["h"])
        return answer


@dataclass(frozen=True)
class Outcome:
    """Of one agent: average scores and how low h fell, in episodes of learning and afterwards."""

    before: float
    learning: Array
    lowest_learning: Array
    after: float
    lowest_after: Array


def train(rules: hr.Rulebook, obeys: bool, seed: int, episodes: int, evaluated: int) -> Outcome:
    """Learn from so many episodes, drawn with noise, and play as many again without learning."""
    env, settings = Watched(), rules.settings
    agent = hr.Reinforce(
        env,
        hr.runs.make_policy(hr.rulebook.with_settings(rules, seed=seed), env),
        rules if obeys else (),
        step_size=settings.step_size,
        discount=settings.discount,
        episodes_per_update=settings.episodes_per_update,
        selection=settings.selection,
        seed=seed,
    )
    before = agent.evaluate(100).mean
    env.lowest = []
    records = agent.learn(episodes)
    learned, env.lowest = np.array(env.lowest), []
    after = agent.evaluate(evaluated)
    assert not obeys or after.satisfied
    scores = np.array([record.score for record in records])
    return Outcome(before, scores, learned, after.mean, np.array(env.lowest))


def main() -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=1000, help="to learn from")
    parser.add_argument("--evaluated", type=int, default=1000, help="episodes afterwards")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()

    rules, console = hr.load_rulebook(RULES), Console()
    policy = hr.runs.make_policy(rules, AdaptiveCruise())
    held = hr.enforce(policy, rules, prove=True).raise_if_unsatisfied()
    for certificate in held.certificates:
        console.print(str(certificate), highlight=False)
    title = f"{options.seeds} seeds, {options.episodes} episodes of learning each"
    table = Table(title=title, title_justify="left")
    for column in ("", "before", "last 100", "after", "crossed, learning", "crossed, after", "h ≥"):
        table.add_column(column, justify="right")
    for name, obeys in (("two barriers, comfort", True), ("no constraints", False)):
        seeds = range(options.seeds)
        found = [train(rules, obeys, seed, options.episodes, options.evaluated) for seed in seeds]
        table.add_row(name, *_in_words(found))
    console.print(table)


def _in_words(found: Sequence[Outcome]) -> list[str]:
    learning = np.concatenate([one.lowest_learning for one in found])
    after = np.concatenate([one.lowest_after for one in found])
    scores = [
        [one.before for one in found],
        [one.learning[-100:].mean() for one in found],
        [one.after for one in found],
    ]
    return [
        *(f"{np.mean(one):.1f} ± {np.std(one):.1f}" for one in scores),
        *(f"{(one < 0.0).sum():,} of {len(one):,}" for one in (learning, after)),
        f"{min(learning.min(), after.min()):.2f} m",
    ]


if __name__ == "__main__":
    main()
