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
    interquartile_mean,
    number,
    summary,
)
from paper.exhibits.cartpole import safe_decline, safe_size
from paper.interval import over_seeds
from paper.results import Learned, Results

_LANDED = 100.0  # landing pays 100 beside what the approach paid; crashing costs as much
_FEW = 10.0  # episodes
_JUST_BELOW = (170.0, 200.0)
_SMALL = 0.1  # of what it was in the first episode


def _learning(results: Results) -> Content:
    names = (
        ("lunar_lander_paper", PAPER),
        ("lunar_lander_every_step", CERTIFIED),
        ("lunar_lander_paper_literal", OTHER),
        ("lunar_lander_every_step_literal", ANOTHER),
    )
    lines = [Line(results.learned(name), role) for name, role in names]
    paper, every, literal, literal_every = (line.learned for line in lines)
    landings = [over_seeds(first_landings(learned)) for learned in (paper, literal)]
    last, last_every, last_literal, last_literal_every = (
        over_seeds([seed.last for seed in learned.seeds])
        for learned in (paper, every, literal, literal_every)
    )
    return Content(
        claims=(
            Claim(
                "The agent lands successfully after a few episodes.",
                f"first episode that scores {_LANDED:.0f} or more: episode {landings[0].words()}; "
                f"rows 10 and 11 as printed: episode {landings[1].words()}",
                landings[0].below(_FEW),
            ),
            Claim(
                "After 500 episodes the average of 100 episodes is just below 200.",
                f"last 100 episodes {last.words()} (every 10th step, as the paper), "
                f"{last_every.words()} (every step)",
                last.meets(*_JUST_BELOW),
            ),
            Claim(
                "The same with rows 10 and 11 of its table as printed, 0.1 and -0.1 as vertical "
                "velocity: just below 200.",
                f"last 100 episodes {last_literal.words()} (every 10th step) and "
                f"{last_literal_every.words()} (every step); first 100 "
                f"{interquartile_mean([s.first for s in literal.seeds])}, read as horizontal "
                f"velocity {interquartile_mean([s.first for s in paper.seeds])}",
                last_literal.meets(*_JUST_BELOW),
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


def first_landings(learned: Learned) -> list[float]:
    """Per seed: the first episode that lands; all it had where none does."""
    found = []
    for seed in learned.seeds:
        landed = np.flatnonzero(seed.scores >= _LANDED)
        found.append(float(landed[0]) if len(landed) else float(len(seed.scores)))
    return found


def _loss(results: Results) -> Content:
    paper = results.learned("lunar_lander_paper")
    first, later = safe_size(paper)
    left = safe_decline(paper)
    return Content(
        claims=(
            Claim(
                "The loss was initially high, but declined quickly.",
                f"size √ΣG² of the safe returns: {first:.0f} in episode 0, {number(later, '.0f')} "
                f"on average in episodes 10 to 19: {left.words('.3f')} of it",
                left.below(_SMALL),
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
