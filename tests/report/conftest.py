"""A run that learned, and one that did not yet."""

from __future__ import annotations

import pytest

from handrail.runs.run import Run
from tests.report.figures import book, lean_left


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    made = Run.create(tmp_path_factory.mktemp("report") / "run", book([lean_left()], episodes=2))
    made.learn()
    return Run.open(made.folder)


@pytest.fixture
def empty(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run.create(tmp_path_factory.mktemp("report") / "empty", book([lean_left()]))
