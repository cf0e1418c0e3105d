"""Groups of small runs that learned, to be compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from handrail.rulebook import parse, with_settings
from handrail.runs.group import Group, start_runs
from tests.runs.test_run import TEXT


def learned(folder: Path, seeds: int = 3, text: str = TEXT, **settings: Any) -> Group:
    """A group in the corridor; its runs have come to their goal."""
    book = with_settings(parse(text, "corridor"), **settings)
    runs = start_runs(folder, book, seeds)
    for run in runs:
        run.learn()
    return Group(folder, tuple(runs))
