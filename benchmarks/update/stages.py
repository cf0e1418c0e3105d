"""Where the time of a constrained update goes, seen from outside while the real code runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import handrail as hr
from benchmarks import problem
from handrail.enforcement import one_step
from handrail.enforcement.linearisation import Linearisation

STAGES = (
    "batch gradient",
    "linearise",
    "batch effect",
    "kernel",
    "program",
    "direction",
    "step",
)

# (stage, owner, name) of what is timed; none of them calls another.
_TIMED: tuple[tuple[str, Any, str], ...] = (
    ("batch gradient", problem, "policy_gradient"),
    ("linearise", hr.CategoricalPolicy, "probabilities"),
    ("linearise", Linearisation, "__init__"),
    ("batch effect", Linearisation, "effect"),
    ("kernel", Linearisation, "kernel"),
    ("direction", Linearisation, "direction"),
    ("step", one_step, "take_step"),
)


@contextmanager
def stage_clock() -> Iterator[dict[str, float]]:
    """Seconds spent in each stage during the block, but for the program itself."""
    clock = {stage: 0.0 for stage, _, _ in _TIMED}
    with ExitStack() as stack:
        for stage, owner, name in _TIMED:
            timed = _timed(getattr(owner, name), stage, clock)
            stack.enter_context(patch.object(owner, name, timed))
        yield clock


def _timed(
    function: Callable[..., object], stage: str, clock: dict[str, float]
) -> Callable[..., object]:
    def run(*arguments: object, **named: object) -> object:
        start = time.perf_counter()
        try:
            return function(*arguments, **named)
        finally:
            clock[stage] += time.perf_counter() - start

    return run
