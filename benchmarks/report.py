"""A run as a page of tables."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.enforcement import EnforcementResults
from benchmarks.growth import Curve, GrowthResults
from benchmarks.inference import InferenceResults
from benchmarks.kernel import KernelTiming
from benchmarks.learning import LearningCost
from benchmarks.results import Results, targets
from benchmarks.stages import STAGES
from benchmarks.update import ExplicitComparison, PlainComparison, UpdateResults


def page(results: Results) -> str:
    """The whole page, in Markdown."""
    sections = [
        _opening(results),
        _targets(results),
        _update_section(results.update),
        _kernel_section(results.kernel, results.plan.width),
        _growth_section(results.growth),
        _inference_section(results.inference),
        _enforcement_section(results.enforcement),
        _learning_section(results.learning),
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

{_table(["what", "target", "measured", "verdict"], rows)}"""


def _update_section(update: UpdateResults) -> str:
    disagreement = max(one.disagreement for one in update.explicit)
    return f"""## One constrained update

n_B = {update.batch} steps, n_S = {update.constraints} constraints (the paper's Cartpole states), \
from a random network: batch gradient, batch effect, kernel, program and step. The rows are \
expanded once, outside, as a learner does.

### Against the plain update

The plain update is what a PyTorch user writes: `zero_grad`, log-softmax of all {update.batch} \
states at once, `backward`, `SGD.step`. The quartiles are those of the ratios within a round. \
Threads that did not get their cores wait for each other after every operation: such a row counts \
operations rather than their cost, and is shown but not judged.

{_plain_table(update.plain)}

Where the time of the constrained update goes, stage by stage (median of each, share of their sum; \
the program is what the other stages leave of the whole):

{_stage_table(update.plain)}

### Against the explicit procedure

The procedure as the paper's author would write it (`benchmarks/explicit.py`): for every pair of \
states the Jacobians of both states' probabilities by autograd and their product, the full kernel \
of all n = n_B + n_S states and all actions, the batch effect and the quadratic program from it, \
a step on the augmented batch. It is timed on parts of the same case, its power law is fitted by \
least squares of logarithms, and the law gives the time at n = {update.explicit[0].full_size}. On \
every part its safe returns agree with ours (relative difference at most {disagreement:.0e}; the \
run stops if it exceeds 1e-6).

{_explicit_table(update.explicit)}

{_scaled_table(update.explicit)}

The last two rows of the second table are not the procedure of the target, but what remains of \
the gap against a more careful author: one who evaluates only the pairs with a constrained state \
(n_S / n of the pairs; computed from the first row), and one who computes each state's Jacobian \
once and keeps it (measured at the full size)."""


def _plain_table(comparisons: list[PlainComparison]) -> str:
    header = [
        "threads",
        "cores got",
        "constrained (ms)",
        "plain (ms)",
        "constrained / plain",
        "quartiles",
        "judged",
    ]
    rows = [
        [
            str(one.threads),
            f"{one.cores:.1f}",
            _milliseconds(one.constrained_seconds),
            _milliseconds(one.plain_seconds),
            f"**{one.ratio:.2f}**",
            _quartiles(one.ratio_quartiles),
            "yes" if one.is_fair else "no",
        ]
        for one in comparisons
    ]
    return _table(header, rows)


def _stage_table(comparisons: list[PlainComparison]) -> str:
    header = ["stage", *(f"{_threads(one.threads)} (ms)" for one in comparisons)]
    header += [f"{_threads(one.threads)} (share)" for one in comparisons]
    totals = [sum(one.stage_seconds.values()) for one in comparisons]
    rows = []
    for stage in STAGES:
        seconds = [one.stage_seconds[stage] for one in comparisons]
        shares = [f"{s / total:.0%}" for s, total in zip(seconds, totals, strict=True)]
        rows.append([stage, *map(_milliseconds, seconds), *shares])
    rows.append(["sum", *map(_milliseconds, totals), *("100%" for _ in totals)])
    return _table(header, rows)


def _explicit_table(comparisons: list[ExplicitComparison]) -> str:
    header = ["measured at n =", *map(str, comparisons[0].sizes), "exponent"]
    rows = [
        [
            f"{_threads(one.threads)} (s)",
            *(f"{seconds:.3g}" for seconds in one.seconds),
            f"{one.exponent:.2f}",
        ]
        for one in comparisons
    ]
    return _table(header, rows)


def _scaled_table(comparisons: list[ExplicitComparison]) -> str:
    full = comparisons[0].full_size
    header = [f"at n = {full}"]
    header += [f"{_threads(one.threads)} (s)" for one in comparisons]
    header += [f"relative to ours, {_threads(one.threads)}" for one in comparisons]
    kinds = [
        ("explicit, by its law", [one.full_seconds for one in comparisons]),
        ("explicit, largest case × square", [one.square_seconds for one in comparisons]),
        ("ours, measured", [one.constrained_seconds for one in comparisons]),
        ("explicit, needed pairs only", [one.only_needed_seconds for one in comparisons]),
        ("explicit, Jacobians kept, measured", [one.kept_seconds for one in comparisons]),
    ]
    rows = []
    for name, seconds in kinds:
        ratios = [s / one.constrained_seconds for s, one in zip(seconds, comparisons, strict=True)]
        rows.append([name, *(f"{s:.3g}" for s in seconds), *(f"{r:,.0f}" for r in ratios)])
    return _table(header, rows)


