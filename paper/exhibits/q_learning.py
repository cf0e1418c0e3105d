"""Figures 10 and 12: double deep Q-learning beside the constrained learner."""

from __future__ import annotations

import numpy as np

from handrail._types import Array
from handrail.report.statistics import WINDOW
from paper.drawing.learning import EXACT, PAPER, Q_LEARNING, Line, comparison_figure, score_figure
from paper.exhibit import (
    Claim,
    Content,
    Drawing,
    Exhibit,
    Table,
    average,
    number,
    seeds_that_pass,
    summary,
)
from paper.experiment import QLearning
from paper.interval import (
    all_of,
    difference,
    over_seeds,
    probability_of_improvement,
    ratio,
    ratio_of_deviations,
)
from paper.results import Learned, Results, Seed

_FEW = 10  # episodes
_ORDER = (10.0**0.5, 10.0**1.5)  # times as long: what rounds to one order of magnitude


def _cartpole(results: Results) -> Content:
    q, paper = results.learned("cartpole_q_learning"), results.learned("cartpole_paper")
    reach = 0.95 * paper.pass_mark
    slow, fast = episodes_to_level(q, reach), episodes_to_level(paper, reach)
    times = ratio(slow, fast)
    return Content(
        claims=(
            Claim(
                "Constraining makes learning much faster than double deep Q-learning.",
                f"an average of {reach:.0f} over ten episodes takes "
                f"{over_seeds(fast).words('.0f')} episodes with constraints{_never(paper, reach)} "
                f"and {over_seeds(slow).words('.0f')} with double Q-learning{_never(q, reach)}, "
                f"{times.words()} times as many (10 is the least there is). A 100-episode average "
                f"of {q.pass_mark:g} is reached on {seeds_that_pass(q)}; the greedy policy scores "
                f"{over_seeds(_greedy(q)).words()} in the end",
                times.above(_ORDER[0]),
                f"Q-learning had the {_timesteps(q):,} steps of its zoo, whose settings are called "
                "almost tuned there; its scores swing to the end.",
            ),
        ),
        drawings=(
            Drawing(
                "cartpole-q-learning",
                score_figure(Line(q, Q_LEARNING)),
                "Cartpole with double deep Q-learning: Stable-Baselines3, settings of its zoo.",
            ),
            Drawing(
                "cartpole-q-learning-compared",
                comparison_figure([Line(paper, PAPER), Line(q, Q_LEARNING)]),
                "Both; the constrained policy is frozen after 50 episodes. Q-learning's mean is "
                "drawn as long as most of its seeds, which differ in episodes, go on.",
            ),
        ),
        tables=(
            summary([paper, q], "Mean ± standard deviation over seeds."),
            _greedy_table(q),
        ),
    )


def _lunar_lander(results: Results) -> Content:
    q, paper = results.learned("lunar_lander_q_learning"), results.learned("lunar_lander_paper")
    exact = results.learned("lunar_lander_exact")
    final, lasts, exact_lasts = ([seed.last for seed in one.seeds] for one in (q, paper, exact))
    level = average(lasts)
    reach = 0.9 * level
    slow, fast = episodes_to_level(q, reach), episodes_to_level(paper, reach)
    times = ratio(slow, fast)
    better = probability_of_improvement(final, lasts)
    return Content(
        claims=(
            Claim(
                "Double deep Q-learning is one order of magnitude slower.",
                f"a ten-episode average of {number(reach, '.0f')} (nine tenths of what the "
                f"constrained learner ends with) takes {over_seeds(fast).words('.0f')} episodes "
                f"with constraints and {over_seeds(slow).words('.0f')} with double Q-learning"
                f"{_never(q, reach)}: {times.words()} times as many",
                times.meets(*_ORDER),
            ),
            Claim(
                "It reaches slightly higher average scores by the end of the training.",
                f"last 100 episodes: double Q-learning {over_seeds(final).words()} while it "
                f"explores (greedy policy in the end: {over_seeds(_greedy(q)).words()}), the "
                f"paper's setting {over_seeds(lasts).words()}, exact enforcement "
                f"{over_seeds(exact_lasts).words()}. Probability that a seed of double Q-learning "
                f"does better than one of the paper's setting: {better.words('.2f')}",
                None if still_rising(q) else difference(final, lasts).above(0.0),
                _end_of_q_learning(q, level),
            ),
            _steadiness(paper, q),
        ),
        drawings=(
            Drawing(
                "lunar-lander-q-learning",
                score_figure(Line(q, Q_LEARNING)),
                "Lunar Lander with double deep Q-learning.",
            ),
            Drawing(
                "lunar-lander-q-learning-compared",
                comparison_figure(
                    [Line(paper, PAPER), Line(exact, EXACT), Line(q, Q_LEARNING)], until=500
                ),
                "Double Q-learning beside the constrained learner: the paper's setting, and exact. "
                "Q-learning's mean is drawn as long as most of its seeds, which differ in "
                "episodes, go on: towards the end it is that of those with short episodes.",
            ),
        ),
        tables=(
            summary([paper, exact, q], "Mean ± standard deviation over seeds."),
            _greedy_table(q),
        ),
    )


