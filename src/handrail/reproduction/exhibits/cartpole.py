"""Section 4.1, static constraints: figures 4 to 6, equalities, and no constraints at all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from handrail.pictures import default_plane
from handrail.policy_picture import policy_figure
from handrail.reproduction.drawing.learning import (
    Line,
    comparison_figure,
    loss_figure,
    score_figure,
    violation_figure,
)
from handrail.reproduction.drawing.style import (
    ANOTHER,
    CARTPOLE_AXES,
    EXACT,
    OTHER,
    PAPER,
    PLAIN,
    PLAIN_OTHER,
    RAW,
)
from handrail.reproduction.exhibit import Content, Exhibit, Finding, Picture, Table
from handrail.reproduction.results import Learned, Results
from handrail.reproduction.words import (
    average,
    by_episode,
    mean_and_deviation,
    passed,
    said,
    summary,
)
from handrail.runs import Run
from handrail.violations import measure

LEFT = 0  # the paper's a⁰
_EARLY = slice(5, 10)
_NEAR = 0.01  # of probability: a constraint that is this close to its bound counts as met


def _learning(results: Results) -> Content:
    learned = results.learned("cartpole_paper")
    early = learned.table("scores")[:, _EARLY]
    n_pass = sum(one is not None for one in learned.to_pass())
    met = first_met(learned)
    violations = np.nanmax(learned.table("violations"), axis=0)
    return Content(
        findings=(
            Finding(
                "With a proper selection of constraints the agent is trained in 5 steps.",
                f"episodes 5 to 9 score {mean_and_deviation([average(row) for row in early])} "
                "(mean of the seeds ± deviation), of 200 possible",
                results.judge(average(early) >= 190.0),
            ),
            Finding(
                "Solved for all 10 seeds: an average score above 195 over 100 episodes.",
                f"{passed(learned)}; averages of episodes 0 to 99 from "
                f"{_range([seed.first for seed in learned.seeds])}",
                results.judge(n_pass == len(learned.seeds)),
                "Standardised returns always call the late steps of a 200-step episode bad, and so "
                "disturb a policy that is good already, until it is frozen. With a baseline that "
                "removes the effect, and exact enforcement, all seeds pass (below: equality, "
                "inequality and none).",
            ),
            Finding(
                "Constraints are satisfied after 2 to 3 episodes.",
                "never on all seeds"
                if met is None
                else f"on every seed within {_NEAR:g} of every bound from episode {met} on; worst "
                f"violation of any seed {violations[min(3, len(violations) - 1)]:.4f} in episode 3",
                results.judge(met is not None and met <= 3),
            ),
        ),
        pictures=(
            Picture(
                "cartpole",
                score_figure(Line(learned, PAPER)),
                "Cartpole with 18 static inequality constraints, the paper's setting.",
            ),
            Picture(
                "cartpole-violation",
                violation_figure([Line(learned, PAPER)], until=15),
                "How far the worst of the 18 constraints is from its bound as each episode begins.",
            ),
        ),
        tables=(_first_episodes(learned),),
    )


def first_met(learned: Learned) -> int | None:
    """The episode from which on all seeds are within a hundredth of all bounds."""
    worst = np.nanmax(learned.table("violations"), axis=0)
    broken = np.flatnonzero(worst > _NEAR)
    first = int(broken[-1]) + 1 if len(broken) else 0
    return first if first < len(worst) else None


def _range(values: list[float]) -> str:
    return f"{min(values):.1f} to {max(values):.1f}"


def _first_episodes(learned: Learned) -> Table:
    scores = by_episode(learned, "scores", 10)
    return Table(
        "The first episodes: mean score of the seeds, and worst violation of the worst seed.",
        ("episode", *(str(number) for number in range(len(scores)))),
        (("score", *scores), ("worst violation", *by_episode(learned, "violations", 10))),
    )


def _loss(results: Results) -> Content:
    learned = results.learned("cartpole_paper")
    first, later = safe_part(learned)
    return Content(
        findings=(
            Finding(
                "The episode loss is initially large: the constraints are not yet fulfilled.",
                f"the safe returns' part of the loss is {first:.3g} in episode 0, and "
                f"{said(later, '.3g')} on average in episodes 10 to 19",
                results.judge(first > 10.0 * abs(later)),
            ),
        ),
        pictures=(
            Picture(
                "cartpole-loss",
                loss_figure([Line(learned, PAPER)]),
                "Episode loss; after episode 50 the policy is frozen and has none.",
            ),
        ),
    )


def safe_part(learned: Learned) -> tuple[float, float]:
    """Mean size of the safe returns' loss in episode 0, and in episodes 10 to 19."""
    table = np.abs(learned.table("safe_losses"))
    return average(table[:, 0]), average(table[:, 10:20])


