"""Section 4.1, static constraints: figures 4 to 6, equalities, and no constraints at all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from handrail.enforcement import measure
from handrail.policies import Policy
from handrail.report import Plane
from handrail.report.drawing import output_over
from handrail.report.policy_panels import policy_figure
from handrail.runs import Run
from paper.drawing.learning import (
    ANOTHER,
    CARTPOLE_AXES,
    EXACT,
    OTHER,
    PAPER,
    PLAIN,
    PLAIN_OTHER,
    RAW,
    Line,
    comparison_figure,
    loss_figure,
    score_figure,
    violation_figure,
)
from paper.exhibit import (
    Claim,
    Content,
    Drawing,
    Exhibit,
    Finding,
    Table,
    average,
    by_episode,
    interquartile_mean,
    mean_and_deviation,
    number,
    seeds_that_pass,
    summary,
)
from paper.exhibits.spread import after_freeze
from paper.interval import Interval, over_seeds, probability_of_improvement, share
from paper.results import Learned, Results, Seed

LEFT = 0  # the paper's a⁰
_EARLY = slice(5, 10)
_NEXT = 3.5  # later than episode 3
_LATER = slice(10, 20)
NEAR = 0.01  # of probability: a constraint that is this close to its bound counts as met
_STEEP = 0.1  # of probability, between neighbours on a grid of 121 states along an axis
_GOOD = 190.0  # of 200: trained
_SMALL = 0.1  # of what it was in the first episode


def _learning(results: Results) -> Content:
    learned, many = (
        results.learned(name) for name in ("cartpole_paper", "spread_standardised_frozen")
    )
    early = over_seeds([average(seed.scores[_EARLY]) for seed in learned.seeds])
    frozen = over_seeds([after_freeze(seed) for seed in many.seeds])
    n_pass = sum(one is not None for one in many.to_pass())
    met = first_met(learned)
    met_by = over_seeds([np.nan if one is None else one for one in map(met_from, learned.seeds)])
    worst = learned.table("violations").max(axis=0)
    return Content(
        claims=(
            Claim(
                "With a proper selection of constraints the agent is trained in 5 steps.",
                f"episodes 5 to 9 score {early.words()} of 200 possible",
                early.above(_GOOD),
            ),
            Claim(
                "Cartpole is solved: an average score above 195 over 100 episodes, 10 seeds.",
                f"195 is passed on {seeds_that_pass(learned)}. On {len(many.seeds)} seeds: "
                f"episodes 50 to 149, when it is frozen, score {frozen.words()}, and "
                f"{n_pass} pass, a share of {share(n_pass, len(many.seeds)).words('.2f')}",
                frozen.above(many.pass_mark),
                "Judged on fifty seeds, which another exhibit shows. Standardised returns always "
                "call the late steps of a 200-step episode bad, and so disturb a policy that is "
                "good already, until it is frozen after episode 49; where it is then, it stays.",
            ),
            Claim(
                "Constraints are satisfied after 2 to 3 episodes.",
                "never on all seeds"
                if met is None
                else f"within {NEAR:g} of every bound from episode {met_by.words()} on, on every "
                f"seed from episode {met} on; worst violation of any seed "
                f"{worst[min(3, len(worst) - 1)]:.4f} in episode 3",
                None if met is None else met_by.below(_NEXT),
            ),
        ),
        drawings=(
            Drawing(
                "cartpole",
                score_figure(Line(learned, PAPER)),
                "Cartpole with 18 static inequality constraints, the paper's setting: the policy "
                "learns from 50 episodes, then it is frozen.",
            ),
            Drawing(
                "cartpole-violation",
                violation_figure([Line(learned, PAPER)], until=15),
                "How far the worst of the 18 constraints is from its bound as each episode begins.",
            ),
        ),
        tables=(_first_episodes(learned),),
    )


def met_from(seed: Seed) -> int | None:
    """The episode from which on it is near all bounds; None if it never is, or stops."""
    broken = np.flatnonzero(seed.violations > NEAR)
    first = int(broken[-1]) + 1 if len(broken) else 0
    return first if first < len(seed.violations) and not seed.message else None


def first_met(learned: Learned) -> int | None:
    """The same of all seeds; None if one never is."""
    found = [one for one in map(met_from, learned.seeds) if one is not None]
    return max(found) if len(found) == len(learned.seeds) else None


def _first_episodes(learned: Learned) -> Table:
    scores = by_episode(learned, "scores", 10)
    return Table(
        "The first episodes: mean score of the seeds, and worst violation of the worst seed.",
        ("episode", *(str(number) for number in range(len(scores)))),
        (("score", *scores), ("worst violation", *by_episode(learned, "violations", 10))),
    )


def _loss(results: Results) -> Content:
    learned = results.learned("cartpole_paper")
    losses = np.abs(learned.table("losses"))
    at_first, afterwards = average(losses[:, 0]), average(losses[:, _LATER])
    loss = over_seeds([average(row[_LATER]) / row[0] for row in losses])
    first, later = safe_size(learned)
    size = safe_decline(learned)
    return Content(
        claims=(
            Claim(
                "The episode loss is initially large: the constraints are not yet fulfilled, and "
                "the safe returns are large.",
                f"size of the loss {at_first:.0f} in episode 0, {number(afterwards)} on average in "
                f"episodes 10 to 19: {loss.words('.3f')} of it",
                loss.below(_SMALL),
            ),
            Claim(
                "If the constraints are satisfied the returns for safety become small "
                "(conclusions).",
                f"size √ΣG² of the safe returns: {first:.0f} in episode 0, {number(later, '.0f')} "
                f"on average in episodes 10 to 19: {size.words('.3f')} of it",
                size.below(_SMALL),
            ),
        ),
        drawings=(
            Drawing(
                "cartpole-loss",
                loss_figure([Line(learned, PAPER)]),
                "Episode loss; after episode 49 the policy is frozen and has none.",
            ),
        ),
    )


def safe_size(learned: Learned) -> tuple[float, float]:
    """Mean size √ΣG² of the safe returns in episode 0, and in episodes 10 to 19."""
    table = learned.table("safe_sizes")
    return average(table[:, 0]), average(table[:, _LATER])


def safe_decline(learned: Learned) -> Interval:
    """What is left of the safe returns' size in episodes 10 to 19, as a share of episode 0's."""
    return over_seeds(
        [average(row[_LATER]) / max(row[0], 1e-12) for row in learned.table("safe_sizes")]
    )


def _policy(results: Results) -> Content:
    name = "cartpole_paper"
    runs = [results.run(name, seed) for seed in range(results.experiments[name].seeds)]
    policies = [run.agent().policy for run in runs]
    worst = max(measure(p, runs[0].rulebook.constraints).worst_violation for p in policies)
    steepest = max(_steepest(p, cartpole_plane(runs[0])) for p in policies)
    return Content(
        claims=(
            Claim(
                "The resulting policy is very smooth, and the constraints are respected.",
                f"after learning, the worst violation of the 18 constraints on any seed is "
                f"{worst:+.1e}; between neighbours on a grid of 121 × 121 states of the slice the "
                f"probability changes by at most {steepest:.3f}",
                worst <= NEAR and steepest <= _STEEP,
            ),
        ),
        drawings=(
            Drawing(
                "cartpole-policy",
                cartpole_policy_figure(runs[0]),
                "Probability of a⁰ (push the cart left) at x = 0, ẋ = 0 after learning, seed 0. "
                "White dots: the constrained states s₅ and s₁₄ (the other 16 are at other "
                "positions, drawn grey beneath); the line is an episode.",
            ),
        ),
    )


def _steepest(policy: Policy, plane: Plane) -> float:
    """The largest change of the probability between neighbours on a grid of the plane."""
    probability = output_over(policy, plane, LEFT)
    return max(float(np.abs(np.diff(probability, axis=axis)).max()) for axis in (0, 1))


def cartpole_plane(run: Run) -> Plane:
    """The slice at x = ẋ = 0."""
    return Plane.of(run.rulebook)


def cartpole_policy_figure(run: Run) -> Figure:
    """The learned policy at x = ẋ = 0, of pushing left as in the paper, with units."""
    assert run.rulebook.picture is not None
    book = replace(run.rulebook, picture=replace(run.rulebook.picture, action=LEFT))
    figure = policy_figure(run, book)
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
    paper, equality = by_name["cartpole_paper"], by_name["cartpole_equality_paper"]
    free = {name: one for name, one in by_name.items() if "unconstrained" in name}
    firsts = {name: average([seed.first for seed in one.seeds]) for name, one in free.items()}
    best = max(firsts, key=lambda name: np.nan_to_num(firsts[name]))
    constrained, without = ([seed.first for seed in one.seeds] for one in (paper, free[best]))
    met = first_met(equality)
    return Content(
        claims=(
            Claim(
                "REINFORCE can be extended with equality constraints (section 3.1).",
                "never on all seeds"
                if met is None
                else f"equalities at the 18 states are met on every seed within {NEAR:g} from "
                f"episode {met} on; first 100 episodes "
                f"{mean_and_deviation([seed.first for seed in equality.seeds])}",
                met is not None,
            ),
        ),
        findings=(
            Finding(
                "The same learner without constraints, everything else alike.",
                f"first 100 episodes: {interquartile_mean(constrained)} with the constraints; "
                f"without, {interquartile_mean(without)} at best "
                f"({free[best].experiment.label}), which passes on {seeds_that_pass(free[best])}. "
                "Probability that a seed with constraints does better: "
                f"{probability_of_improvement(constrained, without).words('.2f')}",
            ),
        ),
        drawings=(
            Drawing(
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
