"""What is known of each environment, in full and one-sided: true, but not the whole truth.

One-sided is what pushes to some sides of a choice and leaves another without advocate
(`cover_both_sides`). Every set is made from fixed seeds and has a name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from benchmarks.influence.navigation import DISK, DOWN, RIGHT, UP
from handrail import AtLeast, AtMost, Box, Constraint, Points, load_rulebook
from handrail.constraints import PlacedConstraint, concatenate
from handrail.enforcement.rail import cover_both_sides

NOTHING = "nothing"  # the set of whoever knows nothing
FULL = "full"  # the bundled file's points
BOXES = "boxes"  # as much on boxes, where a state that is visited can lie

_RANDOM_HALVES = 2

Sets = Mapping[str, tuple[Constraint, ...]]


@cache
def sets_of(environment: str) -> Sets:
    """Everything that is known of an environment in some cell, by name."""
    return {NOTHING: (), **_ONE_SIDED[environment](), **_two_sided(environment)}


def one_sided(environment: str) -> tuple[str, ...]:
    """The names of its one-sided sets."""
    return tuple(_ONE_SIDED[environment]())


def is_one_sided(constraints: Sequence[Constraint], n_actions: int) -> bool:
    """Whether some side of the choice has no advocate."""
    return not cover_both_sides(concatenate([one.rows(n_actions) for one in constraints]))


def is_on_regions(constraints: Sequence[Constraint]) -> bool:
    """Whether states that are visited can lie where they speak, which at points is never so."""
    return any(isinstance(one, PlacedConstraint) and one.region is not None for one in constraints)


def _two_sided(environment: str) -> Sets:
    if environment not in _BOXES:
        return {}
    return {FULL: load_rulebook(_FILES[environment]).constraints, BOXES: _BOXES[environment]()}


# Parts of what a file says


def _points_of(file: str) -> list[PlacedConstraint]:
    """The file's constraints, every state by itself."""
    found = []
    for one in load_rulebook(file).constraints:
        assert isinstance(one, PlacedConstraint)
        for number, state in enumerate(one.states):
            found.append(one.moved_to(Points(state[None]), f"{one.name} [{number}]"))
    return found


