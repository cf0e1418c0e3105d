"""Folders that survive: runs, groups of them, metrics, saved policies."""

from handrail.runs.group import free_folder, learn_all, only_run, open_runs, start_runs
from handrail.runs.policy_file import SavedPolicy, open_policy
from handrail.runs.run import Run, make_agent, make_policy

__all__ = [
    "Run",
    "SavedPolicy",
    "free_folder",
    "learn_all",
    "make_agent",
    "make_policy",
    "only_run",
    "open_policy",
    "open_runs",
    "start_runs",
]