def episodes_to_level(learned: Learned, level: float) -> Array:
    """Per seed: episodes until a ten-episode average of the level; all it had if never."""
    reached = [_first_at(seed, level) for seed in learned.seeds]
    ended = [len(seed.scores) for seed in learned.seeds]
    pairs = zip(reached, ended, strict=True)
    return np.array([float(last if first is None else first) for first, last in pairs])


def _first_at(seed: Seed, level: float) -> int | None:
    """Episodes until a ten-episode average of the level; None if never."""
    if len(seed.scores) < _FEW:
        return None
    averages = np.convolve(seed.scores, np.ones(_FEW) / _FEW, mode="valid")
    found = np.flatnonzero(averages >= level)
    return int(found[0]) + _FEW if len(found) else None


def _never(learned: Learned, level: float) -> str:
    """How many seeds never reach a level, in brackets; empty if all do."""
    count = sum(_first_at(seed, level) is None for seed in learned.seeds)
    return f" ({count} of {len(learned.seeds)} seeds never)" if count else ""


def still_rising(learned: Learned) -> bool:
    """Whether the last 50 episodes score clearly more than the 50 before, over seeds."""
    halves = [(seed.scores[-100:-50], seed.scores[-50:]) for seed in learned.seeds]
    before, after = (average([average(half) for half in one]) for one in zip(*halves, strict=True))
    return after > before + 5.0


def _end_of_q_learning(q: Learned, level: float) -> str:
    """What to know about a comparison of final scores."""
    higher = sum(score > level for score in _greedy(q))
    text = (
        f"After {_timesteps(q):,} steps, with the settings of its zoo, the greedy policy of "
        f"Q-learning is better than the paper's setting on {higher} of {len(q.seeds)} seeds, and "
        "seeds differ a lot. The paper does not give its settings nor for how long it learned."
    )
    return f"{text} It was still getting better." if still_rising(q) else text


def _timesteps(learned: Learned) -> int:
    study = learned.experiment.study
    assert isinstance(study, QLearning)
    return study.timesteps


def _greedy(learned: Learned) -> list[float]:
    """What the final policies score without exploration."""
    return [float(seed.greedy.mean()) for seed in learned.seeds if seed.greedy is not None]


def _steadiness(paper: Learned, q: Learned) -> Claim:
    """Between seeds, and from episode to episode, at the end of learning."""
    lasts = [[seed.last for seed in one.seeds] for one in (q, paper)]
    between = ratio_of_deviations(*lasts)
    within = ratio(*([float(s.scores[-WINDOW:].std()) for s in one.seeds] for one in (q, paper)))
    return Claim(
        "Constraints reduce oscillations and the variance between random seeds.",
        "standard deviation of double Q-learning over that with constraints, each at the end of "
        f"its own learning: {between.words('.2f')} between the last-100 averages of seeds, "
        f"{within.words('.2f')} between the last 100 scores of a seed",
        all_of((between.above(1.0), within.above(1.0))),
    )


def _greedy_table(q: Learned) -> Table:
    rows = [
        [str(seed.number), str(len(seed.scores)), number(seed.last), f"{seed.greedy.mean():.1f}"]
        for seed in q.seeds
        if seed.greedy is not None
    ]
    header = ("seed", "episodes", "last 100 while exploring", "greedy policy in the end")
    return Table("Double Q-learning, seed by seed.", header, rows)


Q_LEARNING_CARTPOLE = Exhibit(
    "cartpole-q-learning", "Figure 10", "Cartpole, double deep Q-learning", _cartpole
)
Q_LEARNING_LUNAR_LANDER = Exhibit(
    "lunar-lander-q-learning",
    "Figure 12",
    "Lunar Lander, double deep Q-learning",
    _lunar_lander,
)
