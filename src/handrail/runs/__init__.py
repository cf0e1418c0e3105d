"""Folders that survive: runs, groups of them, metrics, saved policies."""

from handrail.runs.executor import Audience, Outcome, Task, work
from handrail.runs.group import free_folder, only_run, open_runs, refuse_mixing, seed_folder
from handrail.runs.policy_file import (
    Opened,
    about,
    open_editable,
    open_policy,
    refuse_ending,
    refuse_existing,
    refuse_other_sizes,
    storing,
)
from handrail.runs.run import Run, make_agent, make_policy, refuse_taken

__all__ = [
    "Audience",
    "Opened",
    "Outcome",
    "Run",
    "Task",
    "about",
    "free_folder",
    "make_agent",
    "make_policy",
    "only_run",
    "open_editable",
    "open_policy",
    "open_runs",
    "refuse_ending",
    "refuse_existing",
    "refuse_mixing",
    "refuse_other_sizes",
    "refuse_taken",
    "seed_folder",
    "storing",
    "work",
]
