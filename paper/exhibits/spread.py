"""Section 4.1 on fifty seeds: how the paper's setting spreads, and which part of it does what."""

from __future__ import annotations

import numpy as np

from handrail._types import Array
from paper.drawing.learning import ANOTHER, EXACT, OTHER, PAPER, PLAIN, PLAIN_OTHER, Role
from paper.drawing.measurements import Sample, spread_figure
from paper.exhibit import Content, Drawing, Exhibit, Finding, Table, average, number
from paper.interval import over_seeds, probability_of_improvement, share
from paper.results import Learned, Results, Seed

_SETTINGS: tuple[tuple[str, Role], ...] = (
    ("spread_standardised_frozen", PAPER),
    ("spread_standardised", EXACT),
    ("spread_value_frozen", OTHER),
    ("spread_value", ANOTHER),
    ("spread_raw_frozen", PLAIN),
    ("spread_raw", PLAIN_OTHER),
)
FROZEN = slice(50, 150)  # the 100 episodes after the freeze
_QUANTILES = (0.1, 0.5, 0.9)
_CLOSE = (185.0, 201.0)  # scores, of the panel that shows the pass mark from near


def after_freeze(seed: Seed) -> float:
    """Average score of the 100 episodes after the freeze; NaN if there are fewer."""
    scores = seed.scores[FROZEN]
    return average(scores) if len(scores) == FROZEN.stop - FROZEN.start else float("nan")


def _spread(results: Results) -> Content:
    learned = {name: results.learned(name) for name, _ in _SETTINGS}
    scores = {
        name: np.array([after_freeze(seed) for seed in one.seeds]) for name, one in learned.items()
    }
    samples = [
        Sample(_label(learned[name]), role, scores[name], over_seeds(scores[name]))
        for name, role in _SETTINGS
    ]
    return Content(
        findings=(
            Finding(
                "What freezing after 50 episodes does to the paper's setting.",
                _versus(learned, scores, "spread_standardised_frozen", "spread_standardised"),
                "A frozen policy stays what it was after 50 episodes, so its seeds differ more; "
                "one that goes on with standardised returns is disturbed for ever.",
            ),
            Finding(
                "What standardising does to it, against the raw returns of the paper's algorithms.",
                _versus(learned, scores, "spread_standardised_frozen", "spread_raw_frozen"),
                "Raw returns are all positive: every action that was taken becomes more probable, "
                "at this step size until the network is saturated. Then either no returns can "
                "hold the constraints and the run stops, or they are held and the rest is lost.",
            ),
            Finding(
                "A value function as baseline instead, as the paper's remark on other "
                "policy-gradient methods has it, frozen and not.",
                f"{_versus(learned, scores, 'spread_value_frozen', 'spread_standardised_frozen')}; "
                f"never frozen: {_versus(learned, scores, 'spread_value', 'spread_standardised')}",
            ),
        ),
        drawings=(
            Drawing(
                "cartpole-spread",
                spread_figure(
                    samples,
                    "average score of episodes 50 to 149",
                    _CLOSE,
                    learned["spread_standardised_frozen"].pass_mark,
                ),
                "Cartpole with the paper's update, by what it learns from and whether it is "
                "frozen after 50 episodes. Dots: seeds; bars: interquartile means with 95 % "
                "bootstrap intervals. Right: the same from near.",
            ),
        ),
        tables=(_table(learned, scores),),
    )


def _label(learned: Learned) -> str:
    diverged = f", {len(learned.diverged)} diverge" if learned.diverged else ""
    return f"{learned.label} ({_passing(learned)} of {len(learned.seeds)} pass{diverged})"


def _passing(learned: Learned) -> int:
    return sum(one is not None for one in learned.to_pass())


def _versus(learned: dict[str, Learned], scores: dict[str, Array], one: str, other: str) -> str:
    """Two settings in words: seeds that pass, scores, and how surely the first is better."""
    sides = [
        f"{learned[name].label}: {over_seeds(scores[name]).words()}, "
        f"{_passing(learned[name])} of {len(learned[name].seeds)} pass"
        for name in (one, other)
    ]
    better = probability_of_improvement(scores[one], scores[other]).words(".2f")
    return f"{'; '.join(sides)}; a seed of the first is better with probability {better}"


def _table(learned: dict[str, Learned], scores: dict[str, Array]) -> Table:
    rows = []
    for name, one in learned.items():
        passing, known = _passing(one), scores[name][~np.isnan(scores[name])]
        quantiles = np.quantile(known, _QUANTILES) if len(known) else [np.nan] * len(_QUANTILES)
        rows.append(
            (
                one.label,
                f"{passing} of {len(one.seeds)}",
                share(passing, len(one.seeds)).words(".2f"),
                f"{len(one.diverged)}" if one.diverged else "–",
                over_seeds([seed.first for seed in one.seeds]).words(),
                over_seeds(scores[name]).words(),
                *(number(value) for value in quantiles),
            )
        )
    header = (
        "returns",
        "pass",
        "share [95 %]",
        "diverge",
        "first 100: IQM [95 %]",
        "episodes 50 to 149: IQM [95 %]",
        *(f"{quantile:.0%} quantile" for quantile in _QUANTILES),
    )
    return Table(
        "Seeds that pass (a 100-episode average of 195 within 160 episodes), and scores of those "
        "that did not diverge before.",
        header,
        rows,
    )


SPREAD = Exhibit("cartpole-spread", "Section 4.1", "Cartpole on fifty seeds", _spread)
