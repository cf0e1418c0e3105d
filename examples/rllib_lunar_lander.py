"""PPO of RLlib on LunarLander with two env runners, each of which measures what it acts by.

make test-rllib  # makes the environment that this needs
.venv-rllib/bin/python examples/rllib_lunar_lander.py --iterations 20
"""

from __future__ import annotations

import argparse
from typing import Any

import ray

import handrail as hr
from handrail.rllib import HeldPPOConfig, policy_of


def measure_acting(env_runner: Any, metrics_logger: Any, **_: Any) -> None:
    """Called by every env runner behind every sampling: the violation of what it sampled by."""
    rules = env_runner.config.terms.constraints
    worst = hr.measure(policy_of(env_runner.module), rules).worst_violation
    metrics_logger.log_value("acting_violation", worst, reduce="max")
    metrics_logger.log_value("samplings", 1, reduce="sum")


def main() -> None:
    """Train, and print a line per iteration and what was the worst of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--runners", type=int, default=2)
    parser.add_argument("--steps", type=int, default=4000, help="of an iteration")
    options = parser.parse_args()

    ray.init("local", num_cpus=options.runners + 1, include_dashboard=False, log_to_driver=False)
    config = HeldPPOConfig().constraints("lunar_lander").environment("LunarLander-v3")
    config.env_runners(num_env_runners=options.runners).debugging(seed=0)
    config.training(train_batch_size_per_learner=options.steps, lr=3e-4, num_epochs=10, gamma=0.999)
    config.callbacks(on_sample_end=measure_acting)
    algorithm = config.build_algo()

    acting, samplings, holding, spent = [], 0, 0.0, 0.0
    print("iteration  average score  violation: as PPO left it  held      while sampling")
    for iteration in range(1, options.iterations + 1):
        result = algorithm.train()
        held, sampled = result["learners"]["default_policy"]["handrail"], result["env_runners"]
        acting.append(sampled["acting_violation"])
        samplings += int(sampled["samplings"])
        holding += held["seconds"]
        spent += result["time_this_iter_s"]
        print(
            f"{iteration:9d}  {sampled['episode_return_mean']:13.1f}  "
            f"{held['violation_before']:+25.4f}  {held['violation_after']:+.1e}  {acting[-1]:+.1e}"
        )
    algorithm.stop()
    print(
        f"{options.iterations} iterations, {options.runners} env runners, {samplings} samplings: "
        f"worst violation of any acting policy {max(acting):+.1e}; holding took "
        f"{holding:.2f} of {spent:.1f} seconds ({holding / spent:.2%})"
    )


if __name__ == "__main__":
    main()
