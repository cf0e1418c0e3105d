"""Constraints however they are stated: a list, a rulebook, a file or the name of a bundled one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import gymnasium as gym
import numpy as np

from handrail.constraints import Constraint
from handrail.errors import InvalidConstraint, InvalidRulebook, ShapeMismatch
from handrail.rulebook import Rulebook, load

AnyConstraints = Sequence[Constraint] | Rulebook | str | Path


@final
@dataclass(frozen=True)
class Stated:
    """What must hold, and the file that says so, if one does."""

    constraints: Sequence[Constraint]
    rulebook: Rulebook | None

    @classmethod
    def of(cls, given: AnyConstraints) -> Stated:
        """A list is looked at when it meets a policy; a file is read now."""
        if isinstance(given, Constraint):
            raise InvalidConstraint(
                f"Expected a list of constraints, but got the single {type(given).__name__} "
                f"{given.name!r}. Write [constraint]."
            )
        if isinstance(given, str | Path):
            given = load(given)
        if isinstance(given, Rulebook):
            return cls(given.constraints, given)
        if isinstance(given, Sequence) and not isinstance(given, str):
            return cls(given, None)
        raise InvalidConstraint(
            f"Expected a list of constraints, a Rulebook, or the path or bundled name of a "
            f"constraint file, but got {type(given).__name__}."
        )

    def check_spaces(self, observations: gym.Space[Any], actions: gym.Space[Any]) -> None:
        """Refuse what is about another environment than one with these spaces."""
        if self.rulebook is not None:
            _check_names(self.rulebook, observations, actions)
            _check_ranges(self.rulebook, actions)
        for one in self.constraints:
            if isinstance(one, Constraint) and one.states.shape[1:] != observations.shape:
                raise ShapeMismatch(
                    f"{one.name!r} speaks of states of shape {one.states.shape[1:]}, but the "
                    f"policy observes {observations.shape}.{_hint(one, observations)}"
                )


def _check_names(rulebook: Rulebook, observations: gym.Space[Any], actions: gym.Space[Any]) -> None:
    n_observations = int(np.prod(observations.shape or (0,)))
    if n_observations != len(rulebook.observations):
        raise InvalidRulebook(
            f"{rulebook.name} names {len(rulebook.observations)} observations "
            f"({', '.join(rulebook.observations)}), but the policy observes {n_observations} "
            f"numbers: it is about another environment ({rulebook.environment.id})."
        )
    continuous = isinstance(actions, gym.spaces.Box)
    if continuous != (rulebook.ranges is not None):
        raise InvalidRulebook(
            f"{rulebook.name} is about {'discrete' if continuous else 'continuous'} actions, but "
            f"the policy acts in {actions}: it is about another environment "
            f"({rulebook.environment.id})."
        )
    n_actions = _count(actions)
    if n_actions != len(rulebook.actions):
        raise InvalidRulebook(
            f"{rulebook.name} names {len(rulebook.actions)} actions "
            f"({', '.join(rulebook.actions)}), but the policy has {n_actions}: it is about another "
            f"environment ({rulebook.environment.id})."
        )


def _check_ranges(rulebook: Rulebook, actions: gym.Space[Any]) -> None:
    """Numbers of a file mean something else on another scale."""
    if rulebook.ranges is None or not isinstance(actions, gym.spaces.Box):
        return
    ranges = np.stack([actions.low.ravel(), actions.high.ravel()], axis=1)
    if not np.allclose(rulebook.ranges, ranges, rtol=1e-6):
        raise InvalidRulebook(
            f"{rulebook.name} gives the actions the ranges {_intervals(rulebook.ranges)}, but the "
            f"policy acts in {_intervals(ranges)}. Write the file in these numbers, or take off "
            "what scales the actions (RescaleAction)."
        )


def _intervals(ranges: Iterable[Iterable[float]]) -> str:
    return ", ".join(f"[{low:g}, {high:g}]" for low, high in ranges)


def _count(actions: gym.Space[Any]) -> int:
    if isinstance(actions, gym.spaces.Box):
        return int(np.prod(actions.shape))
    assert isinstance(actions, gym.spaces.Discrete)  # no policy of ours acts in anything else
    return int(actions.n)


def _hint(constraint: Constraint, observations: gym.Space[Any]) -> str:
    shape = constraint.states.shape[1:]
    if len(shape) == 3 and (shape[2], *shape[:2]) == observations.shape:
        return " Images come with their channels first: numpy.moveaxis(state, -1, 0)."
    if np.prod(shape) == np.prod(observations.shape or ()):
        return " Give the states the shape of the observations."
    return ""
