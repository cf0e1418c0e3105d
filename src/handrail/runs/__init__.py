"""Folders that survive: runs, groups of them, metrics, saved policies."""

from handrail.runs.best_policy import BestPolicy
from handrail.runs.carried_certificate import (
    carries_certificates,
    carry_certificate,
    certificate_in,
    check_carrier,
)
from handrail.runs.configuration import is_run
from handrail.runs.continuation import start_run_from
from handrail.runs.group import (
    Group,
    free_folder,
    learn_all,
    only_run,
    open_groups,
    open_runs,
    seed_folder,
    start_runs,
)
from handrail.runs.named_callback import NamedCallback
from handrail.runs.policy_file import SavedPolicy, best_in_words, open_best_policy, open_policy
from handrail.runs.run import Run, make_agent, make_policy
from handrail.runs.search import Search, SearchTrial, Span
from handrail.runs.sweep import Axis, Choice, choices, start_sweep

__all__ = [
    "Axis",
    "BestPolicy",
    "Choice",
    "Group",
    "NamedCallback",
    "Run",
    "SavedPolicy",
    "Search",
    "SearchTrial",
    "Span",
    "best_in_words",
    "carries_certificates",
    "carry_certificate",
    "certificate_in",
    "check_carrier",
    "choices",
    "free_folder",
    "is_run",
    "learn_all",
    "make_agent",
    "make_policy",
    "only_run",
    "open_best_policy",
    "open_groups",
    "open_policy",
    "open_runs",
    "seed_folder",
    "start_run_from",
    "start_runs",
    "start_sweep",
]
