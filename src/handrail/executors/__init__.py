"""Long tasks done somewhere else: in processes of this machine, or on others."""

from handrail.executors.executor import Executor, Outcome, Task, Watcher
from handrail.executors.place import executor_named
from handrail.executors.process_executor import ProcessExecutor

__all__ = [
    "Executor",
    "Outcome",
    "ProcessExecutor",
    "Task",
    "Watcher",
    "executor_named",
]
