"""The paper's remarks on time complexity, measured."""

from __future__ import annotations

from paper.drawing.measurements import times_figure
from paper.exhibit import Claim, Content, Drawing, Exhibit, Table, number
from paper.experiment import UpdateTimes
from paper.results import Results
from paper.update_times import Times

_SLACK = 0.3  # of a measured exponent


def _times(results: Results) -> Content:
    study = results.experiments["update_times"].study
    assert isinstance(study, UpdateTimes)
    times = results.times("update_times")
    batch, constrained, points = times["batch"], times["constrained"], times["points"]
    solve, linear = constrained.exponent("solve"), constrained.exponent("linear")
    kernel = batch.exponent("kernel")
    in_constraints, choice = constrained.exponent("kernel"), points.exponent("choice")
    ours, plain = (batch.seconds[part][-1] for part in ("update", "plain"))
    return Content(
        claims=(
            Claim(
                "Kernel evaluations take O((n_B + n_S) n_S): linear in the trajectory, at most "
                "quadratic in the constraints.",
                f"exponent {number(kernel, '.2f')} in n_B and {number(in_constraints, '.2f')} in "
                "n_S",
                kernel < 1.0 + _SLACK and in_constraints < 2.0 + _SLACK,
            ),
            Claim(
                "Solving for the returns takes O(n_S³), for the linear system and for the "
                "quadratic program.",
                f"exponent {number(linear, '.2f')} in n_S for the linear system (LAPACK), "
                f"{number(solve, '.2f')} for the quadratic program, with "
                f"{constrained.seconds['active'][-1]:.0f} of {constrained.sizes[-1]:.0f} "
                "constraints active in the largest",
                max(solve, linear) < 3.0 + _SLACK,
            ),
            Claim(
                "Maximum return evaluates every discrete state of a region: O((n_B + 1) n_t).",
                f"exponent {number(choice, '.2f')} in n_t",
                choice < 1.0 + _SLACK,
            ),
            Claim(
                "Too long trajectories slow down computation, as the kernel has to be evaluated at "
                "more points.",
                f"the kernel takes {batch.seconds['kernel'][-1] / batch.seconds['kernel'][0]:.0f} "
                f"times as long for {batch.sizes[-1]:.0f} steps as for {batch.sizes[0]:.0f}. "
                f"Without a kernel for the batch, a constrained update on {batch.sizes[-1]:.0f} "
                f"steps takes {ours / plain:.1f} times as long as a plain policy-gradient step on "
                f"them, {1000.0 * ours:.0f} ms",
                kernel > 1.0 - _SLACK,
                "True of the kernel. Handrail needs none for the batch: one backward and one "
                "forward-mode pass.",
            ),
        ),
        drawings=(
            Drawing(
                "time",
                times_figure(
                    [
                        (f"steps of the trajectory n_B, at n_S = {study.constrained[0]}", batch),
                        (f"constrained states n_S, at n_B = {study.batch[0]}", constrained),
                    ]
                ),
                f"Time of one update of a Cartpole network of width {study.width} on one core; "
                "exponents over the larger half of the sizes.",
            ),
        ),
        tables=(
            _table("n_B", batch, _PARTS),
            _table("n_S", constrained, _PARTS),
            _table("n_t", points, {"choice": "required returns of all points"}),
        ),
    )


_PARTS = {
    "kernel": "kernel as the paper",
    "plain": "step without constraints",
    "update": "constrained update",
    "solve": "solving the program alone",
    "linear": "solving a linear system",
}


def _table(what: str, times: Times, parts: dict[str, str]) -> Table:
    rows = [
        (f"{size:.0f}", *(f"{1000.0 * times.seconds[part][i]:.1f}" for part in parts))
        for i, size in enumerate(times.sizes)
    ]
    caption = f"Milliseconds over {what}, the fastest of three repetitions of each."
    return Table(caption, (what, *parts.values()), rows)


UPDATE_TIMES = Exhibit(
    "time", "Remarks on time complexity", "Time over the sizes of an update", _times
)
