"""Long tasks done somewhere else: in processes of this machine, or on others."""

from handrail.executors.executor import Executor, Outcome, Task, Watcher
from handrail.executors.parcel import FolderTask
from handrail.executors.place import executor_named
from handrail.executors.process_executor import ProcessExecutor
from handrail.executors.provision import computing_versions
from handrail.executors.ray_executor import RayExecutor
from handrail.executors.slurm_executor import SlurmExecutor

__all__ = [
    "Executor",
    "FolderTask",
    "Outcome",
    "ProcessExecutor",
    "RayExecutor",
    "SlurmExecutor",
    "Task",
    "Watcher",
    "computing_versions",
    "executor_named",
]
