"""Places by their names."""

from __future__ import annotations

import pytest

from handrail.errors import InvalidArgument
from handrail.executors import ProcessExecutor, RayExecutor, executor_named


def test_names_and_addresses() -> None:
    assert isinstance(executor_named(), ProcessExecutor)
    assert isinstance(executor_named("processes", 2), ProcessExecutor)
    pytest.importorskip("ray")
    assert isinstance(executor_named("ray"), RayExecutor)
    assert isinstance(executor_named("10.0.0.1:6379"), RayExecutor)


def test_other_names_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"There is no place 'nowhere' to run at"):
        executor_named("nowhere")
