"""A constraint of every kind that is not a bound on an output, for CartPole."""

from __future__ import annotations

import handrail as hr

LEANING = hr.Box([-0.5, -0.2, 0.02, -0.2], [0.5, 0.2, 0.1, 0.2])

KINDS: dict[str, hr.Constraint] = {
    "prefer": hr.Prefer(1, by=0.5, where=LEANING, name="prefer"),
    "any of": hr.AnyOf(
        [hr.AtLeast(0.7, 1, LEANING), hr.AtLeast(0.7, 0, LEANING)], name="not undecided"
    ),
    "monotone": hr.Monotone(0, 2, "increasing", LEANING, name="monotone"),
    "lipschitz": hr.Lipschitz(0.05, 1, 2, LEANING, name="lipschitz"),
}