def _kernel_section(kernels: list[KernelTiming], width: int) -> str:
    header = [
        "n",
        "threads",
        "rounds",
        "ours (ms)",
        "jacrev / ours",
        "columns / ours",
        "columns timed",
        "share of peak",
        "share of the best product",
    ]
    rows = [
        [
            f"{one.n:,}",
            str(one.threads),
            str(one.rounds),
            _milliseconds(one.seconds),
            f"**{one.jacrev_ratio:.1f}**",
            f"**{one.columns_ratio:.1f}**",
            f"{one.columns} of {2 * one.n:,}",
            f"{one.share_of_peak:.0%}",
            f"{one.share_of_best:.0%}",
        ]
        for one in kernels
    ]
    return f"""## The kernel alone

`handrail.tangent_kernel` (all actions, (2n)² entries, width {width}) against torch.func. \
*jacrev*: vmap of jacrev, 32 states at a time, into one Jacobian, and its product with itself (at \
n = 4,000 the Jacobian takes 2.2 GB; all stays below 8 GB). *Columns*: kernel-vector products, a \
vjp at one state and a jvp at all states, vmapped over as many columns as keep the activations of \
about 1,000 states in memory; where fewer columns were timed than there are, the time is scaled \
linearly. All three agree to 1e-9 of the largest entry, or the run stops.

The peak is a float64 product of two 2000 × 2000 matrices with as many threads, timed just before \
and just after ours in every round (the better of the two; the last column takes the best of all \
rounds instead). The operations counted are those of the layers' Gram \
products that are needed, the symmetric half once: Σ over layers of \
d_in · n (n + 1) + d_out · rn (rn + 1), where r = n_A - 1 = 1, since the gradients of a state's \
probabilities add up to zero. Forward and backward passes, copies and elementwise products are \
overhead.

{_table(header, rows)}

![kernel](kernel.png)"""


def _growth_section(growth: GrowthResults) -> str:
    return f"""## Growth

One constrained update from a random network, {_threads(growth.threads)} throughout (its passes \
are small, 64 states, at every size), the plain update of the same batch beside it; the sizes take \
turns too, and every round has its own network and batch. Exponents are those of the constrained \
update's time: over all sizes, over the three largest (constant costs no longer show), and from \
one size to the next. \
The plain update holds the activations of all states at once; past some 800 of them they no longer \
fit what the C library keeps, and come anew from the system every time. That, not the constraints, \
is why its column falls below 1 with n_B. Next to it stands the plain update in passes of 64 \
states, as ours makes them.

With the batch, n_S = {growth.constraints} (the paper's states): exponent \
{growth.with_batch.exponent:.2f} over all sizes, **{growth.with_batch.exponent_of_largest:.2f}** \
over the three largest.

{_growth_table("n_B", growth.with_batch)}

With the constraints, n_B = {growth.batch}: points of two half-planes (push right where 4φ + φ̇ > \
0.5, left where it is < -0.5, each at least 0.95; x within ±2.4, φ within ±0.25, φ̇ within ±2, ẋ \
= 0), new points in every round. Exponent {growth.with_constraints.exponent:.2f} over all sizes, \
**{growth.with_constraints.exponent_of_largest:.2f}** over the three largest.

{_growth_table("n_S", growth.with_constraints)}

![growth](growth.png)"""


def _growth_table(name: str, curve: Curve) -> str:
    header = [
        name,
        "rounds",
        "constrained (ms)",
        "relative to the smallest",
        "constrained / plain",
        "quartiles",
        "constrained / plain in passes",
        "exponent from the size before",
    ]
    smallest = curve.points[0].constrained_seconds
    steps = ["", *(f"{step:.2f}" for step in curve.steps)]
    rows = [
        [
            f"{point.size:,}",
            str(point.rounds),
            _milliseconds(point.constrained_seconds),
            f"{point.constrained_seconds / smallest:.3g}",
            f"{point.ratio:.2f}",
            _quartiles(point.ratio_quartiles),
            f"{point.passes_ratio:.2f}",
            step,
        ]
        for point, step in zip(curve.points, steps, strict=True)
    ]
    return _table(header, rows)


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

{_table(header, rows)}"""


def _enforcement_section(enforcement: EnforcementResults) -> str:
    header = ["seed of the network", "iterations", "enforce (ms)", "plain update (ms)", "ratio"]
    rows = [
        [
            str(one.seed),
            str(one.iterations),
            _milliseconds(one.seconds),
            _milliseconds(one.plain_seconds),
            f"{one.ratio:.1f}",
        ]
        for one in enforcement.seeds
    ]
    return f"""## Exact enforcement

`handrail.enforce` of the paper's 18 constraints from random networks, until the real network \
meets all of them to 1e-6, next to one plain update of {enforcement.batch} states, one thread. \
The median ratio is **{enforcement.median_ratio:.1f}**.

{_table(header, rows)}"""


def _learning_section(costs: list[LearningCost]) -> str:
    rows = [
        [
            one.name,
            "yes" if one.compiled else "no",
            f"{one.episodes}",
            f"{one.steps:,}",
            f"{1e6 * one.bare_seconds:.1f}",
            f"**{one.ratio:.2f}**",
            f"{one.quartiles[0]:.2f} … {one.quartiles[1]:.2f}",
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

{_table(header, rows)}"""


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table: words to the left, numbers to the right."""
    rule = ["---", *("---:" for _ in header[1:])]
    lines = [header, rule, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _milliseconds(seconds: float) -> str:
    """Three digits, without an exponent."""
    value = 1e3 * seconds
    return f"{value:,.0f}" if value >= 100.0 else f"{value:#.3g}"


def _quartiles(pair: tuple[float, float]) -> str:
    return f"{pair[0]:.2f} … {pair[1]:.2f}"


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"