def _half(of: Sequence[Constraint], seed: int) -> tuple[Constraint, ...]:
    """A random half, in the order of the whole."""
    chosen = np.random.default_rng(seed).permutation(len(of))[: len(of) // 2]
    return tuple(of[index] for index in sorted(chosen))


def _one_sided_halves(of: Sequence[Constraint], n_actions: int, count: int) -> Sets:
    """Random halves, but for those that happen to cover all sides and those drawn before."""
    halves: dict[str, tuple[Constraint, ...]] = {}
    seed = 0
    while len(halves) < count:
        half, seed = _half(of, seed), seed + 1
        if half not in halves.values() and is_one_sided(half, n_actions):
            halves[f"half_{seed - 1}"] = half
    return halves


def _groups(file: str) -> dict[str, list[Constraint]]:
    """Each constraint of the file, with all its states and all that it requires there."""
    groups: dict[str, list[Constraint]] = {}
    for one in load_rulebook(file).constraints:
        groups.setdefault(one.name.partition(":")[0], []).append(one)
    return groups


def _named(sets: Mapping[str, Sequence[Constraint]]) -> Sets:
    """Names that a file can have, too."""
    return {
        name.replace(",", "").replace(" ", "_"): tuple(members) for name, members in sets.items()
    }


# Cartpole: x, velocity, angle, angular velocity; left, right


def _cartpole() -> Sets:
    points = _points_of("cartpole_500")
    sides = {"right": points[:9], "left": points[9:]}
    boxes = dict(zip(("box_right", "box_left"), _cartpole_boxes(), strict=True))
    return _named(
        {
            **_groups("cartpole_500"),
            **{f"half_of_{name}": _half(side, 0) for name, side in sides.items()},
            **{name: (box,) for name, box in boxes.items()},
        }
    )


def _cartpole_boxes() -> tuple[Constraint, ...]:
    """A pole that leans and falls on: push to where it leans.

    Not quite true in the corners: where the cart is far off and fast, LQR leans the pole the other
    way, to bring it back.
    """
    low, high = np.array([-2.0, -1.0, 0.1, 0.0]), np.array([2.0, 1.0, 0.2, 1.0])
    return (
        AtLeast(0.95, 1, Box(low, high), "leaning right"),
        AtLeast(0.95, 0, Box(-high, -low), "leaning left"),
    )


# Lunar Lander: x, y, their velocities, angle, angular velocity, legs; nothing, left, main, right


def _lunar_lander() -> Sets:
    points = _points_of("lunar_lander")
    return _named({**_groups("lunar_lander"), **_one_sided_halves(points, 4, _RANDOM_HALVES)})


def _lunar_lander_boxes() -> tuple[Constraint, ...]:
    """As the file, with room: turn upright, brake near the ground, engines off after landing."""
    low = np.array([-0.5, 0.2, -0.8, -1.2, 0.3, -0.1, 0.0, 0.0])
    high = np.array([0.5, 1.5, 0.8, 0.0, 0.8, 0.5, 0.0, 0.0])
    mirror = np.array([-1.0, 1.0, -1.0, 1.0, -1.0, -1.0, 1.0, 1.0])
    tilted_left = np.sort([low * mirror, high * mirror], axis=0)
    falling = Box([-0.4, 0.1, -0.5, -1.4, -0.2, -0.3, 0, 0], [0.4, 0.6, 0.5, -0.5, 0.2, 0.3, 0, 0])
    still = np.array([0.3, 0.1, 0.05, 0.05, 0.1, 0.05])
    landed = Box([*-still, 1, 1], [*still, 1, 1])
    return (
        AtLeast(0.9, 0, landed, "landed, engines off"),
        AtLeast(0.9, 2, falling, "falling, brake"),
        AtLeast(0.9, 1, Box(*tilted_left), "tilted left, turn upright"),
        AtLeast(0.9, 3, Box(low, high), "tilted right, turn upright"),
    )


# Acrobot: angles and velocities of two links; torque -1, 0, 1


def _acrobot() -> Sets:
    points = _points_of("acrobot")
    sides = {"forward": points[:6], "backward": points[6:]}
    halves = {f"half_of_{name}": _half(side, 0) for name, side in sides.items()}
    return _named({**_groups("acrobot"), **halves})


# Mountain car: position, velocity; left, nothing, right


def _mountain_car() -> Sets:
    """Push the way the car rolls, on either side of the valley's bottom."""
    boxes = {
        f"{direction}_{place}": (AtLeast(0.9, action, Box(low, high), f"{direction}, {place}"),)
        for direction, action, speeds in (("right", 2, (0.01, 0.07)), ("left", 0, (-0.07, -0.01)))
        for place, ends in (("uphill", (-0.5, 0.4)), ("downhill", (-1.1, -0.5)))
        for low, high in ([*zip(ends, speeds, strict=True)],)
    }
    return _named(boxes)


# Navigation: two coordinates; left, right, down, up


def _navigation() -> Sets:
    """Three times "don't", where the disk is next."""
    edge = DISK + 0.12
    donts = (
        AtMost(0.05, RIGHT, Box([-edge, -0.2], [-DISK, 0.2]), "in front"),
        AtMost(0.05, DOWN, Box([-0.2, DISK], [0.2, edge]), "above"),
        AtMost(0.05, UP, Box([-0.2, -edge], [0.2, -DISK]), "below"),
    )
    return _named({**{one.name: (one,) for one in donts}, "all_three": donts})


_FILES = {"cartpole": "cartpole_500", "lunar_lander": "lunar_lander"}
_BOXES = {"cartpole": _cartpole_boxes, "lunar_lander": _lunar_lander_boxes}
_ONE_SIDED = {
    "cartpole": _cartpole,
    "lunar_lander": _lunar_lander,
    "acrobot": _acrobot,
    "mountain_car": _mountain_car,
    "navigation": _navigation,
}
