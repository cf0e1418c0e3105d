"""Appendix B: four disks, and which of their states each strategy constrains."""

from __future__ import annotations

import numpy as np

from handrail._types import Array, Indices
from handrail.report import Plane
from handrail.report.subject import Domain
from handrail.rulebook import load_rulebook
from paper.drawing.regions import choice_figure, maps_figure
from paper.exhibit import Claim, Content, Drawing, Exhibit, Table, average
from paper.interval import all_of, over_seeds
from paper.results import Results
from paper.state_choice import Choices

_FULFILLED = 1e-4
_ALMOST_THE_SAME = 1.25  # times the smallest
_SELDOM = 0.1  # of the cases
_NEARBY = 0.05  # half of a disk's diameter
_SLIGHTLY = 0.1  # of probability
_STRATEGIES = (
    ("disks_return", "maximum return", "required return"),
    ("disks_deviation", "maximum deviation", "deviation of π(a⁰) from its bound"),
)


def _choice(results: Results) -> Content:
    choices = {name: results.choices(name) for name, _, _ in _STRATEGIES}
    worst = {name: _worst(found) for name, found in choices.items()}
    last = len(next(iter(worst.values()))) - 1
    even, grows, moves = (
        [over_seeds([of(one) for one in found]) for found in choices.values()]
        for of in (_evenness, _growing, _moves)
    )
    needed = [max(float(one.scores[-1].max()) for one in found) for found in choices.values()]
    return Content(
        claims=(
            Claim(
                "With both strategies the regional constraints are fulfilled by the 9th episode.",
                "; ".join(
                    f"{title}: worst violation of all seeds in episode {last} {worst[name][-1]:.1e}"
                    for name, title, _ in _STRATEGIES
                )
                + f". Largest required return then: {needed[0]:.0f}, to keep them fulfilled",
                all(one[-1] <= _FULFILLED for one in worst.values()),
            ),
            Claim(
                "In episode 0, when the policy is random, return and deviation are almost the "
                "same in the whole region.",
                f"largest over smallest value in the region: {even[0].words('.2f')} (return) and "
                f"{even[1].words('.2f')} (deviation)",
                all_of(one.below(_ALMOST_THE_SAME) for one in even),
            ),
            Claim(
                "Episode by episode, the return that is needed, or the deviation, decreases.",
                "the largest value over the region grows from one episode to the next in "
                f"{grows[0].words('.0%')} (return) and {grows[1].words('.0%')} (deviation) of the "
                "cases",
                all_of(one.below(_SELDOM) for one in grows),
                "A required return is made up for what the episode's own steps would do, which "
                "differs from episode to episode.",
            ),
            Claim(
                "The location of the state to be constrained is always around the same value.",
                f"distance between the states chosen in consecutive episodes, after the first: "
                f"{moves[0].words('.3f')} (return) and {moves[1].words('.3f')} (deviation), on "
                "disks of diameter 0.1",
                all_of(one.below(_NEARBY) for one in moves),
            ),
        ),
        drawings=(
            Drawing(
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
    points = _points(len(results.choices(_STRATEGIES[0][0])[0].scores[0]))
    phi, phi_dot = (points - points.mean(axis=0)).T
    return np.argsort(np.arctan2(phi_dot, phi), kind="stable")


def _evenness(one: Choices) -> float:
    """Largest over smallest value in the first episode."""
    return float(one.scores[0].max() / max(one.scores[0].min(), 1e-12))


def _growing(one: Choices) -> float:
    """In how many of the steps from one episode to the next the largest value grows."""
    return average(np.diff(one.scores.max(axis=1)) > 0.0)


def _moves(one: Choices) -> float:
    """Mean distance of consecutive choices; in the first episode all points are alike."""
    path = _points(len(one.scores[0]))[one.chosen[1:]]
    return average(np.linalg.norm(np.diff(path, axis=0), axis=1))


def _points(n_points: int) -> Array:
    """(n_points, 2) of the first disk, as the study cut it."""
    points: Array = Domain.of("cartpole_disks").regions[0].cover(n_points)[:, 2:]
    return points


def _policies(results: Results) -> Content:
    book = load_rulebook("cartpole_disks")
    plane = Plane.of(book)
    assert book.picture is not None
    seeds = {name: results.choices(name) for name, _, _ in _STRATEGIES}
    last = [[one.maps[-1].probability for one in found] for found in seeds.values()]
    lengths = over_seeds(
        [len(one.maps[-1].trajectory) for found in seeds.values() for one in found]
    )
    difference = over_seeds([np.abs(a - b).mean() for a, b in zip(*last, strict=True)])
    return Content(
        claims=(
            Claim(
                "The two strategies yield policies that are only slightly different from each "
                "other after learning from 9 episodes.",
                f"probabilities on the slice differ by {difference.words('.3f')} (same seed)",
                difference.below(_SLIGHTLY),
            ),
            Claim(
                "The disks are arbitrary: in the Cartpole environment they yield a bad policy.",
                f"the last episodes shown last {lengths.words('.0f')} of 200 steps (both "
                "strategies)",
                lengths.below(100.0),
            ),
        ),
        drawings=(
            Drawing(
                "disks-policy",
                maps_figure(
                    [(title, seeds[name][0].maps) for name, title, _ in _STRATEGIES],
                    Domain.of(book).regions,
                    plane,
                    book.actions[book.picture.action],
                ),
                "Probability of a⁰ at x = 0, ẋ = 0 as the episode begins, with the disks (grey), "
                "the states that its update constrains (stars) and its trajectory, seed 0.",
            ),
        ),
    )


DISKS = (
    Exhibit("disks-choice", "Figure 15", "What states of a disk are chosen by", _choice),
    Exhibit("disks-policy", "Figure 16", "The policy with four disks", _policies),
)
