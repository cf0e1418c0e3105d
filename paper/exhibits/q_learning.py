"""Figures 10 and 12: double deep Q-learning beside the constrained learner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

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
    interquartile_mean,
    number,
    seeds_that_pass,
    summary,
)
from paper.experiment import QLearning
from paper.interval import (
    Interval,
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
    exact = results.learned("cartpole_exact")
    reach = 0.95 * paper.pass_mark
    race = Race(reach_of(paper, reach), reach_of(q, reach))
    return Content(
        claims=(
            Claim(
                "Constraining makes learning much faster than double deep Q-learning.",
                f"an average of {reach:.0f} over ten episodes takes {race.words} (10 is the least "
                f"there is). A 100-episode average of {q.pass_mark:g} is reached on "
                f"{seeds_that_pass(q)}; the greedy policy scores "
                f"{over_seeds(_greedy(q)).words()} in the end",
                race.episodes.above(_ORDER[0]),
                "Episodes are what the paper counts. The first ones of Q-learning are short, since "
                "the pole falls, so it takes fewer times as many steps.",
            ),
        ),
        drawings=(
            Drawing(
                "cartpole-q-learning",
                score_figure(Line(q, Q_LEARNING)),
                "Cartpole with double deep Q-learning.",
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
            _same_terms([paper, exact, q], reach),
            _greedy_table(q),
        ),
    )


def _lunar_lander(results: Results) -> Content:
    q, paper = results.learned("lunar_lander_q_learning"), results.learned("lunar_lander_paper")
    exact = results.learned("lunar_lander_exact")
    final, lasts, exact_lasts = ([seed.last for seed in one.seeds] for one in (q, paper, exact))
    level = average(lasts)
    reach = 0.9 * level
    race = Race(reach_of(paper, reach), reach_of(q, reach))
    better = probability_of_improvement(final, lasts)
    return Content(
        claims=(
            Claim(
                "Double deep Q-learning is one order of magnitude slower.",
                f"a ten-episode average of {number(reach, '.0f')} (nine tenths of what the "
                f"constrained learner ends with) takes {race.words}",
                race.episodes.meets(*_ORDER),
            ),
            Claim(
                "It reaches slightly higher average scores by the end of the training.",
                f"last 100 episodes: double Q-learning {over_seeds(final).words()} while it "
                f"explores (greedy policy in the end: {over_seeds(_greedy(q)).words()}), the "
                f"paper's setting {over_seeds(lasts).words()}, exact enforcement "
                f"{over_seeds(exact_lasts).words()}. Probability that a seed of double Q-learning "
                f"does better than one of the paper's setting: {better.words('.2f')}, than one of "
                f"exact enforcement: {probability_of_improvement(final, exact_lasts).words('.2f')}",
                None if still_rising(q) else difference(final, lasts).above(0.0),
                _end_of_q_learning(q, level),
            ),
            _steadiness(paper, exact, q),
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
            _same_terms([paper, exact, q], reach),
            _greedy_table(q),
        ),
    )


@final
@dataclass(frozen=True)
class Reach:
    """What each seed needed until a ten-episode average of a level; all it had if never.

    Attributes:
        episodes: (seeds,).
        steps: in the environment, (seeds,).
        never: how many seeds did not reach it.
    """

    episodes: Array
    steps: Array
    never: int

    @property
    def words(self) -> str:
        """With intervals."""
        count = len(self.episodes)
        never = f" ({self.never} of {count} seeds never)" if self.never else ""
        return (
            f"{over_seeds(self.episodes).words('.0f')} episodes and "
            f"{over_seeds(self.steps).words('.0f')} steps{never}"
        )


@final
@dataclass(frozen=True)
class Race:
    """Constrained learning and double Q-learning to the same level."""

    constrained: Reach
    q: Reach

    @property
    def episodes(self) -> Interval:
        """How many times as many Q-learning needs."""
        return ratio(self.q.episodes, self.constrained.episodes)

    @property
    def words(self) -> str:
        """Of both, and how many times as much."""
        steps = ratio(self.q.steps, self.constrained.steps)
        return (
            f"{self.constrained.words} with constraints, {self.q.words} with double Q-learning: "
            f"{self.episodes.words()} times the episodes and {steps.words()} times the steps"
        )


def reach_of(learned: Learned, level: float) -> Reach:
    """Until a ten-episode average of the level, seed by seed."""
    reached = [_first_at(seed, level) for seed in learned.seeds]
    ended = [len(seed.scores) for seed in learned.seeds]
    episodes = [last if one is None else one for one, last in zip(reached, ended, strict=True)]
    steps = [
        float(seed.steps[count - 1]) if count else 0.0
        for seed, count in zip(learned.seeds, episodes, strict=True)
    ]
    return Reach(np.array(episodes, float), np.array(steps), reached.count(None))


def _first_at(seed: Seed, level: float) -> int | None:
    """Episodes until a ten-episode average of the level; None if never."""
    if len(seed.scores) < _FEW:
        return None
    averages = np.convolve(seed.scores, np.ones(_FEW) / _FEW, mode="valid")
    found = np.flatnonzero(averages >= level)
    return int(found[0]) + _FEW if len(found) else None


def still_rising(learned: Learned) -> bool:
    """Whether the last 50 episodes score clearly more than the 50 before, over seeds."""
    halves = [(seed.scores[-100:-50], seed.scores[-50:]) for seed in learned.seeds]
    before, after = (average([average(half) for half in one]) for one in zip(*halves, strict=True))
    return after > before + 5.0


def _end_of_q_learning(q: Learned, level: float) -> str:
    """What to know about a comparison of final scores."""
    greedy = _greedy(q)
    higher, solved = (sum(score > mark for score in greedy) for mark in (level, q.pass_mark))
    text = (
        f"After {_timesteps(q):,} steps, the greedy policy of Q-learning is better than what the "
        f"paper's setting ends with on {higher} of {len(greedy)} seeds, and scores more than "
        f"{q.pass_mark:g} on {solved}. Its settings were searched for on other seeds; the paper "
        "gives neither its own nor for how long it learned."
    )
    return f"{text} It was still getting better." if still_rising(q) else text


def _timesteps(learned: Learned) -> int:
    study = learned.experiment.study
    assert isinstance(study, QLearning)
    return study.timesteps


def _greedy(learned: Learned) -> list[float]:
    """What the final policies score without exploration."""
    return [float(seed.greedy.mean()) for seed in learned.seeds if seed.greedy is not None]


def _steadiness(paper: Learned, exact: Learned, q: Learned) -> Claim:
    """Between seeds, and from episode to episode, at the end of learning."""
    between, held = (
        ratio_of_deviations(*([seed.last for seed in one.seeds] for one in (q, other)))
        for other in (paper, exact)
    )
    within = ratio(*([float(s.scores[-WINDOW:].std()) for s in one.seeds] for one in (q, paper)))
    return Claim(
        "Constraints reduce oscillations and the variance between random seeds.",
        "standard deviation of double Q-learning over that with constraints, each at the end of "
        f"its own learning: {between.words('.2f')} between the last-100 averages of seeds "
        f"(constraints held exactly: {held.words('.2f')}), {within.words('.2f')} between the last "
        "100 scores of a seed",
        all_of((between.above(1.0), within.above(1.0))),
        "A policy of REINFORCE goes on drawing its actions at random, a value function hardly does "
        "in the end: that is what differs from episode to episode.",
    )


def _same_terms(learners: Sequence[Learned], level: float) -> Table:
    """What each needs to the same level, and where it ends."""
    rows = []
    for one in learners:
        reached = reach_of(one, level)
        lasts = [seed.last for seed in one.seeds]
        rows.append(
            [
                one.experiment.title,
                f"{len(one.seeds) - reached.never} of {len(one.seeds)}",
                over_seeds(reached.episodes).words(".0f"),
                over_seeds(reached.steps).words(".0f"),
                interquartile_mean(_greedy(one) or lasts),
                number(float(np.std(_greedy(one) or lasts, ddof=1)) if len(lasts) > 1 else np.nan),
            ]
        )
    header = ("learner", "reach it", "episodes", "environment steps", "in the end", "deviation")
    return Table(
        f"On the same terms: until a ten-episode average of {number(level, '.0f')} (seeds that "
        "never reach it count with all they had), then what it scores in the end (Q-learning: the "
        "greedy policy; others: the last 100 episodes) and the standard deviation of that between "
        "seeds. Interquartile means with 95 % intervals.",
        header,
        rows,
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