def _policy(results: Results) -> Content:
    run = results.run("cartpole_paper")
    worst = measure(run.agent().policy, run.rulebook.constraints).worst_violation
    return Content(
        findings=(
            Finding(
                "The resulting policy is smooth, and the constraints are respected.",
                f"worst violation of the 18 constraints after learning, seed 0: {worst:+.1e}",
                results.judge(worst <= 1e-3),
            ),
        ),
        pictures=(
            Picture(
                "cartpole-policy",
                cartpole_policy_figure(run),
                "Probability of a⁰ (push the cart left) at x = 0, ẋ = 0 after learning, seed 0. "
                "White dots: the constrained states s₅ and s₁₄ (the other 16 are at other "
                "positions, drawn grey beneath); the line is an episode.",
            ),
        ),
    )


def cartpole_policy_figure(run: Run) -> Figure:
    """The learned policy at x = ẋ = 0, of pushing left as in the paper, with units."""
    assert run.rulebook.picture is not None
    book = replace(run.rulebook, picture=replace(run.rulebook.picture, action=LEFT))
    plane = default_plane(book)
    assert plane is not None
    figure = policy_figure(book, run.agent(), plane)
    panel = figure.axes[0]
    panel.set_xlabel(CARTPOLE_AXES[0])
    panel.set_ylabel(CARTPOLE_AXES[1])
    return figure


def _comparison(results: Results) -> Content:
    names = (
        ("cartpole_paper", PAPER),
        ("cartpole_exact", EXACT),
        ("cartpole_equality_paper", OTHER),
        ("cartpole_equality_exact", ANOTHER),
        ("cartpole_unconstrained", PLAIN),
        ("cartpole_unconstrained_baseline", PLAIN_OTHER),
        ("cartpole_unconstrained_raw", RAW),
    )
    lines = [Line(results.learned(name), role) for name, role in names]
    by_name = {line.learned.experiment.name: line.learned for line in lines}
    paper, plain = by_name["cartpole_paper"], by_name["cartpole_unconstrained_baseline"]
    equality = by_name["cartpole_equality_paper"]
    best = max(
        average([seed.first for seed in one.seeds])
        for name, one in by_name.items()
        if "unconstrained" in name
    )
    constrained = average([seed.first for seed in paper.seeds])
    met = first_met(equality)
    return Content(
        findings=(
            Finding(
                "Constraining makes learning much faster, as it eliminates the need to explore "
                "states that are known to be unsafe.",
                f"first 100 episodes: {said(constrained)} with the constraints, at most "
                f"{said(best)} without (three ways to weigh returns); the best of these, with a "
                f"value function as baseline, passes on {passed(plain)}",
                results.judge(constrained > 1.5 * best),
            ),
            Finding(
                "REINFORCE can be extended with equality constraints (section 3.1).",
                "met on no seed"
                if met is None
                else f"equalities at the 18 states are met on every seed within {_NEAR:g} from "
                f"episode {met} on; first 100 episodes "
                f"{mean_and_deviation([seed.first for seed in equality.seeds])}",
                results.judge(met is not None),
            ),
        ),
        pictures=(
            Picture(
                "cartpole-comparison",
                comparison_figure(lines, until=len(paper.seeds[0].scores)),
                "The same constraints as inequalities and as equalities, in the paper's setting "
                "and held exactly, and REINFORCE without constraints. Unconstrained learning goes "
                "on to episode 500 beyond this figure.",
            ),
        ),
        tables=(
            summary(
                [line.learned for line in lines],
                "Mean ± standard deviation over seeds. Pass: a 100-episode average of 195.",
            ),
        ),
    )


CARTPOLE = (
    Exhibit("cartpole", "Figure 4", "Cartpole, 18 static constraints", _learning),
    Exhibit("cartpole-loss", "Figure 5", "Episode loss of Cartpole", _loss),
    Exhibit("cartpole-policy", "Figure 6", "The learned Cartpole policy", _policy),
    Exhibit(
        "cartpole-comparison",
        "Sections 3.1 and 4.1",
        "Cartpole: equalities, inequalities, no constraints",
        _comparison,
    ),
)
