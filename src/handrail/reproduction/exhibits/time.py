"""The paper's remarks on time complexity, measured."""

from __future__ import annotations

from handrail.reproduction.drawing.measurements import times_figure
from handrail.reproduction.exhibit import Content, Exhibit, Finding, Picture, Table
from handrail.reproduction.results import Results
from handrail.reproduction.timing import Times


def _time(results: Results) -> Content:
    times = results.times("update_times")
    batch, constrained = times["batch"], times["constrained"]
    solve, kernel = constrained.exponent("solve"), batch.exponent("kernel")
    in_constraints, ours = constrained.exponent("kernel"), batch.exponent("update")
    return Content(
        findings=(
            Finding(
                "Kernel evaluations take O((n_B + n_S) n_S): linear in the trajectory.",
                f"exponent {kernel:.2f} in n_B and {in_constraints:.2f} in n_S",
                results.judge(kernel < 1.3 and in_constraints < 2.3),
            ),
            Finding(
                "Solving for the returns takes O(n_S³), equalities and quadratic program alike.",
                f"exponent {solve:.2f} in n_S",
                results.judge(solve < 3.2),
                "Not cubic: few of many constraints are active at a time, and only those are "
                "solved for."
                if solve < 2.5
                else "",
            ),
            Finding(
                "Too long trajectories slow down computation: only every 10th step of a Lunar "
                "Lander trajectory is used.",
                f"an update on {batch.sizes[-1]:.0f} steps takes "
                f"{batch.seconds['update'][-1] / batch.seconds['update'][0]:.1f} times as long as "
                f"one on {batch.sizes[0]:.0f} (exponent {ours:.2f}), "
                f"{1000.0 * batch.seconds['update'][-1]:.0f} ms in all",
                results.judge(ours > 1.3),
                "The batch needs no kernel: one backward and one forward-mode pass, as long as a "
                "plain policy-gradient step on the same trajectory takes.",
            ),
        ),
        pictures=(
            Picture(
                "time",
                times_figure(
                    [
                        (
                            f"steps of the trajectory n_B, at n_S = {constrained.sizes[0]:.0f}",
                            batch,
                        ),
                        (
                            f"constrained states n_S, at n_B = {batch.sizes[0]:.0f}",
                            constrained,
                        ),
                    ]
                ),
                "Time of one update of a 5000-wide Cartpole network on one core; exponents over "
                "the larger half of the sizes.",
            ),
        ),
        tables=(_table("n_B", batch), _table("n_S", constrained)),
    )


def _table(what: str, times: Times) -> Table:
    parts = ("kernel", "update", "solve")
    return Table(
        f"Milliseconds over {what}, the fastest of three repetitions.",
        (what, "kernel as the paper", "one update", "of it: solving"),
        [
            (f"{size:.0f}", *(f"{1000.0 * times.seconds[part][i]:.1f}" for part in parts))
            for i, size in enumerate(times.sizes)
        ],
    )


TIME = Exhibit("time", "Remarks on time complexity", "Time over the sizes of an update", _time)
