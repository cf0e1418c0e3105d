"""A run as a page of tables."""

from __future__ import annotations

from benchmarks.harness import table_of
from benchmarks.kernel.report import kernel_section
from benchmarks.learning.report import inference_section, learning_section
from benchmarks.proof.report import regions_section
from benchmarks.results import Results, targets
from benchmarks.startup import startup_section
from benchmarks.update.report import enforcement_section, growth_section, update_section


def page(results: Results) -> str:
    """The whole page, in Markdown."""
    sections = [
        _opening(results),
        _targets(results),
        update_section(results.update),
        kernel_section(results.kernel, results.plan.width),
        growth_section(results.growth),
        inference_section(results.inference),
        enforcement_section(results.enforcement),
        learning_section(results.learning),
        regions_section(results.regions),
        startup_section(results.startup),
    ]
    return "\n\n".join(sections) + "\n"


def _opening(results: Results) -> str:
    machine = results.machine
    versions = ", ".join(f"{name} {number}" for name, number in machine.versions.items())
    got = ", ".join(f"{cores:.1f}" for cores in machine.cores_got)
    return f"""# Benchmarks

This page is generated: `{results.command}` measured everything here in {results.minutes:.1f} \
minutes on {machine.date}, on a machine of {machine.cores} cores ({machine.architecture}), with \
{versions}. All numbers are in [results.json](results.json).

Only ratios mean anything. Competitors take turns in one process (A, B, A, B, …) after a warm-up, \
every turn starts from the same weights, and a ratio is that of the medians; times are given to \
show the scale. Everything is float64, a Cartpole policy with one hidden layer of \
{results.plan.width} units, two actions. Torch has one thread up to 150 states and two above, the \
same on both sides, unless a table says otherwise.

Before the first part and after each, two threads got {got} cores. Where that is well below 2, \
others were using the machine, and two-threaded numbers suffer from it most: the small operations \
of the constrained update wait for each other. Our passes over such a network are compiled (numba, \
the extra `fast`); torch's are torch's. The allocator is settled before anything is timed \
(`settle_allocator` in `benchmarks/harness.py`), which favours the plain update."""


def _targets(results: Results) -> str:
    table = table_of(
        targets(results),
        {
            "what": lambda one: one.what,
            "target": lambda one: one.asked,
            "measured": lambda one: one.measured,
            "verdict": lambda one: f"**{one.verdict}**",
        },
    )
    small = " These sizes are too small to judge by: they only show that everything runs."
    note = "" if results.is_full else small
    return f"""## Targets

Where a target was measured more than once, the worst measurement counts, unless the threads did \
not get their cores (first table below).{note}

{table}"""
