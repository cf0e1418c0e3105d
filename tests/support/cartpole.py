"""The paper's constrained states and regions of Cartpole, by hand: what its files must say."""

from __future__ import annotations

import numpy as np

from handrail.constraints import AtLeast, AtMost, Constraint
from handrail.regions.ball import Ball
from handrail.regions.points import Points
from handrail.regions.polytope import Polytope

LEFT, RIGHT = 0, 1
OBSERVATIONS = ("x", "x_dot", "phi", "phi_dot")


def constraints() -> list[Constraint]:
    """Lean right: push right; lean left: push left, at nine positions of the cart each.

    The paper states them as π(left) ≤ 0.05 and ≥ 0.95; its row s10 has the sign of a misprint
    (docs/explanation/paper.md, note 3).
    """
    positions = np.linspace(-2.0, 2.0, 9)
    right = [[x, 0.0, 0.25, 0.05] for x in positions]
    left = [[x, 0.0, -0.25, -0.05] for x in positions]
    return [
        AtLeast(0.95, action=RIGHT, where=Points(right), name="push right"),
        AtLeast(0.95, action=LEFT, where=Points(left), name="push left"),
    ]


# The paper's six sub-regions (appendix C): (φ, φ̇) corners; x from -2.5 to 2.5, ẋ = 0.
LEFT_REGIONS = (
    [(-0.4, 0.4), (-0.3, 0.4), (-0.267, 0.133), (-0.4, 0.133)],
    [(-0.4, 0.133), (-0.267, 0.133), (-0.233, -0.133), (-0.4, -0.133)],
    [(-0.4, -0.133), (-0.233, -0.133), (-0.2, -0.4), (-0.4, -0.4)],
)
RIGHT_REGIONS = (
    [(0.4, -0.4), (0.2, -0.4), (0.167, -0.133), (0.4, -0.133)],
    [(0.4, -0.133), (0.167, -0.133), (0.133, 0.133), (0.4, 0.133)],
    [(0.4, 0.133), (0.133, 0.133), (0.1, 0.4), (0.4, 0.4)],
)


def prism(polygon: list[tuple[float, float]]) -> Polytope:
    return Polytope(polygon, coordinates=[2, 3], others={0: (-2.5, 2.5), 1: 0.0})


def regions() -> list[Constraint]:
    left: list[Constraint] = [
        AtLeast(0.95, LEFT, prism(p), name=f"1{k}")
        for k, p in zip("abc", LEFT_REGIONS, strict=True)
    ]
    right = [
        AtMost(0.05, LEFT, prism(p), name=f"2{k}")
        for k, p in zip("abc", RIGHT_REGIONS, strict=True)
    ]
    return [*left, *right]


def disks() -> list[Constraint]:
    """The four disks of appendix B."""
    around: dict[tuple[int, int], type[AtLeast] | type[AtMost]] = {
        (-1, -1): AtLeast,
        (-1, 1): AtMost,
        (1, -1): AtMost,
        (1, 1): AtLeast,
    }
    return [
        kind(
            0.95 if kind is AtLeast else 0.05,
            LEFT,
            Ball([0, 0, 0.2 * phi, 0.2 * phi_dot], 0.05, coordinates=[2, 3]),
            name=f"disk {number}",
        )
        for number, ((phi, phi_dot), kind) in enumerate(around.items(), start=1)
    ]
