"""What environments clip actions to: a mean beyond that can be had, but never done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self, final

import gymnasium as gym
import numpy as np

from handrail._types import Array
from handrail.constraints.amount import Asked
from handrail.constraints.any_of import AnyOf
from handrail.constraints.constraint import Constraint, PlacedConstraint
from handrail.constraints.expansion import weighted_range
from handrail.constraints.output_bounds import looked_at
from handrail.constraints.words import state_in_words
from handrail.errors import InvalidConstraint
from handrail.policies import MEAN, MeanPolicy, limits_of

_NARROWER = "Bound it there with min(…) or max(…), or leave such states out."


@final
@dataclass(frozen=True)
class ActionRange:
    """The lowest and the highest action, (n_actions,) each: one owner of what is beyond.

    Attributes:
        low: of each dimension.
        high: likewise.
    """

    low: Array
    high: Array

    @classmethod
    def of(cls, actor: Any) -> Self | None:
        """Of an action space, or of a policy that knows its own; None where there is none."""
        if isinstance(actor, gym.spaces.Box):
            return cls(*limits_of(actor))
        if isinstance(actor, MeanPolicy) and actor.limits is not None:
            return cls(*actor.limits)
        return None

    def refuse_beyond(self, constraints: Iterable[Constraint]) -> None:
        """Refuse what no action within the range can do; others than on means have none."""
        for one in constraints:
            if isinstance(one, PlacedConstraint) and one.quantity == MEAN:
                self.refuse_one_beyond(one, one.name)

    def refuse_one_beyond(self, constraint: PlacedConstraint, text: str) -> None:
        """The same of one, as it was written."""
        if isinstance(constraint, AnyOf):
            for alternative in constraint.alternatives:
                self.refuse_one_beyond(alternative, alternative.name)
            return
        demands = constraint.asked_of_actions(len(self.low))
        if demands is None:  # slopes have no range
            return
        changes = constraint.depends_on_state
        states = looked_at(constraint.where) if changes else constraint.states[:1]
        for demand in demands:
            found = self._first_beyond(demand.at(states), len(states))
            if found is not None:
                state, asked = found
                where = f" at {state_in_words(states[state])}" if changes else ""
                raise InvalidConstraint(
                    f"{text!r} is out of range{where}: it asks for {asked}, whatever the policy "
                    f"says. {_NARROWER if changes else 'Choose a bound in between.'}"
                )

    def _first_beyond(self, asked: Asked, n: int) -> tuple[int, str] | None:
        """The first of n states where no action can do what is asked, and that in words."""
        lowest, highest = weighted_range(asked.weights, self.low, self.high)
        above, below = asked.lower > highest, asked.upper < lowest
        wrong = np.broadcast_to((above | below) & asked.weights.any(axis=1), n)
        if not wrong.any():
            return None
        at = int(wrong.argmax())
        lower, upper, least, most = (
            float(np.broadcast_to(one, n)[at])
            for one in (asked.lower, asked.upper, lowest, highest)
        )
        bound = f"at least {lower:g}" if lower > most else f"at most {upper:g}"
        clipped = f"with actions clipped to {self} it is between {least:g} and {most:g}"
        return at, f"{bound}, but {clipped}"

    def __str__(self) -> str:
        ends = zip(self.low, self.high, strict=True)
        return ", ".join(f"[{low:g}, {high:g}]" for low, high in ends)
