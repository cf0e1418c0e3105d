"""Folders that survive: runs, groups of them, metrics, saved policies; and what makes many runs."""

from handrail.runs.executor import Executor, Outcome, ProcessExecutor, Task, Watcher
from handrail.runs.group import free_folder, only_run, open_runs, refuse_mixing, seed_folder
from handrail.runs.policy_file import SavedPolicy, open_policy
from handrail.runs.run import Run, make_agent, make_policy, refuse_taken

__all__ = [
    "Executor",
    "Outcome",
    "ProcessExecutor",
    "Run",
    "SavedPolicy",
    "Task",
    "Watcher",
    "free_folder",
    "make_agent",
    "make_policy",
    "only_run",
    "open_policy",
    "open_runs",
    "refuse_mixing",
    "refuse_taken",
    "seed_folder",
]
