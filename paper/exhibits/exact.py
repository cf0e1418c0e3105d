"""What the paper does not have: the same experiments held exactly, and proven on whole regions."""

from __future__ import annotations

from handrail.report.proof_panels import certify_regions
from paper.drawing.learning import (
    ANOTHER,
    CERTIFIED,
    EXACT,
    OTHER,
    PAPER,
    PLAIN,
    RAW,
    Line,
    Role,
    score_grid,
    violation_figure,
)
from paper.exhibit import Content, Drawing, Exhibit, Finding, Table, seeds_that_pass, summary
from paper.results import Learned, Results

_CARTPOLE: tuple[tuple[str, Role], ...] = (
    ("cartpole_paper", PAPER),
    ("cartpole_exact", EXACT),
    ("cartpole_equality_exact", RAW),
)
_REGIONS: tuple[tuple[str, Role], ...] = (
    ("cartpole_regions_certified", CERTIFIED),
    ("cartpole_regions_deviation_exact", ANOTHER),
    ("cartpole_regions_return_exact", OTHER),
)
_LUNAR_LANDER: tuple[tuple[str, Role], ...] = (
    ("lunar_lander_paper", PAPER),
    ("lunar_lander_exact", EXACT),
    ("lunar_lander_exact_literal", OTHER),
    ("lunar_lander_unconstrained", PLAIN),
)


def _exact(results: Results) -> Content:
    groups = [
        (title, [Line(results.learned(name), role) for name, role in names])
        for title, names in (
            ("Cartpole, 18 states", _CARTPOLE),
            ("Cartpole, six regions", _REGIONS),
            ("Lunar Lander, 11 states", _LUNAR_LANDER),
        )
    ]
    everyone = [line.learned for _, lines in groups for line in lines]
    everyone.append(results.learned("disks_certified"))
    by_name = {one.experiment.name: one for one in everyone}
    held = [one for name, one in by_name.items() if "exact" in name or "certified" in name]
    worst = max(one.worst_violation for one in held)
    certified = by_name["cartpole_regions_certified"]
    proven = certified.worst_violation
    return Content(
        findings=(
            Finding(
                "Constraints that hold exactly, from before the first step on.",
                f"worst violation of any policy that acted, {len(held)} experiments with "
                f"{sum(len(one.seeds) for one in held)} runs: {worst:+.1e}",
            ),
            Finding(
                "Regions that hold at every state of them, with a proof.",
                f"six regions proven before the first step and after every update on "
                f"{_undiverged(certified)} of {len(certified.seeds)} seeds (worst proven "
                f"violation {proven:+.1e}); an average of 195 is reached on "
                f"{seeds_that_pass(certified)}",
            ),
            Finding(
                "Exact constraints with a baseline reach 200 on Lunar Lander.",
                f"reached on {seeds_that_pass(by_name['lunar_lander_exact'])}",
            ),
        ),
        drawings=(
            Drawing(
                "beyond",
                score_grid(groups),
                "The paper's experiments held exactly, and proven, beside the paper's setting.",
            ),
            Drawing(
                "beyond-violation",
                violation_figure([line for _, lines in groups[:2] for line in lines], until=15),
                "Worst violation as each Cartpole episode begins, worst of all seeds.",
            ),
        ),
        tables=(
            summary(everyone, "Mean ± standard deviation over seeds."),
            _proofs(results),
        ),
    )


def _undiverged(learned: Learned) -> int:
    return len(learned.seeds) - len(learned.diverged)


def _proofs(results: Results) -> Table:
    """What a proof of the final policies says."""
    rows = []
    for seed in range(results.experiments["cartpole_regions_certified"].seeds):
        run = results.run("cartpole_regions_certified", seed)
        answers = certify_regions(run.agent().policy, run.rulebook.constraints)
        proofs = [answer.certificate for answer in answers]
        lowest = [one.lowest for one in proofs if one.lowest is not None]
        highest = [one.highest for one in proofs if one.highest is not None]
        rows.append(
            (
                str(seed),
                f"{sum(one.certified for one in proofs)} of {len(proofs)}",
                f"{min(lowest):.5f}" if lowest else "–",
                f"{max(highest):.6f}" if highest else "–",
                str(sum(one.cells for one in proofs)),
            )
        )
    header = ("seed", "regions proven", "π(left) at least", "π(left) at most", "cells")
    return Table(
        "Proofs of the final policies, over every state of the regions: π(left) in the three "
        "regions that lean left (bound 0.95) and in those that lean right (bound 0.05).",
        header,
        rows,
    )


EXACT_AND_CERTIFIED = Exhibit(
    "beyond", "", "Exact and certified: what the paper does not have", _exact
)
