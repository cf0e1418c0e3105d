"""Section 4.1, regional constraints: figures 7 to 9."""

from __future__ import annotations

import numpy as np

from handrail.figures import probability_over
from handrail.pictures import default_plane
from handrail.reproduction.drawing.learning import (
    Line,
    comparison_figure,
    loss_figure,
    violation_figure,
)
from handrail.reproduction.drawing.style import ANOTHER, EXACT, OTHER, PAPER
from handrail.reproduction.exhibit import Content, Exhibit, Finding, Picture
from handrail.reproduction.exhibits.cartpole import (
    LEFT,
    cartpole_policy_figure,
    first_met,
    safe_part,
)
from handrail.reproduction.results import Learned, Results
from handrail.reproduction.words import mean_and_deviation, said, summary

_WHY_DIVERGED = (
    "In the paper's table the cart's position ranges over five metres. A step that is solved at "
    "one state of each region overshoots at others, and within a few episodes the network is "
    "saturated "
    "on the wrong side: the run stops and says so. With the cart in the middle of its track, the "
    "slice that the paper draws, the same update behaves as the paper reports. The authors' "
    "implementation takes an unconstrained step where its program fails, without a word."
)


def _lines(results: Results) -> list[Line]:
    names = (
        ("cartpole_regions_deviation", PAPER),
        ("cartpole_regions_return", EXACT),
        ("cartpole_middle_deviation", OTHER),
        ("cartpole_middle_return", ANOTHER),
    )
    return [Line(results.learned(name), role) for name, role in names]


def _learning(results: Results) -> Content:
    lines = _lines(results)
    wide, _, middle, _ = (line.learned for line in lines)
    met = first_met(middle)
    return Content(
        findings=(
            Finding(
                "Six regions, one state of each at a time (maximum deviation): on par with static "
                "constraints, slightly slower.",
                f"{len(wide.diverged)} of {len(wide.seeds)} seeds diverge within "
                f"{_longest(wide)} episodes",
                results.judge(not wide.diverged),
                _WHY_DIVERGED,
            ),
            Finding(
                "The same, with the regions at x = 0.",
                f"{len(middle.diverged)} of {len(middle.seeds)} seeds diverge; first 100 episodes "
                f"{mean_and_deviation(_firsts(middle))}; constraints "
                + ("never met" if met is None else f"met from episode {met} on"),
                results.judge(not middle.diverged and met is not None and met <= 10),
                "Met as fast as reported. The score stays below the static constraints': these "
                "regions say nothing about a cart off the middle of its track.",
            ),
        ),
        pictures=(
            Picture(
                "cartpole-regions",
                comparison_figure(lines),
                "Cartpole with regional constraints, the paper's setting: the six regions of its "
                "table, and the same with the cart in the middle.",
            ),
            Picture(
                "cartpole-regions-violation",
                violation_figure(lines, until=15),
                "Worst violation at the 300 points of the regions as each episode begins.",
            ),
        ),
        tables=(
            summary(
                [line.learned for line in lines],
                "Mean ± standard deviation over the seeds that reached 100 episodes.",
            ),
        ),
    )


def _longest(learned: Learned) -> int:
    return max((len(seed.scores) for seed in learned.diverged), default=0)


def _firsts(learned: Learned) -> list[float]:
    return [seed.first for seed in learned.seeds]


def _loss(results: Results) -> Content:
    lines = _lines(results)
    static_first, static_later = safe_part(results.learned("cartpole_paper"))
    first, later = safe_part(results.learned("cartpole_middle_deviation"))
    return Content(
        findings=(
            Finding(
                "The loss starts from a higher initial value than with static constraints.",
                f"safe returns' part in episode 0: {first:.3g} with regions at x = 0, "
                f"{static_first:.3g} with 18 static states",
                results.judge(first > static_first),
                "The 18 states are nine positions on two lines, hardly different to the network, "
                "so their returns are large and work against each other. Six states far apart "
                "need less.",
            ),
            Finding(
                "It takes more episodes for the loss to disappear.",
                f"safe returns' part in episodes 10 to 19: {said(later, '.3g')} with regions at "
                f"x = 0, {said(static_later, '.3g')} with 18 static states",
                results.judge(later > static_later),
            ),
        ),
        pictures=(
            Picture(
                "cartpole-regions-loss",
                loss_figure([one for one in lines if not one.learned.diverged] or lines),
                "Episode loss with regional constraints, of experiments in which no seed diverges.",
            ),
        ),
    )


def _policy(results: Results) -> Content:
    static, certified = results.run("cartpole_paper"), results.run("cartpole_regions_certified")
    plane = default_plane(static.rulebook)
    assert plane is not None
    maps = [probability_over(run.agent().policy, plane, LEFT) for run in (static, certified)]
    difference = float(np.abs(maps[0] - maps[1]).mean())
    same_side = float(((maps[0] > 0.5) == (maps[1] > 0.5)).mean())
    return Content(
        findings=(
            Finding(
                "The policy learned with regions is almost identical to the statically "
                "constrained one.",
                f"on the slice at x = ẋ = 0 the two prefer the same push in {same_side:.0%} of the "
                f"states; probabilities differ by {difference:.3f} on average (seed 0; regions "
                "certified, since the paper's update diverges on them)",
                results.judge(same_side >= 0.9),
            ),
        ),
        pictures=(
            Picture(
                "cartpole-regions-policy",
                cartpole_policy_figure(results.run("cartpole_middle_deviation")),
                "Probability of a⁰ at x = 0, ẋ = 0, the paper's setting on the regions at x = 0 "
                "(grey), seed 0; stars are the states that the last update constrained.",
            ),
            Picture(
                "cartpole-regions-policy-certified",
                cartpole_policy_figure(certified),
                "The same with the six whole regions, certified: not in the paper.",
            ),
        ),
    )


CARTPOLE_REGIONS = (
    Exhibit("cartpole-regions", "Figure 7", "Cartpole, six regions", _learning),
    Exhibit("cartpole-regions-loss", "Figure 8", "Episode loss with regions", _loss),
    Exhibit("cartpole-regions-policy", "Figure 9", "The policy learned with regions", _policy),
)
