"""Callbacks that report to Weights & Biases or to MLflow, a run of theirs for every seed.

From the command line, in the folder of this repository:

    handrail train cartpole --seeds 3 --callback examples.tracking:to_wandb
    handrail train cartpole --seeds 3 --callback examples.tracking:to_mlflow

In Python: `agent.learn(episodes=100, callbacks=[to_wandb])`. WANDB_MODE=offline and
MLFLOW_TRACKING_URI=file:mlruns keep everything on this machine.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import handrail as hr
from handrail.learning import Learner, Record, Seconds


@cache
def wandb_run(seed: int) -> tuple[Any, hr.Scalars]:
    """The run of a seed, and the numbers that it gets."""
    import wandb  # noqa: PLC0415  (only for who uses it)

    return wandb.init(project="handrail", name=f"seed-{seed}", reinit="create_new"), hr.Scalars()


def to_wandb(agent: Learner, record: Record, seconds: Seconds) -> None:
    """All numbers of an episode, over environment steps."""
    run, scalars = wandb_run(agent.settings.seed)
    run.log(scalars(record, seconds), step=record.steps)


@cache
def mlflow_run(seed: int) -> tuple[str, hr.Scalars]:
    """The id of a seed's run, and the numbers that it gets."""
    import mlflow  # noqa: PLC0415  (only for who uses it)

    mlflow.set_experiment("handrail")
    with mlflow.start_run(run_name=f"seed-{seed}") as run:
        return run.info.run_id, hr.Scalars()


def to_mlflow(agent: Learner, record: Record, seconds: Seconds) -> None:
    """All numbers of an episode, over environment steps."""
    import mlflow  # noqa: PLC0415

    run, scalars = mlflow_run(agent.settings.seed)
    mlflow.log_metrics(scalars(record, seconds), step=record.steps, run_id=run)
