"""How long the command line takes to start, in units of importing what draws its help.

A command that needs no network should not wait for torch. Every start is a process of its own, and
the commands take turns with `python -c "import typer, rich"`, the least that any of them needs.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

from benchmarks.harness import interval, milliseconds, table_of, take_turns
from benchmarks.plan import Plan

COMMANDS = (("--help",), ("version",), ("schema",), ("environments",))
REFERENCE = 'python -c "import typer, rich"'
# What a start may cost, in units of the reference.
MOST = 2.0


@final
@dataclass(frozen=True)
class StartupTime:
    """One command; seconds are medians.

    Attributes:
        command: as it is typed.
        seconds: from nothing to its end.
        reference_seconds: of the imports alone.
        ratio: of the two.
        quartiles: of the ratios within a round.
    """

    command: str
    seconds: float
    reference_seconds: float
    ratio: float
    quartiles: tuple[float, float]


def measure_startup(plan: Plan) -> list[StartupTime]:
    """Start every command so many times, in turns."""
    # Not the installed script: what is measured is the source that runs the benchmark.
    run = [sys.executable, "-c", "from handrail.cli import main; main()"]
    tasks = {f"handrail {' '.join(one)}": partial(_start, [*run, *one]) for one in COMMANDS}
    tasks[REFERENCE] = partial(_start, [sys.executable, "-c", "import typer, rich"])
    timings = take_turns(tasks, plan.startup_rounds, warm_up=1)
    return [
        StartupTime(
            command=name,
            seconds=timings.median(name),
            reference_seconds=timings.median(REFERENCE),
            ratio=timings.ratio(name, REFERENCE),
            quartiles=timings.spread(name, REFERENCE),
        )
        for name in tasks
        if name != REFERENCE
    ]


def startup_section(starts: Sequence[StartupTime]) -> str:
    """As a section of the page."""
    table = table_of(
        starts,
        {
            "command": lambda one: f"`{one.command}`",
            "start (ms)": lambda one: milliseconds(one.seconds),
            "`import typer, rich` (ms)": lambda one: milliseconds(one.reference_seconds),
            "ratio": lambda one: f"**{one.ratio:.2f}**",
            "quartiles": lambda one: interval(one.quartiles),
        },
    )
    return f"""## The start of the command line

Commands that need no network, each a process of its own from nothing to its end, in turns with \
`{REFERENCE}`, which draws every help and every table.

{table}"""


def _start(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)
