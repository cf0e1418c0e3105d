"""Section 4.1, regional constraints: figures 7 to 9."""

from __future__ import annotations

import numpy as np

from handrail._types import Array
from handrail.report.drawing import output_over
from handrail.report.learning_curves import mean_over_seeds
from handrail.runs import Run
from paper.drawing.learning import (
    ANOTHER,
    CERTIFIED,
    OTHER,
    PAPER,
    RAW,
    Line,
    comparison_figure,
    loss_figure,
    violation_figure,
)
from paper.exhibit import Claim, Content, Drawing, Exhibit, average, mean_and_deviation, summary
from paper.exhibits.cartpole import (
    LEFT,
    cartpole_plane,
    cartpole_policy_figure,
    first_met,
    safe_size,
)
from paper.results import Learned, Results

_WHY_DIVERGED = (
    "In the paper's table the cart's position ranges over five metres. A step that is solved at "
    "one state of each region overshoots at others, and within a few episodes the network is "
    "saturated on the wrong side: the run stops and says so. The authors' implementation takes an "
    "unconstrained step where its program fails, without a word."
)
_ON_PAR = 0.95  # of the score of static constraints


def _lines(results: Results) -> list[Line]:
    names = (
        ("cartpole_regions_deviation", PAPER),
        ("cartpole_regions_return", RAW),
        ("cartpole_middle_deviation", OTHER),
        ("cartpole_middle_return", ANOTHER),
    )
    return [Line(results.learned(name), role) for name, role in names]


def _learning(results: Results) -> Content:
    lines = _lines(results)
    wide, _, middle, _ = (line.learned for line in lines)
    static = results.learned("cartpole_paper")
    met, static_met = first_met(middle), first_met(static)
    scores = average(_firsts(middle)), average(_firsts(static))
    return Content(
        claims=(
            Claim(
                "Six regions, one state of each at a time (maximum deviation): results are on par "
                "with static constraints.",
                f"{len(wide.diverged)} of {len(wide.seeds)} seeds diverge, after at most "
                f"{_longest(wide)} episodes"
                if wide.diverged
                else f"first 100 episodes {mean_and_deviation(_firsts(wide))}, with static "
                f"constraints {mean_and_deviation(_firsts(static))}",
                (
                    not wide.diverged
                    and average(_firsts(wide)) >= _ON_PAR * average(_firsts(static))
                ),
                _WHY_DIVERGED if wide.diverged else "",
            ),
            Claim(
                "The same where nothing diverges, with the regions at x = 0 (the slice that the "
                "paper draws): on par.",
                f"{len(middle.diverged)} of {len(middle.seeds)} seeds diverge; first 100 episodes "
                f"{mean_and_deviation(_firsts(middle))}, with static constraints "
                f"{mean_and_deviation(_firsts(static))}",
                scores[0] >= _ON_PAR * scores[1],
                "These regions say nothing about a cart off the middle of its track.",
            ),
            Claim(
                "The agent with the regional constraints learns slightly slower.",
                f"constraints met on all seeds: {_from(met)} with regions at x = 0, "
                f"{_from(static_met)} with static constraints",
                met is not None and static_met is not None and met >= static_met,
            ),
        ),
        drawings=(
            Drawing(
                "cartpole-regions",
                comparison_figure([*lines, Line(static, CERTIFIED)]),
                "Cartpole with regional constraints, the paper's setting: the six regions of its "
                "table, the same with the cart in the middle, and the static constraints.",
            ),
            Drawing(
                "cartpole-regions-violation",
                violation_figure(lines, until=15),
                "Worst violation at the 300 points of the regions as each episode begins.",
            ),
        ),
        tables=(
            summary(
                [*(line.learned for line in lines), static],
                "Mean ± standard deviation over the seeds that reached 100 episodes.",
            ),
        ),
    )


def _from(episode: int | None) -> str:
    return "never" if episode is None else f"from episode {episode} on"


def _longest(learned: Learned) -> int:
    return max((len(seed.scores) for seed in learned.diverged), default=0)


