"""One constrained update, as a section of the page."""

from __future__ import annotations

from benchmarks.stages import STAGES
from benchmarks.tables import milliseconds, quartiles, table, threads
from benchmarks.update import ExplicitComparison, PlainComparison, UpdateResults


def update_section(update: UpdateResults) -> str:
    """Against the plain update, and against the explicit procedure."""
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
            milliseconds(one.constrained_seconds),
            milliseconds(one.plain_seconds),
            f"**{one.ratio:.2f}**",
            quartiles(one.ratio_quartiles),
            "yes" if one.is_fair else "no",
        ]
        for one in comparisons
    ]
    return table(header, rows)


def _stage_table(comparisons: list[PlainComparison]) -> str:
    header = ["stage", *(f"{threads(one.threads)} (ms)" for one in comparisons)]
    header += [f"{threads(one.threads)} (share)" for one in comparisons]
    totals = [sum(one.stage_seconds.values()) for one in comparisons]
    rows = []
    for stage in STAGES:
        seconds = [one.stage_seconds[stage] for one in comparisons]
        shares = [f"{s / total:.0%}" for s, total in zip(seconds, totals, strict=True)]
        rows.append([stage, *map(milliseconds, seconds), *shares])
    rows.append(["sum", *map(milliseconds, totals), *("100%" for _ in totals)])
    return table(header, rows)


def _explicit_table(comparisons: list[ExplicitComparison]) -> str:
    header = ["measured at n =", *map(str, comparisons[0].sizes), "exponent"]
    rows = [
        [
            f"{threads(one.threads)} (s)",
            *(f"{seconds:.3g}" for seconds in one.seconds),
            f"{one.exponent:.2f}",
        ]
        for one in comparisons
    ]
    return table(header, rows)


def _scaled_table(comparisons: list[ExplicitComparison]) -> str:
    full = comparisons[0].full_size
    header = [f"at n = {full}"]
    header += [f"{threads(one.threads)} (s)" for one in comparisons]
    header += [f"relative to ours, {threads(one.threads)}" for one in comparisons]
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
    return table(header, rows)
