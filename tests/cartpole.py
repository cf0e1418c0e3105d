"""The paper's 18 constrained states of Cartpole, by hand: what cartpole.yaml must say."""

from __future__ import annotations

import numpy as np

from handrail.constraints import AtLeast, Constraint
from handrail.regions import Points

LEFT, RIGHT = 0, 1
OBSERVATIONS = ("x", "x_dot", "phi", "phi_dot")


def constraints() -> list[Constraint]:
    """Lean right: push right; lean left: push left, at nine positions of the cart each.

    The paper states them as π(left) ≤ 0.05 and ≥ 0.95; its row s10 has the sign of a misprint
    (docs/paper.md, note 3).
    """
    positions = np.linspace(-2.0, 2.0, 9)
    right = [[x, 0.0, 0.25, 0.05] for x in positions]
    left = [[x, 0.0, -0.25, -0.05] for x in positions]
    return [
        AtLeast(0.95, action=RIGHT, where=Points(right), name="push right"),
        AtLeast(0.95, action=LEFT, where=Points(left), name="push left"),
    ]
