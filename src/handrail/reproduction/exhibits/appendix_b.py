"""Appendix B: four disks, and which of their states each strategy constrains."""

from __future__ import annotations

import numpy as np

from handrail.arrays import Array, Indices
from handrail.pictures import default_plane
from handrail.policy_picture import constrained_regions
from handrail.reproduction.choosing_states import Choices
from handrail.reproduction.drawing.regions import choice_figure, maps_figure
from handrail.reproduction.exhibit import Content, Exhibit, Finding, Picture, Table
from handrail.reproduction.results import Results
from handrail.rulebook import load

_FULFILLED = 1e-4
_STRATEGIES = (
    ("disks_return", "maximum return", "required return"),
    ("disks_deviation", "maximum deviation", "deviation of π(a⁰) from its bound"),
)


def _choice(results: Results) -> Content:
    choices = {name: results.choices(name) for name, _, _ in _STRATEGIES}
    worst = {name: _worst(found) for name, found in choices.items()}
    last = len(next(iter(worst.values()))) - 1
    even = [_evenness(found) for found in choices.values()]
    moves = [_distinct(found) for found in choices.values()]
    return Content(
        findings=(
            Finding(
                "With both strategies the regional constraints are fulfilled by the 9th episode.",
                "; ".join(
                    f"{title}: worst violation of all seeds in episode {last} {worst[name][-1]:.1e}"
                    for name, title, _ in _STRATEGIES
                ),
                results.judge(all(one[-1] <= _FULFILLED for one in worst.values())),
            ),
            Finding(
                "In episode 0, when the policy is random, return and deviation are almost the "
                "same in the whole region.",
                f"largest over smallest value in the region: {even[0]:.2f} (return) and "
                f"{even[1]:.2f} (deviation), median of the seeds",
                results.judge(max(even) < 1.25),
            ),
            Finding(
                "The location of the state to be constrained is always around the same value.",
                f"of {last + 1} episodes, the state chosen most often is chosen "
                f"{moves[0]:.0f} times (return) and {moves[1]:.0f} times (deviation), median of "
                "the seeds",
                results.judge(min(moves) >= 0.5 * (last + 1)),
                "Once the constraints hold, what is left to compare are differences far below the "
                "bound, and the choice moves along the rim.",
            ),
        ),
        pictures=(
            Picture(
                "disks-choice",
                choice_figure(
                    [(title, what, choices[name][0]) for name, title, what in _STRATEGIES],
                    _around(results),
                ),
                "What the state of the first disk is chosen by, over its 30 points, in each of "
                "ten episodes (seed 0). At most 0: nothing is left to do.",
            ),
        ),
        tables=(
            Table(
                "Worst violation at the 120 points as each episode begins, worst of all seeds.",
                ("strategy", *(str(episode) for episode in range(last + 1))),
                [
                    (title, *(f"{value:.1e}" for value in worst[name]))
                    for name, title, _ in _STRATEGIES
                ],
            ),
        ),
    )


def _worst(found: list[Choices]) -> Array:
    worst: Array = np.max([one.worst for one in found], axis=0)
    return worst


def _around(results: Results) -> Indices:
    """The points of the first disk by their angle: the rim and what lies inside, once around."""
    n_points = len(results.choices(_STRATEGIES[0][0])[0].scores[0])
    points = constrained_regions(load("cartpole_disks"))[0].cover(n_points)[:, 2:]
    phi, phi_dot = (points - points.mean(axis=0)).T
    return np.argsort(np.arctan2(phi_dot, phi), kind="stable")


def _evenness(found: list[Choices]) -> float:
    """Largest over smallest value in the first episode, the median of the seeds."""
    return float(np.median([one.scores[0].max() / one.scores[0].min() for one in found]))


def _distinct(found: list[Choices]) -> float:
    """How often the most frequent choice was made, the median of the seeds."""
    return float(np.median([np.unique(one.chosen, return_counts=True)[1].max() for one in found]))


def _policies(results: Results) -> Content:
    book = load("cartpole_disks")
    plane = default_plane(book)
    assert plane is not None
    assert book.picture is not None
    seeds = {name: results.choices(name) for name, _, _ in _STRATEGIES}
    last = [[one.maps[-1].probability for one in found] for found in seeds.values()]
    difference = float(np.mean([np.abs(a - b).mean() for a, b in zip(*last, strict=True)]))
    return Content(
        findings=(
            Finding(
                "The two strategies yield policies that are only slightly different from each "
                "other after learning from 9 episodes.",
                f"probabilities on the slice differ by {difference:.3f} on average (same seed, all "
                "seeds)",
                results.judge(difference <= 0.1),
            ),
        ),
        pictures=(
            Picture(
                "disks-policy",
                maps_figure(
                    [(title, seeds[name][0].maps) for name, title, _ in _STRATEGIES],
                    constrained_regions(book),
                    plane,
                    book.actions[book.picture.action],
                ),
                "Probability of a⁰ at x = 0, ẋ = 0 as the episode begins, with the disks (grey), "
                "the states that its update constrains (stars) and its trajectory, seed 0.",
            ),
        ),
    )


APPENDIX_B = (
    Exhibit("disks-choice", "Figure 15", "What states of a disk are chosen by", _choice),
    Exhibit("disks-policy", "Figure 16", "The policy with four disks", _policies),
)
