"""Section 4.2: figures 11 and 13."""

from __future__ import annotations

import numpy as np

from paper.drawing.learning import (
    ANOTHER,
    CERTIFIED,
    OTHER,
    PAPER,
    Line,
    comparison_figure,
    loss_figure,
    score_figure,
)
from paper.exhibit import (
    Claim,
    Content,
    Drawing,
    Exhibit,
    average,
    mean_and_deviation,
    number,
    summary,
)
from paper.exhibits.cartpole import safe_size
from paper.results import Learned, Results

_LANDED = 100.0  # landing pays 100 beside what the approach paid; crashing costs as much


def _learning(results: Results) -> Content:
    names = (
        ("lunar_lander_paper", PAPER),
        ("lunar_lander_every_step", CERTIFIED),
        ("lunar_lander_paper_literal", OTHER),
        ("lunar_lander_every_step_literal", ANOTHER),
    )
    lines = [Line(results.learned(name), role) for name, role in names]
    paper, every, literal, literal_every = (line.learned for line in lines)
    landings = [_first_landing(learned) for learned in (paper, literal)]
    lasts = [[seed.last for seed in learned.seeds] for learned in (paper, every, literal)]
    level = average(lasts[0])
    return Content(
        claims=(
            Claim(
                "The agent lands successfully after a few episodes.",
                f"first episode that scores {_LANDED:.0f} or more: episode {landings[0]:g} "
                f"(median of the seeds); rows 10 and 11 as printed: episode {landings[1]:g}",
                landings[0] <= 10.0,
            ),
            Claim(
                "After 500 episodes the average of 100 episodes is just below 200.",
                f"last 100 episodes {mean_and_deviation(lasts[0])} (every 10th step, as the "
                f"paper), {mean_and_deviation(lasts[1])} (every step)",
                170.0 <= level < 200.0,
            ),
            Claim(
                "The same with rows 10 and 11 of its table as printed, 0.1 and -0.1 as vertical "
                "velocity: just below 200.",
                f"last 100 episodes {mean_and_deviation(lasts[2])} (every 10th step) and "
                f"{mean_and_deviation([s.last for s in literal_every.seeds])} (every step); first "
                f"100 {mean_and_deviation([s.first for s in literal.seeds])}, read as horizontal "
                f"velocity {mean_and_deviation([s.first for s in paper.seeds])}",
                170.0 <= average(lasts[2]) < 200.0,
                "The text speaks of the horizontal velocity, and the signs mirror x: we take the "
                "column for a misprint. Both files come with Handrail.",
            ),
        ),
        drawings=(
            Drawing(
                "lunar-lander",
                score_figure(Line(paper, PAPER)),
                "Lunar Lander with 11 constraints, every 10th step, the paper's setting.",
            ),
            Drawing(
                "lunar-lander-readings",
                comparison_figure(lines),
                "Every 10th step and every step, with both readings of rows 10 and 11.",
            ),
        ),
        tables=(
            summary(
                [line.learned for line in lines],
                "Mean ± standard deviation over seeds. Pass: a 100-episode average of 200.",
            ),
        ),
    )


def _first_landing(learned: Learned) -> float:
    """The median over seeds of the first episode that lands; all it had where none does."""
    found = []
    for seed in learned.seeds:
        landed = np.flatnonzero(seed.scores >= _LANDED)
        found.append(float(landed[0]) if len(landed) else float(len(seed.scores)))
    return float(np.median(found))


def _loss(results: Results) -> Content:
    paper = results.learned("lunar_lander_paper")
    first, later = safe_size(paper)
    return Content(
        claims=(
            Claim(
                "The loss was initially high, but declined quickly.",
                f"size √ΣG² of the safe returns: {first:.0f} in episode 0, {number(later, '.0f')} "
                "on average in episodes 10 to 19",
                first > 10.0 * later,
            ),
        ),
        drawings=(
            Drawing(
                "lunar-lander-loss",
                loss_figure(
                    [
                        Line(paper, PAPER),
                        Line(results.learned("lunar_lander_every_step"), CERTIFIED),
                    ]
                ),
                "Episode loss of Lunar Lander.",
            ),
        ),
    )


LUNAR_LANDER = Exhibit("lunar-lander", "Figure 11", "Lunar Lander, 11 constraints", _learning)
LUNAR_LANDER_LOSS = Exhibit("lunar-lander-loss", "Figure 13", "Episode loss of Lunar Lander", _loss)
