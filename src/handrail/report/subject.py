"""What pictures are of: a policy, what it must obey, and what the numbers are called."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias, final

import gymnasium as gym
import numpy as np

from handrail._types import Array
from handrail.constraints import (
    AnyOf,
    Bounded,
    Constraint,
    LikelyWithin,
    PlacedConstraint,
    bound_in_words,
)
from handrail.errors import InvalidArgument, InvalidRulebook
from handrail.learning import Learner
from handrail.policies import STD, Policy, Quantity, finite_ranges
from handrail.regions import Region
from handrail.rulebook import AnyConstraints, Picture, Rulebook, load_constraints
from handrail.runs import Run, open_runs


@final
@dataclass(frozen=True)
class Domain:
    """What constraints are about, with names: those of a constraint file, or numbers.

    Attributes:
        constraints: what must hold.
        observations: their names.
        scale: the typical size of each observation.
        actions: their names; None where only a policy knows how many there are.
        ranges: (from, to) of each continuous action, where a file says so.
        picture: the plane that a file wants to be shown.
        rulebook: the file, if there is one.
        space: of the observations, where somebody knows it; else the file's environment does.
    """

    constraints: tuple[Constraint, ...]
    observations: tuple[str, ...]
    scale: tuple[float, ...]
    actions: tuple[str, ...] | None = None
    ranges: tuple[tuple[float, float], ...] | None = None
    picture: Picture | None = None
    rulebook: Rulebook | None = field(default=None, repr=False)
    space: gym.Space[Any] | None = None

    @classmethod
    def of(cls, given: AnyConstraints | Domain) -> Domain:
        """Of a list of constraints, a rulebook, the path of a file or the name of a bundled one."""
        if isinstance(given, Domain):
            return given
        found = load_constraints(given)
        if isinstance(found, Rulebook):
            return cls(
                found.constraints,
                found.observations,
                found.scale(),
                found.actions,
                found.ranges,
                found.picture,
                found,
            )
        constraints = tuple(found)
        if not constraints:
            raise InvalidArgument("Without constraints or a constraint file there is no picture.")
        n = constraints[0].states[0].size
        return cls(constraints, tuple(f"observation {i}" for i in range(n)), (1.0,) * n)

    @cached_property
    def points(self) -> Array:
        """(n, n_observations) of the constraints at points; what stands for a region is none."""
        blocks = [np.zeros((0, len(self.observations)))]
        for one in self.constraints:
            if not isinstance(one, PlacedConstraint) or one.region is None:
                blocks.append(one.states.reshape(len(one.states), -1))
        return np.concatenate(blocks)

    @cached_property
    def regions(self) -> list[Region]:
        """Every region that a constraint holds on."""
        placed = [one for one in self.constraints if isinstance(one, PlacedConstraint)]
        return [one.region for one in placed if one.region is not None]

    @cached_property
    def extent(self) -> tuple[Array, Array]:
        """The smallest box (lowest, highest) around every constrained state and region."""
        blocks = [c.states.reshape(len(c.states), -1) for c in self.constraints]
        blocks += [np.stack(region.bounds) for region in self.regions]
        corners = np.concatenate(blocks) if blocks else np.zeros((1, len(self.observations)))
        return corners.min(axis=0), corners.max(axis=0)

    @cached_property
    def limits(self) -> tuple[Array, Array]:
        """Between which each observation is, as its space declares; infinite where it does not."""
        space = self.space or self._space_of_file()
        if isinstance(space, gym.spaces.Box) and math.prod(space.shape) == len(self.observations):
            low, high = finite_ranges(space)
            return low, high
        anything = np.full(len(self.observations), np.inf)
        return -anything, anything

    def _space_of_file(self) -> gym.Space[Any] | None:
        """None where there is no file, or nobody has registered its environment here."""
        try:
            env = None if self.rulebook is None else self.rulebook.make_environment()
        except InvalidRulebook:
            return None
        if env is None:
            return None
        env.close()
        return env.observation_space

    def required(self, constraint: Constraint) -> str:
        """What a constraint asks for: as its file says it, or its bounds."""
        if self.rulebook is not None:
            return self.rulebook.requirements[self.rulebook.constraints.index(constraint)]
        return bound_in_words(*constraint.bounds) if isinstance(constraint, Bounded) else ""

    def about(self, quantity: Quantity, output: int) -> Domain:
        """With what is asked of this output alone, where some are means and others their noise."""
        kind, _ = quantity.part(output)
        if kind == quantity:
            return self
        kept = tuple(one for one in self.constraints if _is_about(one, kind))
        return replace(self, constraints=kept)

    def action(self, index: int) -> str:
        """The name of an action."""
        return f"action {index}" if self.actions is None else self.actions[index]


def _is_about(constraint: Constraint, kind: Quantity) -> bool:
    """Where draws lie is a matter of both the mean and the noise."""
    if isinstance(constraint, AnyOf):
        return any(_is_about(one, kind) for one in constraint.alternatives)
    return isinstance(constraint, LikelyWithin) or (constraint.quantity == STD) == (kind == STD)


@final
@dataclass(frozen=True)
class Subject:
    """A policy and its domain.

    Attributes:
        policy: that is shown.
        domain: what it must obey, and names.
        active: (n, n_observations), the states of regions that are constrained at present.
        seed: of the episode that it plays for a picture.
    """

    policy: Policy
    domain: Domain
    active: Array
    seed: int = 0

    @classmethod
    def of(cls, shown: Shown, constraints: AnyConstraints | None = None) -> Subject:
        """Of a run, a learner or a policy; only a run says itself what it must obey."""
        if isinstance(shown, Subject):
            return shown
        if isinstance(shown, Run):
            given: AnyConstraints = shown.rulebook if constraints is None else constraints
            return cls.of(shown.agent(), given)
        if constraints is None:
            raise InvalidArgument(
                f"What must the {type(shown).__name__} obey? Give its constraints, too: a list, a "
                "Rulebook, the path of a constraint file or the name of a bundled one."
            )
        domain = Domain.of(constraints)
        if domain.rulebook is not None:
            domain.rulebook.check_policy(shown.policy if isinstance(shown, Learner) else shown)
        active = [np.zeros((0, len(domain.observations)))]
        if isinstance(shown, Learner):
            active += shown.active_states
            domain = replace(domain, space=shown.player.spaces[0])
            return cls(shown.policy, domain, np.concatenate(active), shown.settings.seed)
        seed = 0 if domain.rulebook is None else domain.rulebook.settings.seed
        return cls(shown, domain, np.concatenate(active), seed)

    def about(self, output: int) -> Subject:
        """With what is asked of one of its outputs, as `Domain.about`."""
        domain = self.domain.about(self.policy.quantity, output)
        if domain is self.domain:
            return self
        inside = np.zeros(len(self.active), dtype=bool)
        for region in domain.regions:
            inside |= region.contains(self.active)
        return replace(self, domain=domain, active=self.active[inside])


Shown: TypeAlias = Run | Learner | Policy | Subject

AnyRuns: TypeAlias = Run | Sequence[Run] | str | Path


def recorded_runs(given: AnyRuns) -> list[Run]:
    """The runs that have recorded anything: one, several, or those in a folder."""
    if isinstance(given, str | Path):
        runs: Sequence[Run] = open_runs(given)
    else:
        runs = [given] if isinstance(given, Run) else given
    recorded = [run for run in runs if run.records()]
    if not recorded:
        raise InvalidArgument("No episode has been recorded yet: there is nothing to show.")
    return recorded
