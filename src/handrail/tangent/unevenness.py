"""Observations so different in size that the network cannot tell states apart by the small ones.

Its tangent kernel multiplies what the first layer is given (H4): beside 200,000 Pa, 1 m is nothing.
Scaling is the remedy, and only where sizes do differ, as the network is given them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import gymnasium as gym
import numpy as np

from handrail._types import Array, Indices
from handrail.constraints import Constraint, PlacedConstraint
from handrail.policies import Policy, finite_ranges

# Sizes that differ by so much are one reason of a failure: with tanh, 14 were enough for one.
MAY_MATTER = 10.0

# And by so much, cause for concern before anything is tried: of ReLU, 135 were too much.
MATTERS = 100.0

# Of observations, in a sentence.
_SHOWN = 6


@final
@dataclass(frozen=True)
class Unevenness:
    """Observations of different sizes.

    Attributes:
        small: indices of those that hardly count beside the largest.
        largest: index of the largest.
        seen: (n_observations,) how large each is as the network is given it.
        sizes: (n_observations,) in units of its own.
        names: of the observations, where they have some.
    """

    small: Indices
    largest: int
    seen: Array
    sizes: Array
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, policy: Policy, states: Array, ratio: float) -> Unevenness | None:
        """At states (n, *observation_shape); None if no size is so many times another.

        Nor of a network that is not looked into. What does not vary need not be told apart.
        """
        seen = policy.seen(states)
        if seen is None:
            return None
        sizes = np.abs(seen).max(axis=0)
        largest = int(sizes.argmax())
        varies = np.ptp(seen, axis=0) > 0.0
        small = np.flatnonzero(varies & (sizes * ratio <= sizes[largest]))
        if not len(small):
            return None
        own = np.abs(states.reshape(len(states), -1)).max(axis=0)
        return cls(small, largest, sizes, own)

    def named(self, observations: Sequence[str]) -> Unevenness:
        """The same in a file's words."""
        return replace(self, names=tuple(observations))

    def __str__(self) -> str:
        shown = [self._with_size(i) for i in self.small[:_SHOWN]]
        if len(self.small) > _SHOWN:
            shown.append(f"{len(self.small) - _SHOWN} more")
        are = "is" if len(self.small) == 1 else "are"
        return (
            f"As the network is given them, {' and '.join(shown)} {are} small beside "
            f"{self._with_size(self.largest)}, so that states which differ in what is small are "
            f"almost the same to it. Scale the observations: {self._line()}."
        )

    def _with_size(self, index: int) -> str:
        name = self.names[index] if self.names else f"observation {index}"
        return f"{name} (up to {self.seen[index]:.2g})"

    def _line(self) -> str:
        """What to write; typical sizes, where the observation space has no ranges."""
        sizes = [f"{float(f'{one:.1g}') or 1.0:g}" for one in self.sizes]
        if not self.names:
            known = "" if len(sizes) > _SHOWN else f", or scale=[{', '.join(sizes)}]"
            return f'mlp(…, scale="auto"){known}'
        concerned = [self.largest, *self.small[:_SHOWN]]
        known = ", ".join(f"{self.names[i]}: {sizes[i]}" for i in sorted(concerned))
        return f"settings: {{network: {{scale: auto}}}}, or scale: {{{known}}}"


def observed_states(space: gym.spaces.Box, constraints: Sequence[Constraint]) -> Array:
    """States (n, n_observations) that are as large as observations are.

    The ends of the ranges that the space declares; where it has none, of what constraints are
    about.
    """
    constrained = np.concatenate([_ends(one) for one in constraints])
    ends = np.stack([constrained.min(axis=0), constrained.max(axis=0)])
    ranges = finite_ranges(space)
    declared = np.isfinite(ranges).all(axis=0)
    return np.where(declared, ranges, ends)


def _ends(constraint: Constraint) -> Array:
    """The points (n, n_observations) of a constraint, or the bounds of its region."""
    region = constraint.region if isinstance(constraint, PlacedConstraint) else None
    states = constraint.states if region is None else np.stack(region.bounds)
    return states.reshape(len(states), -1)
