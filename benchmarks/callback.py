"""What the callback costs: its share of the processor time of a training, stage by stage.

`python -m benchmarks.callback cartpole_a2c --steps 100000`. Processor time, not time on the clock:
the share is then the same on a machine that has other things to do.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def timed(spent: Counter[str]) -> Iterator[None]:
    """Until it ends, what a callback does is added up by its stages, in seconds."""
    methods = {name: getattr(Handrail, name) for name in STAGES}

    def timing(name: str) -> Any:
        def call(self: Handrail) -> Any:
            start = process_time()
            try:
                return methods[name](self)
            finally:
                spent[STAGES[name]] += process_time() - start  # type: ignore[assignment]

        return call

    for name in methods:
        setattr(Handrail, name, timing(name))
    try:
        yield
    finally:
        for name, method in methods.items():
            setattr(Handrail, name, method)


def shares(comparison: Comparison, steps: int, seed: int = 1) -> dict[str, float]:
    """Of one training: of each stage, and of all."""
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
    spent: Counter[str] = Counter()
    with one_thread(), timed(spent):
        start = process_time()
        model.learn(steps, callback=Handrail(comparison.rules))
        total = process_time() - start
    return {**{name: one / total for name, one in spent.items()}, "all": spent.total() / total}


def main() -> None:
    """Parse, train, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.callback", description=__doc__)
    by_name = {one.name: one for one in COMPARISONS}
    parser.add_argument("comparison", choices=by_name)
    parser.add_argument("--steps", type=int, default=50_000)
    options = parser.parse_args()
    for name, share in shares(by_name[options.comparison], options.steps).items():
        print(f"{name:16} {share:7.2%}")


if __name__ == "__main__":
    main()
