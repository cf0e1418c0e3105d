"""Places for tasks, by the names that users give them."""

from __future__ import annotations

import os
from collections.abc import Sequence

from handrail.errors import InvalidArgument
from handrail.executors.executor import Executor
from handrail.executors.process_executor import ProcessExecutor

PROCESSES = "processes"


def executor_named(
    on: str = PROCESSES, jobs: int | None = None, modules: Sequence[str] = ()
) -> Executor:
    """The place that a name means.

    Args:
        on: "processes" of this machine.
        jobs: at most so many tasks at a time; by default as many as there is room for.
        modules: to import wherever a task is done: those that register the user's environments.
    """
    if on == PROCESSES:
        return ProcessExecutor(jobs or os.cpu_count() or 1, modules)
    raise InvalidArgument(f"There is no place {on!r} to run at. There is: {PROCESSES}.")
