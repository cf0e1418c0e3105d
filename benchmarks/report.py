"""A run as a page of tables."""

from __future__ import annotations

from benchmarks.enforcement import EnforcementResults
from benchmarks.inference import InferenceResults
from benchmarks.learning import LearningCost
from benchmarks.report_growth import growth_section, kernel_section
from benchmarks.report_regions import regions_section
from benchmarks.report_update import update_section
from benchmarks.results import Results, targets
from benchmarks.tables import milliseconds, quartiles, table


def page(results: Results) -> str:
    """The whole page, in Markdown."""
    sections = [
        _opening(results),
        _targets(results),
        update_section(results.update),
        kernel_section(results.kernel, results.plan.width),
        growth_section(results.growth),
        _inference_section(results.inference),
        _enforcement_section(results.enforcement),
        _learning_section(results.learning),
        regions_section(results.regions),
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
(`settle_allocator` in `benchmarks/machine.py`), which favours the plain update."""


def _targets(results: Results) -> str:
    rows = [
        [target.what, target.asked, target.measured, f"**{target.verdict}**"]
        for target in targets(results)
    ]
    small = " These sizes are too small to judge by: they only show that everything runs."
    note = "" if results.is_full else small
    return f"""## Targets

Where a target was measured more than once, the worst measurement counts, unless the threads did \
not get their cores (first table below).{note}

{table(["what", "target", "measured", "verdict"], rows)}"""


def _inference_section(inference: list[InferenceResults]) -> str:
    rows = [
        [
            one.environment,
            f"{1e6 * one.act_seconds:.1f}",
            f"{1e6 * one.environment_seconds:.1f}",
            f"{1e6 * one.torch_seconds:.1f}",
            f"**{one.act_over_environment:.2f}**",
            f"**{one.torch_over_act:.1f}**",
        ]
        for one in inference
    ]
    header = [
        "environment",
        "`policy.act` (µs)",
        "`env.step` (µs)",
        "torch (µs)",
        "act / step",
        "torch / act",
    ]
    return f"""## One observation

What collecting experience costs per step: an action drawn by `policy.act`, a step of the \
environment as `gym.make` gives it, and an action drawn the usual way (torch module and \
`Categorical.sample`), one thread each, 15 calls a turn.

{table(header, rows)}"""


def _enforcement_section(enforcement: EnforcementResults) -> str:
    header = ["seed of the network", "iterations", "enforce (ms)", "plain update (ms)", "ratio"]
    rows = [
        [
            str(one.seed),
            str(one.iterations),
            milliseconds(one.seconds),
            milliseconds(one.plain_seconds),
            f"{one.ratio:.1f}",
        ]
        for one in enforcement.seeds
    ]
    return f"""## Exact enforcement

`handrail.enforce` of the paper's 18 constraints from random networks, until the real network \
meets all of them to 1e-6, next to one plain update of {enforcement.batch} states, one thread. \
The median ratio is **{enforcement.median_ratio:.1f}**.

{table(header, rows)}"""


def _learning_section(costs: list[LearningCost]) -> str:
    rows = [
        [
            one.name,
            "yes" if one.compiled else "no",
            f"{one.episodes}",
            f"{one.steps:,}",
            f"{1e6 * one.bare_seconds:.1f}",
            f"**{one.ratio:.2f}**",
            quartiles(one.quartiles),
            *(f"{100 * share:.0f}" for share in one.shares.values()),
        ]
        for one in costs
    ]
    header = [
        "file",
        "numba",
        "episodes",
        "steps",
        "bare step, µs",
        "ratio",
        "quartiles",
        "collect, %",
    ]
    header += ["predict, %", "solve, %", "update, %"]
    return f"""## A whole training run

Wall time of learning with exact enforcement, settings of the bundled constraint file, divided by \
the time of the same environment steps alone: the same seeds and actions, block by block in turns. \
The shares say where the learning time goes; collecting contains the environment itself.

{table(header, rows)}"""
