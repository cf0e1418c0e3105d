"""The page about runs on a cluster."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.cluster.disasters import Disasters
from benchmarks.cluster.overhead import Overhead
from benchmarks.cluster.throughput import Throughput
from benchmarks.harness import table_of, this_machine

_TARGET = 1.1


def page(parts: Sequence[str]) -> str:
    """All of it."""
    machine = this_machine([])
    head = (
        "# Runs on a Ray cluster\n\n"
        "This page is generated: `python -m benchmarks.cluster` measured everything here on "
        f"{machine.date}, on a machine of {machine.cores} cores that others used as well. The "
        "cluster is a real one of several nodes (`ray.cluster_utils.Cluster`: a raylet each), all "
        "on that machine. What follows from it is in [scale](../explanation/scale.md)."
    )
    return "\n\n".join([head, *parts]) + "\n"


def overhead_part(measured: Sequence[Overhead]) -> str:
    """Ray beside processes."""
    table = table_of(
        measured,
        {
            "episodes of each run": lambda one: str(one.episodes),
            "processes (s)": lambda one: _seconds(one.timings.seconds["processes"]),
            "Ray (s)": lambda one: _seconds(one.timings.seconds["ray"]),
            "ratio of medians": lambda one: f"**{one.ratio:.2f}**",
            "at most 1.1": lambda one: "met" if one.ratio <= _TARGET else "**missed**",
        },
    )
    same = all(one.same for one in measured)
    return (
        "## Overhead\n\n"
        f"{measured[0].runs} runs of the bundled Cartpole, two at a time: in processes, and on a "
        "cluster of two nodes of one core each that is running already, in turns. Joining it and "
        "starting hosts takes seconds, however long the runs are.\n\n"
        f"{table}\n\n"
        f"All turns gave {'the same bytes' if same else '**different bytes**'}."
    )


def _seconds(turns: Sequence[float]) -> str:
    return ", ".join(f"{one:.0f}" for one in turns)


def throughput_part(measured: Sequence[Throughput]) -> str:
    """What one command can keep."""
    table = table_of(
        measured,
        {
            "seconds between checkpoints": lambda one: f"{one.checkpoint_seconds:.0f}",
            "kB/s per run": lambda one: f"{one.sent / one.run_seconds / 1e3:.0f}",
            "messages/s per run": lambda one: f"{one.messages / one.run_seconds:.0f}",
            "ms of its processor per run and second": lambda one: (
                f"{1e3 * one.processor / one.run_seconds:.2f}"
            ),
            "ms of writing per run and second": lambda one: (
                f"{1e3 * one.writing / one.run_seconds:.2f}"
            ),
            "runs kept, as it went": lambda one: f"{one.kept:.0f}",
            "by its processor": lambda one: f"{one.kept_by_processor:.0f}",
            "by writing": lambda one: f"{one.kept_by_writing:.0f}",
        },
    )
    return (
        "## How many runs one command can keep\n\n"
        f"{measured[0].hosts} hosts are played by actors that send what a real run of Cartpole "
        f"sent (checkpoints of up to {measured[0].checkpoint / 1e3:.0f} kB), as fast as the "
        "command hears them and writes their folders. How many runs it can keep is how many "
        "seconds of runs it gets through in a second: as it went, with the players on the same "
        "cores; if its processor time were all that counted; and if the disk were (files are "
        "synchronised to it).\n\n"
        f"{table}"
    )


def disasters_part(disasters: Disasters) -> str:
    """What was killed."""
    kinds = ", ".join(f"{count} {kind}s" for kind, count in sorted(disasters.killed.items()))
    return (
        "## Kills\n\n"
        f"{sum(disasters.killed.values())} SIGKILLs at random moments ({kinds}; a node dies with "
        "all that is on it, and another one joins), while groups of "
        f"{disasters.runs} runs were learned. Runs went on elsewhere {disasters.went_on} times, "
        f"and groups were resumed {_times(disasters.resumed)}, after five deaths in a row. "
        f"Of {disasters.groups} groups, **{disasters.same}** have the bytes of quiet processes: "
        "metrics and last checkpoints of all runs."
    )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
