"""Places for tasks, by the names that users give them."""

from __future__ import annotations

import os
from collections.abc import Sequence

from handrail.errors import InvalidArgument
from handrail.executors.executor import Executor
from handrail.executors.process_executor import ProcessExecutor
from handrail.executors.ray_executor import RayExecutor
from handrail.executors.slurm_executor import SlurmExecutor

PROCESSES, RAY, SLURM = "processes", "ray", "slurm"


def executor_named(
    on: str = PROCESSES, jobs: int | None = None, modules: Sequence[str] = ()
) -> Executor:
    """The place that a name means.

    Args:
        on: "processes" of this machine; "ray", which is the cluster in RAY_ADDRESS, or else one
            that is started here; the address of a Ray cluster; or "slurm", for an array of jobs.
        jobs: at most so many tasks at a time; by default as many as there is room for.
        modules: to import wherever a task is done: those that register the user's environments.
    """
    if on == PROCESSES:
        return ProcessExecutor(jobs or os.cpu_count() or 1, modules)
    if on == RAY:
        return RayExecutor(None, jobs, modules)
    if on == SLURM:
        return SlurmExecutor(jobs, modules)
    if ":" in on:
        return RayExecutor(on, jobs, modules)
    raise InvalidArgument(
        f"There is no place {on!r} to run at. There are: {PROCESSES}, {RAY}, {SLURM}, or the "
        "address of a Ray cluster, such as 10.0.0.1:6379."
    )