def _firsts(learned: Learned) -> list[float]:
    return [seed.first for seed in learned.seeds]


def _loss(results: Results) -> Content:
    lines = _lines(results)
    static, middle = results.learned("cartpole_paper"), results.learned("cartpole_middle_deviation")
    static_first, first = safe_size(static)[0], safe_size(middle)[0]
    wide_first = safe_size(results.learned("cartpole_regions_deviation"))[0]
    gone, static_gone = _vanished(middle), _vanished(static)
    return Content(
        claims=(
            Claim(
                "The loss starts from a higher initial value than with static constraints.",
                f"size √ΣG² of the safe returns in episode 0: {wide_first:.0f} with the six "
                f"regions, {first:.0f} with these at x = 0, {static_first:.0f} with 18 static "
                "states",
                wide_first > static_first,
                "A return moves the policy at a state by the state's kernel, which grows with its "
                "coordinates: with the cart at the end of its track a small one does."
                if wide_first <= static_first
                else "",
            ),
            Claim(
                "It takes more episodes for the loss to disappear.",
                f"the safe returns are below a tenth of their largest size {_from(gone)} with "
                f"regions at x = 0, {_from(static_gone)} with 18 static states (mean of the seeds)",
                None if gone is None or static_gone is None else gone > static_gone,
            ),
        ),
        drawings=(
            Drawing(
                "cartpole-regions-loss",
                loss_figure([one for one in lines if not one.learned.diverged] or lines),
                "Episode loss with regional constraints, of experiments in which no seed diverges. "
                "Terms of lower and of upper bounds have opposite signs, so compare the sizes of "
                "the safe returns instead.",
            ),
        ),
    )


def _vanished(learned: Learned) -> int | None:
    """From which episode on the safe returns stay below a tenth of the largest; None if never.

    Means of the seeds, up to the freeze.
    """
    sizes = mean_over_seeds(learned.table("safe_sizes"))
    sizes = sizes[~np.isnan(sizes)]
    large = np.flatnonzero(sizes > 0.1 * sizes.max())
    return int(large[-1]) + 1 if large[-1] + 1 < len(sizes) else None


def _policy(results: Results) -> Content:
    n_seeds = results.experiments["cartpole_middle_deviation"].seeds
    maps = [
        [_map(results.run(name, seed)) for seed in range(n_seeds)]
        for name in ("cartpole_paper", "cartpole_middle_deviation")
    ]
    static, regional = np.array(maps[0]), np.array(maps[1])
    difference = float(np.abs(static - regional).mean())
    same_side = float(((static > 0.5) == (regional > 0.5)).mean())
    return Content(
        claims=(
            Claim(
                "The policy learned with regions is almost identical to the statically "
                "constrained one.",
                f"on the slice at x = ẋ = 0 probabilities differ by {difference:.3f} on average, "
                f"and the two prefer the same push in {same_side:.0%} of the states (all seeds, "
                "regions at x = 0)",
                difference <= 0.1 and same_side >= 0.9,
            ),
        ),
        drawings=(
            Drawing(
                "cartpole-regions-policy",
                cartpole_policy_figure(results.run("cartpole_middle_deviation")),
                "Probability of a⁰ at x = 0, ẋ = 0, the paper's setting on the regions at x = 0 "
                "(grey), seed 0; stars are the states that the last update constrained.",
            ),
            Drawing(
                "cartpole-regions-policy-certified",
                cartpole_policy_figure(results.run("cartpole_regions_certified")),
                "The same with the six whole regions, certified: not in the paper.",
            ),
        ),
    )


def _map(run: Run) -> Array:
    """Of pushing left, over the slice."""
    return output_over(run.agent().policy, cartpole_plane(run), LEFT)


CARTPOLE_REGIONS = (
    Exhibit("cartpole-regions", "Figure 7", "Cartpole, six regions", _learning),
    Exhibit("cartpole-regions-loss", "Figure 8", "Episode loss with regions", _loss),
    Exhibit("cartpole-regions-policy", "Figure 9", "The policy learned with regions", _policy),
)
