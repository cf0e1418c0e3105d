"""What the callback costs: its share of the processor time of a training, stage by stage.

`python -m benchmarks.callback cartpole_a2c --steps 100000 --seeds 3`. Processor time, not time on
the clock: the share is then the same on a machine that has other things to do. What it takes to
read that time, as long as a look at a step, is not counted.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import process_time
from typing import Any

from stable_baselines3 import A2C, PPO
from stable_baselines3.common.env_util import make_vec_env

from benchmarks.ppo.comparison import COMPARISONS, Comparison
from handrail._threads import one_thread
from handrail.sb3 import Handrail

STAGES = {
    "_init_callback": "before training",
    "_on_training_start": "before training",
    "_on_rollout_start": "before rollouts",
    "_on_step": "at steps",
    "_on_rollout_end": "after rollouts",
    "_on_training_end": "after training",
}
_ALGORITHMS: dict[str, Any] = {"PPO": PPO, "A2C": A2C}


@dataclass
class Spent:
    """Processor time, in seconds.

    Attributes:
        stages: of the callback, by their names.
        looks: before each rollout whose policy obeyed already.
        corrections: before each rollout whose policy had to be changed.
        reading: the time itself.
        total: of all trainings.
    """

    stages: Counter[str] = field(default_factory=Counter)
    looks: list[float] = field(default_factory=list)
    corrections: list[float] = field(default_factory=list)
    reading: float = 0.0
    total: float = 0.0

    def note(self, name: str, rail: Handrail, seconds: float, reading: float) -> None:
        """One call of a method of the callback."""
        self.stages[STAGES[name]] += seconds  # type: ignore[assignment]
        self.reading += reading
        if name == "_on_rollout_start" and rail.num_timesteps:
            corrected = rail.history[-1].iterations > 0
            (self.corrections if corrected else self.looks).append(seconds)

    def shares(self) -> dict[str, float]:
        """Of each stage, and of all."""
        total = self.total - self.reading
        every = {name: one / total for name, one in self.stages.items()}
        return {**every, "all": self.stages.total() / total}


@contextmanager
def timed(spent: Spent) -> Iterator[None]:
    """Until it ends, what a callback does is added up by its stages."""
    methods = {name: getattr(Handrail, name) for name in STAGES}

    def timing(name: str) -> Any:
        def call(self: Handrail) -> Any:
            before, start = process_time(), process_time()
            try:
                return methods[name](self)
            finally:
                end, reading = process_time(), start - before
                spent.note(name, self, end - start - reading, 3.0 * reading)

        return call

    for name in methods:
        setattr(Handrail, name, timing(name))
    try:
        yield
    finally:
        for name, method in methods.items():
            setattr(Handrail, name, method)


def train(comparison: Comparison, steps: int, seed: int, spent: Spent) -> None:
    """Once, and add up what it takes."""
    env = make_vec_env(comparison.environment, n_envs=comparison.n_envs, seed=seed)
    rate = comparison.learning_rate
    make = _ALGORITHMS[comparison.algorithm]
    model = make(
        "MlpPolicy",
        env,
        learning_rate=lambda left: rate * left,
        seed=seed,
        device="cpu",
        **comparison.settings,
    )
    with one_thread(), timed(spent):
        start = process_time()
        model.learn(steps, callback=Handrail(comparison.rules))
        spent.total += process_time() - start


def main() -> None:
    """Parse, train, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.callback", description=__doc__)
    by_name = {one.name: one for one in COMPARISONS}
    parser.add_argument("comparison", choices=by_name)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    spent = Spent()
    for seed in range(1, options.seeds + 1):
        train(by_name[options.comparison], options.steps, seed, spent)
    for name, share in spent.shares().items():
        print(f"{name:16} {share:7.2%}")
    for name, calls in (("looks", spent.looks), ("corrections", spent.corrections)):
        each = 1e3 * sum(calls) / max(len(calls), 1)
        print(f"{name:16} {len(calls)}, {each:.2f} ms each")


if __name__ == "__main__":
    main()
